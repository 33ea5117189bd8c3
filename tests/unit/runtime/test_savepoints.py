"""Savepoints of a checkpoint on disk: taken, restored, and damaged in every way."""

import json
import shutil
from collections.abc import Callable, Container
from pathlib import Path

import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Digest, Folder
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import FencedError, LostDataError, UnavailableError
from kappa_pipelines.savepoint.manifest import KeptFile
from kappa_pipelines.savepoint.query import find_files, read_points
from kappa_pipelines.savepoint.restore import restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore, object_path
from kappa_pipelines.savepoint.take import Taken, take_savepoint
from unit.runtime.checkpoints import build_revision, write_checkpoint, write_entry

NEEDED = [
    "dead-letter/in.json",
    "out/commits/4",
    "out/metadata",
    "out/offsets/3",
    "out/offsets/4",
    "out/sources/in/0",
    *(f"out/state/0/0/{v}_p0v{v}.changelog{crc}" for v in range(1, 6) for crc in ("", ".crc")),
    "out/state/0/1/3_p1v3.zip",
    "out/state/0/1/3_p1v3.zip.crc",
    *(f"out/state/0/1/{v}_p1v{v}.changelog{crc}" for v in (4, 5) for crc in ("", ".crc")),
    "out/state/0/1/SSTs/7-x.sst",
    "out/state/0/_metadata/v2/0",
    "out/state/0/_stateSchema/default/0_x",
]


@pytest.fixture
def store(tmp_path: Path) -> SavepointStore:
    write_checkpoint(tmp_path / "first")
    return SavepointStore(LocalFolder(f"file://{tmp_path}/savepoints"))


Take = Callable[..., Taken]


@pytest.fixture
def take(tmp_path: Path, store: SavepointStore) -> Take:
    def take_one(name: str, check: Callable[[], None] = lambda: None) -> Taken:
        revision = build_revision(tmp_path / "first")
        return take_savepoint(LocalFolder(revision.checkpoint), revision, 1, store, name, check=check)

    return take_one


def test_it_has_what_the_batch_needs_and_nothing_else(take: Take) -> None:
    manifest = take("one").manifest
    assert sorted(file.path for file in manifest.files) == sorted(NEEDED)
    (point,) = manifest.queries
    assert (point.batch, point.id, point.offsets) == (4, "the-id", {"in": {"in": {0: 40}}})


def test_a_second_one_copies_what_changed(take: Take, store: SavepointStore, tmp_path: Path) -> None:
    first = take("one")
    assert first.copied_bytes > 0
    again = take("two")
    assert (again.copied_files, again.manifest.files) == (0, first.manifest.files)
    ids = {"0": [["p0v6"], ["p1v6"]]}
    write_entry(tmp_path / "first" / "out" / "offsets" / "5", 'x\nin:{"in":{"0":50}}')
    write_entry(tmp_path / "first" / "out" / "commits" / "5", {"stateUniqueIds": ids})
    third = take("three")
    assert third.manifest.queries[0].batch == 5
    assert third.copied_files == 6  # an entry of each log, a changelog and its checksum for each partition
    assert store.names() == ["one", "three", "two"]
    assert [manifest.name for manifest in store.read_all()] == ["three", "two", "one"]


def test_of_changelogs_only_the_beginning_is_read_to_find_the_others(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "first")
    read: list[str] = []

    class Counting(LocalFolder):
        def read(self, path: str, size: int | None = None) -> bytes | None:
            read.append(path if size is None else f"beginning of {path}")
            return super().read(path, size)

    files = Counting(f"file://{tmp_path}/first")
    points = read_points(files, ["out"])
    assert sorted(find_files(files, ["out"], points)) == sorted(NEEDED)
    assert [path for path in read if path.endswith(".changelog") and " " not in path] == []
    assert read.count("out/offsets/4") == 2, (
        "for the batch, its sources and its state, whatever the number of partitions"
    )


@pytest.mark.parametrize("cut", [1, 300, 2**18])
def test_a_changelog_of_any_size_of_blocks_is_understood(tmp_path: Path, cut: int) -> None:
    class Cut(LocalFolder):
        """What is read of a file's beginning ends within a block, or before its first."""

        def read(self, path: str, size: int | None = None) -> bytes | None:
            return super().read(path, None if size is None else min(size, cut))

    write_checkpoint(tmp_path / "first")
    files = Cut(f"file://{tmp_path}/first")
    assert sorted(find_files(files, ["out"], read_points(files, ["out"]))) == sorted(NEEDED)


def test_one_that_is_slower_than_the_retention_is_of_the_batch_that_was_pinned(
    store: SavepointStore, tmp_path: Path
) -> None:
    """While the first file is copied, so many batches pass that Spark removes all of this one, and positions are replaced."""
    root = tmp_path / "first"
    files = LocalFolder(f"file://{root}")
    held = {path: files.digest(path) for path in NEEDED}

    class Slow(SavepointStore):
        def put(
            self, files: Folder, path: str, present: Container[str] | None = None
        ) -> tuple[KeptFile, bool]:
            for each in ("offsets", "commits", "state"):
                shutil.rmtree(root / "out" / each, ignore_errors=True)
            LocalFolder(f"file://{root}").write("dead-letter/in.json", b'{"later": 1}')
            return super().put(files, path, present)

    manifest = take_savepoint(files, build_revision(root), 1, Slow(store.files), "one", threads=1).manifest
    assert {file.path: file.sha256 for file in manifest.files} == {
        path: digest and digest.sha256 for path, digest in held.items()
    }
    assert list(store.find_damage(store.read("one"))) == []
    assert list(files.walk("_kappa")) == ["_kappa/generation"], "the pin is gone"


def test_where_nothing_can_be_pinned_a_slow_one_is_no_damage_to_the_checkpoint(
    store: SavepointStore, tmp_path: Path
) -> None:
    root = tmp_path / "first"

    class Unlinkable(LocalFolder):
        is_linkable = False

    state = root / "out" / "state" / "0"
    snapshot = (state / "1" / "3_p1v3.zip").read_bytes()
    shutil.copytree(state / "1" / "SSTs", state / "0" / "SSTs", dirs_exist_ok=True)

    class Slow(SavepointStore):
        """Before a file of state is kept, a hundred batches pass, and it is removed."""

        def put(
            self, files: Folder, path: str, present: Container[str] | None = None
        ) -> tuple[KeptFile, bool]:
            if path.endswith((".zip", ".changelog")):
                batch = max(int(each.name) for each in (root / "out" / "commits").iterdir()) + 100
                for part in ("0", "1"):
                    (state / part / f"{batch + 1}_new.zip").write_bytes(snapshot)
                write_entry(root / "out" / "offsets" / str(batch), '{"conf":{}}\nin:{"in":{"0":50}}')
                write_entry(
                    root / "out" / "commits" / str(batch), {"stateUniqueIds": {"0": [["new"], ["new"]]}}
                )
                (root / path).unlink()
            return super().put(files, path, present)

    files = Unlinkable(f"file://{root}")
    with pytest.raises(UnavailableError, match=r"\d00 batches were committed meanwhile") as refused:
        take_savepoint(files, build_revision(root), 1, Slow(store.files), "one", threads=1)
    assert (refused.value.reason, refused.value.retryable) == (Reason.SAVEPOINT_UNSTABLE, True)


def test_a_position_that_is_replaced_while_it_is_copied_is_kept_as_it_was(
    store: SavepointStore, tmp_path: Path
) -> None:
    root = tmp_path / "first"

    class Racing(LocalFolder):
        """A position is written each time after it was read."""

        def digest(self, path: str) -> Digest | None:
            found = super().digest(path)
            if path == "dead-letter/in.json":
                LocalFolder(f"file://{root}").write(path, b'{"later": 1}')
            return found

    files = Racing(f"file://{root}")
    manifest = take_savepoint(files, build_revision(root), 1, store, "one", threads=1).manifest
    (position,) = (file for file in manifest.files if file.path == "dead-letter/in.json")
    assert store.read_object(position) == b"{}"


def test_objects_are_looked_for_in_a_listing_and_not_one_by_one(tmp_path: Path) -> None:
    class Listing(LocalFolder):
        def size(self, path: str) -> int | None:
            raise AssertionError(f"a request for {path} alone")

    store = SavepointStore(Listing(f"file://{tmp_path}/savepoints"))
    root = tmp_path / "first"
    write_checkpoint(root)
    manifest = take_savepoint(LocalFolder(f"file://{root}"), build_revision(root), 1, store, "one").manifest
    assert store.find_missing(manifest) == []
    lost = manifest.files[0]
    store.files.delete(object_path(lost))
    assert {file.sha256 for file in store.find_missing(manifest)} == {lost.sha256}


def test_one_that_exists_is_left_as_it_is(take: Take, tmp_path: Path) -> None:
    first = take("one").manifest
    (tmp_path / "first" / "dead-letter" / "in.json").write_text("other")
    assert take("one").manifest == first


def test_a_driver_that_was_fenced_makes_none(take: Take, store: SavepointStore) -> None:
    def refuse() -> None:
        raise FencedError(1, 2)

    with pytest.raises(FencedError):
        take("one", check=refuse)
    assert store.names() == []


def test_what_is_restored_is_the_same_but_for_paths_and_the_mark(
    take: Take, store: SavepointStore, tmp_path: Path
) -> None:
    manifest = take("one").manifest
    second = LocalFolder(f"file://{tmp_path}/second")
    assert restore_savepoint(store, manifest, second)
    assert not restore_savepoint(store, manifest, second)
    assert sorted(second.walk("")) == sorted([*NEEDED, "_kappa/restored"])
    for path in NEEDED:
        same = (tmp_path / "first" / path).read_bytes() == second.read(path)
        assert same == (path != "out/state/0/_metadata/v2/0"), path
    said = json.loads((second.read("out/state/0/_metadata/v2/0") or b"").split(b"\n")[1])
    assert said["stateStoreInfo"][0]["stateSchemaFilePaths"] == [
        f"file://{tmp_path}/second/out/state/0/_stateSchema/default/0_x"
    ]


def test_a_restore_that_died_is_done_again_and_a_fork_has_ids_of_its_own(
    take: Take, store: SavepointStore, tmp_path: Path
) -> None:
    manifest = take("one").manifest
    second = LocalFolder(f"file://{tmp_path}/second")

    def die(done: int, of: int) -> None:
        if done == of // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore_savepoint(store, manifest, second, fork=True, note=die)
    assert restore_savepoint(store, manifest, second, fork=True)
    assert json.loads(second.read("out/metadata") or b"")["id"] != "the-id"


def test_a_checkpoint_that_is_another_is_not_touched(
    take: Take, store: SavepointStore, tmp_path: Path
) -> None:
    one, two = take("one").manifest, take("two").manifest
    second = LocalFolder(f"file://{tmp_path}/second")
    restore_savepoint(store, one, second)
    with pytest.raises(LostDataError, match="restored from savepoint 'one', not from 'two'"):
        restore_savepoint(store, two, second)
    write_checkpoint(tmp_path / "third")
    write_entry(tmp_path / "third" / "out" / "commits" / "9", {})
    with pytest.raises(LostDataError, match="has later batches of out") as raised:
        restore_savepoint(store, one, LocalFolder(f"file://{tmp_path}/third"))
    assert raised.value.reason is Reason.CHECKPOINT_IN_USE


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "is missing": lambda held: None,
    "bytes instead of": lambda held: held[:-1],
    "was changed": lambda held: held[:-1] + bytes([held[-1] ^ 1]),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_damage_to_any_file_of_a_savepoint_is_found_before_use_and_named(
    take: Take, store: SavepointStore, tmp_path: Path, words: str
) -> None:
    manifest = take("one").manifest
    for number, file in enumerate(manifest.files):
        path = tmp_path / "savepoints" / "objects" / file.sha256[:2] / file.sha256
        held = path.read_bytes()
        damage(path, held, words)
        (found,) = store.find_damage(manifest)
        assert found.startswith(f"{file.path} ")
        assert words in found
        with pytest.raises(LostDataError, match=f"the savepoint is damaged: {file.path} ") as raised:
            restore_savepoint(store, manifest, LocalFolder(f"file://{tmp_path}/target-{number}"))
        assert raised.value.reason is Reason.SAVEPOINT_DAMAGED
        path.write_bytes(held)
    assert list(store.find_damage(manifest)) == []


def damage(path: Path, held: bytes, words: str) -> None:
    left = DAMAGES[words](held)
    path.unlink() if left is None else path.write_bytes(left)


@pytest.mark.parametrize("words", DAMAGES)
def test_damage_to_any_file_of_state_in_a_checkpoint_is_named_and_no_savepoint_is_made(
    take: Take, store: SavepointStore, tmp_path: Path, words: str
) -> None:
    for needed in (each for each in NEEDED if each.endswith((".changelog", ".zip"))):
        path = tmp_path / "first" / needed
        held = path.read_bytes()
        damage(path, held, words)
        with pytest.raises(LostDataError, match=path.name.removesuffix(".zip")) as raised:
            take("one")
        assert raised.value.reason is Reason.CHECKPOINT_DAMAGED
        path.write_bytes(held)
    assert store.names() == []
    with pytest.raises(LostDataError, match=r"savepoint 'one' not found below .*: none$"):
        store.read("one")


def test_an_unwritable_place_is_reported_with_the_file(take: Take, tmp_path: Path) -> None:
    (tmp_path / "savepoints").write_text("a file, where a folder should be")
    with pytest.raises(UnavailableError, match=r"could not be .*: Not a directory"):
        take("one")


def test_a_place_that_is_no_volume_is_refused() -> None:
    with pytest.raises(UnavailableError, match="s3a://bucket/x is not on a mounted volume"):
        LocalFolder("s3a://bucket/x")


def test_an_invalid_manifest_is_reported(take: Take, store: SavepointStore, tmp_path: Path) -> None:
    take("one")
    (tmp_path / "savepoints" / "one" / "manifest.json").write_text("{")
    with pytest.raises(
        LostDataError, match=r"one/manifest.json is not a valid manifest of a savepoint: file: "
    ):
        store.read("one")


def test_what_an_earlier_savepoint_lost_is_copied_again(
    take: Take, store: SavepointStore, tmp_path: Path
) -> None:
    one = take("one").manifest
    for words in ("is missing", "bytes instead of"):
        lost = next(file for file in one.files if file.path.endswith(".changelog"))
        path = tmp_path / "savepoints" / "objects" / lost.sha256[:2] / lost.sha256
        damage(path, path.read_bytes(), words)
        again = take(f"after {words}")
        assert again.copied_files == 1
        assert list(store.find_damage(again.manifest)) == []


def test_a_damaged_manifest_is_no_obstacle_to_another_savepoint(
    take: Take, store: SavepointStore, tmp_path: Path
) -> None:
    take("one")
    (tmp_path / "savepoints" / "one" / "manifest.json").write_text("{")
    assert list(store.find_damage(take("two").manifest)) == []


def test_of_many_savepoints_only_the_manifest_of_the_last_is_read(take: Take, store: SavepointStore) -> None:
    for name in ("one", "two", "three"):
        take(name)
    read: list[str] = []

    class Counting(LocalFolder):
        def read(self, path: str, size: int | None = None) -> bytes | None:
            read.append(path if size is None else f"beginning of {path}")
            return super().read(path, size)

    latest = next(SavepointStore(Counting(store.root)).read_all())
    assert (latest.name, read) == ("three", ["three/manifest.json"])
