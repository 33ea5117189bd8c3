"""The validating webhook: it warns what applying a Pipeline means, at `--dry-run=server` too.

Nothing is ever refused; the CRD does that. The answer is warnings, which kubectl prints, and an error here is no reason to keep
anybody from a change. Every replica answers, from what its watches show.

The API server shows no certificate of its own, so anybody in the cluster could ask what a namespace refers to. Hence the path has
a secret part, which the chart makes and gives to the API server and to the operator alone.
"""

import asyncio
import hmac
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from kappa_operator.engine.context import OperatorContext
from kappa_operator.telemetry import metrics
from kappa_operator.verdict.decide import explain_applying
from kappa_operator.verdict.observe import observe_applied

PATH = "/pipelines/"
"""The path of the webhook, before its secret part."""
PATH_FILE = "path"
"""The file with the secret part, beside the certificate."""
_PATIENCE_SECONDS = 2.0
"""Less than the webhook's timeoutSeconds, so that the user gets a warning about the timeout."""
_LARGEST_REVIEW = 8 * 2**20
"""Bytes: the object before and after, each at most what the API server takes."""

log = structlog.get_logger(__name__)


class Request(BaseModel):
    """The part of an `AdmissionReview` of version v1 that is needed."""

    uid: str
    body: dict[str, Any] = Field(alias="object")


class Review(BaseModel):
    """A question of the API server."""

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
    """Return the response to a review: allowed, with warnings."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


async def find_warnings(
    context: OperatorContext, body: dict[str, Any], patience: float = _PATIENCE_SECONDS
) -> tuple[str, ...]:
    """Return the warnings about a Pipeline; where they are unknown, or not known in time, a warning about that."""
    name = body.get("metadata", {}).get("name", "")
    try:
        async with asyncio.timeout(patience):
            observed, old = await observe_applied(context, body)
            # Reading SQL takes its time, and the lease is renewed by this loop.
            warnings = await asyncio.to_thread(explain_applying, observed, old)
        outcome = "ok"
    except TimeoutError:
        warnings = (f"{name}: what this means could not be found out in time; see `kappa plan`",)
        outcome = "late"
    except Exception as error:
        log.error("a pipeline that is applied could not be judged", pipeline=name, error=type(error).__name__)
        warnings, outcome = (f"{name}: what this means could not be found out; see `kappa plan`",), "failed"
    metrics.ADMISSIONS.labels(outcome).inc()
    return warnings
