"""The servers of the driver: probes, metrics, progress, and requests to stop, to take over and for savepoints.

With a certificate beside the token there are two ports with the same paths: one with TLS, and one without for the kubelet, and for an
operator of release 0.1 during an upgrade.

`/healthz` and `/readyz` are open for the kubelet. So is `/metrics` for Prometheus, over TLS where there is a certificate, and from the loopback
address. The others need the bearer token from a mounted Secret, which is read for each request so that it can be rotated. Without a
token file they accept only the loopback address:

    GET /progress                           the report
    POST /stop, POST /activate              stop at the end of the batch; take over
    POST /savepoints/NAME?location=URI      take a savepoint
    POST /hold?seconds=S                    read no further than the planned batch, for so long
    POST /advance                           with an `InputVector` in JSON: read exactly up to it, and hold there
    POST /continue                          end the hold
    POST /role?role=ROLE                    have a `DriverRole` from now on
    POST /comparisons                       with a `ComparisonRequest` in JSON: compare two versions of an output

A request is recorded and answered with 202; the report has its outcome. 409 is for a request that the driver cannot take at the moment,
400 for one that it will never take.
"""

import hmac
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kappa_crds.comparison import ComparisonRequest
from kappa_crds.progress import DriverRole, DriverState, InputVector, Progress

Body = TypeVar("Body", bound=BaseModel)

_START_SECONDS = 10.0
_LONGEST_HOLD_SECONDS = 3600.0
_LARGEST_BODY = 2**20
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")


@dataclass(frozen=True, kw_only=True)
class Control:
    """The responses of the server, without the transport."""

    snapshot: Callable[[], Progress]
    is_alive: Callable[[], bool]
    stop: Callable[[], None]
    activate: Callable[[], bool]
    take_savepoint: Callable[[str, str], bool]
    hold: Callable[[float], bool]
    advance: Callable[[InputVector], bool]
    resume: Callable[[], None]
    set_role: Callable[[DriverRole], None]
    compare: Callable[[ComparisonRequest], bool]
    registry: CollectorRegistry
    token_file: Path
    has_certificate: bool = False
    has_batches: bool = True

    def app(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
                Route("/metrics", self._metrics),
                Route("/progress", self._authorize(self._progress)),
                Route("/stop", self._authorize(self._post_stop), methods=["POST"]),
                Route("/activate", self._authorize(self._post_activate), methods=["POST"]),
                Route("/savepoints/{name}", self._authorize(self._post_savepoint), methods=["POST"]),
                Route("/hold", self._authorize(self._post_hold), methods=["POST"]),
                Route("/advance", self._post_advance, methods=["POST"]),
                Route("/continue", self._authorize(self._post_continue), methods=["POST"]),
                Route("/comparisons", self._post_compare, methods=["POST"]),
                Route("/role", self._authorize(self._post_role), methods=["POST"]),
            ]
        )

    def _healthz(self, _: Request) -> Response:
        return _respond(self.is_alive(), self.snapshot().state)

    def _readyz(self, _: Request) -> Response:
        state = self.snapshot().state
        return _respond(state is DriverState.RUNNING and self.is_alive(), state)

    def _metrics(self, request: Request) -> Response:
        if self.has_certificate and request.scope.get("scheme") != "https" and not _is_loopback(request):
            return PlainTextResponse("metrics are served over TLS only\n", status_code=403)
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)

    def _authorize(self, handle: Callable[[Request], Response]) -> Callable[[Request], Response]:
        return lambda request: self._refuse(request) or handle(request)

    def _progress(self, _: Request) -> Response:
        return Response(
            self.snapshot().model_dump_json(by_alias=True, exclude_none=True), media_type="application/json"
        )

    def _post_stop(self, _: Request) -> Response:
        self.stop()
        return JSONResponse({"state": DriverState.STOPPING.value}, status_code=202)

    def _post_activate(self, _: Request) -> Response:
        if not self.activate():
            return PlainTextResponse("the driver is not on standby yet\n", status_code=409)
        return JSONResponse({"state": self.snapshot().state.value}, status_code=202)

    def _post_savepoint(self, request: Request) -> Response:
        name, location = request.path_params["name"], request.query_params.get("location", "")
        if not _NAME.fullmatch(name) or not location:
            return PlainTextResponse(
                "use POST /savepoints/NAME?location=URI with a NAME of lower-case letters, digits, '-' and '.'\n",
                status_code=400,
            )
        if not self.take_savepoint(name, location):
            return PlainTextResponse("the queries have not started\n", status_code=409)
        return JSONResponse({"savepoint": name}, status_code=202)

    def _post_hold(self, request: Request) -> Response:
        if not self.has_batches:
            return PlainTextResponse(
                "real-time mode has no batches at whose end it can hold\n", status_code=400
            )
        try:
            seconds = float(request.query_params.get("seconds", ""))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _LONGEST_HOLD_SECONDS:
            return PlainTextResponse(
                f"use POST /hold?seconds=S with S up to {_LONGEST_HOLD_SECONDS:.0f}\n", status_code=400
            )
        if not self.hold(seconds):
            return PlainTextResponse("the queries have not started\n", status_code=409)
        return JSONResponse({"seconds": seconds}, status_code=202)

    async def _post_advance(self, request: Request) -> Response:
        return await self._take(request, InputVector, self.advance, "the driver does not hold")

    async def _post_compare(self, request: Request) -> Response:
        return await self._take(request, ComparisonRequest, self.compare, "the queries have not started")

    async def _take(
        self, request: Request, model: type[Body], take: Callable[[Body], bool], conflict: str
    ) -> Response:
        """Pass on the body of a request, as a model; `conflict` is why it is not taken."""
        refused = self._refuse(request)
        if refused is not None:
            return refused
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LARGEST_BODY:
                return PlainTextResponse(f"at most {_LARGEST_BODY} bytes\n", status_code=400)
        try:
            wanted = model.model_validate_json(body)
        except ValidationError as error:
            return PlainTextResponse(f"no {model.__name__}: {error.error_count()} errors\n", status_code=400)
        if not take(wanted):
            return PlainTextResponse(f"{conflict}\n", status_code=409)
        return JSONResponse({}, status_code=202)

    def _post_continue(self, _: Request) -> Response:
        self.resume()
        return JSONResponse({}, status_code=202)

    def _post_role(self, request: Request) -> Response:
        role = request.query_params.get("role", "")
        if role not in set(DriverRole):
            return PlainTextResponse(
                f"use POST /role?role=ROLE with one of {', '.join(DriverRole)}\n", status_code=400
            )
        self.set_role(DriverRole(role))
        return JSONResponse({"role": role}, status_code=202)

    def _refuse(self, request: Request) -> Response | None:
        """Return an error response, or None if the request is authorized."""
        try:
            token = self.token_file.read_text().strip()
        except FileNotFoundError:
            return None if _is_loopback(request) else PlainTextResponse("loopback only\n", status_code=403)
        except OSError:
            return PlainTextResponse("the token cannot be read\n", status_code=503)
        given = request.headers.get("authorization", "")
        if token and hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return None
        return PlainTextResponse(
            "a bearer token is required\n", status_code=401, headers={"WWW-Authenticate": "Bearer"}
        )


def _respond(good: bool, state: DriverState) -> Response:
    return PlainTextResponse(f"{state.value}\n", status_code=200 if good else 503)


def _is_loopback(request: Request) -> bool:
    return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback


class ControlServer:
    """Serves an application in a thread."""

    def __init__(
        self,
        app: Starlette,
        port: int,
        host: str = "0.0.0.0",  # noqa: S104 - the address of the pod
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = socket.create_server((host, port), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", ws="none",
            ssl_context_factory=None if tls is None else lambda *_: tls,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)
