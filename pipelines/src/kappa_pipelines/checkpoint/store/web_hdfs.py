"""Requests of WebHDFS, one function for each operation that is needed, with the errors that matter told apart.

fsspec's client asks for the same, but for what the fence stands on: it takes a rename that was refused for one that was done, and
can neither ask for one that does not replace nor create a file only where there is none.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from kappa_crds.hdfs import HdfsConnection, build_web_url, explain_refusal

_CHUNK_BYTES = 2**20
_FAILED = 400
# A request that was not sent may be sent again. One whose answer was lost may have been done: only reading is asked for twice.
_RETRY = urllib3.Retry(
    connect=2, read=2, redirect=0, other=0, status=0, backoff_factor=0.2, allowed_methods={"GET"}
)


class HdfsError(Exception):
    """HDFS refused, or does not answer; the message is its own."""


class MissingError(HdfsError):
    """There is no such file or folder, or a file is where a folder of the path should be."""


class PresentError(HdfsError):
    """There is one already."""


_ERRORS = {
    "FileNotFoundException": MissingError,
    "ParentNotDirectoryException": MissingError,
    "FileAlreadyExistsException": PresentError,
}
_NO_FOLDER = "(is not a directory)"


class WebHdfs:
    """Asks one namenode and its datanodes. Paths begin with a slash. HdfsError as above."""

    def __init__(self, connection: HdfsConnection) -> None:
        self._connection = connection
        timeout = urllib3.Timeout(connect=5, read=60)
        self._pool = urllib3.PoolManager(maxsize=8, retries=_RETRY, timeout=timeout)

    def list_folder(self, path: str) -> list[dict[str, Any]]:
        """Return what HDFS says of each entry of a folder; of a file, that it is one, without a name."""
        found: list[dict[str, Any]] = self._ask("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return found

    def describe(self, path: str) -> dict[str, Any]:
        """Return what HDFS says of a file or folder."""
        found: dict[str, Any] = self._ask("GET", path, "GETFILESTATUS")["FileStatus"]
        return found

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, if they are not there."""
        self._ask("PUT", path, "MKDIRS")

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file or folder; return whether there was one."""
        return bool(self._ask("DELETE", path, "DELETE", recursive=str(recursive).lower())["boolean"])

    def rename(self, path: str, target: str, *, replace: bool) -> None:
        """Give a file or folder another path, in one step; PresentError where that is taken and not to be replaced."""
        how = "OVERWRITE" if replace else "NONE"
        self._ask("PUT", path, "RENAME", destination=target, renameoptions=how)

    def read(self, path: str, length: int | None = None) -> Iterator[bytes]:
        """Yield what a file holds, in pieces, or its first bytes up to a length."""
        query: dict[str, Any] = {} if length is None else {"length": str(length)}
        with self._at_datanode("GET", path, "OPEN", **query) as answer:
            while held := self._take(answer):
                yield held

    def create(self, path: str, held: bytes | Iterable[bytes]) -> None:
        """Write a file where there is none; it is there before it is whole. PresentError where there is one."""
        copies = str(self._connection.replication)
        query = {"overwrite": "false", "replication": copies}
        self._at_datanode("PUT", path, "CREATE", held, **query).drain_conn()

    def _ask(self, method: str, path: str, operation: str, **query: str) -> Any:
        answer = self._send(method, build_web_url(self._connection, path, operation, **query))
        held = answer.data
        try:
            return json.loads(held) if held else {}
        except ValueError as error:
            raise HdfsError(f"{self._connection.web} does not answer as WebHDFS does") from error

    def _at_datanode(
        self,
        method: str,
        path: str,
        operation: str,
        held: bytes | Iterable[bytes] | None = None,
        **query: str,
    ) -> BaseHTTPResponse:
        """Ask the namenode where the data are to be read or written, and do that there."""
        url = build_web_url(self._connection, path, operation, **query)
        asked = self._send(method, url)
        asked.drain_conn()
        where = asked.headers.get("Location")
        if where is None:
            raise HdfsError(f"{self._connection.web} names no datanode")
        return self._send(method, where, held)

    def _send(self, method: str, url: str, held: bytes | Iterable[bytes] | None = None) -> BaseHTTPResponse:
        try:
            answer = self._pool.request(method, url, body=held, redirect=False, preload_content=False)
        except HTTPError as error:
            raise HdfsError(f"{_name_server(url)} does not answer: {_say(error)}") from error
        if answer.status >= _FAILED:
            name, said = explain_refusal(answer.status, answer.read())
            kind = MissingError if _NO_FOLDER in said else _ERRORS.get(name, HdfsError)
            raise kind(said)
        return answer

    def _take(self, answer: BaseHTTPResponse) -> bytes:
        try:
            return answer.read(_CHUNK_BYTES)
        except HTTPError as error:
            raise HdfsError(f"the datanode broke off: {_say(error)}") from error


def _name_server(url: str) -> str:
    return "/".join(url.split("/", maxsplit=3)[:3])


def _say(error: HTTPError) -> str:
    """Return why, without the address of an object and the whole URL."""
    return str(getattr(error, "reason", None) or error)[:200]
