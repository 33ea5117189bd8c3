"""Savepoints on the whole cluster: taken and gone back to while records come in; every result stays exact, see `e2e.ledger`."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.counting import Counting
from e2e.files import list_claim
from kappa_crds.pipeline_status import PipelineState, PipelineStatus
from kappa_crds.savepoint import SavepointStatus
from lab.s3 import FOR_PODS, REGION, ObjectStore

pytestmark = pytest.mark.timeout(900)

SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {{name: {name}}}
spec: {{pipelineRef: counts}}
"""


ARCHIVE = """
apiVersion: v1
kind: Secret
metadata:
  name: archive-keys
  annotations: {{secrets.kappa-platform.io/s3: "*"}}
data: {{accessKeyId: {access}, secretAccessKey: {secret}}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {{name: archive}}
spec: {{s3: {{bucket: archive, prefix: eu, endpoint: "{endpoint}", region: {region}, credentialsSecretRef: {{name: archive-keys}}}}}}
"""


@pytest.fixture
def archive() -> Iterator[ObjectStore]:
    """An S3 server that pods reach, with a bucket."""
    with ObjectStore(address=FOR_PODS) as running:
        running.create_bucket("archive")
        yield running


def take(counting: Counting, name: str) -> SavepointStatus:
    counting.place.apply(SAVEPOINT.format(name=name))
    counting.place.await_ready(f"savepoint/{name}", 60)
    status = counting.place.get("Savepoint", name).status
    assert isinstance(status, SavepointStatus)
    return status


def read_revision(counting: Counting) -> dict[str, str]:
    name = counting.place.pipeline().active.revision or ""
    body = json.loads(counting.place.kubectl("get", "configmap", name, "-o", "json"))
    found: dict[str, str] = json.loads(body["data"]["revision.json"])
    return found


def test_a_savepoint_is_taken_while_records_come_in_and_can_be_gone_back_to(counting: Counting) -> None:
    counting.check()
    before, checkpoint = counting.place.pipeline(), read_revision(counting)["checkpoint"]
    first = take(counting, "first")
    counting.place.await_pipeline(
        lambda status: (status.batch or 0) > first.queries[0].batch, "goes on after the savepoint", 60
    )
    second = take(counting, "second")
    assert first.queries[0].batch < second.queries[0].batch
    assert (second.copied_bytes or 0) < (second.size_bytes or 0), "what the first one has is not copied again"
    counting.check()
    assert counting.place.pipeline().active.generation == before.active.generation, "the pipeline continued"
    header, line, _ = counting.place.kubectl("get", "kpsp").splitlines()
    assert header.split() == ["NAME", "PIPELINE", "READY", "STATE", "SIZE", "TAKEN", "VERIFIED", "AGE"]
    assert line.split()[:4] == ["first", "counts", "True", "Ready"]

    counting.place.patch("kpp/counts", {"restore": {"savepoint": "first"}})

    def is_back(status: PipelineStatus) -> bool:
        return status.state == PipelineState.RUNNING and status.active.generation > before.active.generation

    after = counting.place.await_pipeline(is_back, "runs from the savepoint")
    counting.check()
    assert (after.checkpoint, after.restarts.total) == (before.checkpoint + 1, before.restarts.total)
    assert read_revision(counting)["checkpoint"] != checkpoint
    later = counting.place.await_pipeline(
        lambda status: (status.batch or 0) > first.queries[0].batch, "goes on after the savepoint's batch", 60
    )
    assert later.active.generation == after.active.generation
    third = take(counting, "third")
    assert third.queries[0].batch > first.queries[0].batch
    counting.check()


def find_kept(counting: Counting) -> dict[str, list[str]]:
    """Return what is kept of the pipeline's savepoints on the claim: objects, and the folders of each savepoint."""
    root = f"/state/savepoints/{counting.place.name}/counts/"
    kept: dict[str, list[str]] = {}
    for path in (path.removeprefix(root) for path in list_claim(counting.place) if path.startswith(root)):
        folder = path.split("/")[0]
        kept.setdefault(folder.rpartition("-")[0] or folder, []).append(path)
    return kept


def kappa(counting: Counting, *arguments: str) -> str:
    """Run `kappa savepoint` as a person does."""
    return counting.place.kappa("savepoint", *arguments)


@pytest.mark.chaos
def test_a_suspended_pipeline_is_saved_by_a_pod(counting: Counting) -> None:
    place = counting.place
    place.patch("kpp/counts", {"suspend": True})
    suspended = place.await_pipeline(
        lambda status: status.state == PipelineState.SUSPENDED, "is suspended", 90
    )
    kappa(counting, "create", "counts", "--name", "rest", "--verify", "StateReader", "--wait")
    first, second = place.get("Savepoint", "rest").status, take(counting, "again")
    assert isinstance(first, SavepointStatus)
    assert first.queries == second.queries
    assert first.queries[0].batch >= (suspended.batch or 0)
    assert [(rows.sink, rows.rows > 0) for rows in first.state_rows] == [("log", True)]
    assert second.copied_bytes == 0, "nothing has changed since"
    assert "rest" in kappa(counting, "list", "--pipeline", "counts")
    assert "of log" in kappa(counting, "show", "rest")
    place.patch("kpp/counts", {"suspend": False})
    place.await_pipeline(lambda status: status.state == PipelineState.RUNNING, "runs again")
    counting.check()


@pytest.mark.chaos
def test_what_no_savepoint_needs_any_more_is_free(counting: Counting) -> None:
    place = counting.place
    for name in ("one", "other"):
        take(counting, name)
    assert {"one", "other", "objects"} <= set(find_kept(counting))
    place.kubectl("delete", "savepoint", "--all", "--timeout=120s", timeout=130)
    assert find_kept(counting) == {}, "no savepoint is left, so nothing is"
    said = {event["note"] for event in place.find("events.events.k8s.io") if event["reason"] == "Deleted"}
    assert any("that only it needed are free" in note for note in said), said
    assert "files of savepoints" in kappa(counting, "gc", "--wait")
    workers = "app.kubernetes.io/managed-by=kappa-operator,!kappa-platform.io/revision"
    place.wait(lambda: not place.find("pods", workers), "pods that have done their work are gone", 30)


@pytest.mark.chaos
def test_what_the_resource_of_a_savepoint_left_can_be_imported_and_gone_back_to(counting: Counting) -> None:
    place = counting.place
    first = take(counting, "left")
    place.patch("savepoint/left", {"deletionPolicy": "Retain"})
    place.kubectl("delete", "savepoint", "left", "--timeout=60s", timeout=70)
    (folder,) = {path.split("/")[0] for path in find_kept(counting)["left"]}
    spec = f"{{pipelineRef: counts, import: {{name: {folder}}}}}"
    place.apply(SAVEPOINT.format(name="brought-back").replace("{pipelineRef: counts}", spec))
    place.await_ready("savepoint/brought-back", 90)
    brought = place.get("Savepoint", "brought-back").status
    assert isinstance(brought, SavepointStatus)
    assert (brought.queries, brought.copied_bytes) == (first.queries, 0)

    before = place.pipeline()
    place.patch("kpp/counts", {"restore": {"savepoint": "brought-back"}})
    place.await_pipeline(
        lambda status: status.state == PipelineState.RUNNING and status.checkpoint > before.checkpoint,
        "runs from what was imported",
    )
    counting.check()


@pytest.mark.chaos
def test_a_schedule_takes_savepoints_and_keeps_as_many_as_are_wanted(counting: Counting) -> None:
    place = counting.place
    place.patch("kpp/counts", {"savepoints": {"schedule": "* * * * *", "maxCount": 1}})
    seen: set[str] = set()

    def keeps_one_of_three() -> bool:
        there = list_scheduled(counting)
        seen.update(there)
        return len(seen) >= 3 and there == [max(seen)]

    place.wait(
        keeps_one_of_three, "three savepoints were taken by the schedule, and the last one is kept", 300
    )
    place.patch("kpp/counts", {"savepoints": None})
    counting.check()
    place.kubectl("delete", "savepoint", *list_scheduled(counting), "--timeout=60s", timeout=70)


@pytest.mark.chaos
def test_what_a_schedule_takes_is_copied_to_a_bucket_and_goes_by_age(
    counting: Counting, archive: ObjectStore
) -> None:
    place = counting.place
    add_archive(counting, archive)
    policy = {"schedule": "* * * * *", "maxAge": "70s", "exports": [{"storeRef": "archive"}]}
    place.patch("kpp/counts", {"savepoints": policy})
    seen: set[str] = set()

    def has_dropped_the_first() -> bool:
        there = list_scheduled(counting)
        seen.update(there)
        return len(seen) >= 3 and min(seen) not in there and max(seen) in there

    place.wait(has_dropped_the_first, "the first of three was deleted for its age", 300)
    place.patch("kpp/counts", {"savepoints": None})
    for name in list_scheduled(counting):
        place.kubectl("wait", "--for=condition=Exported", f"savepoint/{name}", "--timeout=60s")
    place.kubectl("delete", "savepoint", *list_scheduled(counting), "--timeout=60s", timeout=70)
    kept = list_archive(archive) - {"objects"}
    assert {folder.rpartition("-")[0] for folder in kept} == seen, "copies stay"
    counting.check()


SPARE = """
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {name: spare}
spec: {pvc: {size: 100Mi}, deletionPolicy: Delete}
"""


@pytest.mark.chaos
def test_a_store_keeps_its_pvc_while_copies_of_savepoints_exist_and_names_them(
    counting: Counting,
) -> None:
    place = counting.place
    place.patch("kpp/counts", {"stateStoreRef": "default"})
    place.apply(SPARE)
    place.await_ready("statestore/spare", 90)
    kappa(counting, "create", "counts", "--name", "held", "--wait")
    kappa(counting, "export", "held", "--to", "spare", "--wait")
    place.kubectl("delete", "statestore", "spare", "--wait=false")
    said = place.await_reason("StateStore", "spare", "InUse", 60).message
    assert "held" in said
    assert "spare-state" in list_claims(counting)
    place.kubectl("delete", "savepoint", "held", "--timeout=120s", timeout=130)
    place.wait(lambda: "spare-state" not in list_claims(counting), "the claim goes with the store", 90)
    stores = {each["metadata"]["name"] for each in place.find("statestores")}
    assert "spare" not in stores
    counting.check()


def list_claims(counting: Counting) -> set[str]:
    return {each["metadata"]["name"] for each in counting.place.find("persistentvolumeclaims")}


def list_scheduled(counting: Counting) -> list[str]:
    found = counting.place.find("savepoints")
    return sorted(each["metadata"]["name"] for each in found if each["spec"].get("cause") == "Schedule")


def add_archive(counting: Counting, archive: ObjectStore) -> None:
    """Add the bucket as another store. With two in the namespace it has to be said which is the pipeline's."""
    place = counting.place
    place.patch("kpp/counts", {"stateStoreRef": "default"})
    keys = {"access": archive.access_key, "secret": archive.secret_key}
    encoded = {name: b64encode(value.encode()).decode() for name, value in keys.items()}
    place.apply(ARCHIVE.format(endpoint=archive.endpoint, region=REGION, **encoded))
    place.await_ready("statestore/archive", 60)
    place.await_pipeline(lambda status: status.state == PipelineState.RUNNING, "runs", 90)


def list_archive(archive: ObjectStore) -> set[str]:
    """Return the names of the savepoints in the bucket, and `objects` where files are left."""
    root = archive.folder / "archive" / "eu" / "savepoints"
    return {path.relative_to(root).parts[2] for path in root.rglob("*") if path.is_file()}


@pytest.mark.chaos
def test_a_savepoint_goes_to_a_bucket_and_comes_back_when_it_is_gone_here(
    counting: Counting, archive: ObjectStore
) -> None:
    place = counting.place
    counting.check()
    add_archive(counting, archive)
    kappa(counting, "create", "counts", "--name", "away", "--wait")
    assert "in StateStore archive" in kappa(counting, "export", "away", "--to", "archive", "--wait")
    place.kubectl("wait", "--for=condition=Exported", "savepoint/away", "--timeout=10s")
    away = place.get("Savepoint", "away").status
    assert isinstance(away, SavepointStatus)
    folder = Path(away.exports[0].location or "").name
    assert list_archive(archive) == {folder, "objects"}
    place.kubectl("delete", "savepoint", "away", "--timeout=120s", timeout=130)
    assert "away" not in find_kept(counting), "here it is gone"
    assert list_archive(archive) == {folder, "objects"}, "the copy stays"

    kappa(counting, "import", "counts", folder, "--from", "archive", "--name", "back", "--wait")
    back = place.get("Savepoint", "back").status
    assert isinstance(back, SavepointStatus)
    assert (back.queries, back.claim_name) == (away.queries, "default-state")
    before = place.pipeline()
    kappa(counting, "restore", "back", "--wait")
    after = place.await_pipeline(
        lambda status: status.state == PipelineState.RUNNING and status.checkpoint > before.checkpoint,
        "runs from what was brought back",
    )
    counting.check()
    assert after.restarts.total == before.restarts.total
    place.kubectl("delete", "savepoint", "back", "--timeout=120s", timeout=130)
    assert list_archive(archive) == {folder, "objects"}
