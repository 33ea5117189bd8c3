"""Which sources are idle, and the watermark that each idle source gets.

A source is idle when it has an `idleAfter`, no query has had a record of it for that long, and all queries have read it to its end. A
source that is read late, as in a replay, is slow and not idle. In each query that reads it, an idle source follows the slowest source that
is not idle. It has one idle watermark for all queries: the greatest of these.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import structlog

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import QueryProgress
from kappa_crds.quantities import parse_duration
from kappa_pipelines.sources.idle import find_watermark_file, write_watermark

log = structlog.get_logger()


@dataclass(frozen=True)
class SourceActivity:
    """A source as a query sees it: when its last record arrived, in seconds of a clock, and the watermark of its records.

    `watermark` is in milliseconds since the epoch, None before the first record.
    """

    since: float
    watermark: int | None = None
    is_at_end: bool = False


Reports = Mapping[str, Mapping[str, SourceActivity]]
"""By query and source, for sources with event time."""


def find_idle(reports: Reports, idle_after: Mapping[str, float], now: float) -> frozenset[str]:
    """Return the sources that are idle; `idle_after` are seconds."""

    def is_idle(source: str, seconds: float) -> bool:
        activities = [each[source] for each in reports.values() if source in each]
        return bool(activities) and all(each.is_at_end and now - each.since >= seconds for each in activities)

    return frozenset(source for source, seconds in idle_after.items() if is_idle(source, seconds))


def decide_idle_watermarks(reports: Reports, idle: frozenset[str]) -> dict[str, int]:
    """Return the watermark of each idle source that has another one to follow."""
    watermarks: dict[str, int] = {}
    for sources in reports.values():
        followed = [activity.watermark for name, activity in sources.items() if name not in idle]
        known = [watermark for watermark in followed if watermark is not None]
        if known and len(known) == len(followed):
            watermarks |= {name: max(min(known), watermarks.get(name, 0)) for name in sources if name in idle}
    return watermarks


class IdleWatch:
    """Tracks the activity of sources by query, and writes idle watermarks. Thread-safe."""

    def __init__(
        self,
        spec: PipelineSpec,
        reads: Mapping[str, Iterable[str]],
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        timed = {source.name: source.event_time for source in spec.sources if source.event_time is not None}
        self._delays = {name: int(parse_duration(time.watermark) * 1000) for name, time in timed.items()}
        self._idle_after = {
            name: parse_duration(time.idle_after)
            for name, time in timed.items()
            if time.idle_after is not None
        }
        self.folder = folder
        self._clock = clock
        self._reports = {
            sink: {name: SourceActivity(clock()) for name in names if name in timed}
            for sink, names in reads.items()
        }
        self._watermarks: dict[str, int] = {}
        self._logged: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        """Return whether any source may be idle."""
        return bool(self._idle_after)

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the sources that may be idle."""
        return tuple(self._idle_after)

    def note(self, folded: QueryProgress) -> None:
        """Record a committed batch."""
        with self._lock:
            report = self._reports[folded.sink]
            for source in folded.sources:
                if source.name in report and source.input_rows > 0:
                    before = report[source.name].watermark
                    report[source.name] = SourceActivity(
                        self._clock(), self._follow(source.name, before, source.latest)
                    )

    def _follow(self, source: str, before: int | None, latest: datetime | None) -> int | None:
        """Return the watermark after a batch with this latest event time."""
        if latest is None:
            return before
        now = int(latest.timestamp() * 1000) - self._delays[source]
        return now if before is None else max(now, before)

    def update(self, queries: Iterable[QueryProgress]) -> None:
        """Write the watermarks of the sources that are idle now; `queries` have their lag."""
        with self._lock:
            for query in queries:
                self._note_end(query)
            idle = find_idle(self._reports, self._idle_after, self._clock())
            watermarks = decide_idle_watermarks(self._reports, idle)
        for source in idle - self._logged:
            log.info("a source is idle; it no longer holds back the watermark", source=source)
        self._logged = idle
        for source, watermark in watermarks.items():
            if watermark > self._watermarks.get(source, 0):
                self._watermarks[source] = watermark
                write_watermark(find_watermark_file(self.folder, source), watermark)

    def _note_end(self, query: QueryProgress) -> None:
        report = self._reports[query.sink]
        for source in query.sources:
            if source.name in report:
                is_at_end = query.batch_id >= 0 and source.lag == 0
                report[source.name] = replace(report[source.name], is_at_end=is_at_end)
