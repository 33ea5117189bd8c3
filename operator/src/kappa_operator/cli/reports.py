"""Where `kappa lag` and `kappa top` get what they show: the operator tells it, asked through the API server's proxy of its Service.

That needs one right, to get that Service's proxy. Where it is missing, or no operator answers, the status of pipelines and LagPolicies is
shown instead, and said to be so: lag in records of pipelines, with no time and of no known age.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import ValidationError

from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.lagpolicy import LagPolicyStatus
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import ApiUnavailable, KubernetesError, NotActing, NotFound, Refused
from kappa_operator.lag.groups import name_group
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.report.model import ClusterReport, LagReport, PipelineReport, Report, Source

SERVICE = "kappa-operator"
PORT = "http"
PATH = "/report"
_TRIES = 24
_PAUSE = 0.25
"""Seconds between two tries; each goes to any of the replicas, of which one acts."""


class Asking(Protocol):
    """The part of a cluster that reports come from."""

    async def ask_service(
        self, service: ObjectRef, port: str, path: str, query: dict[str, str] | None = None
    ) -> Body:
        """Return the JSON that a pod of a Service answers."""

    async def list_objects(self, api_version: str, kind: str, namespace: str | None = None) -> list[Body]:
        """Return the objects of a kind."""


class OperatorAway(Exception):
    """The operator cannot be asked; the message says why, and what to do."""


@dataclass(frozen=True)
class Scope:
    """What is asked for: a namespace or all, and in which one the operator is."""

    namespace: str | None
    operator_namespace: str
    with_partitions: bool = False


async def read_report(cluster: Asking, scope: Scope) -> tuple[Report, str | None]:
    """Return what the operator tells; or else what the status of resources says, and why it is that."""
    try:
        return await ask_operator(cluster, scope), None
    except OperatorAway as away:
        try:
            return await read_statuses(cluster, scope.namespace), str(away)
        except KubernetesError as error:
            raise KubernetesError(f"{away}; and no status can be read instead: {error.message}") from error


async def ask_operator(
    cluster: Asking, scope: Scope, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Report:
    """Return what the operator tells; OperatorAway where it does not."""
    service = ObjectRef("v1", "Service", scope.operator_namespace, SERVICE)
    query = {"namespace": scope.namespace} if scope.namespace else {}
    if scope.with_partitions:
        query["partitions"] = "true"
    for _ in range(_TRIES):
        try:
            return Report.model_validate(await cluster.ask_service(service, PORT, PATH, query))
        except NotActing:
            await sleep(_PAUSE)
        except (KubernetesError, ValidationError, ValueError) as error:
            raise OperatorAway(_explain(error, scope.operator_namespace)) from error
    raise OperatorAway("no replica of the operator acts at the moment; another one is about to take over")


def _explain(error: Exception, namespace: str) -> str:
    match error:
        case Refused():
            return f"the operator may not be asked: {error.message}. It takes the right to get services/proxy of {SERVICE}:{PORT} in namespace {namespace}; the chart's value readers grants it"
        case NotFound():
            return f"no operator that tells reports is in namespace {namespace}; name another one with --operator-namespace ({error.message})"
        case ApiUnavailable():
            return f"the operator does not answer: {error.message}; see kubectl -n {namespace} get pods"
        case KubernetesError():
            return error.message
        case _:
            return f"the operator's answer cannot be read, it may be of another version: {error}"


async def read_statuses(cluster: Asking, namespace: str | None) -> Report:
    """Return what the status of resources says."""
    pipelines = await cluster.list_objects(API_VERSION, "Pipeline", namespace)
    policies = await cluster.list_objects(API_VERSION, "LagPolicy", namespace)
    said = [status for body in policies if (status := _parse(LagPolicyStatus, body)) is not None]
    return build_status_report(
        [each for body in pipelines if (each := _parse_pipeline(body)) is not None], said, datetime.now(UTC)
    )


def _parse(model: type[LagPolicyStatus], body: Body) -> LagPolicyStatus | None:
    try:
        return model.model_validate(body.get("status") or {})
    except ValidationError:
        return None


def _parse_pipeline(body: Body) -> PipelineResource | None:
    try:
        return find_kind("Pipeline").parse(body)
    except ValidationError:
        return None


def build_status_report(
    pipelines: list[PipelineResource], policies: list[LagPolicyStatus], at: datetime
) -> Report:
    """Return a report in which only the records are known that pipelines had to read, and the state of what policies call the worst."""
    states: dict[tuple[str, str], tuple[LagState, Severity]] = {}
    for policy in policies:
        for share in policy.lagging:
            place = share.group, share.topic or ""
            if place not in states or share.state.rank > states[place][0].rank:
                states[place] = share.state, share.severity
    clusters: dict[str, list[LagReport]] = {}
    for pipeline in pipelines:
        namespace = pipeline.metadata.namespace
        clusters.setdefault(namespace, []).extend(_read_sources(pipeline, states))
    return Report(
        at=at,
        source=Source.STATUS,
        clusters=tuple(
            ClusterReport(namespace=namespace, name="-", every=0.0, lags=tuple(lags))
            for namespace, lags in clusters.items()
        ),
        pipelines=tuple(_read_pipeline(pipeline) for pipeline in pipelines),
    )


def _read_sources(pipeline: PipelineResource, states: dict[tuple[str, str], Any]) -> list[LagReport]:
    metadata = pipeline.metadata
    group = name_group(metadata.namespace, metadata.name)
    rows = []
    for source in pipeline.status.sources:
        state, severity = states.get((group, source.topic or ""), (None, Severity.NONE))
        rows.append(
            LagReport(
                group=group, topic=source.topic, pipeline=metadata.name, lag=source.lag, undated=1,
                unknown=int(source.lag is None), state=state, severity=severity,
            )
        )  # fmt: skip
    return rows


def _read_pipeline(pipeline: PipelineResource) -> PipelineReport:
    status = pipeline.status
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    return PipelineReport(
        namespace=pipeline.metadata.namespace,
        name=pipeline.metadata.name,
        state=status.state,
        reason=ready.reason if ready else None,
        batch=status.batch,
        lag=status.lag_records,
    )
