"""Checkpoints and savepoints in a bucket of a real S3 server, without Spark: who has them, and what an older driver can still do."""

import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import CollectRequest, SavepointTask, WorkRequest
from kappa_crds.stores import BucketConnection
from kappa_pipelines.checkpoint.fence.bucket_fence import BucketFence
from kappa_pipelines.checkpoint.fence.bucket_layout import BucketView
from kappa_pipelines.checkpoint.fence.fence import BATCHES
from kappa_pipelines.checkpoint.location import open_checkpoint
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.errors import FencedError, UnavailableError
from kappa_pipelines.savepoint.restore import restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.take import take_savepoint
from kappa_pipelines.savepoint.work import do_work
from lab.s3 import REGION, ObjectStore
from unit.runtime.checkpoints import build_revision, fill
from unit.runtime.folder_suite import FolderSuite

pytestmark = pytest.mark.clusterless

ROOT = "s3a://state/prod/shop/orders/0a0a0a0a-0000-0000-0000-000000000000"
SAVEPOINTS = "s3a://state/prod/savepoints/shop/orders"
FILES = 25
"""Of a batch of the checkpoint that `fill` writes."""


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture
def bucket(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketConnection]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    server.create_bucket("state")
    yield BucketConnection(endpoint=server.endpoint, region=REGION)
    shutil.rmtree(server.folder / "state")


@pytest.fixture
def whole(bucket: BucketConnection) -> BucketFolder:
    return BucketFolder(ROOT, bucket)


def claim(whole: BucketFolder, generation: int) -> BucketFence:
    fence = BucketFence(whole, generation, ["out"])
    fence.acquire()
    fence.publish()
    return fence


def last(whole: BucketFolder) -> BucketView:
    files = open_checkpoint(whole.root, whole.connection).files
    assert isinstance(files, BucketView)
    return files


def test_of_several_that_create_an_object_one_does(whole: BucketFolder) -> None:
    assert whole.create("a/b", b"mine")
    assert not whole.create("a/b", b"yours")
    assert whole.create("a/b", b"mine"), "an answer that was lost makes it be asked again"
    assert whole.read("a/b") == b"mine"


class TestBucketFolder(FolderSuite):
    """What holds for every folder."""

    @pytest.fixture
    def folder(self, whole: BucketFolder) -> BucketFolder:
        """Return an empty one."""
        return whole


class TestBucketView(FolderSuite):
    """What holds for every folder, of a checkpoint as a generation has it."""

    @pytest.fixture
    def folder(self, whole: BucketFolder) -> BucketFolder:
        """Return the empty checkpoint of a driver."""
        return claim(whole, 1).files


def test_a_refusing_store_is_reported_without_its_secret(
    whole: BucketFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-word")
    with pytest.raises(UnavailableError, match="SignatureDoesNotMatch") as failure:
        BucketFolder(ROOT, whole.connection).write("a", b"")
    assert "wrong-word" not in failure.value.message


def test_each_generation_continues_where_the_previous_one_was(whole: BucketFolder, tmp_path: Path) -> None:
    begun = claim(whole, 1).files
    fill(begun, tmp_path)
    begun.write(BATCHES, b"{}")
    first = {path: last(whole).read(path) for path in last(whole).walk("")}
    fence = claim(whole, 4)
    assert last(whole).generation == 4
    second = {path: fence.files.read(path) for path in fence.files.walk("")}
    gone = {"_kappa/generation", *(f"out/{log}/{n}" for log in ("offsets", "commits") for n in range(3))}
    assert second == {path: held for path, held in first.items() if path not in gone}
    assert fence.list_settings() == {
        "fs.viewfs.mounttable.g4.linkFallback": f"{ROOT}/_kappa/g4",
        "fs.viewfs.mounttable.g4.link./out/state/0/0": f"{ROOT}/_kappa/g1/out/state/0/0",
        "fs.viewfs.mounttable.g4.link./out/state/0/1": f"{ROOT}/_kappa/g1/out/state/0/1",
    }
    third = claim(whole, 7)
    assert (
        third.list_settings()["fs.viewfs.mounttable.g7.link./out/state/0/1"]
        == f"{ROOT}/_kappa/g1/out/state/0/1"
    )
    assert {path: third.files.read(path) for path in third.files.walk("")} == second


def test_writes_of_a_replaced_driver_are_not_read(whole: BucketFolder, tmp_path: Path) -> None:
    old = claim(whole, 1)
    fill(old.files, tmp_path)
    new = claim(whole, 2)
    before = {path: new.files.read(path) for path in new.files.walk("")}
    assert not old.files.create("out/offsets/5", b"v2\n"), "it plans no further batch"
    old.files.write("out/commits/4", b"another")
    old.files.write("out/state/0/_metadata/v2/5", b"another")
    old.files.write("_plans/out", b"another")
    assert {path: last(whole).read(path) for path in last(whole).walk("")} == before
    with pytest.raises(FencedError, match="this driver is generation 1, but generation 2"):
        old.check()
    new.check()


def test_a_driver_of_a_generation_before_the_present_one_is_refused(whole: BucketFolder) -> None:
    claim(whole, 3)
    with pytest.raises(FencedError, match="this driver is generation 2, but generation 3"):
        claim(whole, 2)
    claim(whole, 3).check()


@pytest.mark.parametrize("step", ["_claim", "_copy", "_load", "_delete_older"])
def test_of_two_concurrent_takeovers_the_newer_one_wins(
    whole: BucketFolder, tmp_path: Path, step: str
) -> None:
    fill(claim(whole, 1).files, tmp_path)
    newer: list[BucketFence] = []

    class Overtaken(BucketFence):
        """Another driver claims the checkpoint before a step of this one."""

    def interrupted(self: BucketFence, *arguments: object) -> object:
        newer.append(claim(whole, 9))
        return getattr(BucketFence, step)(self, *arguments)

    setattr(Overtaken, step, interrupted)
    fence = Overtaken(whole, 8, ["out"])
    if step == "_delete_older":  # it has the checkpoint already, and finds out as any other
        fence.acquire()
        fence.publish()
        with pytest.raises(FencedError):
            fence.check()
    else:
        with pytest.raises(FencedError, match="generation 9 has taken over"):
            fence.acquire()
            fence.publish()
    newer[0].check()
    fence.files.write("out/commits/5", b"v1")
    assert (last(whole).generation, last(whole).read("out/commits/5")) == (9, None)
    assert (last(whole).read("out/commits/4") or b"").startswith(b"v2")


def test_one_that_dies_while_it_takes_over_leaves_the_checkpoint_to_the_next(
    whole: BucketFolder, tmp_path: Path
) -> None:
    fill(claim(whole, 1).files, tmp_path)
    died = BucketFence(whole, 2, ["out"])
    died.acquire()
    assert last(whole).generation == 1
    assert claim(whole, 3).files.read("out/offsets/4") is not None
    assert last(whole).read("out/offsets/5") is None, "what keeps the old one from planning is not taken over"


def test_what_older_generations_had_goes_but_for_their_state(whole: BucketFolder, tmp_path: Path) -> None:
    fill(claim(whole, 1).files, tmp_path)
    for generation in (2, 3):
        claim(whole, generation)
    left = (
        {path.split("/")[2] for path in whole.walk("_kappa/g1/out")}
        if False
        else set(whole.walk("_kappa/g1"))
    )
    assert left
    assert all("/state/0/0/" in path or "/state/0/1/" in path for path in left)
    assert "out/metadata" in set(last(whole).walk(""))


def test_savepoints_are_taken_restored_verified_and_collected_there(
    whole: BucketFolder, bucket: BucketConnection, tmp_path: Path
) -> None:
    fill(claim(whole, 1).files, tmp_path / "first")
    claim(whole, 2)
    revision = build_revision(tmp_path / "none").model_copy(update={"checkpoint": ROOT, "bucket": bucket})
    file = tmp_path / "revision.json"
    file.write_text(revision.to_json())

    def work(task: SavepointTask, name: str = "one", **more: Any) -> Any:
        request = WorkRequest(task=task, name=name, location=SAVEPOINTS, bucket=bucket, **more)
        return do_work(request, file)

    taken = work(SavepointTask.TAKE)
    assert taken.taken.batches == {"out": 4}
    assert work(SavepointTask.TAKE, "two").taken.copied_bytes == 0
    assert work(SavepointTask.IMPORT, "three", source="one").taken.done
    verified = work(SavepointTask.VERIFY).verification
    assert (verified.damaged, verified.files) == (0, FILES)

    store = SavepointStore(BucketFolder(SAVEPOINTS, bucket))
    second = BucketFolder(f"{ROOT}-1", bucket)
    fence = BucketFence(second, 3, ["out"])
    fence.acquire()
    assert restore_savepoint(store, store.read("one"), fence.files)
    with pytest.raises(UnavailableError) as failure:
        work(SavepointTask.DELETE, needed_by=(second.root,))
    assert failure.value.reason == Reason.SAVEPOINT_IN_USE, "it is not whole before the generation is"
    fence.publish()
    assert last(second).read("out/commits/4") == last(whole).read("out/commits/4")
    for name in ("two", "three"):
        assert work(SavepointTask.DELETE, name).removed.objects == 0
    assert work(SavepointTask.DELETE, needed_by=(second.root,)).removed.objects == FILES
    assert list(store.files.walk("")) == []


def test_a_savepoint_reads_and_copies_each_file_once(
    whole: BucketFolder, server: ObjectStore, tmp_path: Path
) -> None:
    """Requests are counted, as each takes a round trip: a savepoint of 1,000 partitions has 12,000 files."""
    fill(claim(whole, 1).files, tmp_path / "first")
    store = SavepointStore(BucketFolder(SAVEPOINTS, whole.connection))
    revision, begin = build_revision(tmp_path / "none"), len(server.list_requests())
    taken = take_savepoint(last(whole), revision, 1, store, "one")
    found = Counter(each.operation for each in server.list_requests(begin))
    assert taken.copied_files == FILES
    assert found["CopyObject"] == 2 * FILES, "to its pin, and from there to the store"
    assert found["GetObject"] <= 3 * FILES + 10, (
        "its content, that of its checksum, that of its copy, and some logs"
    )
    assert found["DeleteObjects"] == 2, "all pins, and the lease"
    assert found["HeadObject"] <= 2
    assert sum(found.values()) <= 6 * FILES + 30


def test_checkpoints_that_were_replaced_or_whose_pipeline_is_gone_go(
    whole: BucketFolder, bucket: BucketConnection, tmp_path: Path
) -> None:
    fill(claim(whole, 1).files, tmp_path)
    second, gone = BucketFolder(f"{ROOT}-1", bucket), BucketFolder(f"{ROOT[:-12]}{'b' * 12}", bucket)
    for folder in (second, gone):
        claim(folder, 2).files.write("out/metadata", b"")
    uid = ROOT.rsplit("/", 1)[1]
    collect = CollectRequest(
        namespace="shop",
        at=datetime.now(UTC) + timedelta(hours=2),
        current={uid: f"{uid}-1"},
        replaced=True,
        orphaned=True,
    )
    root = ROOT.split("/shop/", maxsplit=1)[0]
    request = WorkRequest(task=SavepointTask.COLLECT, name="", location=root, collect=collect, bucket=bucket)

    def do() -> int:
        removed = do_work(request, tmp_path).removed
        assert removed is not None
        return removed.checkpoints

    assert (do(), list(gone.walk(""))) == (1, [])
    assert list(whole.walk("")), "the one after it is not whole yet"
    claim(second, 3).files.write("_kappa/restored", b"one")
    assert (do(), list(whole.walk(""))) == (1, [])
    assert list(second.walk(""))
