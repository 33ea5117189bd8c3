"""Checkpoints and savepoints in a real HDFS, without Spark: who has them, and what an older driver can still do."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import CollectRequest, SavepointTask, WorkRequest
from kappa_crds.stores import HdfsConnection
from kappa_pipelines.checkpoint.fence.hdfs_fence import HdfsFence
from kappa_pipelines.checkpoint.location import open_checkpoint
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from kappa_pipelines.errors import FencedError, UnavailableError
from kappa_pipelines.savepoint.restore import restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.work import do_work
from lab.hdfs import Hdfs
from unit.runtime.checkpoints import build_revision, fill
from unit.runtime.folder_suite import FolderSuite

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos]
# `make test` has these folders in memory, and the client of HDFS in test_hdfs.py
USER = "kappa"
UID = "0a0a0a0a-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def server() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


@pytest.fixture
def hdfs(server: Hdfs) -> Iterator[HdfsConnection]:
    server.give("/state", USER)
    yield HdfsConnection(web=server.web, user=USER, replication=1)
    server.remove("/state")


@pytest.fixture
def store(server: Hdfs) -> str:
    return f"hdfs://{server.namenode}/state/prod"


@pytest.fixture
def whole(store: str, hdfs: HdfsConnection) -> HdfsFolder:
    return HdfsFolder(f"{store}/shop/orders/{UID}", hdfs)


def claim(whole: HdfsFolder, generation: int) -> HdfsFence:
    fence = HdfsFence(whole, generation)
    fence.acquire()
    fence.publish()
    return fence


def last(whole: HdfsFolder) -> HdfsFolder:
    files = open_checkpoint(whole.root, whole.connection).files
    assert isinstance(files, HdfsFolder)
    return files


def read_all(files: HdfsFolder) -> dict[str, bytes | None]:
    return {path: files.read(path) for path in files.walk("")}


class TestHdfsFolder(FolderSuite):
    """What holds for every folder."""

    @pytest.fixture
    def folder(self, whole: HdfsFolder) -> HdfsFolder:
        """Return an empty one."""
        return whole


def test_any_name_is_a_name(whole: HdfsFolder) -> None:
    name = "a/c d%20+&?=ü"
    whole.write(name, b"held")
    assert (whole.read(name), list(whole.walk(""))) == (b"held", [name])
    assert whole.move(name, f"{name}#")
    assert whole.below("a").read("c d%20+&?=ü#") == b"held"


def test_below_a_file_there_is_nothing(whole: HdfsFolder) -> None:
    whole.write("a/b", b"")
    for path in ("a", "a/b/below"):
        assert (whole.read(path), whole.digest(path), whole.size(path), whole.modified(path)) == (None,) * 4
    assert whole.names("a/b") == whole.names("a/b/below") == []
    whole.delete("a/b/below")
    assert not whole.move("a/b/below", "a/c")


def test_a_user_without_permission_gets_the_exception_of_hdfs(whole: HdfsFolder, store: str) -> None:
    stranger = whole.connection.replace(user="stranger")
    with pytest.raises(
        UnavailableError, match=r"could not be written: AccessControlException .* user stranger"
    ):
        HdfsFolder(store, stranger).write("a", b"")


def test_a_server_that_is_away_is_named(whole: HdfsFolder) -> None:
    away = whole.connection.replace(web="http://127.0.0.1:1")
    with pytest.raises(UnavailableError, match=r"http://127\.0\.0\.1:1 does not respond"):
        HdfsFolder(whole.root, away).read("a")


def test_each_generation_continues_where_the_previous_one_was(whole: HdfsFolder, tmp_path: Path) -> None:
    fill(claim(whole, 1).files, tmp_path)
    first = read_all(last(whole))
    fence = claim(whole, 4)
    found = open_checkpoint(whole.root, whole.connection)
    assert (found.generation, found.files.root) == (4, whole.root)
    assert read_all(last(whole)) == read_all(fence.files) == first
    assert (fence.root, fence.list_settings()) == (f"{whole.root}/_kappa/g4", {})
    claim(whole, 7).files.write("out/offsets/5", b"v2")
    assert read_all(last(whole)) == {**first, "out/offsets/5": b"v2"}


def test_a_driver_that_was_taken_over_from_cannot_write_any_more(whole: HdfsFolder, tmp_path: Path) -> None:
    old = claim(whole, 1)
    fill(old.files, tmp_path)
    new = claim(whole, 2)
    before = read_all(new.files)
    for path in ("out/commits/5", "out/commits/4", "new/metadata"):
        with pytest.raises(UnavailableError, match="could not be written"):
            old.files.write(path, b"another")
    assert read_all(last(whole)) == before
    with pytest.raises(FencedError, match="this driver is generation 1, but generation 2"):
        old.check()
    new.check()


def test_a_file_that_it_had_open_never_takes_its_place(whole: HdfsFolder) -> None:
    old = claim(whole, 1)

    def taken_over() -> Iterator[bytes]:
        yield b"half"
        claim(whole, 2)
        yield b"another half"

    with pytest.raises(UnavailableError, match="could not be written"):
        old.files.fill("out/commits/0", taken_over())
    assert last(whole).read("out/commits/0") is None


def test_a_driver_of_a_generation_before_the_present_one_is_refused(whole: HdfsFolder) -> None:
    claim(whole, 3)
    with pytest.raises(FencedError, match="this driver is generation 2, but generation 3"):
        claim(whole, 2)
    claim(whole, 3).check()


STEPS = ["_claim", "_rename", "_refuse_newer", "_fence_off_older"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("begun", [True, False])
def test_of_two_concurrent_takeovers_the_newer_one_wins(
    whole: HdfsFolder, tmp_path: Path, step: str, begun: bool
) -> None:
    if begun:
        fill(claim(whole, 1).files, tmp_path)
    newer: list[HdfsFence] = []

    class Overtaken(HdfsFence):
        """Another driver claims the checkpoint before a step of this one, and writes."""

    def interrupted(self: HdfsFence) -> None:
        if not newer:
            newer.append(claim(whole, 9))
            newer[0].files.write("out/commits/6", b"v1")
        getattr(HdfsFence, step)(self)

    setattr(Overtaken, step, interrupted)
    fence = Overtaken(whole, 8)
    with pytest.raises(FencedError, match="generation 9 has taken over"):
        fence.acquire()
        fence.check()  # one that has it already finds out as any other
    newer[0].check()
    with contextlib.suppress(UnavailableError):
        fence.files.write("out/commits/5", b"v1")
    assert last(whole).read("out/commits/5") is None
    assert open_checkpoint(whole.root, whole.connection).generation == 9
    assert last(whole).read("out/commits/6") == b"v1"
    assert (last(whole).read("out/commits/4") is not None) == begun
    assert claim(whole, 10).files.read("out/commits/6") == b"v1"


def test_a_takeover_overtaken_before_its_rename_checks_again(whole: HdfsFolder, tmp_path: Path) -> None:
    old = claim(whole, 1)
    fill(old.files, tmp_path)
    before = read_all(old.files)
    rename, moved = whole.client.rename, list[str]()

    def renamed_before(path: str, target: str, *, replace: bool) -> None:
        if not moved:
            moved.append(path)
            rename(path, path.replace("/g1", "/g2"), replace=False)  # generation 2 was amid taking over
            old.files.client.make_folder(
                f"{path}/out/state"
            )  # and the old driver goes on where its folder was
        rename(path, target, replace=replace)

    watched = HdfsFolder(whole.root, whole.connection)
    setattr(watched.client, "rename", renamed_before)  # noqa: B010 - a seam of this test alone
    fence = claim(watched, 3)
    assert moved
    assert read_all(fence.files) == read_all(last(whole)) == before
    with pytest.raises(UnavailableError):
        old.files.write("out/commits/5", b"v1")


class Death(Exception):
    """A driver dies."""


def die_before(step: str) -> type[HdfsFence]:
    """Return a fence whose driver dies before a step."""

    def die(self: HdfsFence) -> None:
        raise Death

    return type("Dying", (HdfsFence,), {step: die})


@pytest.mark.parametrize("shut", [True, False])
def test_one_that_makes_a_checkpoint_after_a_newer_one_has_made_it_has_none(
    whole: HdfsFolder, shut: bool
) -> None:
    watched = HdfsFolder(whole.root, whole.connection)
    make, taken = watched.client.make_folder, list[str]()

    def make_later(path: str) -> None:
        if path.endswith("/g8/_kappa/checkpoint"):
            taken.append(path)
            with contextlib.nullcontext() if shut else pytest.raises(Death):
                (HdfsFence if shut else die_before("_fence_off_older"))(whole, 9).acquire()
        make(path)

    setattr(watched.client, "make_folder", make_later)  # noqa: B010 - a seam of this test alone
    with pytest.raises(FencedError, match="generation 9 has taken over"):
        claim(watched, 8)
    assert len(taken) == 1
    assert open_checkpoint(whole.root, whole.connection).generation == 9


def test_one_that_dies_while_it_takes_over_leaves_the_checkpoint_to_the_next(
    whole: HdfsFolder, tmp_path: Path
) -> None:
    before: dict[str, bytes | None] = {}
    for number, step in enumerate(STEPS, start=2):
        with pytest.raises(Death):
            die_before(step)(whole, 10 * number).acquire()
        fence = claim(whole, 10 * number + 1)
        if before:
            assert read_all(fence.files) == before
        else:
            fill(fence.files, tmp_path)
            before = read_all(fence.files)
    assert whole.names("_kappa/generations") == ["51"]


def test_what_a_driver_made_in_a_place_that_is_not_its_own_is_no_checkpoint(
    whole: HdfsFolder, tmp_path: Path
) -> None:
    fill(claim(whole, 1).files, tmp_path)
    before = read_all(last(whole))
    for number in (0, 2, 5):
        whole.write(f"_kappa/g{number}/out/offsets/0", b"another")
    assert open_checkpoint(whole.root, whole.connection).generation == 1
    assert read_all(claim(whole, 4).files) == before
    claim(whole, 5).check()
    assert read_all(last(whole)) == before


def test_a_lost_checkpoint_is_not_replaced_by_an_empty_one(whole: HdfsFolder) -> None:
    claim(whole, 1)
    whole.remove("_kappa/g1")
    with pytest.raises(UnavailableError, match="a driver has created it, but no folder"):
        claim(whole, 2)


def test_savepoints_are_taken_restored_verified_and_collected_there(
    whole: HdfsFolder, hdfs: HdfsConnection, store: str, tmp_path: Path
) -> None:
    fill(claim(whole, 1).files, tmp_path / "first")
    claim(whole, 2)
    revision = build_revision(tmp_path / "none").model_copy(update={"checkpoint": whole.root, "hdfs": hdfs})
    file = tmp_path / "revision.json"
    file.write_text(revision.to_json())
    location = f"{store}/savepoints/shop/orders"

    def work(task: SavepointTask, name: str = "one", **more: Any) -> Any:
        return do_work(WorkRequest(task=task, name=name, location=location, hdfs=hdfs, **more), file)

    taken = work(SavepointTask.TAKE)
    assert taken.taken.batches == {"out": 4}
    claim(whole, 3)
    assert work(SavepointTask.TAKE, "two").taken.copied_bytes == 0, "the state has another path, and is known"
    assert work(SavepointTask.IMPORT, "three", source="one").taken.done
    verified = work(SavepointTask.VERIFY).verification
    assert (verified.damaged, verified.files) == (0, 25)

    kept = SavepointStore(HdfsFolder(location, hdfs))
    second = HdfsFolder(f"{whole.root}-1", hdfs)
    fence = HdfsFence(second, 4)
    fence.acquire()
    with pytest.raises(UnavailableError) as failure:
        work(SavepointTask.DELETE, needed_by=(second.root,))
    assert failure.value.reason == Reason.SAVEPOINT_IN_USE
    assert restore_savepoint(kept, kept.read("one"), fence.files)
    assert last(second).read("out/commits/4") == last(whole).read("out/commits/4")
    for name in ("two", "three"):
        assert work(SavepointTask.DELETE, name).removed.objects == 0
    assert work(SavepointTask.DELETE, needed_by=(second.root,)).removed.objects == 25
    assert list(kept.files.walk("")) == []


def test_checkpoints_that_were_replaced_or_whose_pipeline_is_gone_go(
    whole: HdfsFolder, hdfs: HdfsConnection, store: str, tmp_path: Path
) -> None:
    fill(claim(whole, 1).files, tmp_path)
    second, gone = HdfsFolder(f"{whole.root}-1", hdfs), HdfsFolder(f"{whole.root[:-12]}{'b' * 12}", hdfs)
    for folder in (second, gone):
        claim(folder, 2).files.write("out/metadata", b"")
    collect = CollectRequest(
        namespace="shop",
        at=datetime.now(UTC) + timedelta(hours=2),
        current={UID: f"{UID}-1"},
        replaced=True,
        orphaned=True,
    )
    request = WorkRequest(task=SavepointTask.COLLECT, name="", location=store, collect=collect, hdfs=hdfs)

    def do() -> int:
        removed = do_work(request, tmp_path).removed
        assert removed is not None
        return removed.checkpoints

    assert (do(), list(gone.walk(""))) == (1, [])
    assert list(whole.walk("")), "the one after it is not whole yet"
    claim(second, 3).files.write("_kappa/restored", b"one")
    assert (do(), list(whole.walk(""))) == (1, [])
    assert list(second.walk(""))
