"""Savepoints that go to another store and come back, from step to step, and how that ends where the operator dies in between."""

from collections.abc import Callable
from typing import Any

import pytest

from fakes.context import build_resource, build_secret
from kappa_crds.kinds import find_kind
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.savepoint.stores import find_nodes
from kappa_operator.statestore.storage import build_claim_storage
from unit.control.lives import (
    SAVEPOINT,
    SPEC,
    STORE,
    Life,
    Step,
    both,
    delete,
    delete_savepoint,
    delete_when_work_begins,
    live_and_die,
    write,
)

BUCKET: dict[str, Any] = {"bucket": "copies", "prefix": "eu", "endpoint": "http://far:7070"}
KEYS = {"credentialsSecretRef": {"name": "far-keys"}}
NEAR_SPEC = {**SPEC, "stateStoreRef": "default"}
COPY = Key("Pipeline", "shop", "copy")
BACKUP_REF = ObjectRef(STORE.api_version, "StateStore", "shop", "backup")


def add_backup(life: Life) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "StoreVerified"}
    life.operator.cluster.put(build_resource("StateStore", "backup", s3=BUCKET | KEYS))
    life.operator.cluster.put(build_secret("far-keys", accessKeyId="id", secretAccessKey="word"))
    condition = {**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    life.operator.cluster.patch(BACKUP_REF, status={"conditions": [condition]})


def export(policy: str = "Retain") -> Step:
    def step(life: Life) -> None:
        exports = [{"storeRef": "backup", "deletionPolicy": policy}]
        life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays", exports=exports))

    return step


def bring_back(life: Life) -> None:
    """Make a resource of what is in the other store, where nothing of the old one is left."""
    ((_, name),) = life.operator.drivers.elsewhere
    spec: dict[str, Any] = {"import": {"name": name, "storeRef": "backup", "targetStoreRef": "default"}}
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays", **spec))


STEPS: dict[str, tuple[Step, ...]] = {
    "exporting": (write(NEAR_SPEC), export()),
    "deleting one whose copy stays": (write(NEAR_SPEC), export(), delete_savepoint),
    "deleting one whose copy goes": (write(NEAR_SPEC), export("Delete"), delete_savepoint),
    "deleting it while it is copied": (write(NEAR_SPEC), both(export("Delete"), delete_when_work_begins)),
    "bringing it back": (write(NEAR_SPEC), export(), both(delete, delete_savepoint), bring_back),
    "going on from what was brought back": (
        write(NEAR_SPEC), export(), delete_savepoint, bring_back, write({**NEAR_SPEC, "restore": {"savepoint": "one"}}),
    ),
}  # fmt: skip


def list_copies(end: dict[str, Any]) -> list[str]:
    return [location for location, _ in end["elsewhere"]]


FOLDER = "s3a://copies/eu/savepoints/shop/delays"
CHECKS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "exporting": lambda end: list_copies(end) == [FOLDER] and len(end["kept"]) == 1,
    "deleting one whose copy stays": lambda end: list_copies(end) == [FOLDER] and not end["kept"],
    "deleting one whose copy goes": lambda end: not end["elsewhere"] and not end["kept"],
    "deleting it while it is copied": lambda end: not end["elsewhere"] and not end["kept"],
    "bringing it back": lambda end: end["savepoint"]["state"] == "Ready" and len(end["kept"]) == 1,
    "going on from what was brought back": lambda end: bool(end["status"]["restoration"]),
}


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, ends = await live_and_die(STEPS[name], add_backup)
    assert CHECKS[name](wanted), wanted
    for death, end in ends.items():
        assert end == wanted, death


async def test_a_savepoint_of_another_namespace_comes_in_only_where_the_store_allows_it() -> None:
    life = Life()
    await life.prepare()
    add_backup(life)
    write(NEAR_SPEC)(life)
    await life.settle()
    spec: dict[str, Any] = {"import": {"name": "old-1234", "storeRef": "backup", "namespace": "prod"}}
    life.operator.drivers.elsewhere.add(("s3a://copies/eu/savepoints/prod/delays", "old-1234"))
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays", **spec))
    await life.operator.reconcile(SAVEPOINT)
    (condition, *_) = (life.operator.get(SAVEPOINT) or {})["status"]["conditions"]
    assert condition["reason"] == "ImportRefused"
    assert "does not name namespace prod in spec.importNamespaces; add it there" in condition["message"]
    life.operator.cluster.put(build_resource("StateStore", "backup", s3=BUCKET, importNamespaces=["prod"]))
    await life.settle()
    assert (life.operator.get(SAVEPOINT) or {})["status"]["state"] == "Ready"


async def test_without_a_pipeline_and_with_several_stores_the_target_has_to_be_named() -> None:
    life = Life()
    await life.prepare()
    add_backup(life)
    spec: dict[str, Any] = {"import": {"name": "old-1234", "storeRef": "backup"}}
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays", **spec))
    await life.operator.reconcile(SAVEPOINT)
    (condition, *_) = (life.operator.get(SAVEPOINT) or {})["status"]["conditions"]
    assert condition["reason"] == "StateStoreAmbiguous"
    assert "or name a StateStore in spec.import.targetStoreRef" in condition["message"]


async def test_a_pipeline_in_another_store_gets_the_import_command() -> None:
    life = Life()
    await life.prepare()
    add_backup(life)
    write(NEAR_SPEC)(life)
    export()(life)
    await life.settle()
    there: dict[str, Any] = {**SPEC, "stateStoreRef": "backup", "restore": {"savepoint": "one"}}
    life.operator.cluster.put(build_resource("Pipeline", "copy", **there))
    await life.operator.reconcile(COPY)
    pipeline = life.operator.get(COPY) or {}
    messages = [condition["message"] for condition in pipeline["status"]["conditions"]]
    assert any("is in another StateStore than the pipeline's state" in message for message in messages)


def mount(life: Life, claim: str, node: str, mode: str) -> None:
    """Have a pod on a node that has a claim mounted."""
    metadata = {"name": claim, "namespace": "shop"}
    claims = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    life.operator.cluster.put({**claims, "spec": {"accessModes": [mode]}})
    volume = {"name": "state", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"nodeName": node, "volumes": [volume]}
    life.operator.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.mark.parametrize(
    ("task", "mode", "nodes"),
    [
        ("Export", "ReadWriteOnce", ("one", "two")),
        ("Export", "ReadWriteMany", ("one",)),
        ("Verify", "ReadWriteOnce", ("one",)),
        ("Delete", "ReadWriteOnce", ("two",)),
    ],
)
async def test_a_pod_runs_on_the_node_of_its_pvcs(task: str, mode: str, nodes: tuple[str, ...]) -> None:
    life = Life()
    mount(life, "near", "one", "ReadWriteOnce")
    mount(life, "far", "two", mode)
    work = {"number": 1, "task": task, "state": "Running"} | ({"store": "far"} if task != "Verify" else {})
    metadata = {"name": "one", "namespace": "shop", "uid": "u"}
    savepoint = find_kind("Savepoint").parse(
        {"metadata": metadata, "spec": {"pipelineRef": "delays"}, "status": {"work": work}}
    )
    near, copies = build_claim_storage("near"), {"far": build_claim_storage("far")}
    assert await find_nodes(life.operator.context, savepoint, near, None, copies) == nodes
