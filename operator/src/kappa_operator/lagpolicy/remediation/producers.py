"""Quotas for producers that obey, while something is critical: what was there before is recorded first, and put back.

A quota outlives the operator and the policy, so nothing here forgets one: a record that has an `original` is a quota that has to go back.
It goes back when all groups were healthy for long enough, when it lasted as long as it may, when the policy does not name the producer any more,
and when the policy is deleted. A quota that a user has changed meanwhile is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kappa_crds.lagremediation import (
    RemediationKind,
    RemediationResult,
    RemediationStatus,
    ThrottleRemediation,
)
from kappa_crds.quantities import format_duration, parse_duration
from kappa_operator.engine.actions import SetQuota
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.errors import KappaError
from kappa_operator.kafka.model import Producer
from kappa_operator.lagpolicy.remediation.model import is_cooling, undo
from kappa_operator.lagpolicy.remediation.scale import count_regrets, measure_quiet

_NONE = "none"


@dataclass(frozen=True, slots=True)
class QuotaFacts:
    """The quota of a producer in a Kafka cluster: its bytes a second, None where it has none, or the problem with reading it.

    `named`: the policy lists the producer now. `gone`: the KafkaCluster no longer exists, so its brokers are unreachable.
    """

    cluster: Key
    producer: Producer
    rate: float | None = None
    problem: KappaError | None = None
    named: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Alarm:
    """The severity over everything that a policy selects at a time: whether anything is critical, and why; and since when everything is healthy."""

    now: datetime
    critical: bool = False
    why: str = ""
    well_since: datetime | None = None


def is_held(record: RemediationStatus) -> bool:
    """Return whether a quota is, or may be, as a policy has set it."""
    if record.kind is not RemediationKind.THROTTLE_PRODUCERS:
        return False
    return record.result is RemediationResult.PENDING or record.original is not None


def decide_throttle(
    settings: ThrottleRemediation | None,
    facts: QuotaFacts,
    alarm: Alarm,
    before: RemediationStatus | None,
    *,
    may_begin: bool,
) -> RemediationStatus | None:
    """Return the quota to be recorded, or its end; None where all stays as it is."""
    if before is not None and is_held(before):
        is_pending = before.result is RemediationResult.PENDING
        return None if is_pending else _decide_held(settings, facts, alarm, before)
    if settings is None or not facts.named or not may_begin:
        return None
    if before is not None and before.exhausted:
        return before.replace(exhausted=False) if alarm.well_since is not None else None
    if not alarm.critical or is_cooling(before, parse_duration(settings.cool_down), alarm.now):
        return None
    return _begin(settings, facts, alarm, before)


def _begin(
    settings: ThrottleRemediation, facts: QuotaFacts, alarm: Alarm, before: RemediationStatus | None
) -> RemediationStatus | None:
    record = RemediationStatus(
        kind=RemediationKind.THROTTLE_PRODUCERS, target=str(facts.producer), cluster=facts.cluster.name,
        before=_write(facts.rate), wanted=_write(float(settings.bytes_per_second)), original=_write(facts.rate),
        at=alarm.now.replace(microsecond=0), why=alarm.why, count=_count(settings, before, alarm.now),
    )  # fmt: skip
    if facts.problem is not None:
        return None if facts.problem.retryable else _refuse(record, facts.problem.message)
    if facts.rate is not None and facts.rate <= settings.bytes_per_second:
        return None
    return record


def _count(settings: ThrottleRemediation, before: RemediationStatus | None, now: datetime) -> int:
    """Return how often in a row the end of a pause was too soon."""
    if before is None or before.result is RemediationResult.REFUSED:
        return 0
    allowed = before.at + timedelta(seconds=parse_duration(settings.cool_down))
    return count_regrets(settings, fell=allowed, now=now, regrets=before.count)


def _decide_held(
    settings: ThrottleRemediation | None, facts: QuotaFacts, alarm: Alarm, held: RemediationStatus
) -> RemediationStatus | None:
    now = alarm.now
    if facts.gone:
        return lose(held, facts)
    if facts.problem is not None:
        return None
    if settings is None or not facts.named:
        return release(held, facts, "the policy does not name it any more", now)
    quiet = measure_quiet(settings, held.count)
    if alarm.well_since is not None and (now - max(alarm.well_since, held.at)).total_seconds() >= quiet:
        return release(held, facts, f"all groups were healthy for {format_duration(quiet)}", now)
    if (now - held.at).total_seconds() >= parse_duration(settings.at_most):
        why = f"it was slowed down for {settings.at_most}, which is as long as it may be; it is not again until all groups were healthy"
        return release(held, facts, why, now).replace(exhausted=True)
    return None


def release(held: RemediationStatus, facts: QuotaFacts, why: str, now: datetime) -> RemediationStatus:
    """Return the end of a throttle: the previous quota is restored, unless a user has set another one meanwhile."""
    if facts.rate == _parse(held.original or _NONE):
        return held.replace(original=None, result=RemediationResult.WITHDRAWN, message=why)
    if facts.rate != _parse(held.wanted):
        message = f"its quota is {_write(facts.rate)} now, set by someone else, and is kept"
        return held.replace(original=None, result=RemediationResult.DONE, message=message)
    return undo(held, held.original or _NONE, why, now)


def lose(held: RemediationStatus, facts: QuotaFacts) -> RemediationStatus:
    """Return the record of a quota that cannot be restored, as its Kafka cluster is not reachable any more."""
    original = held.original or held.wanted
    message = f"KafkaCluster {facts.cluster.name} is gone; its quota was {original} before, restore that with kafka-configs"
    return _refuse(held, message)


def _refuse(record: RemediationStatus, message: str) -> RemediationStatus:
    return record.replace(result=RemediationResult.REFUSED, message=message, original=None)


def settle_throttle(
    record: RemediationStatus, facts: QuotaFacts | None, failures: Sequence[Failure]
) -> RemediationStatus:
    """Return a record with what became of it: done when it shows. A quota that goes back is never given up, a new one is."""
    if record.result is not RemediationResult.PENDING or facts is None:
        return record
    if facts.gone:
        return lose(record, facts)
    if facts.problem is None and facts.rate == _parse(record.wanted):
        return record.replace(result=RemediationResult.DONE, message=None)
    action = build_quota_action(record, facts)
    error = next((each.error for each in failures if each.action == action), facts.problem)
    if error is None:
        return record
    if record.original is None:
        return record.replace(message=error.message)
    return record if error.retryable else _refuse(record, error.message)


def build_quota_action(record: RemediationStatus, facts: QuotaFacts) -> SetQuota:
    """Return what carries a record out; doing it again changes nothing."""
    return SetQuota(facts.cluster, facts.producer, _parse(record.wanted))


def _write(rate: float | None) -> str:
    return _NONE if rate is None else f"{rate:.15g}"


def _parse(text: str) -> float | None:
    return None if text == _NONE else float(text)
