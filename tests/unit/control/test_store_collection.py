"""StateStores are looked through when that is due: by one pod, whose result is recorded before it goes."""

from typing import Any

from fakes.context import Operator, build_resource
from fakes.fuse import Killed
from kappa_crds import API_VERSION
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import (
    REQUEST_ANNOTATION,
    CollectRequest,
    Removal,
    SavepointTask,
    StoreCheck,
    WorkRequest,
    WorkResult,
)
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.statestore.pods import ROLES

COLLECTOR_ROLE = ROLES[SavepointTask.COLLECT]
STORE = Key("StateStore", "shop", "main")
REF = ObjectRef(API_VERSION, *STORE)
FREED = WorkResult(removed=Removal(objects=3, checkpoints=1, size_bytes=2048))
SAID = "3 files of savepoints and 1 checkpoints, 2 KiB, were deleted"


async def start(**collection: Any) -> Operator:
    """A store that is ready, with a policy of collection."""
    operator = Operator(KIND_TABLE)
    spec: dict[str, Any] = {"pvc": {"size": "1Gi"}, "collection": collection}
    operator.cluster.put(build_resource("StateStore", "main", **spec))
    operator = await operator.settle(STORE)
    (probe,) = operator.cluster.find("v1", "Pod", "shop")
    end(operator, ObjectRef.of(probe), WorkResult(checked=StoreCheck()).model_dump_json(by_alias=True))
    return operator


def end(operator: Operator, ref: ObjectRef, message: str, phase: str = "Succeeded") -> None:
    state = {"terminated": {"exitCode": 0, "message": message}}
    operator.cluster.patch(ref, status={"phase": phase, "containerStatuses": [{"state": state}]})


def find_collectors(operator: Operator) -> list[ObjectRef]:
    return [ObjectRef.of(pod) for pod in operator.cluster.find("v1", "Pod", labels=COLLECTOR_ROLE)]


def read_request(operator: Operator) -> CollectRequest:
    (ref,) = find_collectors(operator)
    pod = operator.cluster.read(ref) or {}
    asked = WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
    assert asked.collect is not None
    return asked.collect


def read_status(operator: Operator) -> dict[str, Any]:
    found: dict[str, Any] = (operator.get(STORE) or {})["status"].get("collection") or {}
    return found


async def finish(operator: Operator, result: WorkResult = FREED) -> Operator:
    (ref,) = find_collectors(operator)
    end(operator, ref, result.model_dump_json(by_alias=True))
    return await operator.settle(STORE)


async def test_nothing_is_collected_unless_requested() -> None:
    operator = await (await start()).settle(STORE)
    assert (find_collectors(operator), read_status(operator)) == ([], {})


async def test_a_request_is_processed_once_and_reported() -> None:
    operator = await (await start(request="1")).settle(STORE)
    assert [ref.name for ref in find_collectors(operator)] == ["main-collect-1"]
    operator = await finish(operator)
    status = read_status(operator)
    assert (status["state"], status["request"], status["message"]) == ("Done", "1", SAID)
    assert find_collectors(operator) == []
    assert operator.list_events(Reason.STORE_COLLECTED) == [SAID]
    operator.clock.advance(86_400)
    operator = await operator.settle(STORE)
    assert read_status(operator)["number"] == 1
    assert operator.get_condition(STORE)[0] == "True", "the store is ready all the while"


async def test_a_store_without_a_policy_any_more_is_not_collected() -> None:
    operator = await finish(await (await start(request="1")).settle(STORE))
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "1Gi"}))
    operator = await operator.settle(STORE)
    assert (find_collectors(operator), read_status(operator)["number"]) == ([], 1)


async def test_it_is_done_again_when_that_is_due() -> None:
    operator = await finish(await (await start(interval="1h")).settle(STORE))
    outcome = await operator.reconcile(STORE)
    assert outcome.requeue_after is not None
    operator.clock.advance(3600)
    operator.cluster.patch(REF, status={"lastCheck": operator.clock().strftime("%Y-%m-%dT%H:%M:%SZ")})
    operator = await operator.settle(STORE)
    assert [ref.name for ref in find_collectors(operator)] == ["main-collect-2"]


async def test_the_request_lists_the_checkpoints_in_use() -> None:
    operator = await start(request="1", replacedCheckpoints="Delete")
    source = {"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}
    sink = {"name": "log", "from": "events", "kafka": {"topic": "out"}}
    uids = {}
    for number, name in enumerate(("one", "two", "underway")):
        spec: dict[str, Any] = {"sources": [source], "sinks": [sink]}
        made = operator.cluster.put(build_resource("Pipeline", name, **spec))
        uids[name] = made["metadata"]["uid"]
        operator.cluster.patch(
            ObjectRef.of(made),
            status={"checkpoint": number, "runs": [{"role": "active", "checkpoint": min(number, 1)}]},
        )
    watched = operator.cluster.put(build_resource("Pipeline", "watched", **spec))
    uids["watched"] = watched["metadata"]["uid"]
    change = {"phase": "Watching", "revision": "new", "newCheckpoint": {"checkpoint": 3, "insteadOf": 2}}
    operator.cluster.patch(
        ObjectRef.of(watched),
        status={"checkpoint": 3, "runs": [{"role": "active", "checkpoint": 3}], "upgrade": change},
    )
    asked = read_request(await operator.settle(STORE))
    folders = {"one": "", "two": "-1", "underway": "-1", "watched": "-2"}
    assert asked.current == {uids[name]: f"{uids[name]}{suffix}" for name, suffix in folders.items()}
    assert (asked.namespace, asked.replaced, asked.orphaned) == ("shop", True, False)


async def test_the_cause_of_a_failed_collection_is_reported() -> None:
    failure = DriverExit(reason=Reason.CHECKPOINT_UNAVAILABLE, message="the disk is read-only")
    operator = await finish(await (await start(request="1")).settle(STORE), WorkResult(failure=failure))
    assert read_status(operator)["message"] == "the disk is read-only"


async def test_a_pod_that_cannot_be_created_is_reported_and_the_store_stays_ready() -> None:
    operator = await start(request="1")
    operator.cluster.refusals.append(
        lambda _, after: "exceeded quota" if "collect" in after["metadata"]["name"] else None
    )
    operator = await operator.settle(STORE)
    assert read_status(operator)["message"] == "the pod cannot be created: exceeded quota"
    assert operator.get_condition(STORE)[0] == "True"


async def test_dying_at_any_write_makes_no_second_pod_and_the_end_is_the_same() -> None:
    for death in range(1, 12):
        operator = await (await start()).settle(STORE)
        made: list[str] = []
        operator.cluster.fuse.die_after(death)
        spec: dict[str, Any] = {"pvc": {"size": "1Gi"}, "collection": {"request": "1"}}
        operator.cluster.put(build_resource("StateStore", "main", **spec))
        for _ in range(6):
            operator = await live_on(operator)
            for ref in find_collectors(operator):
                made.append(ref.name)
                end(operator, ref, FREED.model_dump_json(by_alias=True))
        assert set(made) == {"main-collect-1"}
        assert (read_status(operator)["state"], read_status(operator)["message"]) == ("Done", SAID)
        assert find_collectors(operator) == []


async def live_on(operator: Operator) -> Operator:
    try:
        await operator.reconcile(STORE)
    except Killed:
        return operator.restart()
    return operator
