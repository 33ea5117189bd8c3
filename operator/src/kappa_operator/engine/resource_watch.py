"""Watches the custom resources of all namespaces: a list, and then the events since that.

All events that arrived together are taken in one step. kopf, which watches the pods, starts a task for each object and takes one
event in each round of the event loop: where the work of one namespace makes the rounds long, the events of the others would wait
behind its own for many seconds. Here they reach the queue, which is fair, as fast as they are parsed.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, NamedTuple

import structlog

from kappa_crds import API_VERSION
from kappa_operator import backoff
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.kinds import KindTable
from kappa_operator.errors import KappaError

log = structlog.get_logger(__name__)

Event = dict[str, Any]
Note = Callable[[Event], None]
_TYPES = (None, "ADDED", "MODIFIED", "DELETED")


class Scope(NamedTuple):
    """A kind, in one namespace or all."""

    kind: str
    namespace: str | None


class ResourceWatch:
    """Calls `note` for each event. Objects of a list are events without a type, and are repeated when a watch starts with a list again."""

    def __init__(
        self, cluster: ApiCluster, note: Note, kinds: KindTable, namespaces: tuple[str, ...] = ()
    ) -> None:
        self._cluster = cluster
        self._note = note
        self._scopes = [Scope(kind, namespace) for kind in kinds for namespace in namespaces or (None,)]

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for scope in self._scopes:
                group.create_task(self._repeat(scope))

    async def _repeat(self, scope: Scope) -> None:
        """List and watch again after any failure: a namespace that may not be read must not end the watches of the others."""
        failures = 0
        while True:
            try:
                version = await self._list(scope)
                failures = 0
                while version:
                    version = await self._watch(scope, version)
            except KappaError as error:
                failures += 1
                log.warning("watch failed", kind=scope.kind, namespace=scope.namespace, why=error.message)
            except Exception:
                failures += 1
                log.exception("unexpected error in a watch", kind=scope.kind, namespace=scope.namespace)
            await asyncio.sleep(backoff.WATCH.pause(failures, scope))

    async def _list(self, scope: Scope) -> str:
        """Note all objects; return the resource version of the list."""
        version = ""
        async for page, found in self._cluster.list_versions(API_VERSION, *scope):
            version = found
            for body in page:
                self._take({"type": None, "object": body})
            await asyncio.sleep(0)
        return version

    async def _watch(self, scope: Scope, version: str) -> str:
        """Note events until the watch ends; return the last version, or nothing where only a list can continue."""
        async with aclosing(self._cluster.watch(API_VERSION, *scope, version)) as chunks:
            async for lines in chunks:
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        _report(scope, event["object"])
                        return ""
                    version = self._take(event) or version
                await asyncio.sleep(0)
        return version

    def _take(self, event: Event) -> str:
        """Note an event; return its version. An object that causes an unexpected error must not end the watch of the others."""
        body = event["object"]
        if event["type"] in _TYPES:
            try:
                self._note(event)
            except Exception:
                log.exception("unexpected error in a watch event", name=body["metadata"].get("name"))
        return str(body["metadata"].get("resourceVersion", ""))


def _report(scope: Scope, status: Event) -> None:
    if status.get("code") != HTTPStatus.GONE:
        log.warning("watch ended", kind=scope.kind, namespace=scope.namespace, why=status.get("message"))
