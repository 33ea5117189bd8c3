"""Deleting savepoints and collecting what nobody names, while savepoints are taken: every order of their steps, and deaths after each."""

import os
from functools import partial
from pathlib import Path

import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError, UnavailableError
from kappa_pipelines.savepoint.collect import collect_garbage, delete_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.take import take_savepoint
from unit.runtime.checkpoints import build_revision
from unit.runtime.places import IGNORING_MARKS, Died, Place, count_steps, die


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path / "place")


def test_what_only_the_deleted_one_needed_is_freed_and_nothing_else(place: Place) -> None:
    one = place.take("one").manifest
    place.go_on()
    two = place.take("two").manifest
    removal = delete_savepoint(place.open(), "one")
    shared = {file.sha256 for file in two.files}
    gone = {file.sha256: file.size for file in one.files if file.sha256 not in shared}
    assert (removal.objects, removal.size_bytes, removal.postponed) == (len(gone), sum(gone.values()), "")
    assert removal.objects > 0
    assert place.objects() == shared
    place.check("two")
    assert delete_savepoint(place.open(), "one").objects == 0, "deleting it twice is fine"


def test_the_last_one_leaves_nothing(place: Place) -> None:
    place.take("one")
    delete_savepoint(place.open(), "one")
    assert [path for path in (place.root / "savepoints").rglob("*") if path.is_file()] == []


def test_nothing_is_collected_while_one_is_taken(place: Place) -> None:
    place.take("one")
    before = place.objects()
    place.open().files.write("taking/two", b"")
    place.open().files.write("objects/ab/abandoned", b"x")
    removal = delete_savepoint(place.open(), "one")
    assert (removal.objects, removal.postponed) == (0, "two is being taken")
    assert place.objects() == before | {"abandoned"}


def test_the_mark_of_a_dead_taker_holds_nothing_up(place: Place) -> None:
    store = place.open()
    store.files.write("taking/dead", b"")
    store.files.write("objects/ab/abandoned", b"x")
    mark = place.root / "savepoints" / "taking" / "dead"
    os.utime(mark, (1, 1))
    assert collect_garbage(store).objects == 1
    assert not mark.exists()


def test_what_a_copy_left_that_was_never_finished_is_freed(place: Place) -> None:
    place.take("one")
    store = place.open()
    store.files.write("objects/ab/.abcd.0123.part", b"half")
    assert collect_garbage(store).objects == 1
    place.check("one")


def test_a_manifest_that_cannot_be_read_keeps_every_object(place: Place) -> None:
    place.take("one")
    place.take("two")
    manifest = place.root / "savepoints" / "one" / "manifest.json"
    manifest.write_text("{")
    before = place.objects()
    with pytest.raises(
        LostDataError, match=r"one/manifest.json is not a valid manifest .* delete that savepoint"
    ):
        collect_garbage(place.open())
    removal = delete_savepoint(place.open(), "two")
    assert "one/manifest.json is not a valid manifest" in removal.postponed
    assert place.objects() == before
    assert delete_savepoint(place.open(), "one").objects == len(before)


def drop_and_collect(store: SavepointStore, patience: float) -> None:
    store.drop("old")
    collect_garbage(store, patience)


def collect_again(place: Place) -> None:
    collect_garbage(place.open(), IGNORING_MARKS)


@pytest.fixture
def old(place: Place) -> Place:
    """A place with a savepoint."""
    place.take("old")
    return place


def test_a_collection_at_any_step_of_a_taker_takes_nothing_from_it(old: Place) -> None:
    model = old.copy("model")
    steps = count_steps(lambda store: model.take("new", store), model.open())
    for step in range(1, steps + 1):
        place = old.copy(str(step))
        place.take("new", place.open({step: partial(drop_and_collect, place.open(), IGNORING_MARKS)}))
        place.check("new")


def test_a_collection_at_any_step_of_the_first_taker_takes_nothing_from_it(place: Place) -> None:
    model = place.copy("model")
    steps = count_steps(lambda store: model.take("new", store), model.open())
    assert steps > 20
    for step in range(1, steps + 1, 4):
        at = place.copy(str(step))
        at.take("new", at.open({step: partial(collect_again, at)}))
        at.check("new")


@pytest.mark.parametrize("patience", [IGNORING_MARKS, 900.0])
def test_a_taker_at_any_step_of_a_collection_loses_nothing(old: Place, patience: float) -> None:
    model = old.copy("model")
    steps = count_steps(lambda store: drop_and_collect(store, patience), model.open())
    assert steps > 20
    for step in range(1 if patience > 0 else 2, steps + 1, 3):
        place = old.copy(str(step))
        drop_and_collect(place.open({step: partial(place.take, "new")}), patience)
        place.check("new")


def test_a_taker_and_two_interleaved_collections_lose_nothing(old: Place) -> None:
    """The taker begins at one step of the first collection, and the second one runs whole at a step of that taker."""
    for outer in range(1, 50, 9):
        for inner in (2, 3, 4):
            place = old.copy(f"{outer}-{inner}")

            taker = place.open({inner: partial(collect_again, place)})
            drop_and_collect(place.open({outer: partial(place.take, "new", taker)}), IGNORING_MARKS)
            place.check("new")


def test_a_collection_that_died_at_any_step_is_completed_by_the_next_one(old: Place) -> None:
    old.go_on()
    old.take("kept")
    model = old.copy("model")
    steps = count_steps(lambda store: delete_savepoint(store, "old"), model.open())
    for step in range(1, steps + 1):
        place = old.copy(str(step))
        with pytest.raises(Died):
            delete_savepoint(place.open({step: die}), "old")
        place.take("new")
        delete_savepoint(place.open(), "old")
        place.check("kept", "new")
        assert place.objects() == place.named()


def test_what_a_taker_left_that_died_at_any_step_is_collected(place: Place) -> None:
    model = place.copy("model")
    steps = count_steps(lambda store: model.take("new", store), model.open())
    for step in range(1, steps + 1, 5):
        at = place.copy(str(step))
        with pytest.raises(Died):
            at.take("new", at.open({step: die}))
        delete_savepoint(at.open(), "new")
        assert at.objects() == set()


def test_a_savepoint_whose_files_were_collected_and_are_gone_is_none(place: Place) -> None:
    store = place.open()
    revision = build_revision(place.checkpoint)

    def lose() -> None:
        collect_garbage(place.open(), IGNORING_MARKS)
        (place.checkpoint / "dead-letter" / "in.json").write_text("changed since")

    with pytest.raises(
        UnavailableError, match=r"dead-letter/in.json was collected .* and has changed since"
    ) as raised:
        take_savepoint(LocalFolder(revision.checkpoint), revision, 1, store, "one", check=lose)
    assert raised.value.reason is Reason.SAVEPOINT_UNSTABLE
    assert store.names() == []
    place.take("one")
    place.check("one")


def test_a_reader_finds_what_a_collection_has_in_its_hands(place: Place) -> None:
    manifest = place.take("one").manifest
    store = place.open()
    for file in manifest.files:
        store.files.move(f"objects/{file.sha256[:2]}/{file.sha256}", f"garbage/{file.sha256}")
    place.check("one")
