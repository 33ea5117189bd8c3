"""StateStores in buckets: a pod checks the bucket with the keys of the Secret; what checks report of any store."""

import json
from typing import Any

import pytest

import effort
from fakes.context import build_resource, build_secret
from fakes.fuse import Killed
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, SavepointTask, StoreCheck, WorkRequest, WorkResult
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.work_pods import explain_waiting
from unit.control.stores import (
    BUCKET,
    GOOD,
    REF,
    STORE,
    fail,
    find_probe,
    finish_probe,
    make_ready,
    put_keys,
    start,
    start_bucket,
)


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
