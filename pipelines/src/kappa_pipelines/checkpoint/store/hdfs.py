"""A folder in HDFS.

A file is written under another name and renamed in one step of the namenode, so it appears whole or not at all. HDFS has neither
copies nor links, so a copy within HDFS passes through this process.
"""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from kappa_crds.reasons import Reason
from kappa_crds.stores import SCHEME, HdfsConnection
from kappa_pipelines.checkpoint.store.folder import Counter, Digest, Folder, Listed
from kappa_pipelines.checkpoint.store.web_hdfs import HdfsError, MissingError, WebHdfs
from kappa_pipelines.errors import UnavailableError

_MOST_BYTES = 2**28
"""Limit of a file that is held in memory."""
FOLDER_TYPE = "DIRECTORY"
"""The type of a folder in WebHDFS."""


class HdfsFolder(Folder):
    """Files below one folder, by their relative paths.

    `inner` is a folder below `root` that has the files while messages name `root` only.
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
        path = "/".join(part for part in (self.root, self._inner, folder) if part)
        return HdfsFolder(path, self.connection, client=self.client)

    def show(self, inner: str) -> "HdfsFolder":
        """Return a subfolder under the root of this folder."""
        return HdfsFolder(self.root, self.connection, inner=inner, client=self.client)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        return sorted((each["pathSuffix"], each["type"] == FOLDER_TYPE) for each in self._list(folder))

    def list_files(self, folder: str) -> Iterator[Listed]:
        for each in self._list(folder):
            path = f"{folder}/{each['pathSuffix']}" if folder else str(each["pathSuffix"])
            if each["type"] == FOLDER_TYPE:
                yield from self.list_files(path)
            else:
                yield _parse_status(path, each)

    def stat(self, path: str) -> Listed | None:
        with self._explain("read", path):
            try:
                found = self.client.describe(self.locate(path))
            except MissingError:
                return None
        return None if found["type"] == FOLDER_TYPE else _parse_status(path, found)

    def read(self, path: str, size: int | None = None) -> bytes | None:
        most = _MOST_BYTES + 1 if size is None else size
        with self._explain("read", path):
            try:
                held = b"".join(self.client.read(self.locate(path), most))
            except MissingError:
                return None
        if size is None and len(held) > _MOST_BYTES:
            message = f"{self.root}/{path} has more than {_MOST_BYTES} bytes"
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, message)
        return held

    def chunks(self, path: str) -> Iterator[bytes]:
        with self._explain("read", path):
            yield from self.client.read(self.locate(path))

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        counter, target = Counter(), self.locate(path)
        folder, _, name = target.rpartition("/")
        part = f"{folder}/.{name[:100]}.{uuid.uuid4().hex[:8]}.part"
        with self._explain("written", path):
            try:
                self.client.create(part, counter.count(chunks))
                self.client.rename(part, target, replace=True)
            except BaseException:
                # The datanode may still create the part after an interrupted request; then it remains, as after a crash.
                with contextlib.suppress(HdfsError):
                    self.client.delete(part)
                raise
        return counter.digest

    def move(self, path: str, target: str) -> bool:
        with self._explain(f"moved to {target}", path):
            if self.stat(path) is None:
                return False
            to = self.locate(target)
            self.client.make_folder(to.rpartition("/")[0])
            try:
                self.client.rename(self.locate(path), to, replace=True)
            except MissingError:
                return False
            return True

    def delete(self, path: str) -> None:
        with self._explain("deleted", path), contextlib.suppress(MissingError):
            self.client.delete(self.locate(path))

    def remove(self, folder: str) -> None:
        with self._explain("removed", folder), contextlib.suppress(MissingError):
            self.client.delete(self.locate(folder), recursive=True)

    def locate(self, path: str) -> str:
        """Return the absolute path in HDFS."""
        return f"{self._base}/{path}".rstrip("/") or "/"

    def _list(self, folder: str) -> list[dict[str, Any]]:
        """Return the status of each entry of a folder; none if the folder does not exist."""
        with self._explain("listed", folder):
            try:
                found = self.client.list_folder(self.locate(folder))
            except MissingError:
                return []
        return [each for each in found if each["pathSuffix"]]

    @contextlib.contextmanager
    def _explain(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except HdfsError as error:
            message = f"{self.root}/{path} could not be {verb}: {error}"
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, message) from error


def _parse_status(path: str, status: dict[str, Any]) -> Listed:
    return Listed(path, int(status["length"]), float(status["modificationTime"]) / 1000)
