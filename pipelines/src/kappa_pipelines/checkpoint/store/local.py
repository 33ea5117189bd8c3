"""A folder on a mounted volume."""

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Counter, Digest, Folder, Listed
from kappa_pipelines.errors import UnavailableError

_BUFFER_BYTES = 2**20
_UNLINKABLE = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP)


class LocalFolder(Folder):
    """Files below a folder of a volume. Symbolic links are listed by name but not followed below the root."""

    def __init__(self, root: str) -> None:
        parts = urlsplit(root)
        if parts.scheme not in ("", "file"):
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, f"{root} is not on a mounted volume")
        self.root = root.rstrip("/")
        self._path = Path(parts.path)

    def below(self, folder: str) -> "LocalFolder":
        return type(self)(f"{self.root}/{folder}")

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        with self._explain("listed", folder):
            try:
                with os.scandir(self._path / folder) as found:
                    return sorted((each.name, each.is_dir(follow_symlinks=False)) for each in found)
            except (FileNotFoundError, NotADirectoryError):
                return []

    def walk(self, folder: str) -> Iterator[str]:
        yield from (path for path in super().walk(folder) if not (self._path / path).is_symlink())

    def list_files(self, folder: str) -> Iterator[Listed]:
        found = (self.stat(path) for path in self.walk(folder))
        yield from (each for each in found if each is not None)

    def stat(self, path: str) -> Listed | None:
        with self._explain("read", path):
            try:
                found = (self._path / path).stat()
            except FileNotFoundError:
                return None
        return Listed(path, found.st_size, found.st_mtime) if stat.S_ISREG(found.st_mode) else None

    def read(self, path: str, size: int | None = None) -> bytes | None:
        with self._explain("read", path):
            try:
                with (self._path / path).open("rb") as file:
                    return file.read(size)
            except FileNotFoundError:
                return None

    def chunks(self, path: str) -> Iterator[bytes]:
        with self._explain("read", path), (self._path / path).open("rb") as file:
            while held := file.read(_BUFFER_BYTES):
                yield held

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        counter = Counter()
        with self._explain("written", path), self._replace(path) as part:
            part.writelines(counter.count(chunks))
        return counter.digest

    def move(self, path: str, target: str) -> bool:
        with self._explain(f"moved to {target}", path):
            (self._path / target).parent.mkdir(parents=True, exist_ok=True)
            try:
                (self._path / path).replace(self._path / target)
            except FileNotFoundError:
                return False
            return True

    def delete(self, path: str) -> None:
        with self._explain("deleted", path):
            (self._path / path).unlink(missing_ok=True)

    def link(self, path: str, to: Folder, target: str) -> None:
        if not isinstance(to, LocalFolder):
            self.copy(path, to, target)
            return
        with self._explain(f"linked to {to.root}", path):
            made = to._path / target
            made.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(self._path / path, made)
                return
            except OSError as error:
                if error.errno not in _UNLINKABLE:
                    raise
        self.copy(path, to, target)

    def remove(self, folder: str) -> None:
        with self._explain("removed", folder):
            shutil.rmtree(self._path / folder, ignore_errors=True)

    @contextlib.contextmanager
    def _replace(self, path: str) -> Iterator[BinaryIO]:
        """Open a temporary file that replaces the file at `path` when the context ends without an error."""
        target = self._path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex[:8]}.part")
        try:
            with part.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(target.parent)

    @contextlib.contextmanager
    def _explain(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{self.root}/{path} could not be {verb}: {error.strerror}"
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, message) from error


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
