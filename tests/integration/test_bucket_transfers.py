"""Savepoints on their way between a claim and buckets of two real S3 servers, each with keys of its own, as a worker pod copies them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import OtherPlace, SavepointTask, WorkRequest, WorkResult
from kappa_crds.stores import BucketConnection, name_key_variables
from kappa_pipelines.checkpoint.fence.bucket_fence import BucketFence
from kappa_pipelines.checkpoint.location import open_checkpoint, open_folder
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.errors import LostDataError, UnavailableError
from kappa_pipelines.savepoint.measure import measure_store
from kappa_pipelines.savepoint.restore import restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore, object_path
from kappa_pipelines.savepoint.work import do_work
from lab.s3 import REGION, ObjectStore
from unit.runtime.places import Place

pytestmark = pytest.mark.clusterless

BUCKETS = {"KAPPA_OWN": "near", "KAPPA_OTHER": "far"}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, ObjectStore]]:
    with (
        ObjectStore(access_key="near-key", secret_key="near-secret") as near,
        ObjectStore(access_key="far-key", secret_key="far-secret") as far,
    ):
        yield {"KAPPA_OWN": near, "KAPPA_OTHER": far}


class Ways:
    """Where savepoints can be, by name: on a claim, or in a bucket of either server."""

    def __init__(self, servers: dict[str, ObjectStore], claim: Path, prefix: str) -> None:
        self.folders = {"claim": f"file://{claim}/savepoints"}
        self.buckets: dict[str, BucketConnection | None] = {"claim": None}
        for keys, name in BUCKETS.items():
            self.folders[name] = f"s3a://{name}/{prefix}/savepoints/shop/orders"
            self.buckets[name] = BucketConnection(endpoint=servers[keys].endpoint, region=REGION, keys=keys)

    def open(self, where: str) -> SavepointStore:
        return SavepointStore(open_folder(self.folders[where], self.buckets[where]))

    def work(self, task: SavepointTask, here: str, there: str, **more: Any) -> WorkResult:
        """Have a pod do it that has the store `here` as its own."""
        other = OtherPlace(location=self.folders[there], bucket=self.buckets[there])
        fields = {"name": "one", "other": other, **more}
        own = {"location": self.folders[here], "bucket": self.buckets[here]}
        return do_work(WorkRequest(task=task, **own, **fields), Path("/nowhere"))


@pytest.fixture
def ways(
    servers: dict[str, ObjectStore],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Ways:
    """The savepoint `one` on a claim, and two empty buckets. Where clients look for keys by themselves are wrong ones."""
    for variable in name_key_variables():
        monkeypatch.setenv(variable, "wrong")
    for keys, name in BUCKETS.items():
        identity, secret = name_key_variables(keys)
        monkeypatch.setenv(identity, servers[keys].access_key)
        monkeypatch.setenv(secret, servers[keys].secret_key)
        if not (servers[keys].folder / name).exists():
            servers[keys].create_bucket(name)
    at = Place.make(tmp_path / "claim")
    at.take("one")
    return Ways(servers, tmp_path / "claim", request.node.name.translate(str.maketrans("[]_", "---")))


def check(store: SavepointStore, *names: str) -> None:
    assert store.names() == sorted(names)
    for name in names:
        assert list(store.find_damage(store.read(name))) == []
    assert store.files.names("taking") == []


@pytest.mark.parametrize(("first", "second"), [("near", "far"), ("far", "near")])
def test_it_moves_from_a_pvc_to_a_bucket_to_another_bucket_and_back(
    ways: Ways, first: str, second: str, tmp_path: Path
) -> None:
    exported = ways.work(SavepointTask.EXPORT, "claim", first).taken
    assert exported is not None
    assert (exported.batches, exported.copied_bytes > 0) == ({"out": 4}, True)
    further = ways.work(SavepointTask.EXPORT, first, second).taken
    assert further is not None
    assert (further.taken, further.copied_bytes) == (exported.taken, exported.copied_bytes)
    back = ways.work(SavepointTask.IMPORT, "claim", second, name="back", source="one").taken
    assert back is not None
    assert (back.taken, back.copied_bytes) == (exported.taken, 0), "its objects are on the claim still"
    check(ways.open(first), "one")
    check(ways.open(second), "one")
    check(ways.open("claim"), "back", "one")


def test_a_savepoint_of_a_pvc_is_restored_to_a_bucket(ways: Ways) -> None:
    ways.work(SavepointTask.IMPORT, "near", "claim", name="moved", source="one")
    checkpoint = open_folder("s3a://near/moved/shop/orders/uid", ways.buckets["near"])
    assert isinstance(checkpoint, BucketFolder)
    fence = BucketFence(checkpoint, 1, ["out"])
    fence.acquire()
    store = ways.open("near")
    assert restore_savepoint(store, store.read("moved"), fence.files)
    fence.publish()
    files = open_checkpoint(checkpoint.root, ways.buckets["near"]).files
    assert (files.read("out/commits/4") or b"").startswith(b"v2")
    (line,) = (files.read("out/state/0/_metadata/v2/0") or b"").decode().splitlines()[1:]
    (schema,) = json.loads(line)["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert schema == f"{checkpoint.root}/out/state/0/_stateSchema/default/0_x"


def test_a_second_one_copies_nothing_that_is_there(ways: Ways, tmp_path: Path) -> None:
    ways.work(SavepointTask.EXPORT, "claim", "near")
    Place(tmp_path / "claim").take("two")
    again = ways.work(SavepointTask.EXPORT, "claim", "near", name="two").taken
    assert again is not None
    assert again.copied_bytes == 0
    check(ways.open("near"), "one", "two")


def test_a_large_file_that_was_changed_never_gets_a_place_in_the_bucket(ways: Ways, tmp_path: Path) -> None:
    """It goes in several parts, and the error comes after the last."""
    large = tmp_path / "claim" / "checkpoint" / "dead-letter" / "large.json"
    large.write_bytes(b"x" * 20_000_000)
    Place(tmp_path / "claim").take("two")
    store = ways.open("claim")
    (file,) = (file for file in store.read("two").files if file.size == 20_000_000)
    path = tmp_path / "claim" / "savepoints" / object_path(file)
    path.write_bytes(b"y" * 20_000_000)
    with pytest.raises(LostDataError, match=r"large\.json was changed") as raised:
        ways.work(SavepointTask.EXPORT, "claim", "far", name="two")
    assert raised.value.reason is Reason.SAVEPOINT_DAMAGED
    assert ways.open("far").files.size(object_path(file)) is None
    path.write_bytes(b"x" * 20_000_000)
    ways.work(SavepointTask.EXPORT, "claim", "far", name="two")
    check(ways.open("far"), "two")


@pytest.mark.parametrize("keys", ["KAPPA_OWN", "KAPPA_OTHER"])
def test_refused_keys_are_reported_with_their_bucket_and_without_the_secret(
    ways: Ways, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    ways.work(SavepointTask.EXPORT, "claim", "near")
    monkeypatch.setenv(f"{keys}_SECRET_ACCESS_KEY", "wrong-word")
    with pytest.raises(UnavailableError, match=rf"s3a://{BUCKETS[keys]}/.*SignatureDoesNotMatch") as failure:
        ways.work(SavepointTask.EXPORT, "near", "far")
    assert "wrong-word" not in failure.value.message


def test_what_a_bucket_holds_is_counted_from_its_listing(ways: Ways) -> None:
    ways.work(SavepointTask.EXPORT, "claim", "near")
    store = ways.open("near")
    root, bucket = store.root.removesuffix("/savepoints/shop/orders"), ways.buckets["near"]
    checkpoint = open_folder(f"{root}/shop/orders/11111111-1a2b-4c3d-8e4f-0123456789ab", bucket)
    for number in range(1100):  # more than one page
        checkpoint.write(f"out/{number}", b"12345")
    request = WorkRequest(task=SavepointTask.MEASURE, name="", location=root, bucket=bucket, namespace="shop")
    held = do_work(request, Path("/nowhere")).contents
    assert held is not None
    assert (held.checkpoints, held.checkpoint_bytes, held.savepoints) == (1, 5500, 1)
    objects = {file.sha256: file.size for file in store.read("one").files}
    manifest = store.files.size("one/manifest.json") or 0
    assert (held.savepoint_objects, held.savepoint_bytes) == (len(objects), sum(objects.values()) + manifest)
    assert held.newest_savepoint == held.oldest_savepoint is not None
    assert measure_store(open_folder(root, bucket), "shop", most=100).partial
