"""The health of a resource: whether it is healthy, why not, since when, and what to do next."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from kappa_crds.cdcsource import BINLOG_SAFE, SLOT_SAFE
from kappa_crds.cdcsource_proof import PROVEN
from kappa_crds.conditions import EXPORTED, VERIFIED, Condition, ConditionType, find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.lagpolicy import LAG_HEALTHY
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource, ResourceStatus
from kappa_operator.engine.cluster import Body

_CHECKED = (LAG_HEALTHY, VERIFIED, EXPORTED, SLOT_SAFE, BINLOG_SAFE, PROVEN)
"""Conditions that must be true of a healthy resource, besides Ready."""
_REQUESTED = frozenset({Reason.SUSPENDED, Reason.CONNECTOR_PAUSED, Reason.CONNECTOR_STOPPED})
"""Reasons that a user requested."""
_NOT_SEEN = "The operator has not reconciled it yet. Check that it runs and watches this namespace."
_OUTDATED = "The operator has not reconciled the last change yet. Check that it runs."
_DELETING = "It is being deleted; the message names what has to end first."
_UNREADABLE = "This version of the command cannot read it. Use the version of the operator, or correct it as `kubectl explain` shows."


@dataclass(frozen=True)
class Health:
    """The health of a resource. `ready` is True, False or Unknown; a Ready LagPolicy is unhealthy while lag is, and a CDCSource while rows differ."""

    kind: str
    namespace: str
    name: str
    ready: str
    healthy: bool
    reason: str
    since: datetime | None
    message: str = ""
    next: str = ""


def assess(body: Body) -> Health:
    """Return the health of a resource by its status."""
    metadata = body["metadata"]
    place = body["kind"], metadata.get("namespace", ""), metadata["name"]
    try:
        resource = find_kind(body["kind"]).parse(body)
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return Health(*place, "Unknown", False, "Unreadable", None, message, _UNREADABLE)
    meta = resource.metadata
    ready = find_condition(resource.status.conditions, ConditionType.READY)
    if meta.deletion_timestamp is not None:
        message = ready.message if ready else ""
        return Health(*place, "False", False, "Deleting", meta.deletion_timestamp, message, _DELETING)
    if ready is None:
        return Health(*place, "Unknown", False, "NotSeen", meta.creation_timestamp, "", _NOT_SEEN)
    if (resource.status.observed_generation or 0) < meta.generation:
        return Health(*place, "Unknown", False, "Outdated", None, ready.message, _OUTDATED)
    return _assess_conditions(place, resource, ready)


def _assess_conditions(
    place: tuple[str, str, str], resource: Resource[Any, ResourceStatus], ready: Condition
) -> Health:
    if ready.status != "True" and ready.reason not in _REQUESTED:
        return _build(place, ready, ready.status, healthy=False)
    for kind in _CHECKED:
        condition = find_condition(resource.status.conditions, kind)
        if condition is not None and condition.status != "True" and not _is_pending(kind, condition):
            return _build(place, condition, ready.status, healthy=False)
    return _build(place, ready, ready.status, healthy=True)


def _is_pending(kind: str, condition: Condition) -> bool:
    """Return whether Unknown is healthy so far: a savepoint is being verified, or nothing limits the WAL of a slot."""
    return kind in (VERIFIED, EXPORTED, SLOT_SAFE) and condition.status == "Unknown"


def _build(place: tuple[str, str, str], condition: Condition, ready: str, *, healthy: bool) -> Health:
    advice = "" if healthy else find_advice(condition.reason)
    return Health(
        *place, ready, healthy, condition.reason, condition.last_transition_time, condition.message, advice
    )


def find_advice(reason: str) -> str:
    """Return what a reason means and what to do; empty for a reason of another version."""
    return next((known.description for known in Reason if known.value == reason), "")


def sort_health(found: Iterable[Health]) -> list[Health]:
    """Return unhealthy resources first, then by kind and name."""
    return sorted(found, key=lambda each: (each.healthy, each.kind, each.namespace, each.name))
