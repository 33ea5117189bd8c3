"""A pipeline whose state is in a bucket: what its pods are given, and where its savepoints are."""

import json
from typing import Any

import pytest

from fakes.context import build_resource, build_secret
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, SavepointTask, WorkRequest
from kappa_crds.stores import BucketConnection
from kappa_operator.engine.keys import Key
from unit.control.lives import PIPELINE, SAVEPOINT, SAVEPOINT_REF, STORE, Life

CONNECTION = {"endpoint": "http://s3:7070", "region": "eu", "pathStyle": True, "hasKeys": True}
S3 = {
    "bucket": "state",
    "prefix": "prod",
    "endpoint": "http://s3:7070",
    "region": "eu",
    "credentialsSecretRef": {"name": "keys"},
}
SPEC: dict[str, Any] = {
    "sources": [{"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}],
    "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "out"}}],
    "resources": {"executors": {"count": 1}},
}
KEYS = {
    "AWS_ACCESS_KEY_ID": {"name": "keys", "key": "accessKeyId"},
    "AWS_SECRET_ACCESS_KEY": {"name": "keys", "key": "secretAccessKey"},
}


@pytest.fixture
async def life() -> Life:
    """A life in which the store is a bucket, and a pipeline that runs."""
    made = Life()
    await made.prepare()
    made.operator.cluster.remove(STORE)
    store = build_resource("StateStore", "default", s3=S3)
    ready = {"type": "Ready", "status": "True", "reason": "StoreVerified"}
    made.operator.cluster.put(store)
    made.operator.cluster.put(build_secret("keys", accessKeyId="id", secretAccessKey="word"))
    made.operator.cluster.patch(
        STORE, status={"conditions": [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    )
    made.operator.cluster.put(build_resource("Pipeline", "delays", **SPEC))
    await made.settle()
    return made


def get(life: Life, key: Key) -> dict[str, Any]:
    found = life.operator.get(key)
    assert found is not None
    return found


def find_variables(pod: dict[str, Any]) -> dict[str, Any]:
    found = (each for each in pod["spec"]["containers"][0].get("env", []))
    return {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in found
        if "secretKeyRef" in each.get("valueFrom", {})
    }


def find_revision(life: Life) -> tuple[dict[str, Any], dict[str, Any]]:
    (config,) = life.operator.cluster.find("v1", "ConfigMap", "shop")
    return json.loads(config["data"]["revision.json"]), json.loads(config["data"]["executor-pod.yaml"])


async def test_it_runs_with_the_keys_as_variables_and_without_a_pvc(life: Life) -> None:
    assert get(life, PIPELINE)["status"]["state"] == "Running"
    (driver,) = life.operator.cluster.find("v1", "Pod", "shop")
    revision, executor = find_revision(life)
    uid = get(life, PIPELINE)["metadata"]["uid"]
    assert revision["checkpoint"] == f"s3a://state/prod/shop/delays/{uid}"
    assert BucketConnection.model_validate(revision["bucket"]).to_manifest() == CONNECTION
    for pod in (driver, executor):
        assert find_variables(pod) == KEYS
        assert all("persistentVolumeClaim" not in volume for volume in pod["spec"]["volumes"])


async def test_its_savepoints_are_in_the_bucket_and_are_found_there_later(life: Life) -> None:
    operator = life.operator
    operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    await life.settle()
    status = get(life, SAVEPOINT)["status"]
    assert (status["state"], status["location"]) == ("Ready", "s3a://state/prod/savepoints/shop/delays")
    assert (status["storeName"], status.get("claimName")) == ("default", None)
    assert [location for _, _, location in operator.drivers.savepoints] == [status["location"]]


async def test_the_savepoint_pod_has_the_keys_and_no_pvc(life: Life) -> None:
    operator = life.operator
    operator.cluster.put(build_resource("Pipeline", "delays", **SPEC, suspend=True))
    await life.settle()
    operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    for _ in range(4):
        await operator.reconcile(SAVEPOINT)
    (pod,) = operator.cluster.find("v1", "Pod", "shop", {"kappa-platform.io/role": "savepoint"})
    assert find_variables(pod) == KEYS
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == {"tmp", "request", "revision"}
    request = WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
    assert (request.task, request.location) == (SavepointTask.TAKE, "s3a://state/prod/savepoints/shop/delays")
    assert request.bucket is not None
    assert request.bucket.to_manifest() == CONNECTION


async def test_one_whose_statestore_is_gone_lets_go(life: Life) -> None:
    operator = life.operator
    operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    await life.settle()
    operator.cluster.remove(STORE)
    operator.cluster.remove(SAVEPOINT_REF)
    await operator.reconcile(SAVEPOINT)
    assert operator.cluster.read(SAVEPOINT_REF) is None
