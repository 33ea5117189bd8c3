"""A folder in HDFS, read and written without the JVM.

A file appears whole or not at all: it is written under another name, and renamed in one step of the namenode. What is copied goes through this
process, also within HDFS, which has no copies and no links of its own.
"""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from kappa_crds.hdfs import SCHEME, HdfsConnection
from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Counter, Digest, Folder, Listed, walk_entries
from kappa_pipelines.checkpoint.store.web_hdfs import HdfsError, MissingError, WebHdfs
from kappa_pipelines.errors import UnavailableError

FOLDER_TYPE = "DIRECTORY"
"""What HDFS says that a folder is."""


class HdfsFolder:
    """Files below one folder, by their paths below it.

    `inner` is where below `root` they are, for those who are to be told of the root alone.
    """

    is_linkable = False

    def __init__(
        self, root: str, connection: HdfsConnection, *, inner: str = "", client: WebHdfs | None = None
    ) -> None:
        parts = urlsplit(root)
        if parts.scheme != SCHEME:
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, f"{root} is not in HDFS")
        self.root = root.rstrip("/")
        self.connection = connection
        self.client = client or WebHdfs(connection)
        self._base = "/".join(part for part in (unquote(parts.path).rstrip("/"), inner) if part)
        self._inner = inner

    def below(self, folder: str) -> "HdfsFolder":
        """Return a folder in this one."""
        path = "/".join(part for part in (self.root, self._inner, folder) if part)
        return HdfsFolder(path, self.connection, client=self.client)

    def show(self, inner: str) -> "HdfsFolder":
        """Return a folder in this one as if it were this one."""
        return HdfsFolder(self.root, self.connection, inner=inner, client=self.client)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, sorted, and whether each is a folder; none if there is no such folder."""
        return sorted((each["pathSuffix"], each["type"] == FOLDER_TYPE) for each in self._list(folder))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        return [name for name, _ in self.entries(folder)]

    def walk(self, folder: str) -> Iterator[str]:
        """Return the paths of all files below a folder; none if there is no such folder."""
        return walk_entries(self.entries, folder)

    def list_files(self, folder: str) -> Iterator[Listed]:
        """Yield all files below a folder; none if there is no such folder. Each folder is a request."""
        for each in self._list(folder):
            path = f"{folder}/{each['pathSuffix']}" if folder else str(each["pathSuffix"])
            if each["type"] == FOLDER_TYPE:
                yield from self.list_files(path)
            else:
                yield Listed(path, int(each["length"]), float(each["modificationTime"]) / 1000)

    def read(self, path: str) -> bytes | None:
        """Return what a file holds, or None if there is no such file."""
        with self._explain("read", path):
            try:
                return b"".join(self.client.read(self.locate(path)))
            except MissingError:
                return None

    def read_head(self, path: str, size: int) -> bytes | None:
        """Return the first bytes of a file, so many or all that it has; None if there is no such file."""
        with self._explain("read", path):
            try:
                return b"".join(self.client.read(self.locate(path), length=size))
            except MissingError:
                return None

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield what a file holds, in pieces."""
        with self._explain("read", path):
            yield from self.client.read(self.locate(path))

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has, or None if there is no such file."""
        found = self._describe(path)
        return None if found is None else int(found["length"])

    def digest(self, path: str) -> Digest | None:
        """Return what a file's bytes come to, or None if there is no such file."""
        return None if self._describe(path) is None else Counter().exhaust(self.chunks(path))

    def write(self, path: str, held: bytes) -> None:
        """Write a file, in the place of an older one."""
        self.fill(path, (held,))

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        """Write a file of pieces, in the place of an older one; return what they came to."""
        counter, target = Counter(), self.locate(path)
        folder, _, name = target.rpartition("/")
        part = f"{folder}/.{name[:100]}.{uuid.uuid4().hex[:8]}.part"
        with self._explain("written", path):
            try:
                self.client.create(part, counter.count(chunks))
                self.client.rename(part, target, replace=True)
            except BaseException:
                # Where it broke off, the datanode may still make it afterwards: then it stays, as after a crash.
                with contextlib.suppress(HdfsError):
                    self.client.delete(part)
                raise
        return counter.digest

    def copy(self, path: str, to: Folder, target: str) -> Digest:
        """Copy a file, in the place of an older one; return what was copied."""
        return to.fill(target, self.chunks(path))

    def modified(self, path: str) -> float | None:
        """Return when a file was last written, in seconds of the namenode's own clock; None if there is no such file."""
        found = self._describe(path)
        return None if found is None else float(found["modificationTime"]) / 1000

    def move(self, path: str, target: str) -> bool:
        """Move a file to another path, in the place of an older one; return whether it was there."""
        with self._explain(f"moved to {target}", path):
            if self._describe(path) is None:
                return False
            to = self.locate(target)
            self.client.make_folder(to.rpartition("/")[0])
            try:
                self.client.rename(self.locate(path), to, replace=True)
            except MissingError:
                return False
            return True

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""
        with self._explain("deleted", path), contextlib.suppress(MissingError):
            self.client.delete(self.locate(path))

    def link(self, path: str, to: Folder, target: str) -> None:
        """Copy a file that never changes."""
        self.copy(path, to, target)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        with self._explain("removed", folder), contextlib.suppress(MissingError):
            self.client.delete(self.locate(folder), recursive=True)

    def locate(self, path: str) -> str:
        """Return where in HDFS a path is."""
        return f"{self._base}/{path}".rstrip("/") or "/"

    def _list(self, folder: str) -> list[dict[str, Any]]:
        """Return what HDFS says of each thing in a folder; none if there is no such folder."""
        with self._explain("listed", folder):
            try:
                found = self.client.list_folder(self.locate(folder))
            except MissingError:
                return []
        return [each for each in found if each["pathSuffix"]]

    def _describe(self, path: str) -> dict[str, Any] | None:
        """Return what HDFS says of a file; None where there is none, or a folder."""
        with self._explain("read", path):
            try:
                found = self.client.describe(self.locate(path))
            except MissingError:
                return None
        return None if found["type"] == FOLDER_TYPE else found

    @contextlib.contextmanager
    def _explain(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except HdfsError as error:
            said = f"{self.root}/{path} could not be {verb}: {error}"
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, said) from error
