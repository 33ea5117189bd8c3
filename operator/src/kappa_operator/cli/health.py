"""How a resource is, in a few words: whether it is well, why not, since when, and what to do next."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from kappa_crds.conditions import EXPORTED, VERIFIED, Condition, ConditionType, find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.lagpolicy import LAG_HEALTHY
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource, ResourceStatus
from kappa_operator.engine.cluster import Body

_BESIDES = (LAG_HEALTHY, VERIFIED, EXPORTED)
"""Conditions that say whether a resource that is Ready is also well."""
_AT_REST = frozenset({Reason.SUSPENDED, Reason.PAUSED})
"""What somebody wanted."""
_NOT_SEEN = "The operator has not looked at it yet; see whether it runs and watches this namespace."
_OUTDATED = "The operator has not looked at the last change yet; see whether it runs."
_DELETING = "It was deleted; the message says what has to end before it goes."
_UNREADABLE = "It cannot be read by this version of the command; apply it again as `kubectl explain` says, or use the operator's version."


@dataclass(frozen=True)
class Health:
    """A resource and how it is. `ready` is True, False or Unknown; `well` counts, as a Ready LagPolicy may say that lag is not."""

    kind: str
    namespace: str
    name: str
    ready: str
    well: bool
    reason: str
    since: datetime | None
    message: str = ""
    next: str = ""


def assess(body: Body) -> Health:
    """Return how a resource is, as its status says."""
    metadata = body["metadata"]
    place = body["kind"], metadata.get("namespace", ""), metadata["name"]
    try:
        resource = find_kind(body["kind"]).parse(body)
    except ValidationError as error:
        return Health(*place, "Unknown", False, "Unreadable", None, _say_first(error), _UNREADABLE)
    meta = resource.metadata
    ready = find_condition(resource.status.conditions, ConditionType.READY)
    if meta.deletion_timestamp is not None:
        said = ready.message if ready else ""
        return Health(*place, "False", False, "Deleting", meta.deletion_timestamp, said, _DELETING)
    if ready is None:
        return Health(*place, "Unknown", False, "NotSeen", meta.creation_timestamp, "", _NOT_SEEN)
    if (resource.status.observed_generation or 0) < meta.generation:
        return Health(*place, "Unknown", False, "Outdated", None, ready.message, _OUTDATED)
    return _assess_conditions(place, resource, ready)


def _assess_conditions(
    place: tuple[str, str, str], resource: Resource[Any, ResourceStatus], ready: Condition
) -> Health:
    if ready.status != "True":
        return _say(place, ready, ready.status, well=ready.reason in _AT_REST)
    for kind in _BESIDES:
        condition = find_condition(resource.status.conditions, kind)
        if condition is not None and condition.status != "True" and not _is_pending(kind, condition):
            return _say(place, condition, ready.status, well=False)
    return _say(place, ready, ready.status, well=True)


def _is_pending(kind: str, condition: Condition) -> bool:
    """Return whether it is merely under way: a savepoint that is being read back is well so far."""
    return kind in (VERIFIED, EXPORTED) and condition.status == "Unknown"


def _say(place: tuple[str, str, str], condition: Condition, ready: str, *, well: bool) -> Health:
    advice = "" if well else find_advice(condition.reason)
    return Health(
        *place, ready, well, condition.reason, condition.last_transition_time, condition.message, advice
    )


def find_advice(reason: str) -> str:
    """Return what a reason means and what to do; nothing for one that this version does not know."""
    known = Reason.parse(reason)
    return "" if known is None else known.description


def _say_first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def sort_health(found: Iterable[Health]) -> list[Health]:
    """Return what is not well first, then by kind and name."""
    return sorted(found, key=lambda each: (each.well, each.kind, each.namespace, each.name))
