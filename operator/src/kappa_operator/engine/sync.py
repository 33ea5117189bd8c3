"""Keeps the cache in step with the API server: by watch events, and by reading everything again from time to time.

A watch that ended and cannot be resumed (410 Gone) starts again with a list, and no event reports what was deleted meanwhile. Such a
resource would stay in the cache, and the operator would create its objects again. So a cached resource that is missing from a
complete list is dropped: at each resync, and at once where kopf lists a kind for the second time.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import Any

import structlog

from kappa_crds import API_VERSION
from kappa_operator.engine.cache import ResourceCache, get_key, get_version
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.controller import Controller
from kappa_operator.engine.keys import Key
from kappa_operator.engine.queue import WorkQueue
from kappa_operator.errors import ApiUnavailable, KappaError, NotFound, Refused
from kappa_operator.telemetry import metrics
from kappa_operator.telemetry.health import PendingWatchEvents

log = structlog.get_logger(__name__)

_ATTEMPTS = 3
_PAUSE, _RETRY = 1.0, 10.0
_SPREAD = 0.1
"""The part of the time between two resyncs over which their reconciles are spread, so that events do not wait behind all of them."""


async def sync_cache(
    cluster: ApiCluster, cache: ResourceCache, namespaces: tuple[str, ...] = ()
) -> list[Key]:
    """Read all custom resources into the cache; return those in it that the API server does not have any more.

    Raises NotFound with the remedy where the CRDs are missing. A watched namespace that may not be read is left out: the others
    need their operator.
    """
    gone: list[Key] = []
    for kind in cache.kinds:
        for namespace in namespaces or (None,):
            try:
                gone += await _sync_kind(cluster, cache, kind, namespace)
            except NotFound as error:
                raise NotFound(
                    f"the CRD of {kind} is not installed; install the chart first ({error.message})"
                ) from error
            except Refused as error:
                if namespace is None:
                    raise
                log.error("namespace cannot be read", namespace=namespace, kind=kind, why=error.message)
    return gone


async def _sync_kind(
    cluster: ApiCluster, cache: ResourceCache, kind: str, namespace: str | None
) -> list[Key]:
    """Return what was cached before the list began, is not in it, and was not written since: then it is newer than the list."""
    cached = {
        key: cache.get_version(key) for key in cache.find_all(kind) if namespace in (None, key.namespace)
    }
    listed = await _list(cluster, cache, kind, namespace)
    return [key for key, version in cached.items() if key not in listed and cache.get_version(key) == version]


async def _list(cluster: ApiCluster, cache: ResourceCache, kind: str, namespace: str | None) -> set[Key]:
    """Read a kind page by page; where a page has expired (410) or the API server is briefly unavailable, restart."""
    for attempt in range(_ATTEMPTS):
        listed: set[Key] = set()
        try:
            async for page in cluster.list_pages(API_VERSION, kind, namespace):
                listed |= {cache.put(body) for body in page}
        except ApiUnavailable:
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(_PAUSE)
        else:
            return listed
    raise AssertionError("unreachable")


class CacheSync:
    """Takes watch events and complete lists into the cache, and queues the resources that they concern."""

    def __init__(
        self,
        context: OperatorContext,
        queue: WorkQueue,
        controller: Controller,
        pending_events: PendingWatchEvents,
    ) -> None:
        self._context = context
        self._queue = queue
        self._controller = controller
        self._pending_events = pending_events
        self._listed: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._relisted = asyncio.Event()

    def note(self, event: dict[str, Any]) -> None:
        """Take in a watch event."""
        body = dict(event["object"])
        key, cache = get_key(body), self._context.cache
        metrics.EVENTS.labels(key.kind).inc()
        if event["type"] == "DELETED":
            self._controller.wake(key, renewed=True)
            cache.drop(body)
            self._forget(key)
            self._controller.wake_limited(key)
            return
        if event["type"] is None:
            self._note_listed(key)
        self._pending_events.seen(key, get_version(body))
        if cache.is_news(body):
            renewed = cache.get_generation(key) not in (None, body["metadata"].get("generation", 0))
            cache.put(body)
            self._queue.add(key)
            self._controller.wake(key, renewed=renewed)

    def _note_listed(self, key: Key) -> None:
        """An object that kopf lists for the second time belongs to a restarted watch."""
        listed = self._listed[key.kind, key.namespace]
        if key.name in listed:
            listed.clear()
            self._relisted.set()
        listed.add(key.name)

    def _forget(self, key: Key) -> None:
        self._pending_events.forget(key)
        self._queue.add(key)

    async def sync(self) -> None:
        """Read everything again, and drop what is gone."""
        context = self._context
        for key in await sync_cache(context.cluster, context.cache, context.settings.watch_namespaces):
            log.info("dropped, as it is not listed any more", resource=str(key))
            self._controller.wake(key, renewed=True)
            context.cache.forget(key)
            self._forget(key)
            self._controller.wake_limited(key)

    async def resync(self) -> None:
        """Read everything again and reconcile it from time to time: the net under all that events may have missed."""
        every = self._context.settings.resync_seconds
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._relisted.wait(), every)
            self._relisted.clear()
            try:
                await self.sync()
            except KappaError as error:
                log.warning("resync failed", why=error.message)
                self._relisted.set()
                await asyncio.sleep(_RETRY)
                continue
            self._controller.enqueue_all(every * _SPREAD)
