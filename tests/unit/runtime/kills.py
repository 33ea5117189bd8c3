"""Kills inside file writes: a folder whose n-th write is the last one of its process."""

from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from kappa_pipelines.checkpoint.store.folder import Digest
from kappa_pipelines.checkpoint.store.local import LocalFolder


class Killed(BaseException):
    """The process is dead: nothing handles it."""


class KillingFolder(LocalFolder):
    """A folder that dies in its n-th write: before the file is replaced, with a part of it left, or after that."""

    def __init__(self, root: str, number: int = 0, *, is_done: bool = False) -> None:
        super().__init__(root)
        self.writes, self._number, self._is_done = 0, number, is_done
        self._is_dead = False

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        self.writes += 1
        if self._is_dead:
            raise Killed
        if self.writes != self._number:
            return super().fill(path, chunks)
        self._is_dead = True
        if self._is_done:
            super().fill(path, chunks)
        else:
            target = Path(urlsplit(self.root).path) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f".{target.name}.killed.part").write_bytes(b"".join(chunks)[:5])
        raise Killed


def count_writes(root: str, run: Callable[[LocalFolder], object]) -> int:
    """Return the number of writes of a run that nothing kills."""
    folder = KillingFolder(root)
    run(folder)
    return folder.writes
