"""What the operator decides about reading a savepoint back, one situation a test."""

from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.conditions import VERIFIED, Condition, find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.progress import DriverExit, SavepointProgress
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, SavepointStatus
from kappa_crds.savepoint_work import (
    REQUEST_ANNOTATION,
    SavepointTask,
    StateRows,
    Verification,
    VerifyBy,
    WorkRequest,
    WorkResult,
)
from kappa_operator import intervals
from kappa_operator.engine.actions import CreateObject, RecordStatus
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Plan
from kappa_operator.errors import ReferenceProblem
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.savepoint.model import MOST_ATTEMPTS, SavepointObserved, WorkerPod
from kappa_operator.savepoint.objects import SavepointResource
from unit.control.pipelines import NOW, ON_CLAIM, pod, running, started

WHOLE = Verification(files=3, size_bytes=2048)
ROWS = (StateRows(sink="log", operator=0, name="stateStoreSave", rows=1234),)
BROKEN = Verification(files=3, size_bytes=2048, damage=("log/metadata is missing",), damaged=1)


def savepoint(verify: dict[str, str] | None, **status: Any) -> SavepointResource:
    metadata = {
        "name": "before", "namespace": "flights", "uid": "abcdef012345", "finalizers": [SAVEPOINT_FINALIZER],
    }  # fmt: skip
    spec = {"pipelineRef": "delays"} | ({"verify": verify} if verify is not None else {})
    return find_kind("Savepoint").parse({"metadata": metadata, "spec": spec, "status": status})


def taken() -> dict[str, Any]:
    """The status of a savepoint that a driver has just taken."""
    done = SavepointProgress(
        name="before-abcdef01", location="file:///s", done=True, taken=NOW, batches={"log": 7}
    )
    resource = savepoint(None, driver="delays-driver-1", attempts=1)
    situation = SavepointObserved(
        resource, started(), pod(), running(savepoints=(done,)), drivers=(pod(),), storage=ON_CLAIM
    )
    status = KIND_TABLE["Savepoint"].decide(situation, NOW).status
    assert status is not None
    return status.to_manifest()


@pytest.mark.parametrize(("verify", "again"), [(None, None), ({"by": "Checksums"}, intervals.WORKING)])
def test_a_taken_savepoint_is_observed_again_if_it_is_to_be_verified(
    verify: dict[str, str] | None, again: float | None
) -> None:
    done = SavepointProgress(name="before-abcdef01", location="file:///s", done=True, taken=NOW)
    resource = savepoint(verify, driver="delays-driver-1", attempts=1)
    situation = SavepointObserved(
        resource, started(), pod(), running(savepoints=(done,)), drivers=(pod(),), storage=ON_CLAIM
    )
    assert KIND_TABLE["Savepoint"].decide(situation, NOW).requeue_after == again


def decide(resource: SavepointResource, **fields: Any) -> Plan:
    return KIND_TABLE["Savepoint"].decide(SavepointObserved(resource, **{"storage": ON_CLAIM, **fields}), NOW)


def status_of(plan: Plan) -> SavepointStatus:
    recorded = [action.status for action in plan.actions if isinstance(action, RecordStatus)]
    status = plan.status or recorded[-1]
    assert isinstance(status, SavepointStatus)
    return status


def condition(plan: Plan, kind: str = VERIFIED) -> Condition:
    found = find_condition(status_of(plan).conditions, kind)
    assert found is not None
    return found


def verify(by: str, result: WorkResult, **status: Any) -> Plan:
    """Ask for it, and have the pod end with the result."""
    begun = status_of(decide(savepoint({"by": by}, **taken()))).to_manifest()
    worker = WorkerPod(ObjectRef("v1", "Pod", "flights", "before-abcdef01-1"), "w1", NOW, result=result)
    return decide(savepoint({"by": by}, **{**begun, **status}), worker=worker)


def test_a_savepoint_without_verification_needs_no_work() -> None:
    assert decide(savepoint(None, **taken())) == Plan()


def test_it_is_recorded_before_the_pod_is_made_and_stays_ready() -> None:
    plan = decide(savepoint({"by": "Checksums"}, **taken()))
    assert [type(action) for action in plan.actions] == [RecordStatus]
    assert (condition(plan).status, condition(plan).reason) == ("Unknown", Reason.SAVEPOINT_VERIFYING)
    assert condition(plan, "Ready").status == "True"
    work = status_of(plan).work
    assert work is not None
    assert (work.task, status_of(plan).attempts) == (SavepointTask.VERIFY, 1)


def test_the_state_reader_has_memory_for_its_jvm() -> None:
    memory = {}
    for by in VerifyBy:
        begun = status_of(decide(savepoint({"by": by}, **taken()))).to_manifest()
        (create,) = decide(savepoint({"by": by}, **begun)).actions
        assert isinstance(create, CreateObject)
        text = create.manifest["metadata"]["annotations"][REQUEST_ANNOTATION]
        assert WorkRequest.model_validate_json(text).verify_by is by
        memory[by] = create.manifest["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert memory == {VerifyBy.CHECKSUMS: "512Mi", VerifyBy.STATE_READER: "1536Mi"}


def test_complete_savepoints_are_measured_once_with_their_files() -> None:
    plan = verify("Checksums", WorkResult(verification=WHOLE))
    assert (condition(plan).status, condition(plan).message) == ("True", "3 files, 2 KiB, were read again")
    status = status_of(plan)
    assert status.last_verified == NOW
    swept = status_of(decide(savepoint({"by": "Checksums"}, **status.to_manifest()))).to_manifest()
    assert decide(savepoint({"by": "Checksums"}, **swept)) == Plan()
    again = decide(savepoint({"by": "Checksums", "request": "2"}, **swept))
    assert condition(again).reason == Reason.SAVEPOINT_VERIFYING
    work = status_of(again).work
    assert work is not None
    assert work.number == 2


def test_the_state_reader_counts_rows() -> None:
    plan = verify("StateReader", WorkResult(verification=WHOLE.replace(state=ROWS)))
    assert condition(plan).message.endswith("rows of state: 1.2k of log/stateStoreSave")
    assert status_of(plan).state_rows == ROWS
    plan = verify("StateReader", WorkResult(verification=WHOLE))
    assert condition(plan).message.endswith("rows of state: none, the queries have no state")


def test_damage_is_named_and_the_savepoint_is_not_ready_any_more() -> None:
    plan = verify("Checksums", WorkResult(verification=BROKEN))
    said = "1 of 3 files are damaged: log/metadata is missing"
    assert (condition(plan).status, condition(plan).message) == ("False", said)
    assert (condition(plan, "Ready").status, condition(plan, "Stalled").status) == ("False", "True")
    assert status_of(plan).state == "Damaged"


def test_what_was_repaired_is_ready_again() -> None:
    damaged = status_of(verify("Checksums", WorkResult(verification=BROKEN))).to_manifest()
    swept = status_of(decide(savepoint({"by": "Checksums"}, **damaged))).to_manifest()
    again = {"by": "Checksums", "request": "2"}
    begun = status_of(decide(savepoint(again, **swept))).to_manifest()
    worker = WorkerPod(
        ObjectRef("v1", "Pod", "flights", "p"), "w1", NOW, result=WorkResult(verification=WHOLE)
    )
    plan = decide(savepoint(again, **begun), worker=worker)
    assert (condition(plan).status, condition(plan, "Ready").status) == ("True", "True")
    assert (status_of(plan).state, condition(plan, "Stalled").status) == ("Ready", "False")


def test_a_pod_that_found_nothing_out_is_followed_by_another_one_and_at_last_by_none() -> None:
    failure = WorkResult(failure=DriverExit(reason=Reason.CHECKPOINT_UNAVAILABLE, message="stale handle"))
    plan = verify("Checksums", failure, attempts=2)
    assert (condition(plan).status, condition(plan).message) == ("Unknown", "attempt 2 failed: stale handle")
    assert condition(plan, "Ready").status == "True"
    assert status_of(plan).next_attempt == NOW + timedelta(seconds=10)
    plan = verify("Checksums", failure, attempts=MOST_ATTEMPTS)
    assert "given up after 5 attempts: stale handle" in condition(plan).message
    assert status_of(plan).verified == savepoint({"by": "Checksums"}).spec.verify


def test_without_a_known_pvc_it_reports_the_cause() -> None:
    unknown = ReferenceProblem("there is no StateStore", reason=Reason.STATE_STORE_NOT_FOUND)
    plan = decide(savepoint({}, **taken()), storage=unknown)
    assert (plan.actions, condition(plan).status, condition(plan).message) == (
        (), "Unknown", "there is no StateStore",
    )  # fmt: skip
