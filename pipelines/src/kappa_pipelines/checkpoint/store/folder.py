"""A folder that Python reads and writes without the JVM, on a volume, in a bucket or in HDFS.

A file appears whole or not at all, and it is durable when a call returns. Hadoop's client for local files starts a program for
each file that it creates, which is too slow for thousands of files.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import google_crc32c


@dataclass(frozen=True, slots=True)
class Digest:
    """Size of a file in bytes, its SHA-256 in hexadecimal, and its CRC-32C (RFC 3720)."""

    size: int
    sha256: str
    crc32c: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a listing: path, size in bytes, and modification time in seconds since 1970 by the clock of the store."""

    path: str
    size: int
    modified: float


class Folder(ABC):
    """Files below one folder, by their relative paths. UnavailableError names the file and the operation that failed."""

    root: str
    """The folder's URI, as Spark takes it."""
    is_linkable = True
    """Whether a link is cheaper than a copy."""

    @abstractmethod
    def below(self, folder: str) -> "Folder":
        """Return a subfolder."""

    @abstractmethod
    def entries(self, folder: str) -> list[tuple[str, bool]]:
        """Return the sorted names in a folder, and whether each is a folder; none if the folder does not exist."""

    @abstractmethod
    def list_files(self, folder: str) -> Iterator[Listed]:
        """Yield all files below a folder, in no order; none if it does not exist. Cheaper than a `stat` of each."""

    @abstractmethod
    def stat(self, path: str) -> Listed | None:
        """Return size and modification time of a file; None if it does not exist."""

    @abstractmethod
    def read(self, path: str, size: int | None = None) -> bytes | None:
        """Return the content of a file, or at most its first `size` bytes; None if it does not exist."""

    @abstractmethod
    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the content of a file in pieces."""

    @abstractmethod
    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        """Write or replace a file from pieces, and return their digest."""

    @abstractmethod
    def move(self, path: str, target: str) -> bool:
        """Move a file, replace the target, and return whether the file existed."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file if it exists."""

    @abstractmethod
    def remove(self, folder: str) -> None:
        """Remove a folder and its content if it exists."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; none if the folder does not exist."""
        return [name for name, _ in self.entries(folder)]

    def walk(self, folder: str) -> Iterator[str]:
        """Yield the paths of all files below a folder; none if it does not exist."""
        for name, is_folder in self.entries(folder):
            path = f"{folder}/{name}" if folder else name
            if is_folder:
                yield from self.walk(path)
            else:
                yield path

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes, or None if it does not exist."""
        found = self.stat(path)
        return None if found is None else found.size

    def modified(self, path: str) -> float | None:
        """Return the modification time of a file by the clock of the store, in seconds since 1970; None if it does not exist."""
        found = self.stat(path)
        return None if found is None else found.modified

    def digest(self, path: str) -> Digest | None:
        """Return the digest of a file, or None if it does not exist."""
        return None if self.stat(path) is None else Counter().exhaust(self.chunks(path))

    def write(self, path: str, held: bytes) -> None:
        """Write or replace a file."""
        self.fill(path, (held,))

    def copy(self, path: str, to: "Folder", target: str) -> Digest:
        """Copy a file to a folder, replace the target, and return the digest of the copy."""
        return to.fill(target, self.chunks(path))

    def copies_within(self, to: "Folder") -> bool:
        """Return whether the store itself copies files to another folder."""
        return False

    def link(self, path: str, to: "Folder", target: str) -> None:
        """Add an immutable file to another folder, where it does not exist yet, by the cheapest operation of the store."""
        self.copy(path, to, target)


class Counter:
    """Computes the digest of a sequence of bytes."""

    def __init__(self) -> None:
        self._size, self._sha256, self._crc = 0, hashlib.sha256(), 0

    def count(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces and add them to the digest."""
        for held in chunks:
            self._size += len(held)
            self._sha256.update(held)
            self._crc = google_crc32c.extend(self._crc, held)
            yield held

    def exhaust(self, chunks: Iterable[bytes]) -> Digest:
        """Consume all pieces and return the digest."""
        for _ in self.count(chunks):
            pass
        return self.digest

    @property
    def digest(self) -> Digest:
        """Return the digest of the pieces up to now."""
        return Digest(self._size, self._sha256.hexdigest(), self._crc)
