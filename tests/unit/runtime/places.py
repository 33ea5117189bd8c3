"""Savepoints on disk whose every step can be told: another process can do something at it, or this one die."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from kappa_pipelines.checkpoint.store.folder import Digest
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.take import Taken, take_savepoint
from unit.runtime.checkpoints import build_revision, write_checkpoint, write_entry

IGNORING_MARKS = -1e9
"""A patience with which every mark is of a dead taker: then only the protocol itself keeps what is needed."""


class SteppedFolder(LocalFolder):
    """A folder that calls `at[n]` before its n-th change of the disk."""

    def __init__(self, root: str, at: dict[int, Callable[[], object]] | None = None) -> None:
        super().__init__(root)
        self.at = at or {}
        self.steps = 0

    def _step(self) -> None:
        self.steps += 1
        self.at.get(self.steps, lambda: None)()

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        self._step()
        return super().fill(path, chunks)

    def move(self, path: str, target: str) -> bool:
        self._step()
        return super().move(path, target)

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)

    def remove(self, folder: str) -> None:
        self._step()
        super().remove(folder)


class Died(BaseException):
    """The process is no more."""


def die() -> None:
    raise Died


class Place:
    """A checkpoint and the savepoints beside it, below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoint = root / "checkpoint"

    @classmethod
    def make(cls, root: Path) -> "Place":
        place = cls(root)
        write_checkpoint(place.checkpoint)
        return place

    def copy(self, name: str) -> "Place":
        """The same, elsewhere: the disk is asked for less than by taking all savepoints again."""
        shutil.copytree(self.root, self.root.with_name(name))
        return Place(self.root.with_name(name))

    def open(self, at: dict[int, Callable[[], object]] | None = None) -> SavepointStore:
        return SavepointStore(SteppedFolder(f"file://{self.root}/savepoints", at))

    def take(self, name: str, store: SavepointStore | None = None) -> Taken:
        revision = build_revision(self.checkpoint)
        files = SteppedFolder(revision.checkpoint)
        return take_savepoint(files, revision, 1, store or self.open(), name, threads=1)

    def go_on(self) -> None:
        """The pipeline commits a further batch."""
        ids = {"0": [["p0v6"], ["p1v6"]]}
        write_entry(self.checkpoint / "out" / "offsets" / "5", 'x\nin:{"in":{"0":50}}')
        write_entry(self.checkpoint / "out" / "commits" / "5", {"stateUniqueIds": ids})

    def objects(self) -> set[str]:
        return {path.name for path in (self.root / "savepoints" / "objects").rglob("*") if path.is_file()}

    def named(self) -> set[str]:
        return {file.sha256 for manifest in self.open().read_all() for file in manifest.files}

    def check(self, *names: str) -> None:
        """These savepoints are there and whole."""
        store = self.open()
        assert store.names() == sorted(names)
        for name in names:
            assert list(store.find_damage(store.read(name))) == []


def count_steps(run: Callable[[SavepointStore], object], store: SavepointStore) -> int:
    run(store)
    assert isinstance(store.files, SteppedFolder)
    return store.files.steps
