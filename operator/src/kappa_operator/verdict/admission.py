"""The validating webhook: whoever applies a Pipeline is told what that means, at `--dry-run=server` too.

Nothing is ever refused; the CRD does that. The answer is warnings, which kubectl prints, and an error here is no reason to keep
anybody from a change. Every replica answers, from what its watches show.

The API server shows no certificate of its own, so anybody in the cluster could ask what a namespace refers to. Hence the path has
a secret part, which the chart makes and gives to the API server and to the operator alone.
"""

import asyncio
import hmac
import ssl
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kappa_operator.engine.context import OperatorContext
from kappa_operator.telemetry import metrics
from kappa_operator.verdict.decide import explain_applying
from kappa_operator.verdict.observe import observe_applied

PATH = "/pipelines/"
"""The path of the webhook, before its secret part."""
CERTIFICATE, PRIVATE_KEY, PATH_SECRET = "tls.crt", "tls.key", "path"
"""Files in the folder that the chart mounts, as a Secret of type kubernetes.io/tls names them."""
_PATIENCE_SECONDS = 2.0
"""Less than the webhook's timeoutSeconds, so that whoever waits is told why nothing is said."""
_LARGEST_REVIEW = 8 * 2**20
"""Bytes: the object before and after, each at most what the API server takes."""
RENEWAL_SECONDS = 60.0

log = structlog.get_logger(__name__)


class Request(BaseModel):
    """The part of an `AdmissionReview` of version v1 that is needed."""

    model_config = ConfigDict(extra="ignore")

    uid: str
    body: dict[str, Any] = Field(alias="object")


class Review(BaseModel):
    """A question of the API server."""

    model_config = ConfigDict(extra="ignore")

    request: Request


def build_admission_app(context: OperatorContext, secret: str) -> web.Application:
    """Return the server of the webhook below a path that ends with the secret."""

    async def review(request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.match_info["secret"].encode(), secret.encode()):
            raise web.HTTPNotFound
        try:
            asked = Review.model_validate_json(await request.read()).request
        except ValidationError:
            return web.Response(text="this is no AdmissionReview", status=HTTPStatus.BAD_REQUEST)
        return web.json_response(build_answer(asked.uid, await find_warnings(context, asked.body)))

    app = web.Application(client_max_size=_LARGEST_REVIEW)
    app.add_routes([web.post(f"{PATH}{{secret}}", review)])
    return app


def build_answer(uid: str, warnings: tuple[str, ...]) -> dict[str, Any]:
    """Return the answer to a question: yes, and what is to be said."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


async def find_warnings(
    context: OperatorContext, body: dict[str, Any], patience: float = _PATIENCE_SECONDS
) -> tuple[str, ...]:
    """Return what is to be said of a Pipeline; where that cannot be found out in time, or at all, just so much."""
    name = body.get("metadata", {}).get("name", "")
    try:
        async with asyncio.timeout(patience):
            observed, old = await observe_applied(context, body)
            # Reading SQL takes its time, and the lease is renewed by this loop.
            warnings = await asyncio.to_thread(explain_applying, observed, old)
        outcome = "said"
    except TimeoutError:
        warnings, outcome = (
            (f"{name}: what this means could not be found out in time; see `kappa plan`",),
            "late",
        )
    except Exception as error:
        log.error("a pipeline that is applied could not be judged", pipeline=name, error=type(error).__name__)
        warnings, outcome = (f"{name}: what this means could not be found out; see `kappa plan`",), "failed"
    metrics.ADMISSIONS.labels(outcome).inc()
    return warnings


async def serve_admission(
    context: OperatorContext, folder: Path, port: int, *, renewal: float = RENEWAL_SECONDS
) -> web.AppRunner:
    """Start the webhook with the certificate and the secret in a folder; raise OSError where they are not there.

    Each `renewal` seconds it looks for another certificate.
    """
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / CERTIFICATE, folder / PRIVATE_KEY)
    app = build_admission_app(context, (folder / PATH_SECRET).read_text().strip())

    async def keep_certificate(_: web.Application) -> AsyncIterator[None]:
        keeping = asyncio.ensure_future(renew_certificate(tls, folder, renewal))
        yield
        keeping.cancel()

    app.cleanup_ctx.append(keep_certificate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port, ssl_context=tls).start()
    return runner


async def renew_certificate(context: ssl.SSLContext, folder: Path, every: float) -> None:
    """Take up a certificate that was renewed: new connections get it."""
    known = (folder / CERTIFICATE).read_bytes()
    while True:
        await asyncio.sleep(every)
        try:
            found = (folder / CERTIFICATE).read_bytes()
            if found != known:
                context.load_cert_chain(folder / CERTIFICATE, folder / PRIVATE_KEY)
                known = found
        except OSError as error:  # ssl.SSLError is one: the files are amid being exchanged
            log.warning("the certificate of a server cannot be read", error=type(error).__name__)
