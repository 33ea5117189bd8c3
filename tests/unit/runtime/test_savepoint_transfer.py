"""Savepoints that are copied from one store to another, on real files: what is copied, what is refused, and deaths after each step."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import OtherPlace, SavepointTask, WorkRequest
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError, SpecError
from kappa_pipelines.savepoint.collect import collect_garbage, delete_savepoint
from kappa_pipelines.savepoint.restore import is_of_another, restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore, object_path
from kappa_pipelines.savepoint.transfer import transfer_savepoint
from kappa_pipelines.savepoint.work import do_work
from unit.runtime.checkpoints import build_revision
from unit.runtime.places import IGNORING_MARKS, Died, Place, SteppedFolder, count_steps, die


@pytest.fixture
def near(tmp_path: Path) -> Place:
    """A pipeline with the savepoint `one`."""
    made = Place.make(tmp_path / "near")
    made.take("one")
    return made


@pytest.fixture
def far(tmp_path: Path) -> Place:
    """Another store, with nothing in it."""
    return Place(tmp_path / "far")


def list_files(at: Place) -> dict[str, bytes]:
    folder = at.root / "savepoints"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_the_same_there_and_the_one_here_is_left_as_it_is(near: Place, far: Place) -> None:
    before = list_files(near)
    taken = transfer_savepoint(near.open(), "one", far.open(), "one")
    assert list_files(near) == list_files(far) == before
    assert far.open().read("one") == near.open().read("one")
    assert taken.copied_bytes == sum(len(held) for path, held in before.items() if path.startswith("objects"))


def test_several_threads_copy_the_same_and_stop_at_what_is_damaged(near: Place, far: Place) -> None:
    told: list[tuple[int, int]] = []
    large = near.checkpoint / "dead-letter" / "large.json"
    large.write_bytes(b"x" * 5_000_000)
    near.take("two")
    taken = transfer_savepoint(
        near.open(), "two", far.open(), "two", note=lambda *done: told.append(done), threads=4
    )
    far.check("two")
    number = len(far.objects())
    assert (taken.copied_files, told) == (number, [(each, number) for each in range(number + 1)])
    first = near.open().read("two").files[0]
    (near.root / "savepoints" / object_path(first)).write_bytes(b"x" * first.size)
    empty = Place(far.root.with_name("empty"))
    with pytest.raises(LostDataError, match=rf"damaged: {first.path} was changed"):
        transfer_savepoint(near.open(), "two", empty.open(), "two", threads=4)
    assert first.sha256 not in empty.objects()
    assert empty.open().names() == []


def test_a_second_one_copies_what_the_first_has_not_brought(near: Place, far: Place) -> None:
    transfer_savepoint(near.open(), "one", far.open(), "one")
    near.go_on()
    near.take("two")
    news = len(near.objects() - far.objects())
    taken = transfer_savepoint(near.open(), "two", far.open(), "two")
    assert 0 < taken.copied_files == news
    far.check("one", "two")


def test_once_more_copies_only_what_was_lost_there(near: Place, far: Place) -> None:
    transfer_savepoint(near.open(), "one", far.open(), "one")
    assert transfer_savepoint(near.open(), "one", far.open(), "one").copied_files == 0
    store = far.open()
    lost = store.read("one").files[0]
    store.files.delete(object_path(lost))
    taken = transfer_savepoint(near.open(), "one", far.open(), "one")
    assert (taken.copied_files, taken.copied_bytes) == (1, lost.size)
    far.check("one")


def test_it_is_brought_in_under_another_name_and_restored_from_there(
    near: Place, far: Place, tmp_path: Path
) -> None:
    transfer_savepoint(near.open(), "one", far.open(), "brought")
    store, files = far.open(), LocalFolder(f"file://{tmp_path}/restored")
    assert restore_savepoint(store, store.read("brought"), files)
    for path in ("out/commits/4", "out/offsets/4", "out/state/0/0/5_p0v5.changelog"):
        assert files.read(path) == LocalFolder(f"file://{near.checkpoint}").read(path)


def test_an_imported_savepoint_has_the_pipeline_of_its_manifest(near: Place, far: Place) -> None:
    transfer_savepoint(near.open(), "one", far.open(), "brought")
    manifest, own = far.open().read("brought"), build_revision(near.checkpoint)
    assert not is_of_another(manifest, own)
    for other in ({"pipeline": "returns"}, {"namespace": "prod"}):
        assert is_of_another(manifest, own.model_copy(update=other))


def test_another_savepoint_of_that_name_is_not_written_over(near: Place, far: Place) -> None:
    near.go_on()
    near.take("two")
    transfer_savepoint(near.open(), "one", far.open(), "one")
    before = list_files(far)
    with pytest.raises(
        LostDataError, match=r"far/savepoints/one and .*/two are different savepoints; import or"
    ):
        transfer_savepoint(near.open(), "two", far.open(), "one")
    assert list_files(far) == before


def test_what_is_damaged_is_named_and_never_gets_a_place_there(near: Place, far: Place) -> None:
    largest = max(near.open().read("one").files, key=lambda file: file.size)
    path = near.root / "savepoints" / object_path(largest)
    path.write_bytes(b"x" * largest.size)
    with pytest.raises(LostDataError, match=rf"damaged: {largest.path} was changed") as raised:
        transfer_savepoint(near.open(), "one", far.open(), "one")
    assert raised.value.reason is Reason.SAVEPOINT_DAMAGED
    path.unlink()
    with pytest.raises(LostDataError, match=rf"damaged: {largest.path} is missing"):
        transfer_savepoint(near.open(), "one", far.open(), "one")
    assert largest.sha256 not in far.objects()
    assert far.open().names() == []
    assert far.open().files.names("taking") == []


def test_a_missing_savepoint_is_reported_with_the_existing_ones(near: Place, far: Place) -> None:
    with pytest.raises(
        LostDataError, match=r"savepoint 'three' not found below .*near/savepoints; savepoints there: one"
    ):
        transfer_savepoint(near.open(), "three", far.open(), "three")


def test_what_an_attempt_left_that_died_is_used_where_it_is_whole(near: Place, far: Place) -> None:
    whole, broken = near.open().read("one").files[:2]
    source = near.open()
    for file in (whole, broken):
        source.files.copy(object_path(file), far.open().files, object_path(file))
    (far.root / "savepoints" / object_path(broken)).write_bytes(b"x" * broken.size)
    taken = transfer_savepoint(source, "one", far.open(), "one")
    assert taken.copied_files == len(near.objects()) - 1
    far.check("one")


def test_what_a_collection_has_in_its_hands_is_read_there_and_left(near: Place, far: Place) -> None:
    store = near.open()
    for file in store.read("one").files:
        store.files.move(object_path(file), f"garbage/{file.sha256}")
    before = list_files(near)
    transfer_savepoint(near.open(), "one", far.open(), "one")
    far.check("one")
    assert list_files(near) == before, "it is only read"


def transfer(near: Place, store: SavepointStore) -> None:
    transfer_savepoint(near.open(), "one", store, "one")


def test_it_is_only_read_where_it_comes_from(near: Place, far: Place) -> None:
    source = near.open()
    transfer_savepoint(source, "one", far.open(), "one")
    assert isinstance(source.files, SteppedFolder)
    assert source.files.steps == 0


def test_one_that_died_at_any_step_is_ended_by_the_next(near: Place, far: Place) -> None:
    steps = count_steps(partial(transfer, near), far.open())
    assert steps > len(near.objects())
    for step in range(1, steps + 1):
        at = Place(far.root.with_name(f"died-{step}"))
        with pytest.raises(Died):
            transfer(near, at.open({step: die}))
        transfer(near, at.open())
        at.check("one")
        assert list_files(at) == list_files(near)


def test_what_one_left_that_died_and_is_not_wanted_is_collected(near: Place, far: Place) -> None:
    for step in range(1, count_steps(partial(transfer, near), far.open()) + 1, 4):
        at = Place(far.root.with_name(f"left-{step}"))
        with pytest.raises(Died):
            transfer(near, at.open({step: die}))
        delete_savepoint(at.open(), "one")
        assert list_files(at) == {}


def drop_and_collect(at: Place) -> None:
    at.open().drop("old")
    collect_garbage(at.open(), IGNORING_MARKS)


def test_a_collection_at_any_step_takes_nothing_from_it(near: Place, far: Place) -> None:
    transfer_savepoint(near.open(), "one", far.open(), "old")
    model = far.copy("model")
    for step in range(1, count_steps(partial(transfer, near), model.open()) + 1):
        at = far.copy(f"collected-{step}")
        transfer(near, at.open({step: partial(drop_and_collect, at)}))
        at.check("one")


def test_one_at_any_step_of_a_collection_loses_nothing(near: Place, far: Place) -> None:
    transfer_savepoint(near.open(), "one", far.open(), "old")
    model = far.copy("model")

    def collect(store: SavepointStore) -> None:
        store.drop("old")
        collect_garbage(store, IGNORING_MARKS)

    for step in range(2, count_steps(collect, model.open()) + 1, 3):
        at = far.copy(f"at-{step}")
        begin: Callable[[], object] = partial(transfer, near, at.open())
        collect(at.open({step: begin}))
        at.check("one")


def test_a_pod_exports_and_imports_as_requested(near: Place, far: Place, tmp_path: Path) -> None:
    here, there = (f"file://{at.root}/savepoints" for at in (near, far))
    ask = WorkRequest(task=SavepointTask.EXPORT, name="one", location=here, other=OtherPlace(location=there))
    exported = do_work(ask, tmp_path).taken
    assert exported is not None
    assert (exported.name, exported.batches, exported.copied_bytes > 0) == ("one", {"out": 4}, True)
    far.check("one")
    back = ask.replace(task=SavepointTask.IMPORT, name="back", source="one")
    imported = do_work(back, tmp_path).taken
    assert imported is not None
    assert (imported.name, imported.taken, imported.copied_bytes) == ("back", exported.taken, 0)
    near.check("back", "one")
    with pytest.raises(SpecError, match="does not name the target"):
        do_work(ask.replace(other=None), tmp_path)
