"""Reads the report that `kappa lag` and `kappa top` show from the operator, through the API server's proxy of its Service.

The proxy does not forward the user's own token. So the command requests a token of the reader account, which only the operator accepts.
This needs the permission for both. Without it, or without an operator, the status of Pipelines and LagPolicies is the
source, with a warning: it has the lag of pipelines in records, and neither lag in time nor an age.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.lagpolicy import LagPolicyStatus
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.engine.cluster import ApiCluster, Body
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import ApiUnavailable, KubernetesError, NotActing, NotFound, Refused
from kappa_operator.lag.groups import name_group
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.report.address import (
    PLAIN_PORT,
    PORT,
    READER_ACCOUNT,
    REPORT_PATH,
    SERVICE,
    TOKEN_HEADER,
    TOKEN_SECONDS,
    build_audience,
)
from kappa_operator.report.model import ClusterReport, LagReport, PipelineReport, Report, Source

Answer = TypeVar("Answer", bound=BaseModel)

_TRIES = 24
_PAUSE = 0.25
"""Seconds between two tries; each goes to one of the replicas, and only the leader answers."""


class OperatorUnavailable(Exception):
    """The operator sends no report; the message has the cause and the fix."""


@dataclass(frozen=True)
class Scope:
    """What to report: a namespace or all, and the namespace of the operator."""

    namespace: str | None
    operator_namespace: str
    with_partitions: bool = False


async def read_report(api: ApiCluster, scope: Scope) -> tuple[Report, str | None]:
    """Return the operator's report and None; or else one from the status of resources, and why."""
    try:
        return await request_report(api, scope), None
    except OperatorUnavailable as unavailable:
        try:
            return await read_statuses(api, scope.namespace), str(unavailable)
        except KubernetesError as error:
            raise KubernetesError(
                f"{unavailable}; the status cannot be read either: {error.message}"
            ) from error


async def request_report(
    api: ApiCluster, scope: Scope, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Report:
    """Return the operator's report; OperatorUnavailable where it sends none."""
    query = {"namespace": scope.namespace} if scope.namespace else {}
    if scope.with_partitions:
        query["partitions"] = "true"
    return await request_answer(api, scope.operator_namespace, REPORT_PATH, query, Report, sleep=sleep)


async def request_answer(
    api: ApiCluster,
    namespace: str,
    path: str,
    query: dict[str, str],
    model: type[Answer],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Answer:
    """Return what the operator in a namespace answers at a path; OperatorUnavailable where it answers nothing of that form."""
    try:
        token = await request_token(api, namespace)
        for _ in range(_TRIES):
            try:
                return model.model_validate(await _ask(api, namespace, token, path, query))
            except NotActing:
                await sleep(_PAUSE)
    except (KubernetesError, ValidationError, ValueError) as error:
        raise OperatorUnavailable(_explain(error, namespace)) from error
    raise OperatorUnavailable("the operator has no leader at the moment; try again in a few seconds")


async def request_token(api: ApiCluster, namespace: str) -> str | None:
    """Return a token for the report; None for an operator that serves it without TLS. Raises KubernetesError."""
    account = ObjectRef("v1", "ServiceAccount", namespace, READER_ACCOUNT)
    try:
        return await api.request_token(account, build_audience(namespace), TOKEN_SECONDS)
    except NotFound:
        return None


async def _ask(api: ApiCluster, namespace: str, token: str | None, path: str, query: dict[str, str]) -> Body:
    service = ObjectRef("v1", "Service", namespace, SERVICE)
    if token is None:
        return await api.ask_service(service, PLAIN_PORT, path, query)
    return await api.ask_service(service, PORT, path, query, {TOKEN_HEADER: token})


def _explain(error: Exception, namespace: str) -> str:
    match error:
        case Refused():
            needed = f"create on serviceaccounts/token of {READER_ACCOUNT} and get on services/proxy of https:{SERVICE}:{PORT}"
            return f"no permission to read the operator's report: {error.message}. It needs {needed} in namespace {namespace}; the chart's value `readers` grants both"
        case NotFound():
            return f'no operator with reports found in namespace "{namespace}"; name its namespace with --operator-namespace ({error.message})'
        case ApiUnavailable():
            return f"the operator does not respond: {error.message}; check kubectl -n {namespace} get pods"
        case KubernetesError():
            return error.message
        case _:
            return f"the operator's report cannot be read, it may be of another version: {error}"


async def read_statuses(api: ApiCluster, namespace: str | None) -> Report:
    """Return a report from the status of resources."""
    pipelines = await api.list_objects(API_VERSION, "Pipeline", namespace)
    policies = await api.list_objects(API_VERSION, "LagPolicy", namespace)
    statuses = [each.status for each in _parse("LagPolicy", policies)]
    return build_status_report(list(_parse("Pipeline", pipelines)), statuses, datetime.now(UTC))


def _parse(kind: str, bodies: Iterable[Body]) -> Iterator[Any]:
    """Yield the resources that this version can read."""
    for body in bodies:
        with suppress(ValidationError):
            yield find_kind(kind).parse(body)


def build_status_report(
    pipelines: list[PipelineResource], policies: list[LagPolicyStatus], at: datetime
) -> Report:
    """Return a report with the lag of pipelines in records, and the states of the groups that policies list."""
    states: dict[tuple[str, str], tuple[LagState, Severity]] = {}
    for policy in policies:
        for pair in policy.lagging:
            place = pair.group, pair.topic or ""
            if place not in states or pair.state.rank > states[place][0].rank:
                states[place] = pair.state, pair.severity
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
