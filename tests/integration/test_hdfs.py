"""Folders of a real HDFS, as the operator checks them: what works, and what refusals become."""

import json
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from kappa_crds.statestore import STATE_STORE
from kappa_operator.errors import StoreFailure
from kappa_operator.statestore.hdfs import HdfsFolders
from kappa_operator.statestore.storage import build_hdfs_connection
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from lab.hdfs import Hdfs

pytestmark = pytest.mark.chaos  # three JVMs; the operator's own side of it is in the unit tests


@pytest.fixture(scope="module")
def server() -> Iterator[Hdfs]:
    with Hdfs() as running:
        running.give("/state", "kappa")
        yield running


@pytest.fixture
async def folders() -> AsyncIterator[HdfsFolders]:
    async with aiohttp.ClientSession() as session:
        yield HdfsFolders(session)


def build_store(namenode: str, web: str, **fields: Any) -> Any:
    hdfs = {"namenode": namenode, "webUrl": web, "path": "/state/prod", "replication": 1, **fields}
    metadata = {"name": "s", "namespace": "shop", "uid": "u-1"}
    return STATE_STORE.parse({"metadata": metadata, "spec": {"hdfs": hdfs}})


async def test_a_folder_is_made_written_read_and_left_clean(server: Hdfs, folders: HdfsFolders) -> None:
    store = build_store(server.namenode, server.web)
    for _ in range(2):
        await folders.check(store)
    root = HdfsFolder(f"hdfs://{server.namenode}/state", build_hdfs_connection(store.spec.hdfs))
    assert root.names("prod") == ["_kappa"]
    assert list(root.walk("")) == []
    assert root.names("prod/_kappa") == []


async def test_an_unwritable_hdfs_reports_the_server_message(server: Hdfs, folders: HdfsFolders) -> None:
    with pytest.raises(StoreFailure, match=r"a file under /state/prod .* could not be written: .*user=other"):
        await folders.check(build_store(server.namenode, server.web, user="other"))


async def test_servers_that_are_away_are_named(server: Hdfs, folders: HdfsFolders) -> None:
    with pytest.raises(StoreFailure, match=r"the namenode 127\.0\.0\.1:1 does not answer"):
        await folders.check(build_store("127.0.0.1:1", server.web))
    with pytest.raises(StoreFailure, match=r"http://127\.0\.0\.1:1 does not answer"):
        await folders.check(build_store(server.namenode, "http://127.0.0.1:1"))


class Gateway(BaseHTTPRequestHandler):
    """A gateway that moves a folder into one that is there, as the oldest form of a rename does."""

    held: ClassVar[bytes] = b""
    asked: ClassVar[list[str]] = []

    def do_PUT(self) -> None:
        operation = self.note()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if operation == "CREATE" and "data" not in self.path:
            self.answer(307, location=f"http://{self.headers['Host']}{self.path}&data=true")
            return
        if operation == "CREATE":
            type(self).held = body
        self.answer(200, {"boolean": True})

    def do_GET(self) -> None:
        self.note()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.held)

    def do_DELETE(self) -> None:
        self.note()
        self.answer(200, {"boolean": True})

    def note(self) -> str:
        operation = parse_qs(urlsplit(self.path).query)["op"][0]
        self.asked.append(operation)
        return operation

    def answer(self, status: int, body: dict[str, Any] | None = None, location: str | None = None) -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode() if body else b"")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


async def test_a_gateway_that_renames_to_what_is_there_is_refused(folders: HdfsFolders) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(
                StoreFailure, match="renames a folder to one that is there: two drivers could"
            ):
                await folders.check(build_store(where, f"http://{where}"))
        finally:
            server.shutdown()
    assert Gateway.asked[-1] == "DELETE", "it is left clean"
