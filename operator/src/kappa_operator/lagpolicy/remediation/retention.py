"""Longer retention of a topic while records that wait would be removed: twice as long each time, up to a bound, for two hours at a time.

It is given back when all that waits would be safe with the retention that the spec has; and it ends where it is not renewed.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kappa_crds.lagpolicy import LagPolicySpec
from kappa_crds.lagremediation import RemediationKind, RemediationResult, RemediationStatus
from kappa_crds.lagstate import LagState
from kappa_crds.quantities import format_duration, parse_duration
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lagpolicy.remediation.model import TopicFacts, is_cooling, undo
from kappa_operator.topic.retention import Hold, parse_hold

LEASE = timedelta(hours=2)
SAFETY = 1.5
"""How many times the bound there has to be to the loss before a hold ends, where the retention leaves room for that; else half of the room."""


def decide_hold(
    spec: LagPolicySpec,
    facts: TopicFacts,
    judged: Sequence[Judged],
    before: RemediationStatus | None,
    now: datetime,
) -> RemediationStatus | None:
    """Return the hold to be recorded, longer, renewed or ended; None where nothing changes. `judged` are the readers of the topic."""
    settings = None if spec.remediation is None else spec.remediation.hold_retention
    held = _find_held(before)
    if facts.retention is None:
        return None
    if held is None or before is None:
        present = facts.retention
    else:
        present = parse_duration(held.retention)
        if settings is None or is_safe(spec, facts.retention, judged):
            why = f"all that waits is safe with the {format_duration(facts.retention)} of its spec"
            return undo(before, "", why, now)
    losing = [each for each in judged if each.verdict.state is LagState.LOSING]
    if settings is not None and losing and not is_cooling(before, parse_duration(settings.cool_down), now):
        wanted = min(parse_duration(settings.up_to), 2 * present)
        if wanted > present:
            return _hold(facts, wanted, _explain(losing[0], present, wanted), now)
    if held is not None and before is not None and held.until - now < LEASE / 2:
        renewed = str(Hold(held.retention, _find_end(now)))
        return before.replace(wanted=renewed, result=RemediationResult.PENDING)
    return None


def is_safe(spec: LagPolicySpec, retention: float, judged: Sequence[Judged]) -> bool:
    """Return whether nothing would be lost soon with a retention in seconds: known of every reader, with a margin."""
    bounds = [bounds.time_to_loss for bounds in (spec.warning, spec.critical) if bounds is not None]
    bound = max((parse_duration(text) for text in bounds if text is not None), default=0.0)
    needed = min(SAFETY * bound, (bound + retention) / 2)

    def is_far(each: Judged) -> bool:
        sample, state = each.sample, each.verdict.state
        if sample is None or sample.behind is None or state in (LagState.LOSING, LagState.UNKNOWN):
            return False
        return sample.behind == 0.0 or retention - sample.behind > needed

    return all(map(is_far, judged))


def _find_held(before: RemediationStatus | None) -> Hold | None:
    if before is None or before.result is RemediationResult.REFUSED:
        return None
    return parse_hold(before.wanted)


def _hold(facts: TopicFacts, seconds: float, why: str, now: datetime) -> RemediationStatus:
    return RemediationStatus(
        kind=RemediationKind.HOLD_RETENTION, target=facts.name, before=facts.hold or None,
        wanted=str(Hold(f"{round(seconds)}s", _find_end(now))), at=now.replace(microsecond=0), why=why,
    )  # fmt: skip


def _find_end(now: datetime) -> datetime:
    return now.replace(microsecond=0) + LEASE


def _explain(worst: Judged, present: float, wanted: float) -> str:
    loss = None if worst.sample is None else worst.sample.loss
    soon = "" if loss is None else f" in {format_duration(loss)}"
    reader = f"{worst.pair.group} in partition {worst.pair.partition.number}"
    return f"{reader} would lose records{soon}; retention {format_duration(wanted)} instead of {format_duration(present)}"
