"""Buckets of a real S3 server: what works, and what its refusals become."""

import re
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.statestore import STATE_STORE
from kappa_operator.errors import StoreFailure
from kappa_operator.statestore.buckets import S3Buckets
from lab.s3 import ObjectStore


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.create_bucket("state")
        yield running


def build_store(endpoint: str, bucket: str = "state", prefix: str = "prod/kappa") -> Any:
    s3 = {"bucket": bucket, "prefix": prefix, "endpoint": endpoint}
    metadata = {"name": "s", "namespace": "shop", "uid": "u-1"}
    return STATE_STORE.parse({"metadata": metadata, "spec": {"s3": s3}})


def keys(server: ObjectStore, secret: str | None = None) -> dict[str, str]:
    return {"accessKeyId": server.access_key, "secretAccessKey": secret or server.secret_key}


@pytest.mark.parametrize("prefix", ["prod/kappa", ""])
async def test_a_bucket_is_written_read_and_left_clean(server: ObjectStore, prefix: str) -> None:
    await S3Buckets().check(build_store(server.endpoint, prefix=prefix), keys(server))
    assert [path for path in (server.folder / "state").rglob("*") if path.is_file()] == []


async def test_a_missing_bucket_is_named(server: ObjectStore) -> None:
    with pytest.raises(StoreFailure, match="there is no bucket absent at http") as failure:
        await S3Buckets().check(build_store(server.endpoint, "absent"), keys(server))
    assert failure.value.reason == Reason.BUCKET_NOT_FOUND


async def test_a_wrong_key_is_reported_with_the_store_message_and_without_the_key(
    server: ObjectStore,
) -> None:
    with pytest.raises(StoreFailure, match="SignatureDoesNotMatch") as failure:
        await S3Buckets().check(build_store(server.endpoint), keys(server, "wrong-word"))
    assert "wrong-word" not in failure.value.message


async def test_an_unavailable_server_is_reported() -> None:
    with pytest.raises(StoreFailure, match="could not be written") as failure:
        credentials = {"accessKeyId": "id", "secretAccessKey": "word"}
        await S3Buckets().check(build_store("http://127.0.0.1:1"), credentials)
    assert "127.0.0.1:1" in failure.value.message


class Careless(BaseHTTPRequestHandler):
    """A store that writes whatever it is asked to, and knows no conditions."""

    held: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.held[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"")

    def do_GET(self) -> None:
        self.answer(self.held[self.path])

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


async def test_a_store_that_creates_what_is_there_is_refused() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            credentials = {"accessKeyId": "id", "secretAccessKey": "word"}
            with pytest.raises(StoreFailure, match="ignores If-None-Match: two drivers could both"):
                await S3Buckets().check(build_store(f"http://127.0.0.1:{server.server_port}"), credentials)
        finally:
            server.shutdown()
    assert Careless.held == {}, "it is left clean"
