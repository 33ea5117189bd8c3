"""What a store holds, counted from its listing: checkpoints, savepoints and their files, of one namespace."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kappa_crds.savepoint_work import SavepointTask, WorkRequest
from kappa_crds.stores import StoreContents
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.savepoint.measure import measure_store
from kappa_pipelines.savepoint.work import do_work

UIDS = [f"{digit * 8}-1a2b-4c3d-8e4f-0123456789ab" for digit in "123"]
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    """A store with three checkpoints and two savepoints of a namespace, and things that are neither."""
    made = LocalFolder(f"file://{tmp_path}")
    for folder in (UIDS[0], f"{UIDS[0]}-1"):
        made.write(f"shop/orders/{folder}/out/commits/4", b"12345")
    made.write(f"shop/returns/{UIDS[1]}/out/metadata", b"123")
    made.write("shop/orders/notes/a", b"of somebody")
    made.write("shop/notes", b"of somebody")
    made.write(f"other/orders/{UIDS[2]}/out/metadata", b"of another namespace")
    (tmp_path / "shop" / "orders" / UIDS[0] / "g1").symlink_to("..")
    for pipeline in ("orders", "returns"):
        made.write(f"savepoints/shop/{pipeline}/objects/ab/abcd", b"1234567")
        made.write(f"savepoints/shop/{pipeline}/one/manifest.json", b"{}")
    made.write("savepoints/shop/orders/garbage/abce", b"1")
    made.write("savepoints/shop/orders/taking/two", b"mark")
    made.write("savepoints/shop/orders/two/left", b"of one that is no more")
    made.write("savepoints/other/orders/one/manifest.json", b"{}")
    for pipeline, at in {"orders": FIRST, "returns": LAST}.items():
        manifest = tmp_path / "savepoints" / "shop" / pipeline / "one" / "manifest.json"
        os.utime(manifest, (at.timestamp(),) * 2)
    return made


FOUND = StoreContents(
    checkpoints=3, checkpoint_bytes=13, savepoints=2, savepoint_objects=3, savepoint_bytes=19,
    oldest_savepoint=FIRST, newest_savepoint=LAST,
)  # fmt: skip


def test_all_of_a_namespace_is_counted_and_nothing_of_others(files: LocalFolder) -> None:
    assert measure_store(files, "shop") == FOUND


def test_a_namespace_that_keeps_nothing_holds_nothing(files: LocalFolder) -> None:
    assert measure_store(files, "empty") == StoreContents()


def test_a_partial_measurement_is_marked(files: LocalFolder) -> None:
    assert measure_store(files, "shop", most=5).partial
    assert measure_store(files, "shop", most=0) == StoreContents(partial=True)
    counted = len(list(files.list_files("shop"))) + len(list(files.list_files("savepoints/shop")))
    assert measure_store(files, "shop", most=counted) == FOUND


def test_a_pod_answers_with_what_it_found(files: LocalFolder, tmp_path: Path) -> None:
    request = WorkRequest(task=SavepointTask.MEASURE, name="", location=files.root, namespace="shop")
    assert do_work(request, tmp_path / "none").contents == FOUND
