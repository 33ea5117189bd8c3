"""Takes keys from the queue and reconciles them, many at once, each one alone.

A resource whose status changed wakes those that depend on it. Errors delay the key; a bug delays just the key that
shows it, is reported in the log and a metric, and never ends the operator.
"""

import asyncio
import time

import structlog

from kappa_crds import API_VERSION
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.queue import WorkQueue
from kappa_operator.engine.reconcile import Outcome, reconcile
from kappa_operator.engine.references import find_dependents
from kappa_operator.errors import Conflict, KappaError, NotFound, NotLeading
from kappa_operator.telemetry import metrics

log = structlog.get_logger(__name__)

AGAIN = 0.2


class Controller:
    """Works the queue, with as many reconciles at once as it has slots."""

    def __init__(
        self,
        context: OperatorContext,
        queue: WorkQueue,
    ) -> None:
        self._context = context
        self._queue = queue
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until cancelled.

        Each round of the event loop starts one key at most. So a busy operator continues what it has begun, and keys wait in the
        queue, where the most urgent one is next.
        """
        try:
            while True:
                key = await self._queue.take()
                task = asyncio.create_task(self._work(key))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                await asyncio.sleep(0)
        finally:
            await self.drain()

    async def drain(self) -> None:
        """Wait for the reconciles under way."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def enqueue_all(self, spread: float = 0.0) -> None:
        """Have every resource looked at within the next `spread` seconds, one after another."""
        metrics.LAST_RESYNC.set_to_current_time()
        keys = list(self._context.cache.find_all())
        for number, key in enumerate(keys):
            self._queue.add(key, spread * number / len(keys))

    def wake(self, key: Key, *, renewed: bool = False) -> None:
        """Have those looked at that depend on the resource: all of them where its spec was renewed, or it is gone."""
        for dependent in find_dependents(self._context.cache, key, renewed=renewed):
            self._queue.add(dependent)
        if renewed:
            self.wake_limited(key)

    def wake_limited(self, key: Key) -> None:
        """Have those looked at for which there may be room, now that a resource is gone or requests something else."""
        for limited in self._context.cache.find_limited(key):
            self._queue.add(limited)

    async def _work(self, key: Key) -> None:
        started = time.monotonic()
        try:
            outcome = await self._attempt(key)
        finally:
            metrics.RECONCILE_SECONDS.labels(key.kind).observe(time.monotonic() - started)
            metrics.QUEUE_KEYS.set(len(self._queue))
            metrics.WORKING_KEYS.set(self._queue.working)
        metrics.RECONCILES.labels(key.kind, outcome).inc()

    async def _attempt(self, key: Key) -> str:
        """Reconcile once and hand the key back to the queue; return the outcome in one word."""
        try:
            result = await reconcile(self._context, key)
        except (Conflict, NotFound, NotLeading) as error:
            log.info("moved on", resource=str(key), why=error.message)
            if not isinstance(error, NotLeading):
                await self._read_again(key)
            self._queue.done(key)
            self._queue.add(key, AGAIN)
            return "conflict"
        except KappaError as error:
            delay = self._queue.failed(key)
            log.warning("failed", resource=str(key), reason=error.reason, why=error.message, again_in=delay)
            return "failed"
        except Exception:
            delay = self._queue.failed(key)
            log.exception("unexpected error", resource=str(key), again_in=delay)
            return "unexpected error"
        self._finish(key, result)
        return "ok"

    async def _read_again(self, key: Key) -> None:
        """Read the resource from the API server: the watch that should have shown it may be late, or dead."""
        cache = self._context.cache
        try:
            body = await self._context.cluster.get(ObjectRef(API_VERSION, *key))
        except KappaError as error:
            log.warning("not read again", resource=str(key), why=error.message)
            return
        if body is None:
            cache.forget(key)
        else:
            cache.put(body)

    def _finish(self, key: Key, result: Outcome) -> None:
        self._queue.done(key)
        if result.requeue_after is not None:
            self._queue.add(key, result.requeue_after)
        if result.changed:
            self.wake(key)
