"""Liveness by what the watches show, not by whether the process runs.

A watch can end quietly and leave an operator that seems alive and receives nothing. So each own write is expected
back as a watch event: if one does not come back in time, `/healthz` fails and the kubelet restarts the pod. The status
of each `KafkaCluster` is written at every check, so a leader with anything to do always expects a write. A replica
that does not lead reads everything again when it is elected.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from kappa_operator.engine.keys import Key
from kappa_operator.telemetry import metrics

ECHO_LIMIT = 60.0


class PendingWatchEvents:
    """Own writes that no watch has shown yet, by key: the version written and when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expected: dict[Key, tuple[int, float]] = {}

    def expect(self, key: Key, version: int) -> None:
        """Record a write; an older one of the same key that is still awaited keeps its time."""
        _, since = self._expected.get(key, (0, self._clock()))
        self._expected[key] = (version, since)

    def seen(self, key: Key, version: int) -> None:
        """Record a watch event."""
        expected = self._expected.get(key)
        if expected is not None and version >= expected[0]:
            del self._expected[key]

    def forget(self, key: Key) -> None:
        """Expect nothing more of a key that is gone."""
        self._expected.pop(key, None)

    @property
    def age(self) -> float:
        """Return the seconds that the oldest write has waited for its event."""
        oldest = min((since for _, since in self._expected.values()), default=self._clock())
        return self._clock() - oldest


def build_health_app(
    pending_events: PendingWatchEvents, is_synced: Callable[[], bool], is_serving: Callable[[], bool]
) -> web.Application:
    """Return the server of /healthz, /startupz and /readyz, for the kubelet.

    Services lead to a pod that is ready, so it serves by then. A start does not wait for that: reconciliation needs no certificate,
    and the kubelet restarts a pod that does not start.
    """

    async def healthz(_: web.Request) -> web.Response:
        age = pending_events.age
        if age > ECHO_LIMIT:
            text = f"no watch event for a write made {age:.0f} s ago; the watch is dead"
            return web.Response(text=text, status=HTTPStatus.SERVICE_UNAVAILABLE)
        return web.Response(text="ok")

    async def startupz(_: web.Request) -> web.Response:
        if not is_synced():
            return web.Response(text="reading the cluster", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return web.Response(text="ok")

    async def readyz(request: web.Request) -> web.Response:
        if not is_serving():
            return web.Response(text="no certificate to serve yet", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return await startupz(request)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/startupz", startupz), web.get("/readyz", readyz)])
    return app


def add_metrics(
    app: web.Application, pending_events: PendingWatchEvents, registry: CollectorRegistry = REGISTRY
) -> None:
    """Serve GET /metrics.

    There may be tens of thousands of metrics, so a thread writes them: collectors read copies, and nothing that changes meanwhile.
    One at a time, so that many requests need no more memory than one.
    """
    turn = asyncio.Lock()

    async def show_metrics(_: web.Request) -> web.Response:
        metrics.EVENT_AGE.set(pending_events.age)
        async with turn:
            body = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.add_routes([web.get("/metrics", show_metrics)])
