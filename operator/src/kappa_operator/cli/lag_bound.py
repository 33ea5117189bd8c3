"""Whether lag is over a bound, for scripts: what is not known is not within it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from kappa_crds.quantities import parse_duration
from kappa_operator.cli.lag_view import is_old
from kappa_operator.report.model import LagReport, Report, Source


class Exit(IntEnum):
    """How `kappa lag --fail-over` ends. In all commands 1 is for what went wrong, and 2 for options that make no sense."""

    WITHIN = 0
    OVER = 3
    UNKNOWN = 4


@dataclass(frozen=True)
class Bound:
    """The most that is allowed: seconds, or records."""

    seconds: float | None = None
    records: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """Return the bound of a text such as 60s, 10m or 1000; raise ValueError for anything else."""
        return cls(records=int(text)) if text.isdigit() else cls(seconds=parse_duration(text))


def check_bound(report: Report, bound: Bound, now: datetime, wanted: Iterable[str] = ()) -> Exit:
    """Return whether all lag is within the bound. `wanted` are groups that have to be there."""
    lags = [lag for cluster in report.clusters for lag in cluster.lags]
    if any(_is_over(lag, bound) for lag in lags):
        return Exit.OVER
    missing = set(wanted) - {lag.group for lag in lags}
    blind = report.source is Source.OPERATOR and (
        not report.clusters or any(is_old(each, now) or each.failure for each in report.clusters)
    )
    if missing or blind or not lags or any(_is_unknown(lag, bound) for lag in lags):
        return Exit.UNKNOWN
    return Exit.WITHIN


def _is_over(lag: LagReport, bound: Bound) -> bool:
    if bound.records is not None:
        return lag.lag is not None and lag.lag > bound.records
    return lag.behind is not None and bound.seconds is not None and lag.behind > bound.seconds


def _is_unknown(lag: LagReport, bound: Bound) -> bool:
    return bool(lag.unknown or (bound.seconds is not None and lag.undated))
