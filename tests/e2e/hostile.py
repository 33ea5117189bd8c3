"""HTTP servers of an attacker, on the node: they record who connects, and answer with a redirect or an error."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from lab import network

BODY = "canary-of-a-foreign-body"
"""The text in each answer, in the form of an error of S3. It must not get into a status, an Event or a log."""


@dataclass
class Recorder:
    """A server at `url`, and what it received: the address of the client, the method and the path with its query."""

    url: str
    received: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def clients(self) -> set[str]:
        """Return the addresses that connected."""
        return {address for address, *_ in self.received}


@contextmanager
def record(redirect: str = "") -> Iterator[Recorder]:
    """Answer each request with 400, or with a redirect to the URL."""
    recorder = Recorder("")
    content = f"<Error><Code>{BODY}</Code><Message>{BODY}</Message></Error>".encode()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            recorder.received.append((self.client_address[0], self.command, self.path))
            self.send_response(307 if redirect else 400)
            if redirect:
                self.send_header("Location", redirect)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    with ThreadingHTTPServer((network.NODE_IP, 0), Handler) as server:
        recorder.url = f"http://{network.NODE_IP}:{server.server_port}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield recorder
        finally:
            server.shutdown()
            thread.join()
