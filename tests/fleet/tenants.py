"""A team that attacks the operator, and one beside it: thousands of objects, hostile drivers and brokers, drivers that crash."""

import asyncio
import gzip
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from fakes.context import build_resource, build_secret
from fleet.apiserver import ended, write_kubeconfig
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
from kappa_crds import API_VERSION
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AlreadyExists
from lab.broker import free_ports
from lab.paths import REPOSITORY

VICTIM = "victim"
MEMORY = 512 * 2**20
"""Bytes: the limit of the operator's container in the chart."""
_GROUP = Path("/sys/fs/cgroup/memory")
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
    """Drivers of which every other one attacks who asks for its report."""

    async def _show(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        self._find(request)
        assert request.transport is not None
        number = int(request.transport.get_extra_info("sockname")[0].rpartition(".")[2])
        attacks = (self._endless, self._drip, self._bomb, self._deep, self._errors, self._reset)
        if number % 2 == 0:
            return await super()._show(request)
        return await attacks[number // 2 % len(attacks)](request)

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = await _begin(request)
        with suppress(OSError):
            while True:
                await response.write(b" " * 65536)
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


@dataclass
class Operator:
    """The operator's process, in a memory group of its own where there are such groups."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def measure_peak(self) -> int:
        """Return the peak of its resident memory in bytes."""
        return self._read("VmHWM") * 1024

    def count_threads(self) -> int:
        """Return how many threads it has."""
        return self._read("Threads")

    def _read(self, name: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise AssertionError(f"{name} is not there")

    @property
    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self.process.poll() is None


@contextmanager
def limit_memory(name: str) -> Iterator[Path | None]:
    """Yield a group whose processes are killed above the limit; None where the machine lets us make none."""
    group = _GROUP / name
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(MEMORY))
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        for _ in range(50):
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


@contextmanager
def run_operator(folder: Path, url: str, driver_port: int, **settings: str) -> Iterator[Operator]:
    """Run the operator with the memory of its container, with the real client of Kafka."""
    log = folder / "operator.log"
    environment = {
        **os.environ, "KUBECONFIG": str(write_kubeconfig(folder, url, "kappa-operator")),
        "KAPPA_HEALTH_PORT": str(free_ports(1)[0]), "KAPPA_LOG_LEVEL": "WARNING", "KAPPA_NAMESPACE": "kappa-system",
        "MALLOC_ARENA_MAX": "2", **settings,
    }  # fmt: skip
    command = [
        sys.executable,
        str(REPOSITORY / "tests" / "fleet" / "run_operator.py"),
        str(driver_port),
        "real",
    ]
    with limit_memory(f"kappa-operator-{os.getpid()}") as group, log.open("wb") as out:
        join = (
            partial((group / "cgroup.procs").write_text, "0") if group else None
        )  # 0 is the process that writes
        with ended(
            subprocess.Popen(command, env=environment, stdout=out, stderr=out, preexec_fn=join)  # noqa: PLW1509 - no thread runs yet
        ) as process:
            yield Operator(process, log)


@asynccontextmanager
async def serve_brokers() -> AsyncIterator[dict[str, str]]:
    """Yield the addresses of hostile brokers by what they do."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(serve_broker(each, 0)) for name, each in BROKERS.items()}


async def create_space(cluster: ApiCluster, name: str, bootstrap: str) -> None:
    """Make a namespace with a Kafka cluster that works."""
    for each in (name, "kappa-system"):
        with suppress(AlreadyExists):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each, "namespace": ""}}
            await cluster.create(body)
    await cluster.create(build_resource("KafkaCluster", "main", name, bootstrapServers=[bootstrap]))


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


async def prepare_attack(cluster: ApiCluster, bootstrap: str) -> None:
    """Make what the attacker's pipelines refer to."""
    await create_space(cluster, SPACE, bootstrap)
    await cluster.create(build_secret("store", SPACE, accessKeyId="a", secretAccessKey="b"))
    s3 = {"bucket": "state", "endpoint": "http://s3:7070", "region": "x", "credentialsSecretRef": {"name": "store"}}  # fmt: skip
    await cluster.create(build_resource("StateStore", "main", SPACE, s3=s3))
    for name in ("in", "out"):
        await cluster.create(build_resource("Topic", name, SPACE, clusterRef="main"))


async def create_objects(cluster: ApiCluster, bodies: list[Body]) -> None:
    """Create all."""
    await gather([partial(cluster.create, body) for body in bodies])


async def play_node(node: Node, drivers: Drivers) -> None:
    """Start pods, and let every third driver crash, until cancelled."""
    crash = DriverExit(reason=Reason.DRIVER_CRASHED, message="x" * 2000)
    while True:
        await node.step()
        for driver in list(drivers.by_address.values())[::3]:
            await node.end(driver, crash)
        await asyncio.sleep(0.5)


async def await_topic(cluster: ApiCluster, operator: Operator, name: str, within: float = 120.0) -> float:
    """Create a Topic of the other team; return the seconds until it is Ready."""
    started = time.monotonic()
    await cluster.create(build_resource("Topic", name, VICTIM))
    while not await is_ready(cluster, "Topic", name):
        assert operator.is_alive, operator.log.read_text()[-2000:]
        assert time.monotonic() - started < within, f"{name} is not ready"
        await asyncio.sleep(0.05)
    return time.monotonic() - started


async def is_ready(cluster: ApiCluster, kind: str, name: str, space: str = VICTIM) -> bool:
    """Return whether a resource is Ready."""
    body = await cluster.get(ObjectRef(API_VERSION, kind, space, name)) or {}
    conditions = body.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def count_reasons(cluster: ApiCluster) -> Counter[str]:
    """Return how many of the attacker's objects have each reason; '' for those that were not handled yet."""
    found: Counter[str] = Counter()
    for kind in ("KafkaCluster", "Topic", "Pipeline"):
        async for page in cluster.list_pages(API_VERSION, kind, SPACE):
            for body in page:
                conditions = body.get("status", {}).get("conditions", [])
                found[next((each["reason"] for each in conditions if each["type"] == "Ready"), "")] += 1
    return found
