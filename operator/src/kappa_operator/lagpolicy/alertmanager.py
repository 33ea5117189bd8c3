"""The endpoint that Alertmanager's webhook is pointed at: an alert with the labels namespace and lagpolicy sets off that policy's remediations.

Every replica serves it. It writes alerts as annotations of the LagPolicy, by a merge that touches no other alert's, so that several
replicas may do so at once; the replica that leads finds them there. Payload: version 4 of Alertmanager's webhook.
"""

import hmac
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Literal

import structlog
from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from kappa_crds import API_VERSION
from kappa_crds.lagpolicy import AlertStatus
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import KappaError, NotFound
from kappa_operator.lagpolicy.alert import build_patch

PATH, TOKEN_FILE = "/alerts", "token"
"""The path, and the file with the token in the folder that the chart mounts; where that has no certificate, too, it is plain HTTP."""
HOLDS = timedelta(minutes=15)
"""How long an alert holds if it is not repeated: longer than the repeat_interval of its route."""
_LARGEST = 2**20
_MOST = 200
_MANAGER = "kappa-alerts"
_NAMESPACE, _POLICY, _STATE, _SEVERITY = "namespace", "lagpolicy", "lag_state", "severity"
_STATES = {each.value: each for each in (LagState.WARNING, LagState.STALLED, LagState.LOSING)}

log = structlog.get_logger(__name__)


class Alert(BaseModel):
    """The part of an alert that is needed."""

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{1,63}$")]

    @property
    def name(self) -> str:
        """Return its alertname."""
        return self.labels.get("alertname", "without a name")[:120]


class Payload(BaseModel):
    """What Alertmanager posts."""

    version: Literal["4"]
    alerts: Annotated[list[Alert], Field(max_length=_MOST)]


@dataclass(slots=True)
class Received:
    """The alerts of one policy: those that fire, and those that are resolved, by fingerprint."""

    fires: dict[str, Alert] = field(default_factory=dict)
    resolved: list[str] = field(default_factory=list)


def build_alert_app(context: OperatorContext, folder: Path) -> web.Application:
    """Return the server of POST /alerts. The token is read for each request, as its Secret may change."""

    async def take(request: web.Request) -> web.Response:
        if not _is_known(request.headers.get("Authorization", ""), folder):
            headers = {"WWW-Authenticate": "Bearer"}
            return web.Response(
                text="a bearer token is needed", status=HTTPStatus.UNAUTHORIZED, headers=headers
            )
        try:
            payload = Payload.model_validate_json(await request.read())
        except ValidationError as error:
            return web.Response(text=_explain(error), status=HTTPStatus.BAD_REQUEST)
        try:
            return await _answer(context, payload)
        except KappaError as error:
            log.warning("alerts not kept", why=error.message)
            text = "the API server does not accept it now; send it again"
            return web.Response(text=text, status=HTTPStatus.SERVICE_UNAVAILABLE)

    app = web.Application(client_max_size=_LARGEST)
    app.add_routes([web.post(PATH, take)])
    return app


def _is_known(header: str, folder: Path) -> bool:
    try:
        wanted = (folder / TOKEN_FILE).read_text().strip()
    except OSError:
        return False
    return bool(wanted) and hmac.compare_digest(header.encode(), f"Bearer {wanted}".encode())


def _explain(error: ValidationError) -> str:
    """Return where a payload is wrong, without its content."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "the body"
    return f"this is no payload of Alertmanager's webhook in version 4: {place}: {first['type']}"


async def _answer(context: OperatorContext, payload: Payload) -> web.Response:
    received, ignored = sort_alerts(payload)
    taken = 0
    for policy, each in received.items():
        why = await _keep(context, policy, each)
        if why is None:
            taken += len(each.fires) + len(each.resolved)
        else:
            ignored.append(why)
    if ignored and not taken:
        return web.json_response({"taken": 0, "ignored": ignored}, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    return web.json_response({"taken": taken, "ignored": ignored})


def sort_alerts(payload: Payload) -> tuple[dict[Key, Received], list[str]]:
    """Return the alerts by the policy that they name, and why others name none."""
    received: defaultdict[Key, Received] = defaultdict(Received)
    ignored: list[str] = []
    for alert in payload.alerts:
        namespace, name = alert.labels.get(_NAMESPACE), alert.labels.get(_POLICY)
        if not namespace or not name:
            ignored.append(f"{alert.name} has no labels namespace and lagpolicy")
        elif alert.status == "firing":
            received[Key("LagPolicy", namespace, name)].fires[alert.fingerprint] = alert
        else:
            received[Key("LagPolicy", namespace, name)].resolved.append(alert.fingerprint)
    return dict(received), ignored


async def _keep(context: OperatorContext, policy: Key, received: Received) -> str | None:
    """Write alerts to the policy; return why not, where there is no such policy. Only watched policies are known."""
    unknown = f'LagPolicy "{policy.name}" not found in namespace "{policy.namespace}"'
    if context.cache.get_version(policy) < 0:
        return unknown
    ref, now = ObjectRef(API_VERSION, *policy), context.now()
    body = await context.cluster.get(ref)
    if body is None:
        return unknown
    until = now.replace(microsecond=0) + HOLDS
    fires = {key: _build(alert.labels, alert.name, until) for key, alert in received.fires.items()}
    patch = build_patch(body["metadata"].get("annotations") or {}, fires, received.resolved, now)
    try:
        await context.cluster.merge(ref, {"metadata": {"annotations": patch}}, _MANAGER)
    except NotFound:
        return unknown
    log.info("alerts kept", resource=str(policy), firing=len(received.fires), resolved=len(received.resolved))
    return None


def _build(labels: Mapping[str, str], name: str, until: datetime) -> AlertStatus:
    is_critical = labels.get(_SEVERITY, "").lower() == Severity.CRITICAL.value.lower()
    return AlertStatus(
        name=name, severity=Severity.CRITICAL if is_critical else Severity.WARNING,
        state=_STATES.get(labels.get(_STATE, ""), LagState.WARNING), until=until,
    )  # fmt: skip
