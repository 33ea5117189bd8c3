"""A pipeline's life on fakes, from step to step: what people and nodes do to it, and how it ends where the operator dies in between."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from effort import Deaths
from fakes.cluster import Body, FakeCluster
from fakes.context import Operator, build_resource
from fakes.fuse import Killed
from fakes.kubelet import FakeKubelet
from kappa_crds import API_VERSION
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.objects import REVISION_LABEL
from kappa_operator.settings import Settings

CLUSTER = Key("KafkaCluster", "shop", "main")
TOPICS = (Key("Topic", "shop", "in"), Key("Topic", "shop", "out"))
STORE = ObjectRef(API_VERSION, "StateStore", "shop", "default")
PIPELINE = Key("Pipeline", "shop", "delays")
SAVEPOINT = Key("Savepoint", "shop", "one")
REF = ObjectRef(API_VERSION, "Pipeline", "shop", "delays")
SAVEPOINT_REF = ObjectRef(API_VERSION, "Savepoint", "shop", "one")
ROUNDS = 300

SPEC: dict[str, Any] = {
    "sources": [{"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}],
    "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "out"}}],
}
SUSPENDED = {**SPEC, "suspend": True}
SCHEDULED = {**SPEC, "savepoints": {"schedule": "0 3 * * *", "maxCount": 1}}
CHANGED = {**SPEC, "trigger": {"maxRecords": 10}}
COLD = {**CHANGED, "upgrade": {"handover": "Cold"}}
STATELESS = {**CHANGED, "upgrade": {"mode": "Stateless"}}
SAVED = {**CHANGED, "upgrade": {"mode": "Savepoint"}}
SAVED_COLD = {**CHANGED, "upgrade": {"mode": "Savepoint", "handover": "Cold"}}
REPROCESSED = {**CHANGED, "upgrade": {"mode": "Reprocess"}}
AUTO = {**CHANGED, "upgrade": {"mode": "Auto"}}
AUTO_COLD = {**CHANGED, "upgrade": {"mode": "Auto", "handover": "Cold"}}
RESTARTED = {**SPEC, "restartNonce": "1", "upgrade": {"mode": "Stateless"}}
CRASH = DriverExit(reason=Reason.DRIVER_CRASHED, message="out of luck")
HOPELESS = DriverExit(reason=Reason.INVALID_SQL, message="no such column", retryable=False)
NO_KAFKA = DriverExit(reason=Reason.KAFKA_UNAVAILABLE, message="Kafka does not respond")
EVICTED = DriverExit(reason=Reason.DRIVER_LOST, message="the node ran out of memory")
MISFIT = DriverExit(reason=Reason.STATE_INCOMPATIBLE, message="the keys are others", retryable=False)


class Life:
    """The operator's lives and the node, over one cluster. One that `misses_pods` gets no watch event of a pod."""

    def __init__(self, *, misses_pods: bool = False, settings: Settings | None = None) -> None:
        self.operator = Operator(KIND_TABLE, remembers=True, misses_pods=misses_pods, settings=settings)
        self.node = FakeKubelet(self.operator.cluster, self.operator.drivers)
        self.node.watch()

    async def prepare(self) -> None:
        cluster = self.operator.cluster
        cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
        for topic in TOPICS:
            cluster.put(build_resource("Topic", topic.name))
        cluster.put(build_resource("StateStore", "default", pvc={"claimName": "state"}))
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "StoreVerified",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        cluster.patch(STORE, status={"claimName": "state", "conditions": [ready]})
        metadata = {"name": "state", "namespace": "shop"}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        cluster.put({**claim, "status": {"phase": "Bound"}})
        await self.operator.settle(CLUSTER, *TOPICS)

    def fork(self) -> "Life":
        """Return a copy of all that is outside the operator, with one that has just started: the operator died at this moment."""
        forked = copy.copy(self)
        *outside, forked.node = copy.deepcopy((*self.operator.share(), self.node))
        forked.operator = self.operator.restart_on(tuple(outside))
        forked.operator.cluster.fuse.on_write = None
        forked.node.watch()
        return forked

    async def settle(self) -> None:
        """Let operator and node take turns until neither changes anything for two rounds, living on after each death."""
        quiet = 0
        for _ in range(ROUNDS):
            before = self.operator.cluster.fuse.writes
            try:
                outcome = await self.operator.reconcile(PIPELINE)
                for body in self.operator.cluster.find(API_VERSION, "Savepoint"):
                    await self.operator.reconcile(Key("Savepoint", "shop", body["metadata"]["name"]))
            except Killed:
                self.operator = self.operator.restart()
                self.node.watch()
                quiet = 0
                continue
            moved = self.node.step() or self.operator.cluster.fuse.writes != before
            quiet = 0 if moved else quiet + 1
            if quiet == 2:
                return
            self.operator.clock.advance(outcome.requeue_after or 1.0)
        raise AssertionError(f"the pipeline does not come to rest: {self.operator.get(PIPELINE)}")


Step = Callable[[Life], None]


def write(spec: dict[str, Any]) -> Step:
    def step(life: Life) -> None:
        life.operator.cluster.put(build_resource("Pipeline", "delays", **spec))

    return step


def judge(kind: VerdictKind) -> Step:
    """Have the dry starts from now on show what a change means."""

    def step(life: Life) -> None:
        life.node.verdict = UpgradeVerdict(kind=kind, reasons=("a new key",))

    return step


def spoil(end: DriverExit, times: int = 1000) -> Step:
    """Have drivers that stand by end with an error, so many of them."""

    def step(life: Life) -> None:
        life.node.spoilt, life.node.spoils = end, times

    return step


def both(*steps: Step) -> Step:
    def step(life: Life) -> None:
        for each in steps:
            each(life)

    return step


@dataclass
class _FailsFirst:
    """The end of each driver of the first revision that is not `known`, so many `times`."""

    end: DriverExit
    known: frozenset[str]
    times: int
    failing: str = ""

    def __call__(self, pod: Body) -> DriverExit | None:
        revision: str = pod["metadata"]["labels"][REVISION_LABEL]
        if revision not in self.known and not self.failing:
            self.failing = revision
        if revision != self.failing or self.times == 0:
            return None
        self.times -= 1
        return self.end


def fail_to(spec: dict[str, Any], end: DriverExit = CRASH, times: int = 1000) -> Step:
    """Change the pipeline; each driver of its first new revision, or so many of them, ends so when it has taken over."""

    def step(life: Life) -> None:
        known = {body["metadata"]["name"] for body in life.operator.cluster.find("v1", "ConfigMap")}
        life.node.broken = _FailsFirst(end, frozenset(known), times)
        write(spec)(life)

    return step


def fail_savepoints(life: Life) -> None:
    life.operator.drivers.unsaved = CRASH
    life.node.work_fails = CRASH


def slow_savepoints(life: Life) -> None:
    life.operator.drivers.slow = True


def lose_the_old_driver(life: Life) -> None:
    for oldest in sorted(life.node.find_pods(), key=lambda pod: str(pod["metadata"]["name"]))[:1]:
        life.operator.cluster.remove(ObjectRef.of(oldest))


def wait_an_hour(life: Life) -> None:
    life.operator.clock.advance(3_600)


def take_savepoint(life: Life) -> None:
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))


def delete_savepoint(life: Life) -> None:
    life.operator.cluster.remove(SAVEPOINT_REF)


def delete_when_work_begins(life: Life) -> None:
    """Have the savepoint deleted when the pod that works on it is just made."""

    def remove(cluster: FakeCluster) -> None:
        cluster.remove(SAVEPOINT_REF)

    life.node.when_work_begins = remove


def take_and_delete_savepoint(life: Life) -> None:
    """It is deleted when the pod that takes it is just made."""
    delete_when_work_begins(life)
    take_savepoint(life)


def import_savepoint(life: Life) -> None:
    (kept,) = life.operator.drivers.kept
    spec: dict[str, Any] = {"pipelineRef": "delays", "import": {"name": kept}}
    life.operator.cluster.put(build_resource("Savepoint", "one", **spec))


def retain_savepoint(life: Life) -> None:
    spec = {"pipelineRef": "delays", "deletionPolicy": "Retain"}
    life.operator.cluster.put(build_resource("Savepoint", "one", **spec))


def restore(request: str = "") -> Step:
    return write({**SPEC, "restore": {"savepoint": "one", "request": request}})


def delete(life: Life) -> None:
    life.operator.cluster.remove(REF)


def verify_savepoint(request: str) -> Step:
    def step(life: Life) -> None:
        verify = {"by": "Checksums", "request": request}
        spec: dict[str, Any] = {"pipelineRef": "delays", "verify": verify}
        life.operator.cluster.put(build_resource("Savepoint", "one", **spec))

    return step


def lose_savepoint(life: Life) -> None:
    life.operator.drivers.kept.clear()


def wait_a_day(life: Life) -> None:
    life.operator.clock.advance(86_400)


def crash(end: DriverExit) -> Step:
    def step(life: Life) -> None:
        life.node.crash = end
        life.node.step()

    return step


def lose_driver(life: Life) -> None:
    for pod in life.node.find_pods():
        life.operator.cluster.remove(ObjectRef.of(pod))
    life.node.step()


def _do_nothing(life: Life) -> None:
    pass


async def live(steps: tuple[Step, ...], prepare: Step = _do_nothing) -> dict[str, Any]:
    """Go through the steps and return the end."""
    life = await _begin(steps, prepare)
    steps[-1](life)
    return await _end(life)


async def live_and_die(
    steps: tuple[Step, ...], prepare: Step = _do_nothing
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the end, and how it ends if the operator dies after the first write of the last step, after the second, and so on.

    In `make test` it dies after a third of the writes, other ones each time.

    Each death is a copy of what is outside the operator at this write, so what happened before it runs once.
    """
    life = await _begin(steps, prepare)
    deaths = Deaths(life.fork)
    life.operator.cluster.fuse.on_write = deaths.wrote
    steps[-1](life)
    end = await _end(life)
    return end, {f"died after write {n} of {deaths.writes}": await _end(dead) for n, dead in deaths.find()}


async def _begin(steps: tuple[Step, ...], prepare: Step) -> Life:
    """Go through the steps before the last one."""
    life = Life()
    await life.prepare()
    prepare(life)
    for step in steps[:-1]:
        step(life)
        await life.settle()
    return life


async def _end(life: Life) -> dict[str, Any]:
    await life.settle()
    assert life.node.most_alive == 1
    assert len(set(life.node.made)) == len(life.node.made)
    return describe_end(life)


def describe_end(life: Life) -> dict[str, Any]:
    """Return what there is in the end, without times."""
    cluster = life.operator.cluster
    owned = ("Pod", "ConfigMap", "Secret", "Service", "ServiceAccount")
    return {
        "objects": sorted(body["metadata"]["name"] for kind in owned for body in cluster.find("v1", kind)),
        "alive": life.node.count_alive(),
        "status": strip_times(life.operator.get(PIPELINE)),
        "savepoint": describe_savepoint(life.operator.get(SAVEPOINT)),
        "asked": sorted({name for _, name, _ in life.operator.drivers.savepoints}),
        "savepoints": [body["metadata"]["name"] for body in cluster.find(API_VERSION, "Savepoint")],
        "kept": sorted(life.operator.drivers.kept),
        "elsewhere": sorted(life.operator.drivers.elsewhere),
    }


def describe_savepoint(body: Body | None) -> Any:
    if body is None:
        return None
    status = body["status"]
    conditions = [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]
    return {"conditions": conditions} | {
        key: status.get(key) for key in ("state", "location", "queries", "attempts", "driver", "size")
    }


def strip_times(body: Body | None) -> Any:
    if body is None:
        return None
    status = body["status"]
    kept = {key: value for key, value in status.items() if key != "measuredAt"}
    kept["runs"] = [
        {key: value for key, value in run.items() if not key.endswith("Since") and key != "driverUid"}
        for run in status["runs"]
    ]
    if "upgrade" in kept:
        kept["upgrade"] = {key: value for key, value in kept["upgrade"].items() if key != "since"}
    kept["conditions"] = [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]
    kept["restarts"] = {key: value for key, value in status["restarts"].items() if key != "nextStart"}
    return kept
