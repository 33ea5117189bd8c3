"""Copies of savepoints in other StateStores, and savepoints that come from there: what is decided and what pods get, one situation a test."""

from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.conditions import EXPORTED, find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.progress import DriverExit, SavepointProgress
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, SavepointStatus
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, SavepointTask, WorkRequest, WorkResult
from kappa_crds.statestore import S3
from kappa_operator.engine.actions import CreateObject, DeleteObject, EmitEvent, Manifest, RecordStatus
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Plan
from kappa_operator.errors import ReferenceProblem
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.savepoint.model import MOST_ATTEMPTS, SavepointObserved, WorkerPod
from kappa_operator.savepoint.objects import SavepointResource
from kappa_operator.statestore.storage import build_bucket_storage, build_claim_storage
from unit.control.pipelines import NOW, ON_CLAIM, started

NAME = "before-abcdef01"
HERE = "file:///var/lib/kappa/state/savepoints/flights/delays"
THERE = f"s3a://copies/eu/savepoints/flights/delays/{NAME}"
BUCKET: dict[str, Any] = {"bucket": "copies", "prefix": "eu", "endpoint": "http://far:7070"}
KEYS = {"credentialsSecretRef": {"name": "far-keys"}}
BACKUP = build_bucket_storage("backup", S3.model_validate(BUCKET | KEYS))
NEAR = build_bucket_storage(
    "near", S3.model_validate({"bucket": "near", "credentialsSecretRef": {"name": "near-keys"}})
)
ON_BACKUP = {"storeRef": "backup"}
TAKEN = SavepointProgress(
    name=NAME, location=HERE, done=True, taken=NOW, batches={"log": 7}, size_bytes=2048, copied_bytes=1024
)
DONE = WorkResult(taken=TAKEN)
READY = {"type": "Ready", "status": "True", "reason": "SavepointReady", "message": "batch 7"}
CALM = {"type": "Stalled", "status": "False", "reason": "SavepointReady"}
AT = {"lastTransitionTime": NOW.isoformat()}
WHOLE: dict[str, Any] = {
    "taken": NOW.isoformat(), "location": HERE, "claimName": "state", "attempts": 1, "state": "Ready",
    "sizeBytes": 2048, "conditions": [READY | AT, CALM | AT],
}  # fmt: skip


def savepoint(
    *exports: dict[str, Any], deleted: bool = False, spec: dict[str, Any] | None = None, **status: Any
) -> SavepointResource:
    gone = {"deletionTimestamp": NOW.isoformat()} if deleted else {}
    metadata = {
        "name": "before", "namespace": "flights", "uid": "abcdef012345", "generation": 1,
        "finalizers": [SAVEPOINT_FINALIZER], **gone,
    }  # fmt: skip
    body = {"pipelineRef": "delays", "exports": list(exports), **(spec or {})}
    return find_kind("Savepoint").parse({"metadata": metadata, "spec": body, "status": WHOLE | status})


def decide(resource: SavepointResource, *, now: Any = NOW, **fields: Any) -> Plan:
    base = {
        "pipeline": started({"suspend": True}, driver=None),
        "storage": ON_CLAIM,
        "image": "kappa/pipelines:dev",
        "copies": {"backup": BACKUP},
    }
    return KIND_TABLE["Savepoint"].decide(SavepointObserved(resource, **{**base, **fields}), now)


def follow(resource: SavepointResource, plan: Plan, **spec: Any) -> SavepointResource:
    """The resource after a plan was carried out."""
    return resource.replace(status=status_of(plan), spec=resource.spec.replace(**spec))


def worker(result: WorkResult | None = None, **fields: Any) -> WorkerPod:
    return WorkerPod(ObjectRef("v1", "Pod", "flights", f"{NAME}-1"), "w1", NOW, result=result, **fields)


def fail(message: str) -> WorkResult:
    return WorkResult(failure=DriverExit(reason=Reason.CHECKPOINT_UNAVAILABLE, message=message))


def status_of(plan: Plan) -> SavepointStatus:
    recorded = [action.status for action in plan.actions if isinstance(action, RecordStatus)]
    status = plan.status or recorded[-1]
    assert isinstance(status, SavepointStatus)
    return status


def told(plan: Plan) -> tuple[str, str, str]:
    """The condition Exported; the savepoint itself is Ready all the time."""
    conditions = status_of(plan).conditions
    ready, exported = find_condition(conditions, "Ready"), find_condition(conditions, EXPORTED)
    assert ready is not None
    assert (ready.status, status_of(plan).state) == ("True", "Ready")
    assert exported is not None
    return exported.status, exported.reason, exported.message


def made(plan: Plan) -> tuple[Manifest, WorkRequest]:
    (create,) = plan.actions
    assert isinstance(create, CreateObject)
    pod = create.manifest
    return pod, WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])


def mounts_of(pod: Manifest) -> dict[str, tuple[str, bool]]:
    """The claim of each mount, and whether it can only be read."""
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    mounted = pod["spec"]["containers"][0]["volumeMounts"]
    return {
        each["mountPath"]: (claims[each["name"]], each.get("readOnly", False))
        for each in mounted
        if each["name"] in claims
    }


def keys_of(pod: Manifest) -> dict[str, tuple[str, str]]:
    found = pod["spec"]["containers"][0].get("env", [])
    references = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in found}
    return {name: (each["name"], each["key"]) for name, each in references.items()}


def begun(*exports: dict[str, Any], **fields: Any) -> SavepointResource:
    resource = savepoint(*exports)
    return follow(resource, decide(resource, **fields))


# Copies


def test_an_attempt_is_recorded_before_its_pod_is_made() -> None:
    plan = decide(savepoint(ON_BACKUP))
    assert [type(action) for action in plan.actions] == [RecordStatus]
    status = status_of(plan)
    assert status.work is not None
    assert (status.work.task, status.work.store, status.attempts) == (SavepointTask.EXPORT, "backup", 1)
    (copy,) = status.exports
    assert (copy.state, copy.attempts, copy.location) == ("Copying", 1, THERE)
    assert told(plan)[:2] == ("False", Reason.SAVEPOINT_EXPORTING)


def test_a_pod_reads_the_pvc_and_has_the_bucket_keys_as_separate_variables() -> None:
    pod, request = made(decide(begun(ON_BACKUP)))
    assert (request.task, request.name, request.location) == (SavepointTask.EXPORT, NAME, HERE)
    assert mounts_of(pod) == {"/var/lib/kappa/state": ("state", True)}
    assert keys_of(pod) == {
        "KAPPA_OTHER_ACCESS_KEY_ID": ("far-keys", "accessKeyId"),
        "KAPPA_OTHER_SECRET_ACCESS_KEY": ("far-keys", "secretAccessKey"),
    }
    assert request.other is not None
    assert request.other.bucket is not None
    assert f"{request.other.location}/{NAME}" == THERE
    assert (request.other.bucket.keys, request.other.bucket.endpoint) == ("KAPPA_OTHER", "http://far:7070")
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_between_pvcs_both_are_mounted_and_only_one_is_writable() -> None:
    copies = {"backup": build_claim_storage("copies")}
    pod, request = made(decide(begun(ON_BACKUP, copies=copies), copies=copies))
    assert mounts_of(pod) == {
        "/var/lib/kappa/state": ("state", True),
        "/var/lib/kappa/other": ("copies", False),
    }
    assert request.other is not None
    assert request.other.location == "file:///var/lib/kappa/other/savepoints/flights/delays"


def test_between_buckets_no_keys_are_in_default_variables() -> None:
    resource = begun(ON_BACKUP, storage=NEAR)
    pod, request = made(decide(resource, storage=NEAR))
    assert {name: secret for name, (secret, _) in keys_of(pod).items()} == {
        "KAPPA_OWN_ACCESS_KEY_ID": "near-keys", "KAPPA_OWN_SECRET_ACCESS_KEY": "near-keys",
        "KAPPA_OTHER_ACCESS_KEY_ID": "far-keys", "KAPPA_OTHER_SECRET_ACCESS_KEY": "far-keys",
    }  # fmt: skip
    assert request.bucket is not None
    assert request.bucket.keys == "KAPPA_OWN"
    assert "Secret" not in pod["metadata"]["annotations"][REQUEST_ANNOTATION]


def test_a_copied_savepoint_is_reported_and_needs_no_more_work() -> None:
    resource = begun(ON_BACKUP)
    plan = decide(resource, worker=worker(DONE))
    assert told(plan) == ("True", Reason.SAVEPOINT_EXPORTED, f"{THERE} of StateStore backup")
    (copy,) = status_of(plan).exports
    assert (copy.state, copy.exported, copy.copied_bytes) == ("Exported", NOW, 1024)
    swept = decide(follow(resource, plan), worker=worker(DONE))
    assert [type(action) for action in swept.actions] == [DeleteObject, RecordStatus]
    assert decide(follow(resource, swept)) == Plan()


def test_several_are_copied_one_after_another_and_all_have_to_be_there() -> None:
    copies = {"backup": BACKUP, "near": NEAR}
    resource = begun(ON_BACKUP, {"storeRef": "near"}, copies=copies)
    plan = decide(resource, worker=worker(DONE), copies=copies)
    assert told(plan)[:2] == ("False", Reason.SAVEPOINT_EXPORTING)
    swept = decide(follow(resource, plan), copies=copies)
    second = decide(follow(resource, swept), copies=copies)
    status = status_of(second)
    assert status.work is not None
    assert (status.work.number, status.work.store) == (2, "near")
    ended = decide(follow(resource, second), worker=worker(DONE), copies=copies)
    assert told(ended)[0] == "True"


def test_one_that_failed_is_tried_again_after_a_pause_and_the_others_are_not_held_up() -> None:
    copies = {"backup": BACKUP, "near": NEAR}
    resource = begun(ON_BACKUP, {"storeRef": "near"}, copies=copies)
    plan = decide(resource, worker=worker(fail("the bucket is away")), copies=copies)
    assert told(plan)[1] == Reason.EXPORT_FAILED
    assert "to StateStore backup: attempt 1 failed: the bucket is away" in told(plan)[2]
    resource = follow(resource, decide(follow(resource, plan), copies=copies))
    second = status_of(decide(resource, copies=copies))
    assert second.work is not None
    assert second.work.store == "near"
    ended = decide(resource.replace(status=second), worker=worker(DONE), copies=copies)
    resource = follow(resource, decide(follow(resource, ended), copies=copies))
    assert decide(resource, copies=copies).requeue_after == 5
    again = status_of(decide(resource, now=NOW + timedelta(seconds=5), copies=copies))
    assert again.work is not None
    assert (again.work.store, again.exports[0].attempts) == ("backup", 2)


def test_after_some_attempts_it_is_abandoned_until_a_new_request() -> None:
    tried = {"storeRef": "backup", "state": "Copying", "attempts": MOST_ATTEMPTS}
    work = {"number": 5, "task": "Export", "state": "Running", "store": "backup"}
    resource = savepoint(ON_BACKUP, work=work, exports=[tried])
    plan = decide(resource, worker=worker(fail("no such bucket")))
    assert told(plan)[:2] == ("False", Reason.EXPORT_ABANDONED)
    assert "given up after 5 attempts: no such bucket; fix that, and change request" in told(plan)[2]
    resource = follow(resource, decide(follow(resource, plan)))
    assert decide(resource) == Plan()
    (export,) = resource.spec.exports
    anew = resource.replace(spec=resource.spec.replace(exports=(export.replace(request="2"),)))
    (copy,) = status_of(decide(anew)).exports
    assert (copy.state, copy.request, copy.attempts) == ("Copying", "2", 1)


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        (
            {"copies": {"backup": ReferenceProblem("there is no StateStore backup; create it", reason=Reason.STATE_STORE_NOT_FOUND)}},
            Reason.STATE_STORE_NOT_FOUND,
            "to StateStore backup: there is no StateStore backup",
        ),
        ({"copies": {"backup": ON_CLAIM}}, Reason.INVALID_SPEC, "is in StateStore backup already; remove it"),
    ],
)  # fmt: skip
def test_it_waits_for_its_store(fields: dict[str, Any], reason: Reason, words: str) -> None:
    plan = decide(savepoint(ON_BACKUP), **fields)
    assert (plan.actions, told(plan)[:2]) == ((), ("False", reason))
    assert words in told(plan)[2]
    assert plan.requeue_after is not None


def test_one_that_is_damaged_is_not_copied() -> None:
    damaged = savepoint(ON_BACKUP, state="Damaged")
    plan = decide(damaged)
    exported = find_condition(status_of(plan).conditions, EXPORTED)
    assert plan.actions == ()
    assert exported is not None
    assert exported.reason == Reason.SAVEPOINT_DAMAGED
    assert plan.requeue_after is None


def test_it_is_read_back_first() -> None:
    resource = savepoint(ON_BACKUP, spec={"verify": {"by": "Checksums"}})
    status = status_of(decide(resource))
    assert status.work is not None
    assert status.work.task is SavepointTask.VERIFY


def test_pvcs_mounted_on_different_nodes_are_a_failed_attempt() -> None:
    plan = decide(begun(ON_BACKUP), nodes=("one", "two"))
    assert "mounted on different nodes (one and two)" in told(plan)[2]


def test_the_cause_of_a_pending_pod_is_reported() -> None:
    plan = decide(begun(ON_BACKUP), worker=worker(waits="Unschedulable: 0/1 nodes"))
    assert told(plan)[2].endswith("waits: Unschedulable: 0/1 nodes")


def test_a_copy_that_is_not_wanted_any_more_is_not_gone_on_with_and_one_that_is_there_stays() -> None:
    resource = begun(ON_BACKUP)
    unwanted = resource.replace(spec=savepoint().spec)
    (halt,) = decide(unwanted, worker=worker(), copies={}).actions
    assert isinstance(halt, DeleteObject)
    halted = follow(unwanted, decide(unwanted, copies={}))
    status = status_of(decide(halted, copies={}))
    assert (status.exports, find_condition(status.conditions, EXPORTED)) == ((), None)


# Savepoints that come from elsewhere


def imported(**spec: Any) -> SavepointResource:
    work = {"number": 1, "task": "Import", "state": "Running"}
    return savepoint(spec={"import": {"name": "old-1234", **spec}}, taken=None, work=work)


def test_a_pod_brings_it_in_and_may_only_read_where_it_comes_from() -> None:
    resource = imported(storeRef="backup", pipeline="arrivals", namespace="prod")
    pod, request = made(decide(resource, source=build_claim_storage("copies")))
    assert (request.task, request.source, request.name) == (SavepointTask.IMPORT, "old-1234", NAME)
    assert request.other is not None
    assert request.other.location == "file:///var/lib/kappa/other/savepoints/prod/arrivals"
    assert mounts_of(pod) == {
        "/var/lib/kappa/state": ("state", False),
        "/var/lib/kappa/other": ("copies", True),
    }


def test_from_another_folder_of_the_same_store_it_needs_no_second_one() -> None:
    pod, request = made(decide(imported(pipeline="arrivals"), source=ON_CLAIM))
    assert request.other is not None
    assert request.other.location == "file:///var/lib/kappa/state/savepoints/flights/arrivals"
    assert mounts_of(pod) == {"/var/lib/kappa/state": ("state", False)}
    _, request = made(decide(imported(storeRef="same"), source=ON_CLAIM))
    assert request.other is None, "it is in its place already"


def test_it_waits_for_the_store_that_it_comes_from() -> None:
    gone = ReferenceProblem("there is no StateStore backup", reason=Reason.STATE_STORE_NOT_FOUND)
    plan = decide(imported(storeRef="backup"), source=gone)
    ready = find_condition(status_of(plan).conditions, "Ready")
    assert ready is not None
    assert (plan.actions, ready.reason) == ((), Reason.STATE_STORE_NOT_FOUND)


# Deletion


def test_a_copy_is_deleted_with_it_if_its_policy_is_delete() -> None:
    leaving = {"storeRef": "backup", "deletionPolicy": "Delete"}
    copied = {"storeRef": "backup", "state": "Exported", "attempts": 1}
    resource = savepoint(leaving, deleted=True, exports=[copied])
    plan = decide(resource)
    status = status_of(plan)
    assert status.work is not None
    assert (status.work.task, status.work.store) == (SavepointTask.DELETE, "backup")
    pod, request = made(decide(follow(resource, plan)))
    assert (request.location, request.needed_by) == (THERE.removesuffix(f"/{NAME}"), ())
    assert mounts_of(pod) == {}
    assert set(keys_of(pod)) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def test_a_copy_that_cannot_be_deleted_reports_the_fix() -> None:
    leaving = {"storeRef": "backup", "deletionPolicy": "Delete"}
    copied = {"storeRef": "backup", "state": "Exported", "attempts": 1}
    gone = ReferenceProblem("there is no StateStore backup", reason=Reason.STATE_STORE_NOT_FOUND)
    plan = decide(savepoint(leaving, deleted=True, exports=[copied]), copies={"backup": gone})
    ready = find_condition(status_of(plan).conditions, "Ready")
    assert ready is not None
    assert "set deletionPolicy of that export to Retain to keep the copy" in ready.message


def test_one_whose_own_files_stay_can_still_take_a_copy_with_it() -> None:
    leaving = {"storeRef": "backup", "deletionPolicy": "Delete"}
    resource = savepoint(leaving, deleted=True, spec={"deletionPolicy": "Retain"})
    event = decide(resource).actions[0]
    assert isinstance(event, EmitEvent)
    assert event.reason is Reason.RETAINED, "there is no copy yet"
    copied = {"storeRef": "backup", "state": "Exported", "attempts": 1}
    status = status_of(decide(resource.replace(status=savepoint(exports=[copied]).status)))
    assert status.work is not None
    assert status.work.store == "backup"
