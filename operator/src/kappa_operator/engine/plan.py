"""What a decision returns, and what decisions of all kinds share: verdicts, conditions, finalizers and failures."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.conditions import Condition, ConditionStatus, ConditionType, merge_conditions
from kappa_crds.resource import Resource, ResourceStatus
from kappa_operator.engine.actions import Action, AddFinalizer, RemoveFinalizer
from kappa_operator.errors import KappaError


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, which status to report, and when to reconcile again.

    `requeue_after` is in seconds; None waits for the next event or the regular resync. With `requeue` the resource
    is observed again right after the actions, and the status comes from that second observation: what is reported was
    observed, not assumed.
    """

    actions: tuple[Action, ...] = ()
    status: ResourceStatus | None = None
    requeue_after: float | None = None
    requeue: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An action that failed, for the next decision to take into account."""

    action: Action
    error: KappaError


def find_failure(failures: Iterable[Failure], kind: type[Action]) -> Failure | None:
    """Return the first failure of an action of a kind."""
    return next((failure for failure in failures if isinstance(failure.action, kind)), None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a resource, before it becomes three conditions.

    `settled` is for a resource that is at rest on purpose: neither ready nor on its way.
    """

    state: str
    reason: str
    message: str
    ready: ConditionStatus = "False"
    stalled: bool = False
    settled: bool = False


def ready(state: str, reason: str, message: str) -> Verdict:
    """Return the verdict of a resource that is as it should be."""
    return Verdict(state, reason, message, ready="True")


def working(state: str, reason: str, message: str) -> Verdict:
    """Return the verdict of a resource that is on its way."""
    return Verdict(state, reason, message)


def stalled(state: str, reason: str, message: str) -> Verdict:
    """Return the verdict of a resource that needs a change from outside."""
    return Verdict(state, reason, message, stalled=True)


def judge_error(state: str, error: KappaError, reason: str | None = None) -> Verdict:
    """Return the verdict of a resource that an error keeps from being ready: stalled, unless a retry can help."""
    return Verdict(state, reason or error.reason, error.message, stalled=not error.retryable)


def hold_deletion(resource: Resource[Any, Any], finalizer: str, *, wanted: bool) -> Plan | None:
    """Return the plan that adds or removes the finalizer; None where it is as wanted."""
    if wanted == (finalizer in resource.metadata.finalizers):
        return None
    return Plan((AddFinalizer(finalizer) if wanted else RemoveFinalizer(finalizer),), requeue=True)


def update_status(
    resource: Resource[Any, Any], verdict: Verdict, now: datetime, **fields: Any
) -> ResourceStatus:
    """Return the resource's status with the verdict; what `fields` leaves out stays as it was."""
    status, generation = resource.status, resource.metadata.generation
    conditions = build_conditions(verdict, status.conditions, generation, now)
    known = {"observed_generation": generation, "conditions": conditions, "state": verdict.state}
    updated: ResourceStatus = status.replace(**{**known, **fields})
    return updated


def block_deletion(
    resource: Resource[Any, Any], reason: str, message: str, now: datetime, retry: float
) -> Plan:
    """Return the plan that reports what blocks a deletion."""
    verdict = stalled("Deleting", reason, message)
    return Plan(status=update_status(resource, verdict, now), requeue_after=retry)


def build_conditions(
    verdict: Verdict, previous: tuple[Condition, ...], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return Ready, Reconciling and Stalled for a verdict, keeping transition times where nothing changed."""
    at_rest = verdict.ready == "True" or verdict.stalled or verdict.settled
    statuses: dict[str, ConditionStatus] = {
        ConditionType.READY: verdict.ready,
        ConditionType.RECONCILING: "False" if at_rest else "True",
        ConditionType.STALLED: "True" if verdict.stalled else "False",
    }
    wanted = (
        build_condition(kind, status, verdict.reason, verdict.message, generation=generation, now=now)
        for kind, status in statuses.items()
    )
    return merge_conditions(previous, wanted)


def build_condition(
    kind: str, status: ConditionStatus, reason: str, message: str, *, generation: int, now: datetime
) -> Condition:
    """Return a condition whose status changed now."""
    return Condition(
        type=kind, status=status, reason=reason, message=message, observed_generation=generation,
        last_transition_time=now.replace(microsecond=0),
    )  # fmt: skip
