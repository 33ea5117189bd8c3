"""What to report about a resource that is beyond a limit of its namespace: its conditions, and nothing else changes."""

from datetime import datetime
from typing import Any

from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.reasons import Reason
from kappa_crds.resource import Metadata, Resource, ResourceStatus
from kappa_operator.engine.invalid import Invalid, read_common
from kappa_operator.engine.limits import LIMITED, OBJECT_BYTES, Excess
from kappa_operator.engine.plan import Plan, Verdict, build_conditions

_RAISE = "or let the administrator of the installation raise"


def decide_limited(kind: str, body: dict[str, Any], excess: Excess, now: datetime) -> Invalid:
    """Return what to report. A count that changed is no news: else each of 10,000 resources would be written at every deletion."""
    metadata = Metadata.model_validate(body["metadata"])
    status = read_common(body)
    resource = Resource[Any, Any].model_construct(kind=kind, metadata=metadata, spec=None, status=status)
    if status is None or _is_reported(status, metadata, excess):
        return Invalid(resource, Plan())
    verdict = Verdict(LIMITED, Reason.LIMIT_REACHED, explain(kind, metadata.namespace, excess), stalled=True)
    conditions = build_conditions(verdict, status.conditions, metadata.generation, now)
    return Invalid(
        resource,
        Plan(
            status=status.replace(
                observed_generation=metadata.generation, conditions=conditions, state=verdict.state
            )
        ),
    )


def _is_reported(status: ResourceStatus, metadata: Metadata, excess: Excess) -> bool:
    known = find_condition(status.conditions, ConditionType.READY)
    return (
        known is not None
        and known.reason == Reason.LIMIT_REACHED
        and known.observed_generation == metadata.generation
        and f"{_name(excess)} ({excess.most})" in known.message
    )


def _name(excess: Excess) -> str:
    return f"limits.{'each' if excess.each else 'perNamespace'}.{excess.limit}"


def explain(kind: str, namespace: str, excess: Excess) -> str:
    """Return which limit it is, what there is, and who can change that."""
    if excess.limit == OBJECT_BYTES:
        what, how = (
            f"the resource has {excess.found} bytes without its status",
            "Shorten its spec and annotations",
        )
    elif excess.each:
        what, how = f"the spec requests {excess.found} {excess.limit}", "Request fewer"
    else:
        what = f'namespace "{namespace}" has {excess.found} {excess.limit} with this {kind} and older ones'
        how = "Delete older resources, or request fewer,"
    return (
        f"{what}, and the limit is {_name(excess)} ({excess.most}) of the chart's values; this {kind} is left as it is."
        f" {how} {_RAISE} the limit"
    )
