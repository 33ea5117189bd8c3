"""Buckets of a real S3 server, as the pod of a check finds them: what works, and what its refusals become."""

import re
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest

from integration.checks import check
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkResult
from lab.s3 import ObjectStore

pytestmark = pytest.mark.clusterless

KEYS = {"accessKeyId": "id", "secretAccessKey": "word"}


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.create_bucket("state")
        yield running


def build_spec(endpoint: str, bucket: str = "state", prefix: str = "prod/kappa") -> dict[str, Any]:
    s3 = {"bucket": bucket, "prefix": prefix, "endpoint": endpoint, "credentialsSecretRef": {"name": "keys"}}
    return {"s3": s3}


def keys(server: ObjectStore, word: str | None = None) -> dict[str, str]:
    return {"accessKeyId": server.access_key, "secretAccessKey": word or server.secret_key}


def read_failure(result: WorkResult) -> tuple[Reason, str]:
    assert result.failure is not None
    return result.failure.reason, result.failure.message


@pytest.mark.parametrize("prefix", ["prod/kappa", ""])
def test_a_bucket_is_written_read_and_left_clean(server: ObjectStore, tmp_path: Path, prefix: str) -> None:
    for alone in (not prefix, False):
        result = check(tmp_path, build_spec(server.endpoint, prefix=prefix), keys(server), alone=alone)
        assert (result.failure, result.checked and result.checked.free_bytes) == (None, None)
    assert [path for path in (server.folder / "state").rglob("*") if path.is_file()] == []


def test_what_a_killed_check_left_does_not_matter(server: ObjectStore, tmp_path: Path) -> None:
    left = server.folder / "state" / "_kappa" / "check-u-1" / "claim"
    left.parent.mkdir(parents=True)
    left.write_text("first")
    assert check(tmp_path, build_spec(server.endpoint, prefix=""), keys(server)).checked is not None


def test_a_missing_bucket_is_named(server: ObjectStore, tmp_path: Path) -> None:
    result = check(tmp_path, build_spec(server.endpoint, "absent"), keys(server))
    reason, message = read_failure(result)
    assert reason is Reason.BUCKET_NOT_FOUND
    assert "s3a://absent/prod/kappa" in message


def test_a_wrong_key_is_reported_by_the_code_of_the_store(server: ObjectStore, tmp_path: Path) -> None:
    result = check(tmp_path, build_spec(server.endpoint), keys(server, "wrong-word"))
    reason, message = read_failure(result)
    assert reason is Reason.STORE_CHECK_FAILED
    assert "SignatureDoesNotMatch (HTTP 403)" in message
    assert "wrong-word" not in message


def test_an_unavailable_server_is_reported(tmp_path: Path) -> None:
    _, message = read_failure(check(tmp_path, build_spec("http://127.0.0.1:1"), KEYS))
    assert message.endswith("the store does not respond as S3 (Connect); check spec.s3.endpoint")


class Careless(BaseHTTPRequestHandler):
    """A store that writes whatever it is asked to, and knows no conditions."""

    held: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.held[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"")

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        asked = parse_qs(query)
        self.answer(self.list(asked["prefix"][0], "delimiter" in asked) if query else self.held[path])

    def list(self, prefix: str, has_folders: bool) -> bytes:
        """Return the files and folders of a folder, or all files below it."""
        found = [
            path.removeprefix(f"/state/{prefix}") for path in self.held if path.startswith(f"/state/{prefix}")
        ]
        folders = {name.split("/")[0] for name in found if has_folders and "/" in name}
        files = "".join(
            f"<Contents><Key>{prefix}{name}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>1</Size></Contents>"
            for name in found
            if not has_folders or "/" not in name
        )
        inner = "".join(
            f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in folders
        )
        return f"<ListBucketResult>{files}{inner}</ListBucketResult>".encode()

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall("<Key>(.*?)</Key>", asked)
        for key in keys:
            del self.held[f"/state/{key}"]
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Foreign(Careless):
    """A server that is no object store, and answers with what nobody else may read."""

    status: ClassVar[int] = 404

    def do_GET(self) -> None:
        held = b"<html>account 4711, balance 12</html>"
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(held)))
        self.end_headers()
        self.wfile.write(held)

    do_PUT = do_POST = do_GET


def serve(handler: type[BaseHTTPRequestHandler], folder: Path) -> WorkResult:
    """Check a bucket of that server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            return check(folder, build_spec(f"http://127.0.0.1:{server.server_port}"), KEYS)
        finally:
            server.shutdown()


def test_a_store_that_creates_what_is_there_is_refused(tmp_path: Path) -> None:
    _, message = read_failure(serve(Careless, tmp_path))
    assert "two drivers could both take a checkpoint" in message
    assert Careless.held == {}, "it is left clean"


@pytest.mark.parametrize("status", [200, 301, 400, 403, 404])
def test_the_body_of_a_foreign_server_is_not_reported(tmp_path: Path, status: int) -> None:
    Foreign.status = status
    reason, message = read_failure(serve(Foreign, tmp_path))
    assert reason is Reason.STORE_CHECK_FAILED
    assert "4711" not in message
    assert len(message) < 300
