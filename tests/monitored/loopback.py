"""An HTTP server of a test, on the loopback or where pods reach it, for as long as its context lasts."""

import http.server
import threading
from types import TracebackType
from typing import Self


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Answers requests and logs none."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class LoopbackServer:
    """A context in which the handler answers at `port` of an address of this machine that nobody else reaches."""

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler], address: str = "127.0.0.1") -> None:
        self._server = http.server.ThreadingHTTPServer((address, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
