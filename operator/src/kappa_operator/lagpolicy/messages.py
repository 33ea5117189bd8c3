"""What a LagPolicy reports: conditions, Events, and contradictions between two policies."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from kappa_crds.conditions import Condition, ConditionStatus, merge_conditions
from kappa_crds.lagpolicy import (
    CONSISTENT,
    LAG_HEALTHY,
    Bounds,
    LaggingPartition,
    LagPolicySpec,
    LagPolicyStatus,
)
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import EmitEvent
from kappa_operator.engine.plan import (
    Verdict,
    build_condition,
    build_conditions,
    judge_error,
    ready,
    stalled,
    working,
)
from kappa_operator.lagpolicy.model import LagPolicyObserved, Rival
from kappa_operator.lagpolicy.mute import Mute

_REASONS = {
    LagState.OK: Reason.LAG_WITHIN_BOUNDS,
    LagState.UNKNOWN: Reason.LAG_UNKNOWN,
    LagState.WARNING: Reason.LAG_OVER_BOUND,
    LagState.REWOUND: Reason.CONSUMER_REWOUND,
    LagState.STALLED: Reason.CONSUMER_STALLED,
    LagState.STOPPED: Reason.CONSUMER_STOPPED,
    LagState.LOSING: Reason.LOSING_RECORDS,
}
_SHOWN = 3


def build_all_conditions(
    observed: LagPolicyObserved, worst: LaggingPartition, pairs: int, mute: Mute, now: datetime
) -> tuple[Condition, ...]:
    """Return Ready, Reconciling and Stalled, whether all groups are healthy, and whether policies are consistent."""
    resource = observed.resource
    previous, generation = resource.status.conditions, resource.metadata.generation
    condition = partial(build_condition, generation=generation, now=now)
    contradictions = list(find_contradictions(resource.spec, observed.rivals))
    fits = condition(
        CONSISTENT, "True", Reason.POLICIES_CONSISTENT, "no other LagPolicy contradicts this one"
    )
    if contradictions:
        fits = condition(CONSISTENT, "False", Reason.POLICIES_CONFLICT, "; ".join(contradictions[:_SHOWN]))
    health = condition(LAG_HEALTHY, *say_health(observed, worst, pairs))
    common = build_conditions(build_verdict(observed, pairs, mute), previous, generation, now)
    return (*common, *merge_conditions(previous, (health, fits)))


def build_verdict(observed: LagPolicyObserved, pairs: int, mute: Mute) -> Verdict:
    """Return whether the policy is evaluated, for any lag."""
    if observed.problem is not None:
        return judge_error(LagState.UNKNOWN, observed.problem)
    if mute.problems:
        return stalled(
            LagState.UNKNOWN, Reason.INVALID_SPEC, f"{'; '.join(mute.problems)}. The rest is evaluated"
        )
    if observed.problems:
        message = "; ".join(problem.message for problem in observed.problems)
        return stalled(LagState.UNKNOWN, observed.problems[0].reason, f"{message}. The rest is evaluated")
    if observed.sampled is None:
        message = f"the groups of KafkaCluster {observed.cluster} have no sample yet; wait"
        return working(LagState.UNKNOWN, Reason.LAG_UNKNOWN, message)
    return ready(LagState.OK, Reason.LAG_EVALUATED, "the groups that the policy selects are judged")


def say_health(
    observed: LagPolicyObserved, worst: LaggingPartition, pairs: int
) -> tuple[ConditionStatus, Reason, str]:
    """Return status, reason and message of the condition LagHealthy."""
    if observed.problem is not None:
        return "Unknown", observed.problem.reason, observed.problem.message
    if worst.state is LagState.OK:
        return "True", Reason.LAG_WITHIN_BOUNDS, f"all of {pairs} partitions of groups keep the bounds"
    message = f"{worst.name}: {worst.why}" if worst.name else worst.why
    if worst.state is LagState.UNKNOWN:
        reason = Reason.LAG_UNKNOWN if worst.name or observed.sampled is None else Reason.NO_GROUP_SELECTED
        before = f" (before, it was {worst.severity})" if worst.severity is not Severity.NONE else ""
        return "Unknown", reason, f"{message}{before}"
    return "False", _REASONS[worst.state], f"{worst.severity}: {message}"


def say_missing(observed: LagPolicyObserved, missing: Sequence[str]) -> str:
    """Explain why groups are unknown."""
    if observed.problem is not None:
        return observed.problem.message
    if observed.sampled is None:
        return f"the groups of KafkaCluster {observed.cluster} have no sample yet"
    if not missing:
        return "no group that Kafka knows is selected; correct spec.selector, or start the consumer"
    more = f", nor of {len(missing) - 1} more" if len(missing) > 1 else ""
    pipeline = observed.pipelines.get(missing[0])
    if pipeline is not None:
        return f"Pipeline {pipeline.name} is {pipeline.state or 'new'}, and Kafka has no committed offset of it{more}; check its conditions"
    return f"Kafka has no committed offset of this group{more}; correct its name, or start the consumer"


def build_news(before: LagPolicyStatus, after: LagPolicyStatus) -> Iterator[EmitEvent]:
    """Yield an Event where the severity changed, or where it is no longer muted; none at the first sample if all is healthy."""
    unmuted = before.muted_until is not None and after.severity is not Severity.NONE
    if after.muted_until is not None or (before.severity is after.severity and not unmuted):
        return
    health = next(condition for condition in after.conditions if condition.type == LAG_HEALTHY)
    is_bad = after.severity is not Severity.NONE
    message = health.message if is_bad else f"lag is no more {before.severity}: {health.message}"
    yield EmitEvent(Reason(health.reason), message, warning=is_bad)


def find_contradictions(spec: LagPolicySpec, rivals: Sequence[Rival]) -> Iterator[str]:
    """Yield how other policies that select the same groups do not fit this one, and what to do."""
    for rival in rivals:
        found = [*_compare(spec, rival.spec, "this", "that"), *_compare(rival.spec, spec, "that", "this")]
        found += [
            f"both have remediations.{name}, which neither takes"
            for name in _share_remediations(spec, rival.spec)
        ]
        if found:
            shared = ", ".join(rival.groups[:_SHOWN]) + (" and others" if len(rival.groups) > _SHOWN else "")
            yield f"LagPolicy {rival.name} selects {shared} too, and {'; '.join(found)}; change one of the two"


def is_contested(spec: LagPolicySpec, rivals: Sequence[Rival]) -> bool:
    """Return whether another policy has one of the remediations for one of the groups, so that the two would undo each other's."""
    return any(_share_remediations(spec, rival.spec) for rival in rivals)


def _share_remediations(one: LagPolicySpec, other: LagPolicySpec) -> list[str]:
    given = [frozenset() if spec.remediation is None else spec.remediation.names for spec in (one, other)]
    return sorted(given[0] & given[1])


def _compare(one: LagPolicySpec, other: LagPolicySpec, its: str, others: str) -> Iterator[str]:
    critical, warning = one.critical, other.warning
    if critical is None or warning is None:
        return
    for field in ("lag", "records", "timeToLoss"):
        strict, mild = _get(critical, field), _get(warning, field)
        if strict is None or mild is None:
            continue
        if (strict[0] > mild[0]) if field == "timeToLoss" else (strict[0] < mild[0]):
            yield f"{its} one's critical.{field} ({strict[1]}) comes before {others} one's warning.{field} ({mild[1]})"


def _get(bounds: Bounds, field: str) -> tuple[float, str] | None:
    if field == "records":
        return None if bounds.records is None else (float(bounds.records), str(bounds.records))
    text = bounds.lag if field == "lag" else bounds.time_to_loss
    return None if text is None else (parse_duration(text), text)
