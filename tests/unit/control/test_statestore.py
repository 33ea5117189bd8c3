"""StateStores: the PVC is created, grown and never lost; a pod checks each kind of store."""

import json
from typing import Any

import pytest

import effort
from fakes.cluster import refuse_shrinking_claims
from fakes.context import Operator, build_resource, build_secret
from fakes.fuse import Killed
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, SavepointTask, StoreCheck, WorkRequest, WorkResult
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.references import find_dependents
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.statestore.mounts import explain_waiting

STORE = Key("StateStore", "shop", "main")
REF = ObjectRef("kappa-platform.io/v1alpha1", *STORE)
CLAIM = ObjectRef("v1", "PersistentVolumeClaim", "shop", "main-state")
GOOD = WorkResult(checked=StoreCheck(free_bytes=2**30))


def start(**spec: Any) -> Operator:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("StateStore", "main", **(spec or {"pvc": {"size": "1Gi"}})))
    return operator


def find_probe(operator: Operator) -> ObjectRef:
    (pod,) = operator.cluster.find("v1", "Pod", "shop")
    return ObjectRef.of(pod)


def fail(reason: Reason, message: str) -> WorkResult:
    return WorkResult(failure=DriverExit(reason=reason, message=message))


def finish_probe(operator: Operator, result: WorkResult) -> None:
    """Do what the kubelet does when the pod of a check ends."""
    phase = "Succeeded" if result.failure is None else "Failed"
    ended = {
        "exitCode": 0 if result.failure is None else 1,
        "message": result.model_dump_json(by_alias=True, exclude_none=True),
    }
    status = {"phase": phase, "containerStatuses": [{"state": {"terminated": ended}}]}
    operator.cluster.patch(find_probe(operator), status=status)


async def make_ready(operator: Operator) -> Operator:
    operator = await operator.settle(STORE)
    finish_probe(operator, GOOD)
    return await operator.settle(STORE)


async def test_the_pvc_is_created_and_checked_and_the_pod_is_deleted() -> None:
    operator = await start().settle(STORE)
    claim = operator.cluster.read(CLAIM) or {}
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert operator.get_condition(STORE)[:2] == ("False", "StoreProvisioning")
    finish_probe(operator, GOOD)
    await operator.settle(STORE)
    status = (operator.get(STORE) or {})["status"]
    assert operator.get_condition(STORE)[:2] == ("True", "StoreVerified")
    assert (status["claimName"], status["freeBytes"], status["check"]) == ("main-state", 2**30, 1)
    assert operator.cluster.find("v1", "Pod") == []


async def test_a_retained_pvc_has_no_owner_and_survives_its_store() -> None:
    operator = await make_ready(start())
    assert "ownerReferences" not in (operator.cluster.read(CLAIM) or {})["metadata"]
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert operator.get(STORE) is None
    assert operator.cluster.read(CLAIM) is not None


async def test_the_probe_runs_by_the_restricted_standard() -> None:
    operator = await start().settle(STORE)
    pod = operator.cluster.read(find_probe(operator)) or {}
    security, container = pod["spec"]["securityContext"], pod["spec"]["containers"][0]
    assert (security["runAsNonRoot"], security["runAsUser"], security["fsGroup"]) == (True, 1000, 1000)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["metadata"]["ownerReferences"][0]["uid"] == (operator.get(STORE) or {})["metadata"]["uid"]


async def test_a_store_stays_ready_while_it_is_checked_again() -> None:
    operator = await make_ready(start())
    operator.clock.advance(301)
    await operator.settle(STORE)
    assert find_probe(operator).name == "main-check-2"
    assert operator.get_condition(STORE)[0] == "True"
    finish_probe(operator, fail(Reason.STORE_FULL, "no room"))
    await operator.settle(STORE)
    assert operator.get_condition(STORE) == ("False", "StoreFull", "no room")


async def test_no_check_is_made_before_it_is_due() -> None:
    operator = await make_ready(start())
    operator.clock.advance(200)
    outcome = await operator.reconcile(STORE)
    assert operator.cluster.find("v1", "Pod") == []
    assert outcome.requeue_after == 100


async def test_a_changed_spec_is_seen_at_once_and_not_only_at_the_next_check() -> None:
    operator = await make_ready(start())
    operator.cluster.patch(REF, spec={"checkInterval": "1h"})
    await operator.settle(STORE)
    body = operator.get(STORE) or {}
    seen = body["status"]["observedGeneration"], body["status"]["conditions"][0]["observedGeneration"]
    assert seen == (body["metadata"]["generation"],) * 2
    assert operator.get_condition(STORE)[:2] == ("True", "StoreVerified")
    assert operator.cluster.find("v1", "Pod", "shop") == [], "nothing in it needs another check"


async def test_a_store_that_failed_is_checked_again_soon() -> None:
    operator = await start().settle(STORE)
    finish_probe(operator, fail(Reason.STORE_CHECK_FAILED, "EACCES"))
    await operator.settle(STORE)
    operator.clock.advance(31)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "StoreCheckFailed", (
        "it stands while the next check is under way"
    )
    finish_probe(operator, GOOD)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[0] == "True"


async def test_a_pending_pvc_reports_the_message_of_the_provisioner() -> None:
    operator = await start().settle(STORE)
    operator.cluster.patch(CLAIM, status={"phase": "Pending"})
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "shop"},
        "regarding": {"kind": "PersistentVolumeClaim", "name": "main-state"},
        "reason": "ProvisioningFailed",
        "note": 'storageclass "fast" not found',
    }
    operator.cluster.put(event)
    operator.clock.advance(30)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "StoreProvisioning"
    assert 'ProvisioningFailed: storageclass "fast" not found' in operator.get_condition(STORE)[2]


async def test_a_check_that_never_ends_is_given_up() -> None:
    operator = await start().settle(STORE)
    operator.clock.advance(400)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "StoreCheckFailed"
    assert operator.cluster.find("v1", "Pod") == []


async def test_a_probe_goes_where_the_volume_is_mounted_already() -> None:
    operator = start()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver", "namespace": "shop"},
        "spec": {
            "nodeName": "node-7",
            "volumes": [{"name": "s", "persistentVolumeClaim": {"claimName": "main-state"}}],
        },
    }
    operator.cluster.put(pod)
    await operator.settle(STORE)
    probe = operator.cluster.read(ObjectRef("v1", "Pod", "shop", "main-check-1")) or {}
    assert "node-7" in json.dumps(probe["spec"]["affinity"])


async def test_growing_applies_and_shrinking_is_refused_in_the_api_servers_words() -> None:
    operator = await make_ready(start())
    operator.cluster.refusals.append(refuse_shrinking_claims)
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "2Gi"}))
    await operator.settle(STORE)
    claim = operator.cluster.read(CLAIM) or {}
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "1Gi"}))
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("False", "StoreSizeRefused")
    assert "field can not be less than previous value" in operator.get_condition(STORE)[2]
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "2Gi"}))
    operator.clock.advance(31)
    await make_ready(operator)
    assert operator.get_condition(STORE)[0] == "True"


async def test_a_missing_existing_pvc_is_named() -> None:
    operator = await start(pvc={"claimName": "theirs"}).settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("False", "PvcNotFound")
    assert 'PVC "theirs" not found' in operator.get_condition(STORE)[2]


async def test_a_pvc_deleted_from_outside_is_created_again_and_the_loss_is_reported() -> None:
    operator = await make_ready(start())
    operator.cluster.remove(CLAIM)
    await operator.settle(STORE)
    assert operator.cluster.read(CLAIM) is not None
    assert any("with all state" in said for said in operator.list_events("PvcNotFound"))


async def test_delete_removes_the_pvc_but_not_while_a_pipeline_uses_it() -> None:
    operator = await make_ready(start(pvc={"size": "1Gi"}, deletionPolicy="Delete"))
    pipeline = build_resource("Pipeline", "delays", stateStoreRef="main")
    operator.cluster.put(pipeline)
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "InUse"
    assert "Pipeline delays" in operator.get_condition(STORE)[2]
    assert operator.cluster.read(CLAIM) is not None
    operator.cluster.remove(ObjectRef.of(pipeline))
    await operator.settle(STORE)
    assert operator.get(STORE) is None
    assert operator.cluster.read(CLAIM) is None


def put_savepoint(operator: Operator, name: str, spec: dict[str, Any], **status: Any) -> ObjectRef:
    body = build_resource("Savepoint", name, pipelineRef="delays", **spec)
    operator.cluster.put(body)
    operator.cluster.patch(ObjectRef.of(body), status=status)
    return ObjectRef.of(body)


async def test_delete_keeps_a_pvc_with_a_savepoint_or_a_copy() -> None:
    operator = await make_ready(start(pvc={"size": "1Gi"}, deletionPolicy="Delete"))
    there = put_savepoint(operator, "there", {}, claimName="main-state")
    copied = [{"storeRef": "main", "state": "Exported"}]
    exports = {"exports": [{"storeRef": "main"}]}
    copy = put_savepoint(operator, "copied", exports, claimName="other-state", exports=copied)
    put_savepoint(operator, "elsewhere", exports, claimName="other-state")
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "InUse"
    said = operator.get_condition(STORE)[2]
    assert said.startswith("PVC main-state holds the files of Savepoint copied, there; delete those first")
    operator.cluster.remove(there)
    assert STORE in find_dependents(operator.cache, Key("Savepoint", there.namespace, "there")), (
        "it is looked at again"
    )
    await operator.settle(STORE)
    assert "of Savepoint copied;" in operator.get_condition(STORE)[2]
    operator.cluster.put(build_resource("Savepoint", "copied", pipelineRef="delays"))
    await operator.settle(STORE)
    assert operator.get(STORE) is None, "a copy that is not asked for any more does not hold it"
    assert (operator.cluster.read(CLAIM), operator.cluster.read(copy) is None) == (None, False)


async def test_a_pvc_with_many_savepoints_names_some() -> None:
    operator = await make_ready(start(pvc={"size": "1Gi"}, deletionPolicy="Delete"))
    for number in range(1, 8):
        put_savepoint(operator, f"s{number}", {}, claimName="main-state")
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert "Savepoint s1, s2, s3, s4, s5 and 2 more; delete" in operator.get_condition(STORE)[2]
    operator.cluster.remove(CLAIM)
    await operator.settle(STORE)
    assert operator.get(STORE) is None, "with the claim gone there is nothing to keep"


@pytest.mark.parametrize("pvc", [{"size": "1Gi"}, {"claimName": "theirs"}])
async def test_only_a_pvc_of_the_operator_blocks_the_deletion(pvc: dict[str, str]) -> None:
    operator = await start(pvc=pvc, deletionPolicy="Delete").settle(STORE)
    held = bool((operator.get(STORE) or {})["metadata"].get("finalizers"))
    assert held == ("size" in pvc)


async def test_a_crash_at_any_write_of_a_check_leaves_one_pvc_and_no_second_pod() -> None:
    for number in range(1, 6):
        operator = start()
        operator.cluster.fuse.die_after(number)
        try:
            await operator.reconcile(STORE)
        except Killed:
            operator = operator.restart()
        operator = await operator.settle(STORE)
        assert len(operator.cluster.find("v1", "PersistentVolumeClaim")) == 1
        operator = await make_ready(operator)
        assert operator.get_condition(STORE)[0] == "True"
        assert operator.cluster.find("v1", "Pod") == []


BUCKET = {"s3": {"bucket": "state", "credentialsSecretRef": {"name": "keys"}, "endpoint": "http://s3:7070"}}


def put_keys(operator: Operator, word: str = "word") -> None:
    operator.cluster.put(build_secret("keys", accessKeyId="id", secretAccessKey=word))


async def start_bucket() -> Operator:
    operator = start(**BUCKET)
    put_keys(operator)
    return operator


async def test_a_bucket_is_checked_by_a_pod_with_the_keys_of_the_secret() -> None:
    operator = await (await start_bucket()).settle(STORE)
    (pod,) = operator.cluster.find("v1", "Pod", "shop")
    container = pod["spec"]["containers"][0]
    assert {each["name"]: each["valueFrom"]["secretKeyRef"]["key"] for each in container["env"]} == {
        "AWS_ACCESS_KEY_ID": "accessKeyId",
        "AWS_SECRET_ACCESS_KEY": "secretAccessKey",
    }
    assert "word" not in json.dumps(pod)
    assert "terminationMessagePolicy" not in container, "a log may have a text of the server"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["activeDeadlineSeconds"] < 300
    request = WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
    assert (request.task, request.location) == (SavepointTask.CHECK, "s3a://state")
    assert request.bucket is not None
    finish_probe(operator, WorkResult(checked=StoreCheck()))
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("True", "StoreVerified")


async def test_a_bucket_is_checked_again_when_that_is_due() -> None:
    operator = await make_ready(await start_bucket())
    operator.clock.advance(299)
    await operator.settle(STORE)
    assert operator.cluster.find("v1", "Pod", "shop") == []
    operator.clock.advance(1)
    await operator.settle(STORE)
    assert find_probe(operator).name == "main-check-2"


async def test_other_keys_are_checked_within_a_minute() -> None:
    operator = await make_ready(await start_bucket())
    assert (await operator.reconcile(STORE)).requeue_after == 60
    put_keys(operator, "other")
    await operator.settle(STORE)
    assert find_probe(operator).name == "main-check-2"
    assert operator.get_condition(STORE)[0] == "True", "the last result holds until then"


@pytest.mark.parametrize(
    "change", [{"endpoint": "http://other:7070"}, {"credentialsSecretRef": {"name": "new"}}]
)
async def test_changed_settings_are_checked_at_once(change: dict[str, Any]) -> None:
    operator = await make_ready(await start_bucket())
    operator.cluster.put(build_secret("new", accessKeyId="id", secretAccessKey="word"))
    operator.cluster.put(build_resource("StateStore", "main", s3=BUCKET["s3"] | change))
    await operator.settle(STORE)
    body = operator.get(STORE) or {}
    assert find_probe(operator).name == "main-check-2"
    assert body["status"]["observedGeneration"] < body["metadata"]["generation"], "it is not verified yet"


async def test_a_check_of_settings_that_changed_meanwhile_does_not_count() -> None:
    operator = await (await start_bucket()).settle(STORE)
    put_keys(operator, "wrong")
    finish_probe(operator, GOOD)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[0] == "False"
    assert find_probe(operator).name == "main-check-2"


async def test_a_check_of_the_release_before_does_not_count() -> None:
    operator = await (await start_bucket()).settle(STORE)
    operator.cluster.patch(REF, status={"checked": None, "checkFingerprint": None})
    await operator.settle(STORE)
    assert find_probe(operator).name == "main-check-2"


async def test_a_store_of_the_release_before_is_not_checked_early() -> None:
    operator = await make_ready(await start_bucket())
    operator.cluster.patch(REF, status={"checked": None, "checkFingerprint": None})
    await operator.settle(STORE)
    assert operator.cluster.find("v1", "Pod", "shop") == []


async def test_a_failing_bucket_is_reported_and_recovers() -> None:
    operator = await (await start_bucket()).settle(STORE)
    finish_probe(operator, fail(Reason.BUCKET_NOT_FOUND, "no bucket state"))
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("False", "BucketNotFound")
    operator.clock.advance(31)
    operator = await make_ready(operator)
    assert operator.get_condition(STORE)[0] == "True"


async def test_a_pod_of_another_owner_is_no_check() -> None:
    operator = await start_bucket()
    metadata = {"name": "main-check-1", "namespace": "shop"}
    operator.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}})
    ended = {"exitCode": 0, "message": GOOD.model_dump_json(by_alias=True)}
    status = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": ended}}]}
    operator.cluster.patch(ObjectRef("v1", "Pod", "shop", "main-check-1"), status=status)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[0] == "False"
    assert "belongs to no Kappa resource" in operator.get_condition(STORE)[2]
    operator.clock.advance(31)
    operator = await operator.settle(STORE)
    assert operator.cluster.read(ObjectRef("v1", "Pod", "shop", "main-check-2")) is not None


async def test_a_pod_cannot_report_a_reason_of_another_kind() -> None:
    operator = await (await start_bucket()).settle(STORE)
    finish_probe(operator, fail(Reason.SAVEPOINT_DAMAGED, "boom"))
    await operator.settle(STORE)
    assert operator.get_condition(STORE) == ("False", "StoreCheckFailed", "boom")


async def test_a_store_that_keeps_failing_is_checked_less_and_less_often() -> None:
    operator = await (await start_bucket()).settle(STORE)
    pauses = []
    for _ in range(7):
        finish_probe(operator, fail(Reason.STORE_CHECK_FAILED, "HTTP 503"))
        await operator.settle(STORE)
        failed = operator.clock()
        while not operator.cluster.find("v1", "Pod", "shop"):
            operator.clock.advance(1)
            await operator.settle(STORE)
        pauses.append((operator.clock() - failed).total_seconds())
    assert 27 <= pauses[0] <= 30
    assert pauses == sorted(pauses)
    assert 270 <= pauses[-1] <= 300, "as often as a store that works"


async def test_a_secret_that_is_missing_is_named_and_a_new_one_is_used_at_once() -> None:
    operator = await start(**BUCKET).settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("False", "SecretNotFound")
    assert operator.cluster.find("v1", "Pod", "shop") == []
    put_keys(operator)
    operator = await make_ready(operator)
    assert operator.get_condition(STORE)[0] == "True"


async def test_a_pod_that_cannot_be_created_is_reported_and_tried_again_later() -> None:
    operator = await start_bucket()
    operator.cluster.refusals.append(lambda _, after: "exceeded quota" if after["kind"] == "Pod" else None)
    operator = await operator.settle(STORE)
    assert operator.get_condition(STORE) == ("False", "StoreCheckFailed", "exceeded quota")
    number = (operator.get(STORE) or {})["status"]["check"]
    operator.clock.advance(10)
    operator = await operator.settle(STORE)
    assert (operator.get(STORE) or {})["status"]["check"] == number
    operator.cluster.refusals.clear()
    operator.clock.advance(21)
    operator = await make_ready(operator)
    assert operator.get_condition(STORE)[0] == "True"


async def test_a_crash_at_any_write_leaves_no_changed_settings_unchecked() -> None:
    async def live(die_after: int | None) -> tuple[Any, int]:
        operator = await make_ready(await start_bucket())
        before = operator.cluster.fuse.writes
        operator.cluster.fuse.die_after(die_after)
        operator.cluster.put(build_resource("StateStore", "main", s3=BUCKET["s3"] | {"region": "eu"}))
        for _ in range(6):
            try:
                await operator.reconcile(STORE)
            except Killed:
                operator = operator.restart()
            for pod in operator.cluster.find("v1", "Pod", "shop"):
                if "status" not in pod:
                    finish_probe(operator, fail(Reason.STORE_CHECK_FAILED, "wrong region"))
        writes = operator.cluster.fuse.writes - before
        assert operator.cluster.find("v1", "Pod", "shop") == []
        return operator.get_condition(STORE), writes

    wanted, writes = await live(None)
    assert (wanted[:2], writes > 3) == (("False", "StoreCheckFailed"), True)
    for number in effort.deaths(writes):
        assert (await live(number))[0] == wanted, f"died after write {number} of {writes}"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            {"phase": "Failed", "reason": "Evicted", "message": "node was low on memory"},
            "node was low on memory",
        ),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "DeadlineExceeded"),
        (
            {
                "phase": "Failed",
                "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}],
            },
            "exit code 137 (OOMKilled)",
        ),
    ],
)
async def test_a_check_that_left_no_result_is_explained_by_what_is_known(status: Any, message: str) -> None:
    operator = await (await start_bucket()).settle(STORE)
    operator.cluster.patch(find_probe(operator), status=status)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("False", "StoreCheckFailed")
    assert message in operator.get_condition(STORE)[2]


def test_a_pod_that_waits_is_explained_in_the_kubelets_or_schedulers_words() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    assert (
        explain_waiting({"status": {"containerStatuses": [{"state": waiting}]}}) == "ErrImagePull: not found"
    )
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes",
    }
    assert explain_waiting({"status": {"conditions": [unscheduled]}}) == "Unschedulable: 0/1 nodes"
    assert explain_waiting({"status": {}}) is None
