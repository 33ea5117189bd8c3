"""What the operator decides where a pod works on a savepoint: taking it at rest, and deleting it, one situation a test."""

from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.conditions import find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.progress import DriverExit, SavepointProgress
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, SavepointStatus
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, Removal, SavepointTask, WorkRequest, WorkResult
from kappa_operator.engine.actions import (
    AddFinalizer,
    CreateObject,
    DeleteObject,
    EmitEvent,
    Manifest,
    RecordStatus,
    RemoveFinalizer,
)
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.errors import ReferenceProblem, Refused
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.savepoint.model import MOST_ATTEMPTS, SavepointObserved, WorkerPod
from kappa_operator.savepoint.objects import SavepointResource
from kappa_operator.savepoint.observe import parse_work
from unit.control.pipelines import NOW, ON_CLAIM, failed, pipeline, pod, running, started

LOCATION = "file:///var/lib/kappa/state/savepoints/flights/delays"
NAME = "before-abcdef01"
TAKE: dict[str, Any] = {"number": 1, "task": "Take", "state": "Running"}
DELETE: dict[str, Any] = {"number": 2, "task": "Delete", "state": "Running"}
TAKEN = SavepointProgress(
    name=NAME, location=LOCATION, done=True, taken=NOW, batches={"log": 7}, size_bytes=2048
)
SUSPENDED = started({"suspend": True}, driver=None)


def savepoint(policy: str = "Delete", *, deleted: bool = False, **status: Any) -> SavepointResource:
    metadata = {
        "name": "before", "namespace": "flights", "uid": "abcdef012345", "generation": 1,
        "finalizers": [SAVEPOINT_FINALIZER] if policy == "Delete" else [],
    }  # fmt: skip
    gone = {"deletionTimestamp": NOW.isoformat()} if deleted else {}
    return find_kind("Savepoint").parse(
        {
            "metadata": metadata | gone,
            "spec": {"pipelineRef": "delays", "deletionPolicy": policy},
            "status": status,
        }
    )


def decide(resource: SavepointResource, **fields: Any) -> Plan:
    base = {"pipeline": SUSPENDED, "storage": ON_CLAIM, "image": "kappa/pipelines:dev"}
    return KIND_TABLE["Savepoint"].decide(SavepointObserved(resource, **{**base, **fields}), NOW)


def worker(result: WorkResult | None = None, **fields: Any) -> WorkerPod:
    return WorkerPod(ObjectRef("v1", "Pod", "flights", f"{NAME}-1"), "w1", NOW, result=result, **fields)


def fail(message: str, reason: Reason = Reason.CHECKPOINT_DAMAGED) -> WorkResult:
    return WorkResult(failure=DriverExit(reason=reason, message=message))


def status_of(plan: Plan) -> SavepointStatus:
    recorded = [action.status for action in plan.actions if isinstance(action, RecordStatus)]
    status = plan.status or recorded[-1]
    assert isinstance(status, SavepointStatus)
    return status


def told(plan: Plan) -> tuple[str, str, str]:
    status = status_of(plan)
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    return str(status.state), ready.reason, ready.message


def made(plan: Plan) -> Manifest:
    (create,) = plan.actions
    assert isinstance(create, CreateObject)
    return create.manifest


def request_of(plan: Plan) -> WorkRequest:
    return WorkRequest.model_validate_json(made(plan)["metadata"]["annotations"][REQUEST_ANNOTATION])


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_only_one_whose_files_go_with_it_holds_its_deletion(policy: str) -> None:
    bare = savepoint("Retain" if policy == "Delete" else "Delete")
    turned = bare.replace(spec=savepoint(policy).spec)
    (action,) = decide(turned).actions
    assert isinstance(action, AddFinalizer if policy == "Delete" else RemoveFinalizer)


def test_at_rest_the_attempt_is_recorded_before_the_pod_is_made() -> None:
    plan = decide(savepoint())
    assert [type(action) for action in plan.actions] == [RecordStatus]
    status = status_of(plan)
    assert status.work is not None
    assert (status.work.number, status.work.task, status.attempts) == (1, SavepointTask.TAKE, 1)
    assert (status.location, status.claim_name, plan.requeue) == (LOCATION, "state", True)


def test_the_pod_has_its_request_the_revision_and_the_pvc_and_nothing_else() -> None:
    plan = decide(savepoint(work=TAKE, attempts=1, location=LOCATION))
    pod, request = made(plan), request_of(plan)
    assert pod["metadata"]["name"] == f"{NAME}-1"
    assert (request.task, request.name, request.location) == (SavepointTask.TAKE, NAME, LOCATION)
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert set(volumes) == {"tmp", "request", "state", "revision"}
    assert volumes["state"]["persistentVolumeClaim"] == {"claimName": "state"}
    assert volumes["revision"]["configMap"] == {"name": SUSPENDED.status.active.revision}
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_pod_runs_on_the_node_of_the_pvc() -> None:
    spec = made(decide(savepoint(work=TAKE, attempts=1), nodes=("one",)))["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchFields"][0]["values"] == ["one"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pipeline": pipeline()}, "has never run"),
        ({"pipeline": started()}, "starts or stops"),
        ({"drivers": (pod(),)}, "starts or stops"),
        (
            {"storage": ReferenceProblem("there is no StateStore", reason=Reason.STATE_STORE_NOT_FOUND)},
            "no StateStore",
        ),
    ],
)
def test_it_waits_for_a_driver_that_comes_or_goes_and_for_a_first_run(
    fields: dict[str, Any], words: str
) -> None:
    plan = decide(savepoint(), **fields)
    assert (plan.actions, told(plan)[0]) == ((), "Pending")
    assert words in told(plan)[2]
    assert plan.requeue_after is not None


def test_a_pipeline_that_has_failed_is_at_rest() -> None:
    plan = decide(savepoint(), pipeline=started(driver=None), drivers=(failed(),))
    assert told(plan)[1] == Reason.SAVEPOINT_TAKING


def test_the_cause_of_a_pending_pod_is_reported() -> None:
    plan = decide(savepoint(work=TAKE, attempts=1), worker=worker(waits="Unschedulable: 0/1 nodes"))
    assert "waits: Unschedulable: 0/1 nodes" in told(plan)[2]


def test_the_result_is_recorded_before_the_pod_is_deleted() -> None:
    plan = decide(savepoint(work=TAKE, attempts=1), worker=worker(WorkResult(taken=TAKEN)))
    assert [type(action) for action in plan.actions] == [RecordStatus]
    assert told(plan)[:2] == ("Ready", Reason.SAVEPOINT_READY)
    status = status_of(plan)
    assert (status.taken, status.claim_name, status.revision) == (
        NOW,
        "state",
        SUSPENDED.status.active.revision,
    )
    ended = savepoint(**status.to_manifest())
    plan = decide(ended, worker=worker(WorkResult(taken=TAKEN)))
    assert [type(action) for action in plan.actions] == [DeleteObject, RecordStatus]
    assert decide(savepoint(**status_of(plan).to_manifest())) == Plan()


def test_a_pod_that_failed_is_followed_by_another_one_after_a_pause_that_grows() -> None:
    plan = decide(savepoint(work=TAKE, attempts=3), worker=worker(fail("a lacks b")))
    assert told(plan) == ("Taking", Reason.SAVEPOINT_FAILED, "attempt 3 failed: a lacks b")
    due_at = status_of(plan).next_attempt
    assert due_at is not None
    assert timedelta(seconds=18) <= due_at - NOW <= timedelta(seconds=20)
    swept = decide(savepoint(**status_of(plan).to_manifest()))
    waiting = savepoint(**status_of(swept).to_manifest())
    assert decide(waiting) == Plan(requeue_after=(due_at - NOW).total_seconds())
    due = SavepointObserved(waiting, SUSPENDED, storage=ON_CLAIM)
    again = status_of(KIND_TABLE["Savepoint"].decide(due, NOW + timedelta(seconds=20)))
    assert again.work is not None
    assert (again.work.number, again.attempts) == (2, 4)


def test_after_some_attempts_taking_it_is_given_up() -> None:
    plan = decide(savepoint(work=TAKE, attempts=MOST_ATTEMPTS), worker=worker(fail("a lacks b")))
    assert told(plan)[:2] == ("Failed", Reason.SAVEPOINT_ABANDONED)


def test_a_pod_that_cannot_be_made_is_an_attempt_that_failed() -> None:
    create = decide(savepoint(work=TAKE, attempts=1)).actions[0]
    failures = (Failure(create, Refused("pods are forbidden: exceeded quota")),)
    plan = decide(savepoint(work=TAKE, attempts=1), failures=failures)
    assert told(plan)[1] == Reason.SAVEPOINT_FAILED
    assert "exceeded quota" in told(plan)[2]


# deletion


def deleted(**status: Any) -> SavepointResource:
    base = {"taken": NOW.isoformat(), "location": LOCATION, "claimName": "state", "attempts": 1}
    return savepoint(deleted=True, **{**base, **status})


def test_a_savepoint_that_was_not_started_is_deleted_at_once() -> None:
    assert decide(savepoint(deleted=True)) == Plan((RemoveFinalizer(SAVEPOINT_FINALIZER),))


def test_a_pod_deletes_the_files_also_without_the_pipeline() -> None:
    plan = decide(deleted(), pipeline=None)
    status = status_of(plan)
    assert status.work is not None
    assert (status.state, status.work.task, status.attempts) == ("Deleting", SavepointTask.DELETE, 1)
    plan = decide(deleted(**status.to_manifest()), pipeline=None, needed_by=("file:///c",))
    request = request_of(plan)
    assert (request.task, request.name, request.needed_by) == (SavepointTask.DELETE, NAME, ("file:///c",))
    assert "revision" not in {volume["name"] for volume in made(plan)["spec"]["volumes"]}


def test_it_is_released_when_its_files_are_deleted_and_an_event_reports_the_freed_space() -> None:
    result = WorkResult(removed=Removal(objects=3, size_bytes=2048))
    plan = decide(deleted(work=DELETE), worker=worker(result))
    delete, event, release = plan.actions
    assert isinstance(delete, DeleteObject)
    assert isinstance(event, EmitEvent)
    assert (event.reason, event.message) == (
        Reason.DELETED, f"{LOCATION}/{NAME} is deleted; 3 files and 2 KiB that only it needed are free",
    )  # fmt: skip
    assert release == RemoveFinalizer(SAVEPOINT_FINALIZER)


def test_space_that_could_not_be_freed_is_reported() -> None:
    result = WorkResult(removed=Removal(postponed="other is being taken"))
    event = decide(deleted(work=DELETE), worker=worker(result)).actions[1]
    assert isinstance(event, EmitEvent)
    assert event.message.endswith("is freed with the next savepoint that is deleted: other is being taken")


def test_a_pipeline_to_be_restored_from_it_keeps_it() -> None:
    plan = decide(deleted(), awaited_by=("delays", "copy"))
    assert told(plan)[:2] == ("Deleting", Reason.SAVEPOINT_IN_USE)
    assert "Pipeline delays, copy is to be restored from it" in told(plan)[2]
    assert "set spec.deletionPolicy to Retain" in told(plan)[2]


def test_a_checkpoint_that_is_not_made_of_it_yet_keeps_it() -> None:
    result = fail("the checkpoint file:///c is to be made of it, and was not yet", Reason.SAVEPOINT_IN_USE)
    plan = decide(deleted(work=DELETE), worker=worker(result))
    assert told(plan)[:2] == ("Deleting", Reason.SAVEPOINT_IN_USE)
    assert status_of(plan).next_attempt is not None


def test_a_driver_that_may_still_take_it_is_awaited() -> None:
    asked = savepoint(deleted=True, driver="delays-driver-1", attempts=1)
    reports = {
        "silent": None,
        "at it": running(savepoints=(TAKEN.replace(done=False),)),
    }
    for progress in reports.values():
        plan = decide(asked, pipeline=started(), drivers=(pod(),), progress=progress)
        assert "driver delays-driver-1 may still be taking it" in told(plan)[2]
    for progress in (running(savepoints=(TAKEN,)), running()):
        plan = decide(asked, pipeline=started(), drivers=(pod(),), progress=progress)
        assert told(plan)[1] == Reason.SAVEPOINT_DELETING


def test_the_pod_that_takes_it_is_ended_first() -> None:
    taking = savepoint(deleted=True, work=TAKE, attempts=1)
    (delete,) = decide(taking, worker=worker()).actions
    assert isinstance(delete, DeleteObject)
    assert decide(taking, worker=worker(deleting=True)).actions == ()
    status = status_of(decide(taking))
    assert status.work is not None
    assert status.work.state == "Done"
    assert told(decide(savepoint(deleted=True, **status.to_manifest())))[1] == Reason.SAVEPOINT_DELETING


def test_with_retain_the_files_stay_and_it_goes() -> None:
    resource = deleted()
    resource = resource.replace(spec=savepoint("Retain").spec)
    event, release = decide(resource).actions
    assert isinstance(event, EmitEvent)
    assert (event.reason, release) == (Reason.RETAINED, RemoveFinalizer(SAVEPOINT_FINALIZER))


def test_it_is_deleted_with_its_pvc() -> None:
    event, release = decide(deleted(), lost=True).actions
    assert isinstance(event, EmitEvent)
    assert "the claim with" in event.message
    assert release == RemoveFinalizer(SAVEPOINT_FINALIZER)


def test_in_a_namespace_that_goes_it_does_not_hold_it_up() -> None:
    create = decide(deleted(work=DELETE)).actions[0]
    words = "unable to create new content in namespace flights because it is being terminated"
    plan = decide(deleted(work=DELETE), failures=(Failure(create, Refused(words)),))
    assert plan.actions[-1] == RemoveFinalizer(SAVEPOINT_FINALIZER)


def test_without_a_known_pvc_it_reports_the_fix() -> None:
    unknown = ReferenceProblem("there is no StateStore", reason=Reason.STATE_STORE_NOT_FOUND)
    plan = decide(deleted(claimName=None), storage=unknown)
    assert told(plan)[1] == Reason.DELETION_BLOCKED
    assert "set spec.deletionPolicy to Retain" in told(plan)[2]


def test_a_pod_that_cannot_delete_it_is_followed_by_another_one() -> None:
    plan = decide(deleted(work=DELETE, attempts=2), worker=worker(fail("the disk is read-only")))
    assert "the disk is read-only; fix that, or set spec.deletionPolicy to Retain" in told(plan)[2]
    swept = decide(deleted(**status_of(plan).to_manifest()), worker=worker(fail("")))
    waiting = deleted(**status_of(swept).to_manifest())
    assert decide(waiting) == Plan(requeue_after=10)


def test_a_pod_without_a_message_is_reported_with_its_exit_code() -> None:
    terminated = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    body = {"status": {"phase": "Failed", "containerStatuses": [{"state": terminated}]}}
    result = parse_work(body)
    assert result is not None
    assert result.failure is not None
    assert "exit code 137 (OOMKilled)" in result.failure.message
    assert parse_work({"status": {"phase": "Running"}}) is None
