"""What a worker pod does, as its process: a request file in, a termination message out."""

from pathlib import Path

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import SavepointTask, WorkRequest, WorkResult
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError, UnavailableError
from kappa_pipelines.savepoint.__main__ import main
from kappa_pipelines.savepoint.restore import restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.work import do_work
from unit.runtime.checkpoints import build_revision, write_checkpoint


@pytest.fixture
def revision_file(tmp_path: Path) -> Path:
    path = tmp_path / "revision.json"
    path.write_text(build_revision(tmp_path / "first").to_json())
    return path


def build_request(tmp_path: Path, task: SavepointTask, *needed_by: Path) -> WorkRequest:
    checkpoints = tuple(f"file://{path}" for path in needed_by)
    return WorkRequest(task=task, name="one", location=f"file://{tmp_path}/savepoints", needed_by=checkpoints)


def test_a_savepoint_is_taken_of_a_checkpoint_that_no_driver_writes(
    tmp_path: Path, revision_file: Path
) -> None:
    write_checkpoint(tmp_path / "first")
    (tmp_path / "first" / "_kappa" / "g3").symlink_to("..")
    taken = do_work(build_request(tmp_path, SavepointTask.TAKE), revision_file).taken
    assert taken is not None
    assert (taken.done, taken.batches, taken.shuffle_partitions) == (True, {"out": 4}, 2)
    store = SavepointStore(LocalFolder(f"file://{tmp_path}/savepoints"))
    assert store.read("one").generation == 3
    assert list(store.find_damage(store.read("one"))) == []


def test_a_checkpoint_without_a_batch_is_refused(tmp_path: Path, revision_file: Path) -> None:
    with pytest.raises(UnavailableError, match="has no committed batch; run the pipeline") as raised:
        do_work(build_request(tmp_path, SavepointTask.TAKE), revision_file)
    assert raised.value.reason is Reason.PIPELINE_NOT_RUNNING


def test_it_is_not_deleted_before_the_checkpoints_are_made_that_are_to_be(
    tmp_path: Path, revision_file: Path
) -> None:
    write_checkpoint(tmp_path / "first")
    do_work(build_request(tmp_path, SavepointTask.TAKE), revision_file)
    delete = build_request(tmp_path, SavepointTask.DELETE, tmp_path / "second")
    with pytest.raises(UnavailableError, match="second will be restored from it") as raised:
        do_work(delete, revision_file)
    assert raised.value.reason is Reason.SAVEPOINT_IN_USE
    store = SavepointStore(LocalFolder(f"file://{tmp_path}/savepoints"))
    restore_savepoint(store, store.read("one"), LocalFolder(f"file://{tmp_path}/second"))
    removed = do_work(delete, revision_file).removed
    assert removed is not None
    assert removed.objects > 10
    assert store.names() == []


def test_what_is_imported_has_a_manifest_of_its_own(tmp_path: Path, revision_file: Path) -> None:
    write_checkpoint(tmp_path / "first")
    do_work(build_request(tmp_path, SavepointTask.TAKE), revision_file)
    ask = build_request(tmp_path, SavepointTask.IMPORT).replace(name="two", source="one")
    taken = do_work(ask, revision_file).taken
    assert taken is not None
    assert (taken.name, taken.batches, taken.copied_bytes) == ("two", {"out": 4}, 0)
    do_work(build_request(tmp_path, SavepointTask.DELETE), revision_file)
    store = SavepointStore(LocalFolder(f"file://{tmp_path}/savepoints"))
    assert store.names() == ["two"]
    assert list(store.find_damage(store.read("two"))) == []


def test_what_is_not_there_or_not_whole_is_not_imported(tmp_path: Path, revision_file: Path) -> None:
    write_checkpoint(tmp_path / "first")
    do_work(build_request(tmp_path, SavepointTask.TAKE), revision_file)
    ask = build_request(tmp_path, SavepointTask.IMPORT).replace(name="two")
    with pytest.raises(LostDataError, match=r"savepoint 'three' not found below .*; savepoints there: one"):
        do_work(ask.replace(source="three"), revision_file)
    next(path for path in (tmp_path / "savepoints" / "objects").rglob("*") if path.is_file()).unlink()
    with pytest.raises(LostDataError, match=r"1 of \d+ files of one are missing, the first is "):
        do_work(ask.replace(source="one"), revision_file)
    assert SavepointStore(LocalFolder(f"file://{tmp_path}/savepoints")).names() == ["one"]


def test_what_is_verified_is_read_again_and_damage_is_named(tmp_path: Path, revision_file: Path) -> None:
    write_checkpoint(tmp_path / "first")
    do_work(build_request(tmp_path, SavepointTask.TAKE), revision_file)
    verify = build_request(tmp_path, SavepointTask.VERIFY)
    found = do_work(verify, revision_file).verification
    assert found is not None
    assert (found.files > 10, found.size_bytes > 0, found.damaged, found.state) == (True, True, 0, ())
    for path in list((tmp_path / "savepoints" / "objects").rglob("*")):
        if path.is_file():
            path.unlink()
    found = do_work(verify, revision_file).verification
    assert found is not None
    assert found.damaged == found.files
    assert len(found.damage) == 5, "the first ones are named"
    assert "is missing (objects/" in found.damage[0]
    (tmp_path / "savepoints" / "one" / "manifest.json").unlink()
    found = do_work(verify, revision_file).verification
    assert found is not None
    assert "savepoint 'one' not found" in found.damage[0]


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: str) -> tuple[int, WorkResult]:
    message, file = tmp_path / "message", tmp_path / "request.json"
    monkeypatch.setenv("KAPPA_TERMINATION_FILE", str(message))
    file.write_text(request)
    code = main([str(file)])
    return code, WorkResult.model_validate_json(message.read_text())


def test_the_process_leaves_what_it_did_as_its_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = build_request(tmp_path, SavepointTask.DELETE)
    code, result = run(tmp_path, monkeypatch, request.model_dump_json(by_alias=True))
    assert (code, result.failure) == (0, None)
    assert result.removed is not None


def test_the_process_leaves_why_it_could_not_as_its_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, result = run(tmp_path, monkeypatch, '{"task": "Juggle"}')
    assert code == 1
    assert result.failure is not None
    assert "request.json is not a valid request: task:" in result.failure.message
    request = build_request(tmp_path, SavepointTask.TAKE)
    code, result = run(tmp_path, monkeypatch, request.model_dump_json(by_alias=True))
    assert code == 1
    assert result.failure is not None
    assert "cannot be read: No such file or directory" in result.failure.message
