"""Larger batches for a pipeline whose batches are full: each as large as it may be, while more waits than it takes.

What that is worth depends on how much of a batch's time does not depend on its size, which is unknown before. So the rate is measured
before and after each step, with time for the new one to show, and a step that made nothing faster is the last one. The bound goes back when all groups were healthy for long enough,
and only if the rate at which it was too small would have been enough for the most that came in since.
"""

from datetime import datetime

from kappa_crds.lagremediation import (
    BatchLimitRemediation,
    RemediationKind,
    RemediationResult,
    RemediationStatus,
)
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.quantities import format_count, format_duration, parse_duration
from kappa_operator.lag.load import SETTLED, Load
from kappa_operator.lagpolicy.remediation.model import PipelineCase, PipelineFacts, is_cooling, undo
from kappa_operator.lagpolicy.remediation.scale import SPARE, count_regrets, measure_quiet

GAIN = 1.1
"""How much faster a pipeline has to have become by a step, for another one to be worth another driver."""

_AGAIN = 180.0
"""Seconds until a refused restoration is retried, without a policy."""


def decide_limit(
    settings: BatchLimitRemediation | None,
    case: PipelineCase,
    before: RemediationStatus | None,
    now: datetime,
) -> RemediationStatus | None:
    """Return the change to be recorded, or the last one with what it was worth; None where nothing changes. Without a remediation, what was raised goes back."""
    facts = case.facts
    held = None if before is None else find_held(before, facts)
    if case.load is None or facts.max_records is None or not facts.steady or facts.stateless:
        return None
    if settings is None:
        refused = before is not None and before.result is RemediationResult.REFUSED
        if held is None or (refused and is_cooling(before, _AGAIN, now)):
            return None
        return undo(held, held.original or "", "the policy does not have this remediation any more", now)
    if is_cooling(before, parse_duration(settings.cool_down), now):
        return None
    if case.verdict.severity is not Severity.NONE:
        return _decide_larger(settings, case, case.load, before, held, now=now)
    return None if held is None else _decide_back(settings, case.load, held, now)


def is_return(record: RemediationStatus) -> bool:
    """Return whether a record is of batches that become as small as they were: that is done for any later policy."""
    return record.kind is RemediationKind.RAISE_BATCH_LIMIT and record.original is None


def may_be_held(record: RemediationStatus) -> bool:
    """Return whether batches may still be larger than they were: they are, or the way back is under way, or was refused."""
    if record.kind is not RemediationKind.RAISE_BATCH_LIMIT:
        return False
    return record.original is not None or record.result in (
        RemediationResult.PENDING,
        RemediationResult.REFUSED,
    )


def find_held(record: RemediationStatus, facts: PipelineFacts) -> RemediationStatus | None:
    """Return the record of batches that are as large as a remediation made them; None if a user has changed the limit since."""
    ended = record.result in (RemediationResult.REFUSED, RemediationResult.WITHDRAWN)
    if is_return(record):
        held = record.replace(original=record.wanted, wanted=record.before or record.wanted)
        return held if ended and facts.max_records == int(held.wanted) else None
    return None if ended or facts.max_records != int(record.wanted) else record


def _decide_larger(
    settings: BatchLimitRemediation,
    case: PipelineCase,
    load: Load,
    before: RemediationStatus | None,
    held: RemediationStatus | None,
    *,
    now: datetime,
) -> RemediationStatus | None:
    facts, waits = case.facts, case.waits
    size = facts.max_records or 0
    is_full = waits > size // facts.sources
    if case.verdict.state not in (LagState.WARNING, LagState.LOSING, LagState.REWOUND) or not is_full:
        return None
    faster = load.taken - load.came
    drains = waits / faster if faster > 0 else float("inf")
    if load.taken <= 0 or drains <= parse_duration(settings.drain_within):
        return None
    if held is not None and (now - max(held.at, load.since)).total_seconds() < SETTLED:
        return None
    if held is not None and load.taken < GAIN * held.rates[-1]:
        message = f"batches of {held.wanted} make it no faster ({format_count(load.taken)}/s, before {format_count(held.rates[-1])}/s)"
        return None if held.message is not None else held.replace(message=message)
    wanted = min(settings.up_to, size * settings.factor)
    if wanted <= size:
        return None
    why = (
        f"{format_count(waits)} records wait and {format_count(load.came)}/s come; full batches of {size} take"
        f" {format_count(load.taken)}/s, which does not drain them within {settings.drain_within}"
    )
    return RemediationStatus(
        kind=RemediationKind.RAISE_BATCH_LIMIT, target=facts.name, before=str(size), wanted=str(wanted), at=now.replace(microsecond=0),
        why=why, original=str(size) if held is None else held.original,
        rates=(*(held.rates if held is not None else ()), round(load.taken, 3)),
        count=_count(settings, before, held, now),
    )  # fmt: skip


def _count(
    settings: BatchLimitRemediation,
    before: RemediationStatus | None,
    held: RemediationStatus | None,
    now: datetime,
) -> int:
    """Return how often in a row the bound went back and was too small soon after."""
    if before is None:
        return 0
    fell = before.at if held is None and before.original is None else None
    return count_regrets(settings, fell=fell, now=now, regrets=before.count)


def _decide_back(
    settings: BatchLimitRemediation, load: Load, held: RemediationStatus, now: datetime
) -> RemediationStatus | None:
    quiet = measure_quiet(settings, held.count)
    if load.well_since is None or (now - max(load.well_since, held.at)).total_seconds() < quiet:
        return None
    if load.highest > SPARE * held.rates[0]:
        return None
    why = (
        f"all groups were healthy for {format_duration(quiet)}, and at most {format_count(load.highest)}/s came; batches of {held.original} took"
        f" {format_count(held.rates[0])}/s"
    )
    return undo(held, held.original or "", why, now)
