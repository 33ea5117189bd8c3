"""Conditions as kstatus and `kubectl wait` read them.

Every kind has three: `Ready` (it does what the spec declares), `Reconciling` (the operator is still working towards it)
and `Stalled` (it cannot get there without a change from outside). `Reconciling` and `Stalled` are abnormal-true:
they are `False` on a healthy resource. Source: the kstatus convention of kubernetes-sigs/cli-utils.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from kappa_crds.model import Status


class ConditionType(StrEnum):
    """The condition types that every kind of the platform has."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


VERIFIED = "Verified"
"""What a Savepoint has besides: whether it was read back whole."""
EXPORTED = "Exported"
"""And whether each requested copy is in its store."""


ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Status):
    """One observation of a resource's state."""

    type: Annotated[str, Field(max_length=316)]
    """What is observed, such as Ready."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=1024)]
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, and what to do, for people."""
    observed_generation: Annotated[int | None, Field(ge=0)] = None
    """The metadata.generation that this was observed for."""
    last_transition_time: datetime
    """When the status last changed (not reason or message)."""


def merge_conditions(previous: Iterable[Condition], wanted: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return `wanted`, keeping the transition time of each condition whose status did not change."""
    before = {condition.type: condition for condition in previous}

    def keep_time(condition: Condition) -> Condition:
        old = before.get(condition.type)
        if old is None or old.status != condition.status:
            return condition
        return condition.model_copy(update={"last_transition_time": old.last_transition_time})

    return tuple(keep_time(condition) for condition in wanted)


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of that type, if it is there."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Return whether the condition of that type is there and True."""
    condition = find_condition(conditions, kind)
    return condition is not None and condition.status == "True"
