"""Checks lag against a bound, for scripts. Unknown lag is not within it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.quantities import parse_duration
from kappa_operator.cli.errors import Exit
from kappa_operator.cli.lag_view import is_old
from kappa_operator.report.model import LagReport, Report, Source


@dataclass(frozen=True)
class Bound:
    """The largest lag that is allowed: in seconds, or in records."""

    seconds: float | None = None
    records: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """Return the bound of a text such as 60s, 10m or 1000; raise ValueError for anything else."""
        return cls(records=int(text)) if text.isdigit() else cls(seconds=parse_duration(text))


def check_bound(report: Report, bound: Bound, now: datetime, wanted: Iterable[str] = ()) -> Exit:
    """Return whether all lag is within the bound. `wanted` are groups that must exist."""
    lags = [lag for cluster in report.clusters for lag in cluster.lags]
    if any(_is_over(lag, bound) for lag in lags):
        return Exit.UNHEALTHY
    missing = set(wanted) - {lag.group for lag in lags}
    blind = report.source is Source.OPERATOR and (
        not report.clusters or any(is_old(each, now) or each.failure for each in report.clusters)
    )
    if missing or blind or not lags or any(_is_unknown(lag, bound) for lag in lags):
        return Exit.UNKNOWN
    return Exit.OK


def _is_over(lag: LagReport, bound: Bound) -> bool:
    if bound.records is not None:
        return lag.lag is not None and lag.lag > bound.records
    return lag.behind is not None and bound.seconds is not None and lag.behind > bound.seconds


def _is_unknown(lag: LagReport, bound: Bound) -> bool:
    return bool(lag.unknown or (bound.seconds is not None and lag.undated))
