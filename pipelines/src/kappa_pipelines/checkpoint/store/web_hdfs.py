"""A client of WebHDFS with the operations and errors that the runtime needs.

fsspec's client lacks what the fence needs: it reports a rejected rename as done, and it has neither a rename that never replaces nor
an exclusive create.
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
# A request whose response was lost may have taken effect, so only reads are repeated.
_RETRY = urllib3.Retry(
    connect=2, read=2, redirect=0, other=0, status=0, backoff_factor=0.2, allowed_methods={"GET"}
)


class HdfsError(Exception):
    """HDFS rejected a request or does not respond; the message is its own."""


class MissingError(HdfsError):
    """The path does not exist, or one of its parents is a file."""


class PresentError(HdfsError):
    """The path exists."""


_ERRORS = {
    "FileNotFoundException": MissingError,
    "ParentNotDirectoryException": MissingError,
    "FileAlreadyExistsException": PresentError,
}
_NO_FOLDER = "(is not a directory)"


class WebHdfs:
    """Sends requests to one namenode and its datanodes. Paths begin with a slash. Every method raises HdfsError."""

    def __init__(self, connection: HdfsConnection) -> None:
        self._connection = connection
        timeout = urllib3.Timeout(connect=5, read=60)
        self._pool = urllib3.PoolManager(maxsize=8, retries=_RETRY, timeout=timeout)

    def list_folder(self, path: str) -> list[dict[str, Any]]:
        """Return the status of each entry of a folder; of a file, its own status without a name."""
        found: list[dict[str, Any]] = self._ask("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return found

    def describe(self, path: str) -> dict[str, Any]:
        """Return the status of a file or folder."""
        found: dict[str, Any] = self._ask("GET", path, "GETFILESTATUS")["FileStatus"]
        return found

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents if they do not exist."""
        self._ask("PUT", path, "MKDIRS")

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file or folder, and return whether it existed."""
        return bool(self._ask("DELETE", path, "DELETE", recursive=str(recursive).lower())["boolean"])

    def rename(self, path: str, target: str, *, replace: bool) -> None:
        """Rename a file or folder atomically; PresentError if the target exists and `replace` is false."""
        how = "OVERWRITE" if replace else "NONE"
        self._ask("PUT", path, "RENAME", destination=target, renameoptions=how)

    def read(self, path: str, length: int | None = None) -> Iterator[bytes]:
        """Yield the content of a file in pieces, or its first `length` bytes."""
        query: dict[str, Any] = {} if length is None else {"length": str(length)}
        with self._at_datanode("GET", path, "OPEN", **query) as answer:
            while held := self._take(answer):
                yield held

    def create(self, path: str, held: bytes | Iterable[bytes]) -> None:
        """Create a file; it exists before it is complete. PresentError if it exists already."""
        copies = str(self._connection.replication)
        query = {"overwrite": "false", "replication": copies}
        self._at_datanode("PUT", path, "CREATE", held, **query).drain_conn()

    def _ask(self, method: str, path: str, operation: str, **query: str) -> Any:
        answer = self._send(method, build_web_url(self._connection, path, operation, **query))
        held = answer.data
        try:
            return json.loads(held) if held else {}
        except ValueError as error:
            raise HdfsError(f"{self._connection.web} does not respond as WebHDFS") from error

    def _at_datanode(
        self,
        method: str,
        path: str,
        operation: str,
        held: bytes | Iterable[bytes] | None = None,
        **query: str,
    ) -> BaseHTTPResponse:
        """Ask the namenode for a datanode, and send the request there."""
        url = build_web_url(self._connection, path, operation, **query)
        redirect = self._send(method, url)
        redirect.drain_conn()
        location = redirect.headers.get("Location")
        if location is None:
            raise HdfsError(f"{self._connection.web} names no datanode")
        return self._send(method, location, held)

    def _send(self, method: str, url: str, held: bytes | Iterable[bytes] | None = None) -> BaseHTTPResponse:
        try:
            answer = self._pool.request(method, url, body=held, redirect=False, preload_content=False)
        except HTTPError as error:
            raise HdfsError(f"{_name_server(url)} does not respond: {_explain(error)}") from error
        if answer.status >= _FAILED:
            name, message = explain_refusal(answer.status, answer.read())
            kind = MissingError if _NO_FOLDER in message else _ERRORS.get(name, HdfsError)
            raise kind(message)
        return answer

    def _take(self, answer: BaseHTTPResponse) -> bytes:
        try:
            return answer.read(_CHUNK_BYTES)
        except HTTPError as error:
            raise HdfsError(f"the datanode closed the connection: {_explain(error)}") from error


def _name_server(url: str) -> str:
    return "/".join(url.split("/", maxsplit=3)[:3])


def _explain(error: HTTPError) -> str:
    """Return the cause without the URL."""
    return str(getattr(error, "reason", None) or error)[:200]
