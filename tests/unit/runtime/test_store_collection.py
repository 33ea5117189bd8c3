"""Looking through a whole store: what may go, what stays, and what is not known."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kappa_crds.savepoint_work import CollectRequest, SavepointTask, WorkRequest
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import SpecError
from kappa_pipelines.savepoint.collect_store import collect_store
from kappa_pipelines.savepoint.work import do_work

LIVE, GONE = (f"{digit * 8}-1a2b-4c3d-8e4f-0123456789ab" for digit in "12")
NOW = datetime.now(UTC)


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    """A store with three checkpoints of a pipeline that is in its third, and one of a pipeline that is gone."""
    made = LocalFolder(f"file://{tmp_path}")
    for folder in (LIVE, f"{LIVE}-1", f"{LIVE}-2", f"{LIVE}-3", GONE):
        made.write(f"shop/orders/{folder}/out/commits/4", b"12345")
    made.write(f"shop/orders/{LIVE}-2/_kappa/restored", b"one\n")
    made.write("other/orders/33333333-1a2b-4c3d-8e4f-0123456789ab/out/commits/4", b"of another namespace")
    made.write("shop/orders/notes.txt", b"of somebody")
    age(tmp_path, 7200)
    return made


def age(root: Path, seconds: float) -> None:
    for path in root.rglob("*"):
        os.utime(path, (NOW.timestamp() - seconds,) * 2)


def request(*, replaced: bool = False, orphaned: bool = False, current: str = f"{LIVE}-2") -> CollectRequest:
    return CollectRequest(
        namespace="shop", at=NOW, current={LIVE: current}, replaced=replaced, orphaned=orphaned
    )


def left(files: LocalFolder) -> set[str]:
    return {name.replace(LIVE, "live").replace(GONE, "gone") for name in files.names("shop/orders")}


ALL = {"live", "live-1", "live-2", "live-3", "gone", "notes.txt"}


def test_without_a_policy_every_checkpoint_stays(files: LocalFolder) -> None:
    removed = collect_store(files, request())
    assert (removed.checkpoints, left(files)) == (0, ALL)


def test_checkpoints_that_were_replaced_go_and_none_that_is_newer(files: LocalFolder) -> None:
    removed = collect_store(files, request(replaced=True))
    assert (removed.checkpoints, removed.size_bytes) == (2, 10)
    assert left(files) == ALL - {"live", "live-1"}


def test_a_checkpoint_that_was_replaced_just_now_stays_as_the_way_back(files: LocalFolder) -> None:
    files.write(f"shop/orders/{LIVE}-1/out/commits/5", b"just now")
    collect_store(files, request(replaced=True))
    assert left(files) == ALL - {"live"}


def test_nothing_is_replaced_before_the_new_checkpoint_is_whole(files: LocalFolder) -> None:
    files.delete(f"shop/orders/{LIVE}-2/_kappa/restored")
    collect_store(files, request(replaced=True))
    assert left(files) == ALL


def test_a_checkpoint_of_which_a_savepoint_is_taken_stays(files: LocalFolder) -> None:
    checkpoint = f"{files.root}/shop/orders/{LIVE}-1"
    files.write("savepoints/shop/orders/taking/one", f"{checkpoint}\n".encode())
    removed = collect_store(files, request(replaced=True))
    assert left(files) == ALL - {"live"}
    assert removed.postponed == "one is being taken"


def test_orphaned_checkpoints_are_deleted_if_the_policy_is_delete(files: LocalFolder) -> None:
    removed = collect_store(files, request(orphaned=True))
    assert (removed.checkpoints, left(files)) == (1, ALL - {"gone"})
    assert files.names("other/orders") == ["33333333-1a2b-4c3d-8e4f-0123456789ab"], (
        "another namespace is none of its business"
    )


def test_a_checkpoint_that_may_be_of_a_newer_pipeline_stays(files: LocalFolder) -> None:
    files.write(f"shop/orders/{GONE}/out/commits/5", b"just now")
    collect_store(files, request(orphaned=True))
    assert left(files) == ALL
    soon = request(orphaned=True).replace(at=NOW + timedelta(hours=2))
    assert collect_store(files, soon).checkpoints == 1


def test_the_checkpoint_of_a_pipeline_without_a_restore_stays(files: LocalFolder) -> None:
    collect_store(files, request(replaced=True, orphaned=True, current=LIVE))
    assert left(files) == ALL - {"gone"}


def test_remains_of_savepoints_are_deleted_and_a_damaged_one_is_reported(files: LocalFolder) -> None:
    for pipeline in ("orders", "returns"):
        files.write(f"savepoints/shop/{pipeline}/objects/ab/abandoned", b"123")
    files.write("savepoints/shop/returns/one/manifest.json", b"{")
    removed = collect_store(files, request())
    assert (removed.objects, removed.size_bytes) == (1, 3)
    assert "returns/one/manifest.json is not a valid manifest of a savepoint" in removed.postponed


def test_it_is_the_work_of_a_pod(files: LocalFolder, tmp_path: Path) -> None:
    asked = WorkRequest(
        task=SavepointTask.COLLECT, name="", location=files.root, collect=request(orphaned=True)
    )
    removed = do_work(asked, tmp_path / "none").removed
    assert removed is not None
    assert removed.checkpoints == 1
    with pytest.raises(SpecError, match="does not state what may be removed"):
        do_work(asked.replace(collect=None), tmp_path / "none")
