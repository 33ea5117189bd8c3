"""The only way to folders in HDFS, over WebHDFS.

A check writes a small file under `<path>/_kappa/`, reads it back, compares and deletes it. Drivers take turns by renaming a folder to a name
that must not be there, so that is tried too: not all gateways with the same protocol support it.
"""

import asyncio
import contextlib
import secrets
from typing import Any

import aiohttp

from kappa_crds.hdfs import HdfsConnection, build_web_url, explain_refusal
from kappa_crds.resource import Resource
from kappa_crds.statestore import Hdfs, StateStoreSpec, StateStoreStatus
from kappa_operator.errors import StoreFailure
from kappa_operator.statestore.storage import build_hdfs_connection

_TIMEOUT = aiohttp.ClientTimeout(total=15, connect=5)
_CONNECT_SECONDS = 5.0
_REDIRECTED, _FAILED = 300, 400
_PRESENT = "FileAlreadyExistsException"


class _RefusedError(Exception):
    """HDFS refused; `name` is that of its exception."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class HdfsFolders:
    """Real folders in HDFS."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def check(self, store: Resource[StateStoreSpec, StateStoreStatus]) -> None:
        """Write, read and delete a file; raise StoreFailure with the server's own message."""
        hdfs = store.spec.hdfs
        if hdfs is None:
            raise StoreFailure(f"StateStore {store.metadata.name} is not in HDFS")
        await _connect(hdfs)
        check = _Check(self._session, hdfs, f"{hdfs.path}/_kappa/check-{store.metadata.uid}")
        await check.clean("written")
        try:
            await check.write_and_read()
            await check.try_to_replace()
        except StoreFailure:
            with contextlib.suppress(StoreFailure):
                await check.clean("deleted")
            raise
        await check.clean("deleted")


class _Check:
    """One check, in a folder of its own."""

    def __init__(self, session: aiohttp.ClientSession, hdfs: Hdfs, folder: str) -> None:
        self._session = session
        self._hdfs = hdfs
        self._connection: HdfsConnection = build_hdfs_connection(hdfs)
        self._folder = folder

    async def clean(self, verb: str) -> None:
        """Delete the folder, if it is there."""
        await self._attempt(verb, "DELETE", self._folder, "DELETE", recursive="true")

    async def write_and_read(self) -> None:
        """Write a file and read it back."""
        path, content = f"{self._folder}/one/file", secrets.token_bytes(64)
        query = {"overwrite": "false", "replication": str(self._connection.replication)}
        await self._attempt("written", "PUT", path, "CREATE", content, **query)
        if await self._attempt("read", "GET", path, "OPEN") != content:
            raise StoreFailure(f"{self._where} returned other bytes than were written just before")

    async def try_to_replace(self) -> None:
        """Rename a folder to one that is there, which must be refused."""
        taken = f"{self._folder}/two"
        await self._attempt("written", "PUT", taken, "MKDIRS")
        try:
            one = f"{self._folder}/one"
            await self._ask("PUT", one, "RENAME", destination=taken, renameoptions="NONE")
        except _RefusedError as refused:
            if refused.name == _PRESENT:
                return
            raise self._fail("renamed", str(refused)) from None
        raise StoreFailure(
            f"{self._where} renames a folder to one that is there: two drivers could both take a checkpoint there; name the"
            " namenode itself in webUrl, not a gateway"
        )

    async def _attempt(
        self, verb: str, method: str, path: str, operation: str, content: bytes | None = None, **query: str
    ) -> bytes:
        try:
            return await self._ask(method, path, operation, content, **query)
        except _RefusedError as refused:
            raise self._fail(verb, str(refused)) from None

    async def _ask(
        self, method: str, path: str, operation: str, content: bytes | None = None, **query: str
    ) -> bytes:
        """Ask the namenode, and where it names a datanode, that one."""
        url = build_web_url(self._connection, path, operation, **query)
        headers, answer = await self._send(method, url, None)
        where = headers.get("Location")
        return answer if where is None else (await self._send(method, where, content))[1]

    async def _send(self, method: str, url: str, content: bytes | None) -> tuple[Any, bytes]:
        options: dict[str, Any] = {"data": content, "allow_redirects": False, "timeout": _TIMEOUT}
        try:
            async with self._session.request(method, url, **options) as answer:
                held = await answer.read()
                if answer.status >= _FAILED:
                    raise _RefusedError(*explain_refusal(answer.status, held))
                return (answer.headers if answer.status >= _REDIRECTED else {}), held
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            server = "/".join(url.split("/", maxsplit=3)[:3])
            raise _RefusedError("", f"{server} does not respond: {error or type(error).__name__}") from error

    def _fail(self, verb: str, why: str) -> StoreFailure:
        return StoreFailure(f"a file under {self._hdfs.path} in {self._where} could not be {verb}: {why}")

    @property
    def _where(self) -> str:
        return f"HDFS at {self._connection.web}"


async def _connect(hdfs: Hdfs) -> None:
    """Check that the namenode listens where Spark connects."""
    host, _, port = hdfs.namenode.rpartition(":")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
    except (OSError, TimeoutError) as error:
        message = f"the namenode {hdfs.namenode} does not respond: {error or 'no connection within 5 s'}; correct spec.hdfs.namenode"
        raise StoreFailure(message) from error
