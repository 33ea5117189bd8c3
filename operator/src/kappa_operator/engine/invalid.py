"""What to report about a stored resource that this version cannot read.

Its spec may come from an older CRD, its status from a newer operator. Nothing is done for such a resource: only its
conditions change. The rest of the status is the write-ahead log of another version, and is written back as it was read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kappa_crds.reasons import Reason
from kappa_crds.resource import Kind, Metadata, Resource, ResourceStatus
from kappa_operator.engine.plan import Plan, Verdict, build_conditions, stalled

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Invalid:
    """The resource without its spec, and the plan that reports why."""

    resource: Resource[Any, Any]
    plan: Plan


def decide_invalid(kind: Kind, body: dict[str, Any], now: datetime) -> Invalid | None:
    """Return what to report about the resource, or None where it is gone or can be read."""
    if not body:
        return None
    try:
        kind.parse(body)
    except ValidationError as error:
        metadata = Metadata.model_validate(body["metadata"])
        status = read_common(body)
        resource = Resource[Any, Any].model_construct(
            kind=kind.name, metadata=metadata, spec=None, status=status
        )
        return Invalid(
            resource, Plan(status=None if status is None else _report(status, metadata, error, now))
        )
    return None


def read_common(body: dict[str, Any]) -> ResourceStatus | None:
    """Return the part of the status that every kind shares, all else kept beside it; None where not even that can be read."""
    try:
        return ResourceStatus.model_validate(body.get("status") or {})
    except ValidationError:
        return None


def _report(
    status: ResourceStatus, metadata: Metadata, error: ValidationError, now: datetime
) -> ResourceStatus:
    verdict = _judge(status, error)
    unreadable = verdict.reason == Reason.STATUS_UNREADABLE
    return status.replace(
        observed_generation=status.observed_generation if unreadable else metadata.generation,
        conditions=build_conditions(verdict, status.conditions, metadata.generation, now),
        state=verdict.state,
    )


def _judge(status: ResourceStatus, error: ValidationError) -> Verdict:
    """An unreadable status weighs more than an invalid spec: only the version that wrote it may act on the resource."""
    found = error.errors(include_input=False, include_url=False)
    in_status = [part for part in found if part["loc"][0] == "status"]
    if in_status:
        message = (
            f"another version of the operator wrote a status that this one cannot read ({_explain(in_status)}); nothing is done for the"
            " resource until an operator of that version, or a newer one, runs again"
        )
        state = status.state or "Unknown"
        return Verdict(state, Reason.STATUS_UNREADABLE, message, ready="Unknown", stalled=True)
    message = f"the resource is invalid: {_explain(found)}; correct its spec"
    return stalled("Failed", Reason.INVALID_SPEC, message)


def _explain(found: Sequence[ErrorDetails]) -> str:
    shown = [f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in found[:_SHOWN]]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{'; '.join(shown)}{more}"
