"""A pipeline whose state is in HDFS: how its store is checked, what its pods are given, and where its savepoints are."""

from typing import Any

import pytest

from fakes.context import build_resource
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, SavepointTask, StoreCheck, WorkRequest, WorkResult
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.statestore.pods import ROLES
from unit.control.lives import PIPELINE, SAVEPOINT, STORE, Life
from unit.control.test_bucket_pipelines import SPEC, find_revision, get

HDFS = {"namenode": "nn.hdfs:8020", "path": "/kappa/prod", "user": "flights", "replication": 2}
CONNECTION = {"web": "http://nn.hdfs:9870", "user": "flights", "replication": 2}
ROOT = "hdfs://nn.hdfs:8020/kappa/prod"
STORE_KEY = Key("StateStore", "shop", "default")


@pytest.fixture
async def life() -> Life:
    """A life in which the store is in HDFS, and a pipeline that runs."""
    made = Life()
    await made.prepare()
    made.operator.cluster.remove(STORE)
    made.operator.cluster.put(build_resource("StateStore", "default", hdfs=HDFS))
    await finish_check(made, WorkResult(checked=StoreCheck()))
    made.operator.cluster.put(build_resource("Pipeline", "delays", **SPEC))
    await made.settle()
    return made


async def finish_check(life: Life, result: WorkResult) -> dict[str, Any]:
    """Have the store checked, with that result; return the pod."""
    await life.operator.settle(STORE_KEY)
    (pod,) = life.operator.cluster.find("v1", "Pod", "shop", ROLES[SavepointTask.CHECK])
    ended = {"exitCode": 0, "message": result.model_dump_json(by_alias=True)}
    status = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": ended}}]}
    life.operator.cluster.patch(ObjectRef.of(pod), status=status)
    await life.operator.settle(STORE_KEY)
    return pod


def find_users(pod: dict[str, Any]) -> list[str]:
    variables = pod["spec"]["containers"][0].get("env", [])
    return [each["value"] for each in variables if each["name"] == "HADOOP_USER_NAME"]


async def test_the_store_is_checked_without_a_secret_and_shows_its_location(life: Life) -> None:
    status = get(life, STORE_KEY)["status"]
    assert (status["state"], status["location"], status.get("claimName")) == ("Ready", ROOT, None)
    assert life.operator.get_condition(STORE_KEY)[1] == "StoreVerified"


async def test_a_failing_store_reports_the_message_of_the_check(life: Life) -> None:
    failure = DriverExit(reason=Reason.STORE_CHECK_FAILED, message="AccessControlException (HTTP 403)")
    life.operator.clock.advance(600)
    pod = await finish_check(life, WorkResult(failure=failure))
    assert find_users(pod) == ["flights"]
    request = WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
    assert (request.location, request.hdfs and request.hdfs.to_manifest()) == (ROOT, CONNECTION)
    assert life.operator.get_condition(STORE_KEY)[:2] == ("False", "StoreCheckFailed")
    (ready,) = (c for c in get(life, STORE_KEY)["status"]["conditions"] if c["type"] == "Ready")
    assert "AccessControlException" in ready["message"]


async def test_it_runs_as_the_user_of_the_store_and_without_a_pvc(life: Life) -> None:
    assert get(life, PIPELINE)["status"]["state"] == "Running"
    (driver,) = life.operator.cluster.find("v1", "Pod", "shop")
    revision, executor = find_revision(life)
    uid = get(life, PIPELINE)["metadata"]["uid"]
    assert (revision["checkpoint"], revision["hdfs"]) == (f"{ROOT}/shop/delays/{uid}", CONNECTION)
    assert "bucket" not in revision
    for pod in (driver, executor):
        assert find_users(pod) == ["flights"]
        assert all("persistentVolumeClaim" not in volume for volume in pod["spec"]["volumes"])


async def test_its_savepoints_are_there_too_and_are_found_later(life: Life) -> None:
    operator = life.operator
    operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    await life.settle()
    status = get(life, SAVEPOINT)["status"]
    assert (status["state"], status["location"]) == ("Ready", f"{ROOT}/savepoints/shop/delays")
    assert (status["storeName"], status.get("claimName")) == ("default", None)


async def test_the_pod_that_takes_one_at_rest_knows_how_hdfs_is_reached(life: Life) -> None:
    operator = life.operator
    operator.cluster.put(build_resource("Pipeline", "delays", **SPEC, suspend=True))
    await life.settle()
    operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    for _ in range(4):
        await operator.reconcile(SAVEPOINT)
    (pod,) = operator.cluster.find("v1", "Pod", "shop", {"kappa-platform.io/role": "savepoint"})
    assert find_users(pod) == ["flights"]
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == {"tmp", "request", "revision"}
    request = WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
    assert (request.task, request.location) == (SavepointTask.TAKE, f"{ROOT}/savepoints/shop/delays")
    assert (request.hdfs and request.hdfs.to_manifest(), request.bucket) == (CONNECTION, None)
