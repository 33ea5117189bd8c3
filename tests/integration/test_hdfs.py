"""Folders of a real HDFS, as the pod of a check finds them: what works, and what refusals become."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from integration.checks import check
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkResult
from kappa_crds.stores import HdfsConnection
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from lab.hdfs import Hdfs

pytestmark = pytest.mark.clusterless


@pytest.fixture(scope="module")
def server() -> Iterator[Hdfs]:
    with Hdfs() as running:
        running.give("/state", "kappa")
        yield running


def build_spec(namenode: str, web: str, **fields: Any) -> dict[str, Any]:
    return {"hdfs": {"namenode": namenode, "webUrl": web, "path": "/state/prod", "replication": 1, **fields}}


def read_failure(result: WorkResult) -> str:
    assert result.failure is not None
    assert result.failure.reason is Reason.STORE_CHECK_FAILED
    return result.failure.message


@pytest.mark.chaos  # three JVMs
def test_a_folder_is_made_written_read_and_left_clean(server: Hdfs, tmp_path: Path) -> None:
    for _ in range(2):
        assert check(tmp_path, build_spec(server.namenode, server.web)).failure is None
    connection = HdfsConnection(web=server.web, user="kappa")
    root = HdfsFolder(f"hdfs://{server.namenode}/state", connection)
    assert root.names("prod") == ["_kappa"]
    assert list(root.walk("")) == []
    assert root.names("prod/_kappa") == []


@pytest.mark.chaos
def test_an_unwritable_hdfs_reports_the_exception_and_the_user(server: Hdfs, tmp_path: Path) -> None:
    message = read_failure(check(tmp_path, build_spec(server.namenode, server.web, user="other")))
    assert "AccessControlException (HTTP 403) for user other" in message


@pytest.mark.chaos
def test_servers_that_are_away_are_named(server: Hdfs, tmp_path: Path) -> None:
    message = read_failure(check(tmp_path, build_spec("127.0.0.1:1", server.web)))
    assert message.startswith("the namenode 127.0.0.1:1 does not respond")
    message = read_failure(check(tmp_path, build_spec(server.namenode, "http://127.0.0.1:1")))
    assert "http://127.0.0.1:1 does not respond (NewConnectionError)" in message


class Gateway(BaseHTTPRequestHandler):
    """A gateway that moves a folder into one that is there, as the oldest form of a rename does."""

    held: ClassVar[bytes] = b""
    asked: ClassVar[list[str]] = []

    def do_PUT(self) -> None:
        operation = self.note()
        body = self.read()
        if operation == "CREATE" and "data" not in self.path:
            self.answer(307, location=f"http://{self.headers['Host']}{self.path}&data=true")
            return
        if operation == "CREATE":
            type(self).held = body
        self.answer(200, {"boolean": True})

    def do_GET(self) -> None:
        self.note()
        if "data" not in self.path:
            self.answer(307, location=f"http://{self.headers['Host']}{self.path}&data=true")
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.held)

    def do_DELETE(self) -> None:
        self.note()
        self.answer(200, {"boolean": True})

    def read(self) -> bytes:
        """Return the body, which a client sends in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        held = b""
        while size := int(self.rfile.readline(), 16):
            held += self.rfile.read(size)
            self.rfile.readline()
        return held

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


def check_at(folder: Path, server: ThreadingHTTPServer) -> WorkResult:
    """Check the folder with that server as its namenode."""
    Thread(target=server.serve_forever, daemon=True).start()
    where = f"127.0.0.1:{server.server_port}"
    try:
        return check(folder, build_spec(where, f"http://{where}"))
    finally:
        server.shutdown()


def test_a_gateway_that_renames_to_what_is_there_is_refused(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        message = read_failure(check_at(tmp_path, server))
    assert "two drivers could both take a checkpoint" in message
    assert Gateway.asked[-1] == "DELETE", "it is left clean"


class Private(BaseHTTPRequestHandler):
    """A server of another team, which only the redirect of a namenode could reach."""

    asked: ClassVar[list[str]] = []

    def do_PUT(self) -> None:
        self.asked.append(self.path)
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b"account 4711")

    do_GET = do_DELETE = do_PUT

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Malicious(Gateway):
    """A namenode that sends its clients elsewhere."""

    target: ClassVar[str] = ""

    def do_PUT(self) -> None:
        self.read()
        self.answer(307, location=self.target)


@pytest.mark.parametrize("path", ["admin/delete?everything", "webhdfs/v1/", "webhdfs/v2/x"])
def test_a_redirect_leads_only_to_web_hdfs_and_no_foreign_body_is_reported(tmp_path: Path, path: str) -> None:
    Private.asked.clear()
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Private) as private,
        ThreadingHTTPServer(("127.0.0.1", 0), Malicious) as server,
    ):
        Thread(target=private.serve_forever, daemon=True).start()
        Malicious.target = f"http://127.0.0.1:{private.server_port}/{path}"
        message = read_failure(check_at(tmp_path, server))
        private.shutdown()
    assert "4711" not in message
    assert bool(Private.asked) == path.startswith("webhdfs/v1/")
