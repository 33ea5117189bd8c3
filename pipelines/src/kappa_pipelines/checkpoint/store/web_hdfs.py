"""A client of WebHDFS with the operations and errors that the runtime needs.

fsspec's client lacks what the fence needs: it reports a rejected rename as done, and it has neither a rename that never replaces nor
an exclusive create.

No answer is trusted: a redirect leads only to WebHDFS, what is held in memory is bounded and not decompressed, and the texts of a
server are logged but are in no error.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote, urlencode

import structlog
import urllib3
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.response import BaseHTTPResponse
from urllib3.util import parse_url

from kappa_crds.stores import HdfsConnection

_CHUNK_BYTES = 2**20
_MOST_BYTES, _MOST_ERROR_BYTES = 64 * 2**20, 64 * 2**10
"""Limits of an answer of the namenode and of an error. The status of a file has some 300 bytes."""
_REDIRECTED, _FAILED = 300, 400
# A request whose response was lost may have taken effect, so only reads are repeated.
_RETRY = urllib3.Retry(
    connect=2, read=2, redirect=0, other=0, status=0, backoff_factor=0.2, allowed_methods={"GET"}
)


log = structlog.get_logger()


class HdfsError(Exception):
    """HDFS rejected a request or does not respond."""


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
_EXCEPTION = re.compile(r"[A-Za-z]{1,64}Exception")


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
        """Yield the content of a file in pieces, or at most its first `length` bytes."""
        query: dict[str, Any] = {} if length is None else {"length": str(length)}
        with self._at_datanode("GET", path, "OPEN", **query) as answer:
            while held := self._take(answer, _CHUNK_BYTES if length is None else min(_CHUNK_BYTES, length)):
                yield held
                length = None if length is None else length - len(held)

    def create(self, path: str, held: bytes | Iterable[bytes]) -> None:
        """Create a file; it exists before it is complete. PresentError if it exists already."""
        copies = str(self._connection.replication)
        query = {"overwrite": "false", "replication": copies}
        self._take_all(self._at_datanode("PUT", path, "CREATE", held, **query), _MOST_ERROR_BYTES)

    def _ask(self, method: str, path: str, operation: str, **query: str) -> Any:
        answer = self._send(method, _build_url(self._connection, path, operation, **query))
        held = self._take_all(answer, _MOST_BYTES)
        try:
            return json.loads(held) if held else {}
        except (ValueError, RecursionError) as error:
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
        url = _build_url(self._connection, path, operation, **query)
        redirect = self._send(method, url)
        self._take_all(redirect, _MOST_ERROR_BYTES)
        location = redirect.headers.get("Location", "")
        if not _is_web_hdfs(location):
            raise HdfsError(f"{self._connection.web} names no datanode with WebHDFS")
        answer = self._send(method, location, held)
        if answer.status >= _REDIRECTED:
            answer.close()
            raise HdfsError(f"{_name_server(location)} redirects again (HTTP {answer.status})")
        return answer

    def _send(self, method: str, url: str, held: bytes | Iterable[bytes] | None = None) -> BaseHTTPResponse:
        try:
            answer = self._pool.request(
                method, url, body=held, redirect=False, preload_content=False, decode_content=False
            )
        except HTTPError as error:
            raise HdfsError(f"{_name_server(url)} does not respond ({_explain(error)})") from error
        if answer.status >= _FAILED:
            raise self._explain_refusal(answer.status, self._take_all(answer, _MOST_ERROR_BYTES))
        return answer

    def _explain_refusal(self, status: int, held: bytes) -> HdfsError:
        """Return the error of a response by the name of Hadoop's exception and the HTTP status."""
        try:
            said: dict[str, Any] = json.loads(held)["RemoteException"]
            name, message = str(said["exception"]), str(said["message"])
        except (ValueError, KeyError, TypeError, RecursionError):
            name, message = "", held.decode(errors="replace")
        kind = MissingError if _NO_FOLDER in message else _ERRORS.get(name, HdfsError)
        if kind is HdfsError:
            log.warning("HDFS rejected a request", status=status, exception=name[:64], text=message[:2000])
        known = f"{name} " if _EXCEPTION.fullmatch(name) else ""
        return kind(f"{known}(HTTP {status}) for user {self._connection.user}")

    def _take(self, answer: BaseHTTPResponse, size: int) -> bytes:
        try:
            return answer.read(size)
        except HTTPError as error:
            raise HdfsError(f"the server closed the connection ({_explain(error)})") from error

    def _take_all(self, answer: BaseHTTPResponse, most: int) -> bytes:
        """Return the whole body; HdfsError if it has more bytes than that."""
        held = self._take(answer, most + 1)
        if len(held) > most:
            answer.close()
            raise HdfsError(f"{self._connection.web} answers with more than {most} bytes")
        answer.release_conn()
        return held


def _name_server(url: str) -> str:
    return "/".join(url.split("/", maxsplit=3)[:3])


def _is_web_hdfs(location: str) -> bool:
    try:
        url = parse_url(location)
    except LocationParseError:
        return False
    path = unquote(url.path or "")
    return url.scheme in ("http", "https") and path.startswith("/webhdfs/v1/") and ".." not in path.split("/")


def _explain(error: HTTPError) -> str:
    """Return the class of the cause: its text may be that of the server."""
    return type(getattr(error, "reason", None) or error).__name__


def _build_url(connection: HdfsConnection, path: str, operation: str, **query: str) -> str:
    """Return the URL of an operation of WebHDFS on a path, which begins with a slash."""
    parameters = urlencode({"op": operation, "user.name": connection.user, **query})
    return f"{connection.web}/webhdfs/v1{quote(path)}?{parameters}"
