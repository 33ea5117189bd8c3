"""Who may read metrics and report: the API server decides, by TokenReview and SubjectAccessReview.

A request has the token of an account in `Authorization`, as Prometheus sends it. The API server's proxy does not forward that header;
so the command `kappa` sends a token in a header of its own, one that only this operator accepts, see ADR 47.

Each answer is remembered for a short time. An error of the API server refuses the request.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from cachetools import TTLCache

from kappa_crds import GROUP
from kappa_operator.engine.cluster import ApiCluster, Body
from kappa_operator.errors import KappaError
from kappa_operator.report.address import PROOF_PATH, REPORT_PATH, TOKEN_HEADER, build_audience

ALLOWED_SECONDS, REFUSED_SECONDS = 60.0, 10.0
"""How long an answer is remembered: a permission that was taken away ends within a minute."""
_REMEMBERED = 1024
_CONCURRENT, _WAITING = 4, 64
"""Reviews at the same time, and requests that wait for one; others are refused at once."""

Verdict = tuple[HTTPStatus, str]

log = structlog.get_logger(__name__)

_OK: Verdict = (HTTPStatus.OK, "")
_NO_TOKEN: Verdict = (HTTPStatus.UNAUTHORIZED, "a token is required: Authorization: Bearer TOKEN")
_UNKNOWN: Verdict = (HTTPStatus.UNAUTHORIZED, "the API server does not accept this token")
_BUSY: Verdict = (HTTPStatus.TOO_MANY_REQUESTS, "too many requests are waiting for the API server; retry")
_UNAVAILABLE: Verdict = (
    HTTPStatus.SERVICE_UNAVAILABLE,
    "the API server does not check permissions now; retry",
)


class AccessReview:
    """The permissions to read metrics and report."""

    def __init__(
        self, cluster: ApiCluster, namespace: str, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._allowed: TTLCache[bytes, Verdict] = TTLCache(_REMEMBERED, ALLOWED_SECONDS, timer)
        self._refused: TTLCache[bytes, Verdict] = TTLCache(_REMEMBERED, REFUSED_SECONDS, timer)
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._waiting = 0

    @property
    def middleware(self) -> Middleware:
        """Return what an application checks each request by."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            status, text = await self._judge(request)
            if status is HTTPStatus.OK:
                return await handler(request)
            headers = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
            return web.Response(text=text, status=status, headers=headers)

        return check

    async def _judge(self, request: web.Request) -> Verdict:
        token, audiences = self._find_token(request)
        if not token:
            return _NO_TOKEN
        key = hashlib.sha256("\n".join((request.path, *audiences, token)).encode()).digest()
        known: Verdict | None = self._allowed.get(key) or self._refused.get(key)
        if known is not None:
            return known
        if self._waiting >= _WAITING:
            return _BUSY
        return await self._review(key, token, audiences, request.path)

    def _find_token(self, request: web.Request) -> tuple[str, tuple[str, ...]]:
        """Return the token, and its audiences where it is not one for the API server."""
        own = request.headers.get(TOKEN_HEADER)
        if own is not None:
            return own, (build_audience(self._namespace),)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return (token.strip() if scheme.lower() == "bearer" else ""), ()

    async def _review(self, key: bytes, token: str, audiences: tuple[str, ...], path: str) -> Verdict:
        self._waiting += 1
        try:
            async with self._slots:
                verdict = await self._request_review(token, audiences, path)
        except KappaError as error:
            log.warning("access not checked", path=path, error=error.message)
            return _UNAVAILABLE
        finally:
            self._waiting -= 1
        (self._allowed if verdict is _OK else self._refused)[key] = verdict
        return verdict

    async def _request_review(self, token: str, audiences: tuple[str, ...], path: str) -> Verdict:
        spec: Body = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        status = await self._cluster.review("authentication.k8s.io/v1", "TokenReview", spec)
        if not status.get("authenticated") or not set(audiences) <= set(status.get("audiences") or ()):
            return _UNKNOWN
        user: Body = status.get("user") or {}
        wanted = {
            "user": user.get("username", ""), "uid": user.get("uid", ""), "groups": user.get("groups") or [],
            "extra": user.get("extra") or {}, **self._describe(path),
        }  # fmt: skip
        review = await self._cluster.review("authorization.k8s.io/v1", "SubjectAccessReview", wanted)
        if review.get("allowed") is True:
            return _OK
        return HTTPStatus.FORBIDDEN, f"{user.get('username', '')} has no permission to get {path}"

    def _describe(self, path: str) -> Body:
        """Return the permission that a path needs: get on `reports` in the operator's namespace, or on the path."""
        if path in (REPORT_PATH, PROOF_PATH):
            attributes = {"group": GROUP, "resource": "reports", "namespace": self._namespace}
            return {"resourceAttributes": {"verb": "get", **attributes}}
        return {"nonResourceAttributes": {"verb": "get", "path": path}}
