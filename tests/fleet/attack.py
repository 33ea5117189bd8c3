"""The attacker, as a process of its own: its objects, its drivers and brokers, and the node that runs its pods.

    python tests/fleet/attack.py FOLDER DRIVER_PORT OBJECTS BOOTSTRAP

It prepares what its pipelines refer to, starts drivers until FOLDER/go exists, and then creates its objects as a user with
the limits of any user of the API server. Each second FOLDER/attack.json shows what it has done. The node is the administrator.
"""

import asyncio
import gzip
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aiohttp import web

from fakes.context import build_resource, build_secret
from fleet.drivers import SPACE, Body, Drivers, Node, gather
from fleet.hostile_brokers import (
    Answer,
    announce,
    announce_metadata,
    answer_metadata,
    keep_silent,
    reset,
    serve_broker,
)
from fleet.tenants import connect, create_space, is_ready
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.errors import KappaError

WIDTH = 32
"""Requests of the attacker at the same time."""
SPEC: dict[str, Any] = {
    "sources": [{"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING, v BIGINT"}}}],
    "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "out"}}],
    "restart": {"initialDelay": "1s", "maxDelay": "5s"},
}
BROKERS: dict[str, Answer] = {
    "frame": announce, "drip": announce_metadata, "reset": reset, "silent": keep_silent,
    "brokers": answer_metadata(100_000, 10), "partitions": answer_metadata(3, 1_000_000),
    "threads": answer_metadata(1100, 10),
}  # fmt: skip
_BOMB = gzip.compress(b" " * 2**26)


class HostileDrivers(Drivers):
    """Drivers of which every other one attacks who asks for its report. `attacks` counts how often, by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.attacks: Counter[str] = Counter()

    async def _show(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        self._find(request)
        assert request.transport is not None
        number = int(request.transport.get_extra_info("sockname")[0].rpartition(".")[2])
        if number % 2 == 0:
            return await super()._show(request)
        kinds = (self._endless, self._drip, self._bomb, self._deep, self._errors, self._reset)
        attack = kinds[number // 2 % len(kinds)]
        self.attacks[attack.__name__.removeprefix("_")] += 1
        return await attack(request)

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = await _begin(request)
        with suppress(OSError):
            while True:
                await response.write(b" " * 65536)
                await asyncio.sleep(0)  # the end of the connection becomes known only between writes
        return response

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        response = await _begin(request)
        with suppress(OSError):
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.5)
        return response

    async def _bomb(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=_BOMB, headers={"Content-Encoding": "gzip"})

    async def _deep(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"[" * 900_000)

    async def _errors(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"queries":[' + b"{}," * 9000 + b"{}]}")

    async def _reset(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()


async def _begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    return response


class Figures:
    """What the attacker has done, in a file."""

    def __init__(self, folder: Path, drivers: HostileDrivers) -> None:
        self._path, self._drivers = folder / "attack.json", drivers
        self.created = self.refused = self.crashes = 0

    def write(self) -> None:
        """Write them."""
        running = len(self._drivers.by_address)
        known = {
            "created": self.created, "refused": self.refused, "crashes": self.crashes, "drivers": running,
            "attacks": self._drivers.attacks,
        }  # fmt: skip
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(known))
        draft.rename(self._path)


def build_objects(count: int, addresses: dict[str, str]) -> list[Body]:
    """Return the objects of the attacker: hostile and dead Kafka clusters, topics of them, and pipelines."""
    servers = [*addresses.values(), *(f"127.0.0.1:{number}" for number in range(2, 12))]
    few = max(1, count // 100)
    clusters = [
        build_resource("KafkaCluster", f"k{n}", SPACE, bootstrapServers=[servers[n % len(servers)]], checkInterval="5s")
        for n in range(few)
    ]  # fmt: skip
    pipelines = [
        build_resource("Pipeline", f"p{n}", SPACE, clusterRef="main", **SPEC) for n in range(count // 3)
    ]
    topics = [
        build_resource("Topic", f"t{n}", SPACE, clusterRef=f"k{n % few}" if n % 2 else "main", topicName=f"x{n % 50}")
        for n in range(count - few - len(pipelines))
    ]  # fmt: skip
    return [*clusters, *pipelines, *topics]


async def prepare(admin: ApiCluster, bootstrap: str) -> None:
    """Make what the attacker's pipelines refer to."""
    await create_space(admin, SPACE, bootstrap)
    await admin.create(build_secret("store", SPACE, accessKeyId="a", secretAccessKey="b"))
    s3 = {"bucket": "state", "endpoint": "http://s3:7070", "region": "x", "credentialsSecretRef": {"name": "store"}}  # fmt: skip
    await admin.create(build_resource("StateStore", "main", SPACE, s3=s3))
    for name in ("in", "out"):
        await admin.create(build_resource("Topic", name, SPACE, clusterRef="main"))


async def flood(attacker: ApiCluster, bodies: list[Body], figures: Figures) -> None:
    """Create all; what the API server refuses because there is too much is tried again."""

    async def create(body: Body) -> None:
        for attempt in range(60):
            try:
                await attacker.create(body)
            except KappaError as error:
                figures.refused += 1
                if attempt == 59 or not error.retryable:
                    raise
                await asyncio.sleep(1.0)
            else:
                figures.created += 1
                return

    await gather([partial(create, body) for body in bodies], WIDTH)


async def play_node(node: Node, drivers: HostileDrivers, figures: Figures) -> None:
    """Start pods, and let every third driver crash, until cancelled."""
    crash = DriverExit(reason=Reason.DRIVER_CRASHED, message="x" * 2000)
    while True:
        await node.finish_checks()
        await node.step()
        for driver in list(drivers.by_address.values())[::3]:
            await node.end(driver, crash)
            figures.crashes += 1
        figures.write()
        await asyncio.sleep(1.0)


@asynccontextmanager
async def serve_brokers() -> AsyncIterator[dict[str, str]]:
    """Yield the addresses of hostile brokers by what they do."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(serve_broker(each, 0)) for name, each in BROKERS.items()}


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait for another process."""
    while not await check():  # noqa: ASYNC110 - no event crosses processes
        await asyncio.sleep(0.2)


async def attack(folder: Path, port: int, count: int, bootstrap: str) -> None:
    """Attack until cancelled."""
    drivers = HostileDrivers()
    figures = Figures(folder, drivers)
    async with (
        connect(folder, "admin") as admin,
        connect(folder, SPACE) as attacker,
        drivers.serve(port),
        serve_brokers() as addresses,
        asyncio.TaskGroup() as group,
    ):
        await prepare(admin, bootstrap)
        group.create_task(play_node(Node(admin, drivers), drivers, figures))
        await until(partial(is_ready, admin, "StateStore", "main", SPACE))
        (folder / "prepared").touch()
        await until(partial(asyncio.to_thread, (folder / "go").exists))
        await flood(attacker, build_objects(count, addresses), figures)


if __name__ == "__main__":
    asyncio.run(attack(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
