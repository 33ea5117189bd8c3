"""Two teams at one operator: the attacker of `attack.py`, and the team beside it, which wants a Topic."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fakes.context import build_resource
from fleet.apiserver import USERS as USERS_OF_BENCHES
from fleet.apiserver import ended, write_kubeconfig
from fleet.drivers import SPACE, Body
from kappa_crds import API_VERSION
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AlreadyExists
from lab.broker import free_ports
from lab.paths import REPOSITORY

VICTIM = "victim"
MEMORY = 512 * 2**20
"""Bytes: the limit of the operator's container in the chart."""
USERS = {**USERS_OF_BENCHES, SPACE: "system:authenticated", VICTIM: "system:authenticated"}
API_LIMITS = ("--max-requests-inflight=40", "--max-mutating-requests-inflight=20")
"""A tenth of the defaults, for two cores. By them the API server shares its time between users: the operator has five times the share of
both teams, as each operator on a cluster. A test without this would measure how long an API server queues requests that it accepts."""
_GROUP = Path("/sys/fs/cgroup/memory")
_EDIT = "kappa-edit"
_RBAC = "rbac.authorization.k8s.io"


@dataclass
class Operator:
    """The operator's process, in a memory group of its own where there are such groups."""

    process: "subprocess.Popen[bytes]"
    log: Path
    pulse: Path

    def read_pulse(self) -> Body:
        """Return what its event loop measures of itself, see `run_operator.py`."""
        return read_json(self.pulse)

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
        "KAPPA_HEALTH_PORT": str(free_ports(1)[0]), "KAPPA_LOG_LEVEL": "WARNING", "KAPPA_NAMESPACE": "kappa-system", "KAPPA_ALLOW_CLEAR_TEXT": "s3",
        "MALLOC_ARENA_MAX": "2", "BENCH_PULSE": str(folder / "pulse.json"), **settings,
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
            yield Operator(process, log, folder / "pulse.json")


@dataclass
class Attacker:
    """The attacker's process."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    @property
    def log(self) -> Path:
        """Return the file with its output."""
        return self.folder / "attack.log"

    @property
    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self.process.poll() is None

    def is_prepared(self) -> bool:
        """Return whether its store is ready, so that its pipelines can start."""
        return (self.folder / "prepared").exists()

    def start(self) -> None:
        """Let it create its objects."""
        (self.folder / "go").touch()

    def read(self) -> Body:
        """Return what it has done."""
        return read_json(self.folder / "attack.json")


@contextmanager
def run_attacker(folder: Path, driver_port: int, count: int, bootstrap: str) -> Iterator[Attacker]:
    """Run the attacker, behind the others: its clients, drivers and brokers are on machines of their own in life."""
    command = [sys.executable, str(REPOSITORY / "tests" / "fleet" / "attack.py"), str(folder), str(driver_port), str(count), bootstrap]  # fmt: skip
    with (folder / "attack.log").open("wb") as out:
        process = subprocess.Popen(["nice", "--adjustment=5", *command], stdout=out, stderr=out)
        with ended(process):
            yield Attacker(process, folder)


def read_json(path: Path) -> Body:
    """Return a file that another process writes; empty before it is there."""
    found: Body = json.loads(path.read_text()) if path.exists() else {}
    return found


@asynccontextmanager
async def connect(folder: Path, user: str) -> AsyncIterator[ApiCluster]:
    """Yield the API server as a user sees it."""
    os.environ["KUBECONFIG"] = str(folder / f"{user}.kubeconfig")
    async with await ApiCluster.connect() as cluster:
        yield cluster


async def create_space(cluster: ApiCluster, name: str, bootstrap: str) -> None:
    """Make a namespace with a Kafka cluster that works, which the user of that name may edit."""
    for each in (name, "kappa-system"):
        with suppress(AlreadyExists):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each, "namespace": ""}}
            await cluster.create(body)
    binding = {
        "apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": {"name": "team", "namespace": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _EDIT},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": name}],
    }  # fmt: skip
    await cluster.create(binding)
    await cluster.create(build_resource("KafkaCluster", "main", name, bootstrapServers=[bootstrap]))


async def create_topic(team: ApiCluster, name: str) -> None:
    """Create a Topic of the other team."""
    await team.create(build_resource("Topic", name, VICTIM))


async def await_ready(team: ApiCluster, operator: Operator, name: str, within: float = 120.0) -> None:
    """Wait until a Topic of the other team is Ready."""
    started = time.monotonic()
    while not await is_ready(team, "Topic", name):
        assert operator.is_alive, operator.log.read_text()[-2000:]
        assert time.monotonic() - started < within, f"{name} is not ready"
        await asyncio.sleep(0.05)


async def await_topic(team: ApiCluster, operator: Operator, name: str) -> float:
    """Create a Topic of the other team; return the seconds until it is Ready."""
    started = time.monotonic()
    await create_topic(team, name)
    await await_ready(team, operator, name)
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
