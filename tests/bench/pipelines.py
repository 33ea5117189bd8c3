"""How much 1,000 Pipelines cost: `python tests/bench/pipelines.py [--quick]` against an API server of its own.

The bench starts etcd and kube-apiserver, and the operator as a process that logs in with the chart's permissions and nothing
more. It plays the node: each driver pod gets an address below 127.0.0.0/8 and runs. One process answers for all drivers: the
control protocol over HTTP, with each pipeline's token. All have lag and report another batch every three seconds. Kafka and
the store are fakes inside the operator's process.

- `requests_per_s`: requests that the API server counts, its own and all watches included, while all pipelines have lag.
- `busy_cpu`: processor time of the operator in the same time, as a part of one core. One scrape of metrics is in it.
- `idle_cpu`: the same while all drivers have read everything.
- `p99_s`: seconds from an event (a driver dies, or a Pipeline is suspended) to the operator's decision in status.
- `rss_mb`: peak of the operator's resident memory.

The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from fakes.context import build_resource, build_secret
from fleet.apiserver import ended, grant, install_crds, serve_bench, write_kubeconfig
from fleet.drivers import SPACE, Body, Drivers, Node, gather
from kappa_crds import API_VERSION
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_operator.engine.cluster import ApiCluster, build_collection_path
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AlreadyExists
from kappa_operator.pipeline.pace import IDLE
from lab.broker import free_ports
from lab.paths import REPOSITORY

CHANGES_PER_SECOND = 10
SETTLE = 35.0
"""Seconds until all drivers with lag were polled again, and their figures written."""
SPEC: dict[str, Any] = {
    "sources": [{"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING, v BIGINT"}}}],
    "views": [{"name": "large", "sql": "SELECT k, v FROM events WHERE v > 100"}],
    "sinks": [{"name": "log", "from": "large", "kafka": {"topic": "out"}}],
    "upgrade": {"mode": "Stateless"},
}


@dataclass
class Watcher:
    """When the status of each pipeline last changed, and what it was, from a watch."""

    bodies: dict[str, Body] = field(default_factory=dict)
    awaited: dict[str, tuple[Callable[[Body], bool], "asyncio.Future[float]"]] = field(default_factory=dict)

    async def run(self, url: str) -> None:
        """Watch until cancelled."""
        path = build_collection_path(API_VERSION, "Pipeline", SPACE)
        limits = ClientTimeout(total=None)
        async with ClientSession(
            connector=TCPConnector(ssl=False), timeout=limits, read_bufsize=2**22
        ) as session:
            while True:
                headers = {"Authorization": "Bearer admin"}
                async with session.get(f"{url}{path}?watch=1", headers=headers) as response:
                    async for line in response.content:
                        self._note(json.loads(line)["object"])

    def _note(self, body: Body) -> None:
        name = body.get("metadata", {}).get("name", "")
        self.bodies[name] = body
        if name in self.awaited and self.awaited[name][0](body):
            future = self.awaited.pop(name)[1]
            if not future.done():
                future.set_result(time.monotonic())

    def expect(self, name: str, check: Callable[[Body], bool]) -> "asyncio.Future[float]":
        """Return when the pipeline will have passed the check."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.awaited[name] = check, future
        return future

    def count_ready(self) -> int:
        """Return how many pipelines are Ready."""
        return sum(get_ready(body).get("status") == "True" for body in self.bodies.values())

    def explain(self) -> Counter[str]:
        """Return how many pipelines have each reason."""
        return Counter(
            f"{get_ready(body).get('reason')}: {get_ready(body).get('message', '')[:90]}"
            for body in self.bodies.values()
        )


def get_ready(body: Body) -> Body:
    """Return the condition Ready."""
    conditions = body.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Ready"), {})


@dataclass
class Operator:
    """The operator's process."""

    process: "subprocess.Popen[bytes]"
    port: int

    def measure_cpu(self) -> float:
        """Return the seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def measure_peak(self) -> float:
        """Return the peak of its resident memory in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) * 1024 / 1e6

    def scrape(self) -> str:
        """Return its metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return str(answer.read().decode())


@contextmanager
def run_operator(folder: Path, url: str, driver_port: int) -> Iterator[Operator]:
    """Run the operator as a user with the chart's permissions."""
    port = free_ports(1)[0]
    environment = {
        **os.environ, "KUBECONFIG": str(write_kubeconfig(folder, url, "kappa-operator")), "KAPPA_HEALTH_PORT": str(port),
        "KAPPA_LOG_LEVEL": "WARNING", "MALLOC_ARENA_MAX": "2",
        "KAPPA_NAMESPACE": "kappa-system", "KAPPA_ALLOW_CLEAR_TEXT": "s3", "KAPPA_LIMIT_PIPELINES": "10000", "KAPPA_LIMIT_EXECUTORS": "100000",
    }  # fmt: skip
    with (folder / "operator.log").open("wb") as log:
        command = [sys.executable, str(REPOSITORY / "tests" / "fleet" / "run_operator.py"), str(driver_port)]
        with ended(subprocess.Popen(command, env=environment, stdout=log, stderr=log)) as process:
            yield Operator(process, port)


async def prepare(cluster: ApiCluster) -> None:
    """Make what pipelines refer to, and the operator's account with the chart's permissions."""
    for name in (SPACE, "kappa-system"):
        with suppress(AlreadyExists):
            await cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": ""}}
            )
    await cluster.create(build_secret("store", SPACE, accessKeyId="a", secretAccessKey="b"))
    await cluster.create(
        build_resource("KafkaCluster", "main", SPACE, bootstrapServers=["kafka:9092"], lag={"enabled": False})
    )
    s3 = {
        "bucket": "state",
        "endpoint": "http://s3:7070",
        "region": "x",
        "credentialsSecretRef": {"name": "store"},
    }
    await cluster.create(build_resource("StateStore", "main", SPACE, s3=s3))
    for name in ("in", "out"):
        await cluster.create(build_resource("Topic", name, SPACE, partitions=8))


async def create_pipelines(cluster: ApiCluster, count: int) -> list[str]:
    """Create the pipelines; return their names."""
    names = [f"p{number:04d}" for number in range(count)]
    await gather([partial(cluster.create, build_resource("Pipeline", name, SPACE, **SPEC)) for name in names])
    return names


async def await_ready(operator: Operator, watcher: Watcher, count: int, within: float) -> float:
    """Return the seconds until all are Ready."""
    started = time.monotonic()
    while watcher.count_ready() < count:
        if time.monotonic() - started > within or operator.process.poll() is not None:
            raise SystemExit(f"after {within:.0f} s: {watcher.explain()}")
        await asyncio.sleep(1.0)
    return time.monotonic() - started


async def count_requests(cluster: ApiCluster) -> Counter[tuple[str, str]]:
    """Return the requests that the API server has counted, by verb and resource."""
    headers = {"Authorization": "Bearer admin"}
    async with cluster._session.get(f"{cluster._host}/metrics", headers=headers) as response:
        text = await response.text()
    found: Counter[tuple[str, str]] = Counter()
    for labels, value in re.findall(r"^apiserver_request_total\{([^}]*)\} (\S+)", text, re.MULTILINE):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found[named["verb"], named["resource"]] += int(float(value))
    return found


async def measure_rest(cluster: ApiCluster, operator: Operator, seconds: float) -> tuple[float, float]:
    """Return requests per second and the part of a core while nothing changes."""
    before, cpu, started = await count_requests(cluster), operator.measure_cpu(), time.monotonic()
    await asyncio.sleep(seconds / 2)
    await asyncio.to_thread(operator.scrape)
    await asyncio.sleep(seconds / 2)
    took = time.monotonic() - started
    used = operator.measure_cpu() - cpu
    requests = await count_requests(cluster) - before
    print(
        f"{used:.1f} s of processor time and requests in {took:.0f} s: {requests.most_common(8)}",
        file=sys.stderr,
    )
    return requests.total() / took, used / took


async def measure_latency(cluster: ApiCluster, node: Node, watcher: Watcher, names: list[str]) -> list[float]:
    """Return the seconds from an event to the decision in status: every other driver dies, the other pipelines are suspended."""
    waits: list[asyncio.Task[float]] = []
    for number, name in enumerate(names):
        waits.append(asyncio.create_task((suspend if number % 2 else crash)(cluster, node, watcher, name)))
        await asyncio.sleep(1 / CHANGES_PER_SECOND)
    took = await asyncio.wait_for(asyncio.gather(*waits), 120)
    slowest = sorted(zip(took, range(len(names)), names, strict=True))[-10:]
    print(f"slowest, with number and name: {[(round(s, 2), n, m) for s, n, m in slowest]}", file=sys.stderr)
    return sorted(took)


async def suspend(cluster: ApiCluster, node: Node, watcher: Watcher, name: str) -> float:
    """Suspend a pipeline; return the seconds until its status shows that its driver is to stop."""
    decided = watcher.expect(
        name, lambda body: any("stoppingSince" in each for each in body["status"]["runs"])
    )
    started = time.monotonic()
    await cluster.merge(ObjectRef(API_VERSION, "Pipeline", SPACE, name), {"spec": {"suspend": True}})
    return await decided - started


async def crash(cluster: ApiCluster, node: Node, watcher: Watcher, name: str) -> float:
    """End a driver with an error; return the seconds until the status counts that."""
    decided = watcher.expect(name, lambda body: body["status"].get("restarts", {}).get("total", 0) > 0)
    driver = next(each for each in node._drivers.by_address.values() if each.pipeline == name)
    started = time.monotonic()
    await node.end(driver, DriverExit(reason=Reason.DRIVER_CRASHED, message="out of luck"))
    return await decided - started


async def repeat(step: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Repeat a step of the node until cancelled."""
    while True:
        await step()
        await asyncio.sleep(seconds)


async def measure(folder: Path, url: str, count: int, seconds: float) -> dict[str, float]:
    """Measure so many pipelines."""
    kubectl = await install_crds(folder, url)
    os.environ["KUBECONFIG"] = str(folder / "admin.kubeconfig")
    drivers, watcher, driver_port = Drivers(), Watcher(), free_ports(1)[0]
    async with await ApiCluster.connect() as cluster, drivers.serve(driver_port):
        await prepare(cluster)
        grant(kubectl)
        names, node = await create_pipelines(cluster, count), Node(cluster, drivers)
        tasks = [
            asyncio.create_task(watcher.run(url)),
            asyncio.create_task(repeat(node.finish_checks, 2.0)),
            asyncio.create_task(repeat(node.step, 0.5)),
        ]
        with run_operator(folder, url, driver_port) as operator:
            ready = await await_ready(operator, watcher, count, 60 + count / 2)
            tasks.pop().cancel()  # the node's requests are not the operator's
            print(f"all Ready after {ready:.0f} s", file=sys.stderr)
            await asyncio.sleep(SETTLE)
            requests, busy = await measure_rest(cluster, operator, seconds)
            drivers.idle_since = datetime.now(UTC)
            await asyncio.sleep(2 * IDLE.longest)
            _, idle = await measure_rest(cluster, operator, seconds)
            drivers.idle_since = None
            tasks.append(asyncio.create_task(repeat(node.step, 0.5)))
            chosen = random.Random(1).sample(names, min(count, max(20, count // 5)))
            waits = await measure_latency(cluster, node, watcher, chosen)
            peak = operator.measure_peak()
        for task in tasks:
            task.cancel()
    forbidden = (folder / "operator.log").read_text().count("is forbidden")
    return {
        "pipelines": count, "ready_s": round(ready, 1), "forbidden": forbidden, "p50_s": round(statistics.median(waits), 2),
        "requests_per_s": round(requests, 1), "p99_s": round(waits[int(len(waits) * 0.99) - 1], 2), "busy_cpu": round(busy, 3), "idle_cpu": round(idle, 3),
        "rss_mb": round(peak, 1),
    }  # fmt: skip


def main() -> None:
    """Measure, and print the figures, the last line for programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 pipelines only")
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to measure at rest")
    parser.add_argument("--keep", type=Path, help="folder for the logs")
    options = parser.parse_args()
    count = 100 if options.quick else options.pipelines
    with serve_bench(options.keep) as (folder, url):
        print(json.dumps(asyncio.run(measure(folder, url, count, options.seconds))))


if __name__ == "__main__":
    main()
