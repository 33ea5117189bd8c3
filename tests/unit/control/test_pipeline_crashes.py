"""The operator dies after every single write of a pipeline's life: the end is the same, and never are two drivers alive."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.cluster import Body
from fakes.fuse import Killed
from fakes.kubelet import FakeKubelet
from fakes.world import Operator, build_resource
from kappa_crds import API_VERSION
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_operator.keys import Key, ObjectRef
from kappa_operator.logic import LOGICS
from kappa_operator.resources.pipeline import REVISION_LABEL

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
    "sinks": [{"name": "log", "from": "events", "topic": "out"}],
}
SUSPENDED = {**SPEC, "suspend": True}
SCHEDULED = {**SPEC, "savepoints": {"schedule": "0 3 * * *", "maxCount": 1}}
CHANGED = {**SPEC, "trigger": {"maxRecords": 10}}
COLD = {**CHANGED, "upgrade": {"handover": "Cold"}}
STATELESS = {**CHANGED, "upgrade": {"mode": "Stateless"}}
CRASH = DriverExit(reason=Reason.DRIVER_CRASHED, message="out of luck")
MISFIT = DriverExit(reason=Reason.STATE_INCOMPATIBLE, message="the keys are others", retryable=False)
HOPELESS = DriverExit(reason=Reason.INVALID_SQL, message="no such column", retryable=False)


class Life:
    """The operator's lives and the node, over one cluster."""

    def __init__(self) -> None:
        self.operator = Operator(LOGICS)
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
        cluster.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})
        await self.operator.settle(CLUSTER, *TOPICS)

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


def spoil(end: DriverExit) -> Step:
    """Have drivers that stand by end with an error."""

    def step(life: Life) -> None:
        life.node.spoilt = end

    return step


def both(*steps: Step) -> Step:
    def step(life: Life) -> None:
        for each in steps:
            each(life)

    return step


def change_and_fail(spec: dict[str, Any], end: DriverExit) -> Step:
    """Change the pipeline; each driver of another revision than the one that ran before ends so when it has taken over."""

    def step(life: Life) -> None:
        before = (life.operator.get(PIPELINE) or {})["status"]["revision"]
        life.node.broken = lambda pod: None if pod["metadata"]["labels"][REVISION_LABEL] == before else end
        write(spec)(life)

    return step


def take_savepoint(life: Life) -> None:
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))


def delete_savepoint(life: Life) -> None:
    life.operator.cluster.remove(SAVEPOINT_REF)


def take_and_delete_savepoint(life: Life) -> None:
    """It is deleted when the pod that takes it is just made."""
    life.node.when_work_begins = lambda: delete_savepoint(life)
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


STEPS: dict[str, tuple[Step, ...]] = {
    "creating": (write(SPEC),),
    "changing": (write(SPEC), write(CHANGED)),
    "changing, cold": (write(SPEC), write(COLD)),
    "changing, without state": (write(SPEC), write(STATELESS)),
    "changing what does not fit": (write(SPEC), both(judge(VerdictKind.REPROCESS), write(CHANGED))),
    "taking back what does not fit": (
        write(SPEC),
        both(judge(VerdictKind.REPROCESS), write(CHANGED)),
        write(SPEC),
    ),
    "changing to what cannot start": (write(SPEC), both(spoil(HOPELESS), write(CHANGED))),
    "changing while no driver can stand by": (write(SPEC), both(spoil(CRASH), write(CHANGED))),
    "restarting while a change is refused": (
        write(SPEC),
        both(judge(VerdictKind.REPROCESS), write(CHANGED)),
        crash(CRASH),
    ),
    "suspending": (write(SPEC), write({**SPEC, "suspend": True})),
    "resuming": (write(SPEC), write({**SPEC, "suspend": True}), write(SPEC)),
    "restarting after a crash": (write(SPEC), crash(CRASH)),
    "giving up": (write(SPEC), crash(HOPELESS)),
    "curing": (write(SPEC), crash(HOPELESS), write(CHANGED)),
    "losing the driver": (write(SPEC), lose_driver),
    "taking a savepoint": (write(SPEC), take_savepoint),
    "restoring": (write(SPEC), take_savepoint, restore()),
    "restoring again": (write(SPEC), take_savepoint, restore(), restore("again")),
    "restoring before it is taken": (write(SPEC), restore(), take_savepoint),
    "rolling back": (write(SPEC), change_and_fail(CHANGED, CRASH)),
    "changing what does not fit, cold": (write(SPEC), change_and_fail(COLD, MISFIT)),
    "resuming with what does not fit": (write(SPEC), write(SUSPENDED), change_and_fail(CHANGED, MISFIT)),
    "curing with what does not fit": (write(SPEC), crash(HOPELESS), change_and_fail(CHANGED, MISFIT)),
    "deleting": (write(SPEC), delete),
    "taking a savepoint at rest": (write(SPEC), write(SUSPENDED), take_savepoint),
    "taking a savepoint of what failed": (write(SPEC), crash(HOPELESS), take_savepoint),
    "deleting a savepoint": (write(SPEC), take_savepoint, delete_savepoint),
    "deleting a savepoint at rest": (write(SPEC), write(SUSPENDED), take_savepoint, delete_savepoint),
    "deleting a savepoint of no pipeline": (write(SPEC), take_savepoint, delete, delete_savepoint),
    "deleting a savepoint at once": (write(SPEC), write(SUSPENDED), take_and_delete_savepoint),
    "deleting a savepoint that is restored": (write(SPEC), take_savepoint, both(restore(), delete_savepoint)),
    "retaining a savepoint": (write(SPEC), take_savepoint, both(retain_savepoint, delete_savepoint)),
    "importing a savepoint": (
        write(SPEC),
        take_savepoint,
        both(retain_savepoint, delete_savepoint),
        delete,
        import_savepoint,
    ),
    "verifying a savepoint": (write(SPEC), verify_savepoint("")),
    "verifying a savepoint again": (
        write(SPEC),
        verify_savepoint(""),
        both(lose_savepoint, verify_savepoint("2")),
    ),
    "restoring a damaged savepoint": (
        write(SPEC),
        take_savepoint,
        both(lose_savepoint, verify_savepoint("")),
        restore(),
    ),
    "a savepoint that is due": (write(SCHEDULED), wait_a_day),
    "a savepoint that takes the place of another": (write(SCHEDULED), wait_a_day, wait_a_day),
}


async def live(steps: tuple[Step, ...], die_after: int | None) -> tuple[dict[str, Any], int]:
    """Go through the steps, dying once after so many writes of the last one; return the end and its writes."""
    life = Life()
    await life.prepare()
    for step in steps[:-1]:
        step(life)
        await life.settle()
    before = life.operator.cluster.fuse.writes
    life.operator.cluster.fuse.die_after(die_after)
    steps[-1](life)
    await life.settle()
    assert life.node.most_alive == 1
    assert len(set(life.node.made)) == len(life.node.made)
    return describe_end(life), life.operator.cluster.fuse.writes - before


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
    kept = {key: value for key, value in status.items() if not key.endswith("Since") and key != "driverUid"}
    if "upgrade" in kept:
        kept["upgrade"] = {
            key: value for key, value in kept["upgrade"].items() if key not in ("since", "uid")
        }
    kept["conditions"] = [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]
    kept["restarts"] = {key: value for key, value in status["restarts"].items() if key != "nextStart"}
    return kept


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, writes = await live(STEPS[name], None)
    assert writes >= 1
    for number in range(1, writes + 1):
        end, _ = await live(STEPS[name], number)
        assert end == wanted, f"died after write {number} of {writes}"


async def test_the_ends_are_what_was_asked_for() -> None:
    ends = {name: (await live(steps, None))[0] for name, steps in STEPS.items()}
    check_states(ends)
    check_savepoints(ends)
    check_changes(ends)


def check_states(ends: dict[str, Any]) -> None:
    states = {name: end["status"] and end["status"]["state"] for name, end in ends.items()}
    assert states == {
        "creating": "Running", "changing": "Running", "changing, cold": "Running", "changing, without state": "Running",
        "changing what does not fit": "Running", "taking back what does not fit": "Running",
        "changing to what cannot start": "Running", "changing while no driver can stand by": "Running",
        "restarting while a change is refused": "Running", "rolling back": "Running", "suspending": "Suspended", "resuming": "Running",
        "restarting after a crash": "Running", "giving up": "Failed", "curing": "Running",
        "changing what does not fit, cold": "Running", "resuming with what does not fit": "Running", "curing with what does not fit": "Failed",
        "losing the driver": "Running", "taking a savepoint": "Running", "restoring": "Running",
        "restoring again": "Running", "restoring before it is taken": "Running", "deleting": None,
        "taking a savepoint at rest": "Suspended", "taking a savepoint of what failed": "Failed",
        "deleting a savepoint": "Running", "deleting a savepoint at rest": "Suspended",
        "deleting a savepoint of no pipeline": None, "deleting a savepoint at once": "Suspended",
        "deleting a savepoint that is restored": "Running", "retaining a savepoint": "Running",
        "restoring a damaged savepoint": "Running", "importing a savepoint": None,
        "verifying a savepoint": "Running", "verifying a savepoint again": "Running",
        "a savepoint that is due": "Running", "a savepoint that takes the place of another": "Running",
    }  # fmt: skip
    checkpoints = {name: end["status"].get("checkpoint") for name, end in ends.items() if end["status"]}
    assert checkpoints["restoring"] == checkpoints["restoring before it is taken"] == 1
    assert checkpoints["restoring again"] == 2
    assert checkpoints["changing, without state"] == 1
    alive = [ends[name]["alive"] for name in ("creating", "suspending", "giving up", "deleting")]
    assert alive == [1, 0, 0, 0]


def check_savepoints(ends: dict[str, Any]) -> None:
    taken = {name: end["savepoint"] and end["savepoint"]["state"] for name, end in ends.items()}
    assert {name for name, state in taken.items() if state == "Ready"} == {
        "taking a savepoint", "taking a savepoint at rest", "taking a savepoint of what failed",
        "restoring", "restoring again", "restoring before it is taken", "verifying a savepoint",
        "importing a savepoint",
    }  # fmt: skip
    assert {name for name, end in ends.items() if end["kept"] and not end["savepoints"]} == {
        "retaining a savepoint"
    }
    assert ends["restoring a damaged savepoint"]["status"].get("checkpoint", 0) == 0, (
        "nothing was stopped for it"
    )
    damaged = ends["verifying a savepoint again"]["savepoint"]
    assert (damaged["state"], damaged["conditions"][-1]) == (
        "Damaged",
        ("Verified", "False", "SavepointDamaged"),
    )
    assert ends["a savepoint that is due"]["savepoints"] == ["delays-202601010300"]
    assert len(ends["importing a savepoint"]["kept"]) == 2
    another = ends["a savepoint that takes the place of another"]
    assert another["savepoints"] == ["delays-202601020300"]
    assert len(another["kept"]) == 1
    assert ends["deleting a savepoint that is restored"]["status"]["restoration"], "it was restored before"


def check_changes(ends: dict[str, Any]) -> None:
    phases = {
        name: end["status"]["upgrade"]["phase"]
        for name, end in ends.items()
        if (end["status"] or {}).get("upgrade")
    }
    assert phases == {
        "changing": "Done", "changing what does not fit": "Refused", "changing to what cannot start": "Refused",
        "changing while no driver can stand by": "Done", "restarting while a change is refused": "Refused",
        "rolling back": "RolledBack", "changing, cold": "Done", "changing, without state": "Done", "curing": "Done",
        "changing what does not fit, cold": "RolledBack", "resuming with what does not fit": "RolledBack",
        "curing with what does not fit": "Watching",
        "restoring": "Done", "restoring again": "Done", "restoring before it is taken": "Done",
        "deleting a savepoint that is restored": "Done",
    }  # fmt: skip
    reasons = {name: end["status"]["conditions"][0][2] for name, end in ends.items() if end["status"]}
    assert [reasons[name] for name in ("changing", "changing what does not fit", "taking back what does not fit", "rolling back",
            "changing what does not fit, cold", "resuming with what does not fit", "curing with what does not fit")] == [
        "Running", "UpgradeRefused", "Running", "RolledBack", "RolledBack", "RolledBack", "StateIncompatible",
    ]  # fmt: skip


steps = st.lists(
    st.sampled_from(
        [
            write(SPEC),
            write(CHANGED),
            write(COLD),
            write(STATELESS),
            write({**SPEC, "suspend": True}),
            judge(VerdictKind.REPROCESS),
            judge(VerdictKind.RESUME),
            spoil(HOPELESS),
            crash(CRASH),
            lose_driver,
        ]
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps, deaths=st.lists(st.integers(1, 25), max_size=4))
async def test_whatever_happens_in_whatever_order_there_never_are_two_drivers(
    steps: list[Step], deaths: list[int]
) -> None:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    remaining = list(deaths)
    for step in steps:
        if remaining:
            life.operator.cluster.fuse.die_after(remaining.pop())
        step(life)
        await life.settle()
    assert life.node.most_alive <= 1
    assert len(set(life.node.made)) == len(life.node.made)
