"""How fast topics are: `python tests/bench/topics.py [--quick]` against the local cluster and a Kafka broker of its own.

For each number of topics, on the same broker and in the same run:
- raw: batched Admin calls, 500 topics each, until the brokers show every topic;
- create: that many `Topic` resources, from the moment the operator's replica is elected until all are Ready;
- restart: the operator is started again over the same resources, until all were looked at and found in order;
- resync: it then looks at all of them again, as it does from time to time.

The operator is a process of its own and its peak of resident memory is read from /proc. The last line is one JSON
object: the ratio of the two rates, the seconds of the resync and the memory in MB.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.paths import KUBECONFIG  # isort: skip

os.environ["KUBECONFIG"] = str(KUBECONFIG)  # the Kubernetes client reads it when it is imported

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

import platform_switch
from kappa_crds import API_VERSION
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AlreadyExists, KubernetesError
from lab.broker import Broker, free_ports
from lab.kube import kubectl
from lab.paths import REPOSITORY

PARTITIONS = 1
BATCH = 500
LOADERS = 32
RESYNC_EVERY = 30.0
"""Seconds; more than a restart takes, so that the operator is at rest before it looks again."""
BROKER = {"log.segment.delete.delay.ms": "100"}


@dataclass
class Operator:
    """The operator as a process on this machine, watching one namespace."""

    namespace: str
    identity: str
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: "subprocess.Popen[bytes] | None" = None
    resync: float = 3600.0
    log: Path = Path("/dev/null")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it."""
        environment = {
            **os.environ,
            "KUBECONFIG": str(KUBECONFIG),
            "KAPPA_WATCH_NAMESPACES": self.namespace,
            "KAPPA_NAMESPACE": self.namespace,
            "KAPPA_LIMIT_TOPICS": "100000",
            "KAPPA_HEALTH_PORT": str(self.port),
            "KAPPA_IDENTITY": self.identity,
            "KAPPA_LOG_LEVEL": "WARNING",
            "KAPPA_RESYNC_SECONDS": str(self.resync),
            "MALLOC_ARENA_MAX": "2",
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kappa_operator"], env=environment, stdout=log, stderr=log
            )

    def stop(self) -> None:
        """Ask it to stop, and wait."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def count_reconciled(self) -> int:
        """Return how many looks at topics have ended."""
        found = re.findall(
            r'kappa_operator_reconciles_total\{kind="Topic",outcome="\w+"\} ([0-9.e+]+)', self._scrape()
        )
        return int(sum(map(float, found)))

    def read_last_resync(self) -> float:
        """Return when it last began to look at everything again, in seconds since the epoch; 0 before that."""
        found = re.findall(
            r"^kappa_operator_last_resync_timestamp_seconds ([0-9.e+]+)", self._scrape(), re.MULTILINE
        )
        return float(found[0]) if found else 0.0

    def _scrape(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            if self.process is not None and self.process.poll() is not None:
                raise SystemExit(
                    f"the operator ended with {self.process.returncode}; see {self.log}"
                ) from None
            return ""

    def measure_peak(self) -> float:
        """Return the peak of its resident memory in MB."""
        assert self.process is not None
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) * 1024 / 1e6

    def measure_cpu(self) -> float:
        """Return the seconds of processor time that it has used."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def wait_until(
    what: str, check: Callable[[], Awaitable[bool]], *, within: float = 900, every: float = 0.1
) -> None:
    """Wait until the check holds; end the program where it does not in time."""
    deadline = time.monotonic() + within
    while not await check():
        if time.monotonic() > deadline:
            raise SystemExit(f"not after {within:.0f} s: {what}")
        await asyncio.sleep(every)


def create_raw(bootstrap: str, prefix: str, count: int) -> tuple[float, float]:
    """Return the seconds until all topics were acknowledged, and until the brokers show them all."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"{prefix}-{number:05d}" for number in range(count)]
    started = time.monotonic()
    for at in range(0, count, BATCH):
        topics = [NewTopic(name, PARTITIONS, -1, config=CONFIGS) for name in names[at : at + BATCH]]
        for future in admin.create_topics(topics).values():
            future.result()
    acknowledged = time.monotonic() - started
    wanted = set(names)
    while not wanted <= set(list_topics(admin)):
        time.sleep(0.05)
    return acknowledged, time.monotonic() - started


def delete_raw(broker: Broker, prefix: str) -> None:
    """Delete the topics, and wait until the broker has their files off its disk and its hands free."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = [name for name in list_topics(admin) if name.startswith(prefix)]
    for at in range(0, len(names), BATCH):
        for future in admin.delete_topics(names[at : at + BATCH]).values():
            future.result()
    while any(folder.name.startswith(prefix) for folder in (broker.folder / "data").iterdir()):
        time.sleep(0.5)


def list_topics(admin: AdminClient) -> list[str]:
    """Return the topics that the broker shows; none while it is too busy to answer."""
    try:
        return list(admin.list_topics(timeout=30).topics)
    except KafkaException:
        return []


CONFIGS = {"cleanup.policy": "delete", "retention.ms": "604800000"}
SPEC = {"partitions": PARTITIONS, "retention": {"time": "7d"}}


async def create_resources(cluster: ApiCluster, namespace: str, count: int) -> float:
    """Create the `Topic` resources from many loaders at once; return the seconds."""
    numbers = iter(range(count))

    async def load() -> None:
        for number in numbers:
            await put(
                cluster,
                build("Topic", f"t-{number:05d}", namespace, topicName=f"{namespace}-{number:05d}", **SPEC),
            )

    started = time.monotonic()
    await asyncio.gather(*(load() for _ in range(LOADERS)))
    return time.monotonic() - started


async def put(cluster: ApiCluster, manifest: dict[str, Any]) -> None:
    """Create the object, unless it is there."""
    try:
        await cluster.create(manifest)
    except AlreadyExists:
        return


def build(kind: str, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a manifest."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


async def count_ready(cluster: ApiCluster, kind: str, namespace: str) -> int:
    """Return how many resources of the kind are Ready."""
    bodies = await cluster.list_objects(API_VERSION, kind, namespace)
    conditions = (body.get("status", {}).get("conditions", []) for body in bodies)
    return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in each) for each in conditions)


async def find_election(cluster: ApiCluster, namespace: str, identity: str) -> float | None:
    """Return when this replica was elected, as seconds since the epoch."""
    lease = await cluster.get(ObjectRef("coordination.k8s.io/v1", "Lease", namespace, "kappa-operator"))
    if lease is None or lease["spec"].get("holderIdentity") != identity:
        return None
    return datetime.fromisoformat(lease["spec"]["acquireTime"]).timestamp()


async def run_until_reconciled(cluster: ApiCluster, operator: Operator, count: int) -> float:
    """Start the operator; return the seconds from its election until all topics are done and Ready."""
    operator.start()
    await await_reconciled(operator, count)

    async def is_ready() -> bool:
        return await count_ready(cluster, "Topic", operator.namespace) == count

    if not await is_ready():
        await wait_until(f"{count} topics ready", is_ready, every=1.0)
    ended = time.time()
    elected = await find_election(cluster, operator.namespace, operator.identity)
    assert elected is not None
    print(f"{operator.identity}: {operator.measure_cpu():.1f} s of processor time", file=sys.stderr)
    return ended - elected


async def await_reconciled(operator: Operator, count: int) -> None:
    """Wait until so many looks at topics have ended."""

    async def is_done() -> bool:
        return await asyncio.to_thread(operator.count_reconciled) >= count

    await wait_until(f"{count} topics looked at", is_done)


async def measure_resync(operator: Operator, count: int) -> float:
    """Return the seconds of the next look at all topics, by an operator that is at rest."""
    before, cpu = operator.count_reconciled(), operator.measure_cpu()
    await await_reconciled(operator, before + count)
    ended = time.time()
    print(f"resync: {operator.measure_cpu() - cpu:.1f} s of processor time", file=sys.stderr)
    return ended - operator.read_last_resync()


async def connect_cluster(cluster: ApiCluster, namespace: str, bootstrap: str, log: Path) -> None:
    """Make namespace and KafkaCluster, and have the operator find the cluster ready."""
    await put(
        cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "namespace": ""}}
    )
    await put(cluster, build("KafkaCluster", "kafka", namespace, bootstrapServers=[bootstrap]))
    operator = Operator(namespace, "connect", log=log)
    operator.start()
    try:

        async def is_ready() -> bool:
            return await count_ready(cluster, "KafkaCluster", namespace) == 1

        await wait_until("the KafkaCluster is ready", is_ready, within=60)
    finally:
        operator.stop()


async def measure(cluster: ApiCluster, broker: Broker, count: int) -> dict[str, float]:
    """Measure one number of topics."""
    namespace = f"bench-{os.getpid()}-{count}"
    log = broker.folder / f"operator-{count}.log"
    try:
        await connect_cluster(cluster, namespace, broker.bootstrap, log)
        loaded = await create_resources(cluster, namespace, count)
        acknowledged, visible = await asyncio.to_thread(create_raw, broker.bootstrap, f"raw-{count}", count)
        await asyncio.to_thread(delete_raw, broker, f"raw-{count}")
        with Operator(namespace, "create", log=log) as operator:
            created = await run_until_reconciled(cluster, operator, count)
            peak = operator.measure_peak()
        with Operator(namespace, "restart", resync=RESYNC_EVERY, log=log) as operator:
            restarted = await run_until_reconciled(cluster, operator, count)
            resynced = await measure_resync(operator, count)
            peak = max(peak, operator.measure_peak())
        return {
            "topics": count,
            "load_s": round(loaded, 2),
            "raw_acknowledged_s": round(acknowledged, 2),
            "raw_visible_s": round(visible, 2),
            "create_s": round(created, 2),
            "create_ratio": round(visible / created, 3),
            "create_ratio_acknowledged": round(acknowledged / created, 3),
            "restart_s": round(restarted, 2),
            "resync_s": round(resynced, 2),
            "rss_mb": round(peak, 1),
        }
    finally:
        if log.exists() and log.stat().st_size:
            print(log.read_text()[-3000:], file=sys.stderr)
        await delete_namespace(cluster, namespace)


async def delete_namespace(cluster: ApiCluster, namespace: str) -> None:
    """Delete the namespace with everything in it; the cluster does so in its own time."""
    try:
        await cluster.delete(ObjectRef("v1", "Namespace", "", namespace))
    except KubernetesError as error:
        print(f"namespace {namespace} is left: {error}", file=sys.stderr)


async def main() -> None:
    """Measure all numbers and print the figures, the last line for programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 topics only")
    parser.add_argument("--topics", type=int, nargs="*", help="numbers of topics")
    options = parser.parse_args()
    counts = options.topics or ([1000] if options.quick else [1000, 10_000])
    if not KUBECONFIG.exists():
        raise SystemExit(f"{KUBECONFIG} is missing: bring the local cluster up first")
    kubectl("apply", "--server-side", "--force-conflicts", f"--filename={REPOSITORY / 'crds' / 'generated'}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    figures: list[dict[str, float]] = []
    # An installed operator that watches all namespaces would do the same work at the same time.
    with platform_switch.without_operator(), Broker(heap_mib=1536, properties=BROKER) as broker:
        async with await ApiCluster.connect() as cluster:
            await asyncio.to_thread(create_raw, broker.bootstrap, "warm-up", 200)
            for count in counts:
                figures.append(await measure(cluster, broker, count))
                print(json.dumps(figures[-1]))
    last = figures[-1]
    worst = min(each["create_ratio"] for each in figures)
    print(
        json.dumps(
            {
                "create_ratio": worst,
                "resync_s": last["resync_s"],
                "restart_s": last["restart_s"],
                "rss_mb": max(each["rss_mb"] for each in figures),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
