"""Answers of a server that is no friend: the client of WebHDFS bounds what it reads, and repeats none of it."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from kappa_crds.stores import HdfsConnection
from kappa_pipelines.checkpoint.store.web_hdfs import HdfsError, MissingError, WebHdfs

SECRET = b"account 4711 "


class Hostile(BaseHTTPRequestHandler):
    """Answers every request in the same way; what it sent is in `sent`."""

    status: ClassVar[int] = 200
    headers_: ClassVar[dict[str, str]] = {}
    body: ClassVar[bytes] = b""
    endless: ClassVar[bool] = False
    sent: ClassVar[int] = 0

    def do_GET(self) -> None:
        self.send_response(self.status)
        for name, value in self.headers_.items():
            self.send_header(name, value.format(host=self.headers["Host"]))
        self.end_headers()
        self.wfile.write(self.body)
        try:
            while self.endless:
                type(self).sent += self.wfile.write(SECRET * 1000)
        except OSError:
            self.close_connection = True

    do_PUT = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def client() -> Iterator[WebHdfs]:
    Hostile.status, Hostile.headers_, Hostile.body, Hostile.endless, Hostile.sent = 200, {}, b"", False, 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield WebHdfs(HdfsConnection(web=f"http://127.0.0.1:{server.server_port}", user="kappa"))
        server.shutdown()


@pytest.mark.parametrize("status", [307, 404, 500])
def test_an_endless_answer_is_cut_off(client: WebHdfs, status: int) -> None:
    Hostile.status, Hostile.endless = status, True
    with pytest.raises(HdfsError, match="answers with more than 65536 bytes"):
        list(client.read("/a"))
    assert Hostile.sent < 2**24, "what the sockets hold"


class Datanode(Hostile):
    """Sends each read to itself, and then never stops to send."""

    def do_GET(self) -> None:
        Hostile.status = 200 if "data" in self.path else 307
        Hostile.headers_ = {"Location": f"http://{self.headers['Host']}{self.path}&data=1"}
        Hostile.endless = Hostile.status == 200
        super().do_GET()


def test_no_more_is_read_of_a_file_than_was_requested() -> None:
    Hostile.sent = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Datanode) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        client = WebHdfs(HdfsConnection(web=f"http://127.0.0.1:{server.server_port}", user="kappa"))
        assert sum(map(len, client.read("/a", 3 * 2**20))) == 3 * 2**20
        server.shutdown()


def test_an_answer_is_not_decompressed(client: WebHdfs) -> None:
    Hostile.headers_, Hostile.body = {"Content-Encoding": "gzip"}, gzip.compress(b'{"boolean": true}')
    with pytest.raises(HdfsError, match="does not respond as WebHDFS"):
        client.delete("/a")


@pytest.mark.parametrize(
    "body",
    [
        SECRET * 100,
        b'{"RemoteException": {"exception": "account 4711", "message": "4711"}}',
        b'{"RemoteException": {"exception": "IOException", "message": "4711"}}',
        b'{"RemoteException": "4711"}',
        b"[" * 60_000,
    ],
)
def test_a_text_of_the_server_is_in_no_error(client: WebHdfs, body: bytes) -> None:
    Hostile.status, Hostile.body = 403, body
    with pytest.raises(HdfsError, match=r"HTTP 403\) for user kappa") as failure:
        client.describe("/a")
    assert "4711" not in str(failure.value)


def test_the_name_of_an_exception_is_kept(client: WebHdfs) -> None:
    Hostile.status = 404
    Hostile.body = b'{"RemoteException": {"exception": "FileNotFoundException", "message": "no"}}'
    with pytest.raises(MissingError, match="FileNotFoundException"):
        client.describe("/a")


@pytest.mark.parametrize(
    "location",
    [
        "",
        "file:///etc/passwd",
        "http://169.254.169.254/latest",
        "http://10.0.0.1/webhdfs/v1x/a",
        "http://[",
        "http://10.0.0.1/webhdfs/v1/../../admin",
        "http://10.0.0.1/webhdfs/v1/%2e%2E/admin",
    ],
)
def test_a_redirect_that_is_no_web_hdfs_is_not_followed(client: WebHdfs, location: str) -> None:
    Hostile.status, Hostile.headers_ = 307, {"Location": location}
    with pytest.raises(HdfsError, match="names no datanode with WebHDFS"):
        client.create("/a", b"")


def test_a_datanode_does_not_redirect_again(client: WebHdfs) -> None:
    Hostile.status, Hostile.headers_ = 307, {"Location": "http://{host}/webhdfs/v1/a"}
    with pytest.raises(HdfsError, match="redirects again"):
        client.create("/a", b"")
