"""What a single look at a share tells, beside what is remembered of it."""

from kappa_operator.lag.history import Standing
from kappa_operator.lag.model import Sample
from kappa_operator.lag.rules import Threshold


def is_made_anew(standing: Standing, sample: Sample) -> bool:
    """Return whether it is another log: offsets of one and the same log never go back."""
    return sample.log.end < standing.end or sample.log.start < standing.start


def has_work(standing: Standing, sample: Sample) -> bool | None:
    """Return whether records wait; None where the look does not tell.

    It does not where the group has committed nothing and there are records, nor where it has committed an offset past the end of the log
    and stays there: that offset is of a topic that was made anew. An offset past the end that moves was only looked at later than the end.
    A `behind` of 0.0 says that what is left are no records, but markers of transactions or gaps that compaction made.
    """
    if sample.committed is None:
        return None if sample.log.stable > sample.log.start else False
    if sample.ahead:
        return False if has_advanced(standing, sample) else None
    return sample.lag > 0 and sample.behind != 0.0


def has_advanced(standing: Standing, sample: Sample) -> bool:
    """Return whether the committed offset is further than at the look before."""
    before, now = standing.committed, sample.committed
    return before is not None and now is not None and now > before


def went_back(standing: Standing, sample: Sample) -> bool:
    """Return whether the committed offset is less far than at the look before."""
    before, now = standing.committed, sample.committed
    return before is not None and now is not None and now < before


def count_lost(standing: Standing, sample: Sample) -> int:
    """Return how many offsets were removed before the group came to them, without those after which nothing was left to do."""
    if sample.committed is None:
        return 0
    return max(0, sample.log.start - max(sample.committed, standing.done or 0))


def is_over(bound: Threshold | None, sample: Sample, *, works: bool) -> bool | None:
    """Return whether lag is over a bound; None where that hangs on a time lag that is not known."""
    if bound is None or not works:
        return False
    if bound.records is not None and sample.lag > bound.records:
        return True
    if bound.lag is None:
        return False
    return None if sample.behind is None else sample.behind > bound.lag


def is_near(bound: Threshold | None, sample: Sample, *, works: bool) -> bool:
    """Return whether records that wait are to be removed sooner than a bound says."""
    if bound is None or bound.time_to_loss is None or not works or sample.loss is None:
        return False
    return sample.loss < bound.time_to_loss
