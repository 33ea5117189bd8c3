"""What a decision returns, and how conditions are said."""

from dataclasses import dataclass
from datetime import datetime

from kappa_crds.conditions import Condition, ConditionStatus, ConditionType, merge_conditions
from kappa_crds.resource import ResourceStatus
from kappa_operator.engine.actions import Action
from kappa_operator.errors import KappaError


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, what to say, and when to look again.

    `requeue_after` is in seconds; None waits for the next event or the regular resync. With `requeue` the context
    is observed anew right after the actions, and the status comes from that second look: what is reported was seen,
    not assumed.
    """

    actions: tuple[Action, ...] = ()
    status: ResourceStatus | None = None
    requeue_after: float | None = None
    requeue: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An action that did not work, for the next decision to take into account."""

    action: Action
    error: KappaError


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a resource stands, before it becomes three conditions.

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


def build_conditions(
    verdict: Verdict, previous: tuple[Condition, ...], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return Ready, Reconciling and Stalled for a verdict, keeping transition times where nothing changed."""

    def condition(kind: ConditionType, status: ConditionStatus) -> Condition:
        return Condition(
            type=kind,
            status=status,
            reason=verdict.reason,
            message=verdict.message,
            observed_generation=generation,
            last_transition_time=now.replace(microsecond=0),
        )

    is_ready = verdict.ready == "True"
    wanted = (
        condition(ConditionType.READY, verdict.ready),
        condition(
            ConditionType.RECONCILING, "False" if is_ready or verdict.stalled or verdict.settled else "True"
        ),
        condition(ConditionType.STALLED, "True" if verdict.stalled else "False"),
    )
    return merge_conditions(previous, wanted)
