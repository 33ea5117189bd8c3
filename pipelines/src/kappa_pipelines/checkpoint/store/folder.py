"""A folder that is read and written without the JVM, for what copies many files; here, one on a mounted volume.

A file appears whole or not at all, and is on the disk when a call returns. Hadoop's client for local files starts a program for
each file that it makes, which is right for a few and not for thousands.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, Self
from urllib.parse import urlsplit

import google_crc32c

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import UnavailableError

_BUFFER_BYTES = 2**20
_UNLINKABLE = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP)


@dataclass(frozen=True, slots=True)
class Digest:
    """What the bytes of a file come to: how many they are, their SHA-256 in hexadecimal, and their CRC-32C (RFC 3720)."""

    size: int
    sha256: str
    crc32c: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as a listing shows it: its path, its bytes, and when it was written, in seconds since 1970 of the store's clock."""

    path: str
    size: int
    modified: float


def walk_entries(entries: Callable[[str], list[tuple[str, bool]]], folder: str) -> Iterator[str]:
    """Yield the paths of all files below a folder, by what lists the names in one and says which are folders."""
    for name, is_folder in entries(folder):
        path = f"{folder}/{name}" if folder else name
        if is_folder:
            yield from walk_entries(entries, path)
        else:
            yield path


class Folder(Protocol):
    """Files below one folder, by their paths below it. UnavailableError says what could not be done with which of them."""

    @property
    def root(self) -> str:
        """Return the folder's URI, as Spark takes it."""

    def below(self, folder: str) -> "Folder":
        """Return a folder in this one."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""

    def walk(self, folder: str) -> Iterator[str]:
        """Yield the paths of all files below a folder; none if there is no such folder."""

    def list_files(self, folder: str) -> Iterator[Listed]:
        """Yield all files below a folder, in no order; none if there is no such folder. Cheaper than to ask for each."""

    def read(self, path: str) -> bytes | None:
        """Return what a file holds, or None if there is no such file."""

    def read_head(self, path: str, size: int) -> bytes | None:
        """Return the first bytes of a file, so many or all that it has; None if there is no such file."""

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield what a file holds, in pieces."""

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has, or None if there is no such file."""

    def digest(self, path: str) -> Digest | None:
        """Return what a file's bytes come to, or None if there is no such file."""

    def write(self, path: str, held: bytes) -> None:
        """Write a file, in the place of an older one."""

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        """Write a file of pieces, in the place of an older one; return what they came to."""

    def copy(self, path: str, to: "Folder", target: str) -> Digest:
        """Copy a file, in the place of an older one; return what was copied."""

    def modified(self, path: str) -> float | None:
        """Return when a file was last written, in seconds of the store's own clock; None if there is no such file."""

    def move(self, path: str, target: str) -> bool:
        """Move a file to another path, in the place of an older one; return whether it was there."""

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""

    @property
    def is_linkable(self) -> bool:
        """Return whether a link is cheaper than a copy."""

    def link(self, path: str, to: "Folder", target: str) -> None:
        """Have a file that never changes in another folder too, in the cheapest way that there is."""

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""


class Counter:
    """Takes in bytes and says what they come to."""

    def __init__(self) -> None:
        self._size, self._sha256, self._crc = 0, hashlib.sha256(), 0

    def count(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces as they are taken in."""
        for held in chunks:
            self._size += len(held)
            self._sha256.update(held)
            self._crc = google_crc32c.extend(self._crc, held)
            yield held

    def exhaust(self, chunks: Iterable[bytes]) -> Digest:
        """Take in all pieces, and return what they come to."""
        for _ in self.count(chunks):
            pass
        return self.digest

    @property
    def digest(self) -> Digest:
        """Return what came in so far."""
        return Digest(self._size, self._sha256.hexdigest(), self._crc)


class LocalFolder:
    """Files below one folder, by their paths below it. UnavailableError says what could not be done with which of them."""

    is_linkable = True

    def __init__(self, root: str) -> None:
        parts = urlsplit(root)
        if parts.scheme not in ("", "file"):
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, f"{root} is on no mounted volume")
        self.root = root.rstrip("/")
        self._path = Path(parts.path)

    def below(self, folder: str) -> Self:
        """Return a folder in this one."""
        return type(self)(f"{self.root}/{folder}")

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        with self._explain("listed", folder):
            try:
                return sorted(entry.name for entry in (self._path / folder).iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def walk(self, folder: str) -> Iterator[str]:
        """Yield the paths of all files below a folder; none if there is no such folder. Links are not followed."""
        for name in self.names(folder):
            path = f"{folder}/{name}" if folder else name
            if (self._path / path).is_symlink():
                continue
            if (self._path / path).is_dir():
                yield from self.walk(path)
            else:
                yield path

    def list_files(self, folder: str) -> Iterator[Listed]:
        """Yield all files below a folder; none if there is no such folder. Links are not followed, and what goes meanwhile is left out."""
        for path in self.walk(folder):
            with self._explain("listed", path), contextlib.suppress(FileNotFoundError):
                found = (self._path / path).stat()
                yield Listed(path, found.st_size, found.st_mtime)

    def read(self, path: str) -> bytes | None:
        """Return what a file holds, or None if there is no such file."""
        with self._explain("read", path):
            try:
                return (self._path / path).read_bytes()
            except FileNotFoundError:
                return None

    def read_head(self, path: str, size: int) -> bytes | None:
        """Return the first bytes of a file, so many or all that it has; None if there is no such file."""
        with self._explain("read", path):
            try:
                with (self._path / path).open("rb") as file:
                    return file.read(size)
            except FileNotFoundError:
                return None

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has, or None if there is no such file."""
        with self._explain("read", path):
            try:
                return (self._path / path).stat().st_size
            except FileNotFoundError:
                return None

    def digest(self, path: str) -> Digest | None:
        """Return what a file's bytes come to, or None if there is no such file."""
        with self._explain("read", path):
            if not (self._path / path).is_file():
                return None
            return Counter().exhaust(self.chunks(path))

    def write(self, path: str, held: bytes) -> None:
        """Write a file, in the place of an older one."""
        with self._explain("written", path), self._replace(path) as part:
            part.write(held)

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield what a file holds, in pieces."""
        with self._explain("read", path), (self._path / path).open("rb") as file:
            while held := file.read(_BUFFER_BYTES):
                yield held

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        """Write a file of pieces, in the place of an older one; return what they came to."""
        counter = Counter()
        with self._explain("written", path), self._replace(path) as part:
            part.writelines(counter.count(chunks))
        return counter.digest

    def copy(self, path: str, to: Folder, target: str) -> Digest:
        """Copy a file, in the place of an older one; return what was copied."""
        return to.fill(target, self.chunks(path))

    def modified(self, path: str) -> float | None:
        """Return when a file was last written, in seconds of the volume's own clock; None if there is no such file."""
        with self._explain("read", path):
            try:
                return (self._path / path).stat().st_mtime
            except FileNotFoundError:
                return None

    def move(self, path: str, target: str) -> bool:
        """Move a file to another path, in the place of an older one; return whether it was there."""
        with self._explain(f"moved to {target}", path):
            (self._path / target).parent.mkdir(parents=True, exist_ok=True)
            try:
                (self._path / path).replace(self._path / target)
            except FileNotFoundError:
                return False
            return True

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""
        with self._explain("deleted", path):
            (self._path / path).unlink(missing_ok=True)

    def link(self, path: str, to: Folder, target: str) -> None:
        """Give a file that never changes another name, in a folder where it has none; copy it where the file system cannot."""
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
        """Remove a folder with all that is in it, if it is there."""
        with self._explain("removed", folder):
            shutil.rmtree(self._path / folder, ignore_errors=True)

    @contextlib.contextmanager
    def _replace(self, path: str) -> Iterator[BinaryIO]:
        """Give a file to write to; it takes the path's place when the context ends without an error."""
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
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _explain(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(
                Reason.CHECKPOINT_UNAVAILABLE, f"{self.root}/{path} could not be {verb}: {error.strerror}"
            ) from error
