"""Whether the new version falls behind the old one while that soaks: both read the same log, so the old one shows what is possible (ADR 31)."""

from dataclasses import dataclass, replace
from datetime import datetime

from kappa_crds.progress import DriverState, Progress
from kappa_crds.quantities import format_count, parse_duration
from kappa_crds.upgrade import Upgrade
from kappa_operator.engine.keys import Key
from kappa_operator.pipeline.progress_cache import LONGEST_GAP, SAMPLES

_TOLERANCE = 1.1


@dataclass(frozen=True, slots=True)
class FallingBehind:
    """An unbroken series of samples in which the lag of the new version is above that of the old one."""

    since: datetime
    until: datetime
    samples: int
    first_lag: int
    lag: int
    old_lag: int

    def explain(self, upgrade: Upgrade) -> str:
        """Return why the new version is unhealthy; empty while that is not certain: the series is short, or the lag does not grow."""
        took = (self.until - self.since).total_seconds()
        if (
            self.samples < SAMPLES
            or took <= parse_duration(upgrade.health_timeout)
            or self.lag <= self.first_lag
        ):
            return ""
        grown = f"{format_count(self.first_lag)} to {format_count(self.lag)} records"
        limit = f"{upgrade.health_timeout} (spec.upgrade.healthTimeout)"
        return f"the lag of the new version grew from {grown} in more than {limit}; that of the old one is {format_count(self.old_lag)}"


class SoakMemory:
    """The series of Reprocessings in this process. After an absence of the operator, or a report that is missing, a new one begins."""

    def __init__(self) -> None:
        self._series: dict[Key, FallingBehind] = {}

    def add(
        self, key: Key, new: Progress | None, old: Progress | None, now: datetime
    ) -> FallingBehind | None:
        """Compare the reports of both versions; return the series, None where the new one does not fall behind."""
        known = self._series.pop(key, None)
        if new is None or old is None or {new.state, old.state} != {DriverState.RUNNING}:
            return None
        batch = sum(query.input_rows for query in new.queries)
        if new.lag <= old.lag * _TOLERANCE + batch:
            return None
        if known is None or not now - known.until <= LONGEST_GAP:
            known = FallingBehind(now, now, 0, new.lag, new.lag, old.lag)
        found = replace(known, until=now, samples=known.samples + 1, lag=new.lag, old_lag=old.lag)
        self._series[key] = found
        return found

    def forget(self, key: Key) -> None:
        """Forget one that does not soak any more."""
        self._series.pop(key, None)
