"""Compares a sample of a group partition with its lag history."""

from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.model import Sample
from kappa_operator.lag.rules import Threshold


def is_recreated(history: LagHistory, sample: Sample) -> bool:
    """Return whether the topic was recreated: offsets of one log never go back."""
    return sample.log.end < history.end or sample.log.start < history.start


def has_work(history: LagHistory, sample: Sample) -> bool | None:
    """Return whether there are unread records; None where the sample is inconclusive.

    It is inconclusive where the group has no committed offset and there are records, and where the committed offset is past the end of the log
    and does not move: that offset belongs to the topic before it was recreated. An offset past the end that moves was only read later than
    the end. With a `behind` of 0.0 the remaining offsets are no records, but transaction markers or gaps of compaction.
    """
    if sample.committed is None:
        return None if sample.log.stable > sample.log.start else False
    if sample.ahead:
        return False if has_advanced(history, sample) else None
    return sample.lag > 0 and sample.behind != 0.0


def has_advanced(history: LagHistory, sample: Sample) -> bool:
    """Return whether the committed offset is larger than at the previous sample."""
    before, now = history.committed, sample.committed
    return before is not None and now is not None and now > before


def went_back(history: LagHistory, sample: Sample) -> bool:
    """Return whether the committed offset is smaller than at the previous sample."""
    before, now = history.committed, sample.committed
    return before is not None and now is not None and now < before


def count_lost(history: LagHistory, sample: Sample) -> int:
    """Return the number of offsets that were removed before the group read them, without those that held no unread record."""
    if sample.committed is None:
        return 0
    return max(0, sample.log.start - max(sample.committed, history.done or 0))


def is_over(bound: Threshold | None, sample: Sample, *, works: bool) -> bool | None:
    """Return whether lag is over a bound; None where that depends on an unknown lag in time."""
    if bound is None or not works:
        return False
    if bound.records is not None and sample.lag > bound.records:
        return True
    if bound.lag is None:
        return False
    return None if sample.behind is None else sample.behind > bound.lag


def is_near(bound: Threshold | None, sample: Sample, *, works: bool) -> bool:
    """Return whether unread records may be removed sooner than a bound allows."""
    if bound is None or bound.time_to_loss is None or not works or sample.loss is None:
        return False
    return sample.loss < bound.time_to_loss
