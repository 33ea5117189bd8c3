"""Drivers that report and obey over HTTPS, each at a loopback address of its own, and the node that runs their pods."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from aiohttp import web

from kappa_crds.progress import DriverExit, DriverState, Progress, QueryProgress, SourceProgress
from kappa_crds.reasons import Reason
from kappa_crds.revision import GENERATION_ANNOTATION
from kappa_crds.savepoint_work import SavepointTask, StoreCheck, WorkResult
from kappa_operator.certificates.issue import create_self_signed
from kappa_operator.engine.cluster import ApiCluster, build_path
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.objects import DRIVER_ROLE, PIPELINE_LABEL
from kappa_operator.statestore.pods import ROLES
from kappa_operator.tls import build_context, load_pair

_CHECK_ROLE = ROLES[SavepointTask.CHECK]
_CHECKED = WorkResult(checked=StoreCheck())
SPACE = "bench"
BATCH_SECONDS = 3.0
Body = dict[str, Any]


@dataclass
class Driver:
    """One simulated driver."""

    pipeline: str
    pod: str
    token: str
    generation: int
    stopping: bool = False
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def report(self, idle_since: datetime | None = None) -> Progress:
        """Return what a driver with lag reports: another batch every few seconds. An idle one has read everything since that time."""
        now = datetime.now(UTC)
        last = idle_since or now
        batch = int((last - self.started).total_seconds() / BATCH_SECONDS)
        ends = {"in": {number: 1000 * batch + number for number in range(8)}}
        behind = 0 if idle_since else random.randint(50, 5000)
        latest = {"in": {number: end + behind for number, end in ends["in"].items()}}
        source = SourceProgress(
            name="events", topic="in", start_offsets=ends, end_offsets=ends, latest_offsets=latest,
            input_rows=8000, total_input_rows=8000 * batch,
        )  # fmt: skip
        query = QueryProgress(
            sink="log", query_id="7f0c0b3e", run_id="51d0", batch_id=batch, timestamp=last - timedelta(seconds=2),
            input_rows=8000, processed_rows_per_second=1000 + behind, total_input_rows=8000 * batch,
            duration_ms={"triggerExecution": 1800, "addBatch": 1500, "latestOffset": 20, "walCommit": 40}, sources=(source,),
        )  # fmt: skip
        return Progress(
            namespace=SPACE, pipeline=self.pipeline, revision="r", generation=self.generation, started_at=self.started,
            state=DriverState.STOPPING if self.stopping else DriverState.RUNNING, reported_at=now,
            running_since=self.started, queries=(query,), executors=1,
        )  # fmt: skip


class Drivers:
    """All drivers, by their loopback addresses. They have lag, until `idle_since` is set."""

    def __init__(self) -> None:
        self.by_address: dict[str, Driver] = {}
        self.idle_since: datetime | None = None
        self.pair = create_self_signed("all.bench.pipeline", datetime.now(UTC))
        """One certificate for all, as they share a port: which address a client connects to is not known at the handshake."""

    @asynccontextmanager
    async def serve(self, port: int) -> AsyncIterator[None]:
        """Answer for all drivers at the port; idle connections are closed as the runtime's server closes them."""
        app = web.Application()
        app.add_routes([web.get("/progress", self._show), web.post("/stop", self._stop)])
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=5.0)
        await runner.setup()
        tls = build_context()
        tls.num_tickets = 0  # as the runtime's server
        load_pair(tls, self.pair.certificate, self.pair.key)
        await web.TCPSite(runner, "0.0.0.0", port, backlog=1024, ssl_context=tls).start()  # noqa: S104 - all of 127.0.0.0/8
        try:
            yield
        finally:
            await runner.cleanup()

    def _find(self, request: web.Request) -> Driver:
        assert request.transport is not None
        driver = self.by_address.get(request.transport.get_extra_info("sockname")[0])
        if driver is None or request.headers.get("Authorization") != f"Bearer {driver.token}":
            raise web.HTTPUnauthorized
        return driver

    async def _show(self, request: web.Request) -> web.Response:
        text = self._find(request).report(self.idle_since).model_dump_json(by_alias=True, exclude_none=True)
        return web.Response(text=text, content_type="application/json")

    async def _stop(self, request: web.Request) -> web.Response:
        self._find(request).stopping = True
        return web.Response(status=202)


class Node:
    """Runs driver pods as a kubelet would, as far as the API server can see."""

    def __init__(self, cluster: ApiCluster, drivers: Drivers) -> None:
        self._cluster, self._drivers = cluster, drivers
        self._addresses = (
            f"127.{number // 65536 + 1}.{number // 256 % 256}.{number % 256}"
            for number in range(256, 9_999_999)
        )
        self.addresses: dict[str, str] = {}

    async def finish_checks(self) -> None:
        """Let each check of a store succeed."""
        checks = await self._cluster.list_objects("v1", "Pod", SPACE, _CHECK_ROLE, "status.phase=Pending")
        ended = {"terminated": {"exitCode": 0, "message": _CHECKED.model_dump_json(by_alias=True)}}
        await gather([partial(self._write, pod["metadata"]["name"], "Succeeded", ended) for pod in checks])

    async def step(self) -> None:
        """Start each new pod, and end the drivers that were asked to stop."""
        pods = await self._cluster.list_objects("v1", "Pod", SPACE, DRIVER_ROLE, "status.phase=Pending")
        await gather([partial(self._start, pod) for pod in pods])
        stopping = [driver for driver in self._drivers.by_address.values() if driver.stopping]
        graceful = DriverExit(reason=Reason.DRIVER_STOPPED, message="stopped", graceful=True)
        await gather([partial(self.end, driver, graceful) for driver in stopping])

    async def _start(self, pod: Body) -> None:
        metadata = pod["metadata"]
        pipeline = metadata["labels"][PIPELINE_LABEL]
        ref = ObjectRef("v1", "Secret", SPACE, _find_token(pod))
        certificate = base64.b64encode(self._drivers.pair.certificate.encode()).decode()
        token = await self._cluster.merge(ref, {"data": {"tls.crt": certificate}})
        address = next(self._addresses)
        self._drivers.by_address[address] = Driver(
            pipeline, metadata["name"], base64.b64decode(token["data"]["token"]).decode(),
            int(metadata["annotations"][GENERATION_ANNOTATION]),
        )  # fmt: skip
        self.addresses[metadata["name"]] = address
        running = {"running": {"startedAt": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}}
        await self._write(metadata["name"], "Running", running, podIP=address, podIPs=[{"ip": address}])

    async def end(self, driver: Driver, exit: DriverExit) -> None:
        """End a driver, which leaves its last message."""
        address = self.addresses.pop(driver.pod, None)
        if address is not None:
            del self._drivers.by_address[address]
            state = {"exitCode": 0 if exit.graceful else 1, "message": exit.model_dump_json(by_alias=True)}
            await self._write(driver.pod, "Succeeded" if exit.graceful else "Failed", {"terminated": state})

    async def _write(self, name: str, phase: str, state: Body, **more: Any) -> None:
        container = {
            "name": "driver", "image": "bench", "imageID": "bench", "ready": "running" in state, "restartCount": 0, "state": state,
        }  # fmt: skip
        path = build_path(ObjectRef("v1", "Pod", SPACE, name)) + "/status"
        status = {"phase": phase, "containerStatuses": [container], **more}
        await self._cluster._request("PATCH", path, None, {"status": status}, "application/merge-patch+json")


async def gather(calls: list[Callable[[], Awaitable[Any]]], width: int = 16) -> None:
    """Make all calls, so many at once."""
    rest = iter(calls)

    async def work() -> None:
        for call in rest:
            await call()

    await asyncio.gather(*(work() for _ in range(width)))


def _find_token(pod: Body) -> str:
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    return str(volumes["control"]["secret"]["secretName"])
