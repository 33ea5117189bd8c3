"""Which sources are idle, and how far their watermarks may follow those that they are read with.

A source is idle when it has an `idleAfter`, no query has had a record of it for that long, and all queries have read it to its end. Only
then: a source that is read late, as in a replay, is slow and not silent. It follows, in each query that reads it, the slowest of those that
are not idle, and is marked once for all queries, by the one in which that is furthest.
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
from kappa_pipelines.sources.idle import find_mark_file, write_mark

log = structlog.get_logger()


@dataclass(frozen=True)
class Heard:
    """What a query has of a source: since when nothing, in seconds of some clock, and the watermark of all that came before.

    `watermark` is in milliseconds since the epoch, None where nothing came yet.
    """

    since: float
    watermark: int | None = None
    is_at_end: bool = False


Reports = Mapping[str, Mapping[str, Heard]]
"""What each query has of each of its sources that have event time."""


def find_idle(reports: Reports, idle_after: Mapping[str, float], now: float) -> frozenset[str]:
    """Return the sources that are idle; `idle_after` are seconds."""

    def is_idle(source: str, seconds: float) -> bool:
        heard = [each[source] for each in reports.values() if source in each]
        return bool(heard) and all(each.is_at_end and now - each.since >= seconds for each in heard)

    return frozenset(source for source, seconds in idle_after.items() if is_idle(source, seconds))


def decide_marks(reports: Reports, idle: frozenset[str]) -> dict[str, int]:
    """Return the watermark that each idle source may have; none where there is nothing to follow."""
    marks: dict[str, int] = {}
    for sources in reports.values():
        followed = [heard.watermark for name, heard in sources.items() if name not in idle]
        known = [watermark for watermark in followed if watermark is not None]
        if known and len(known) == len(followed):
            marks |= {name: max(min(known), marks.get(name, 0)) for name in sources if name in idle}
    return marks


class IdleWatch:
    """Notes what queries hear of their sources, and marks those that are idle. Any thread may call."""

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
        self._folder = folder
        self._clock = clock
        self._reports = {
            sink: {name: Heard(clock()) for name in names if name in timed} for sink, names in reads.items()
        }
        self._marks: dict[str, int] = {}
        self._said: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        """Return whether any source may be idle."""
        return bool(self._idle_after)

    def note(self, folded: QueryProgress) -> None:
        """Take note of a committed batch."""
        with self._lock:
            report = self._reports[folded.sink]
            for source in folded.sources:
                if source.name in report and source.input_rows > 0:
                    before = report[source.name].watermark
                    report[source.name] = Heard(
                        self._clock(), self._follow(source.name, before, source.latest)
                    )

    def _follow(self, source: str, before: int | None, latest: datetime | None) -> int | None:
        """Return the watermark after a batch with this latest event time."""
        if latest is None:
            return before
        now = int(latest.timestamp() * 1000) - self._delays[source]
        return now if before is None else max(now, before)

    def mark(self, queries: Iterable[QueryProgress]) -> None:
        """Mark the sources that are idle, as far as is known now; `queries` have their lag."""
        with self._lock:
            for query in queries:
                self._note_end(query)
            idle = find_idle(self._reports, self._idle_after, self._clock())
            marks = decide_marks(self._reports, idle)
        for source in idle - self._said:
            log.info("a source is idle; it holds the watermark no more", source=source)
        self._said = idle
        for source, mark in marks.items():
            if mark > self._marks.get(source, 0):
                self._marks[source] = mark
                write_mark(find_mark_file(self._folder, source), mark)

    def _note_end(self, query: QueryProgress) -> None:
        report = self._reports[query.sink]
        for source in query.sources:
            if source.name in report:
                is_at_end = query.batch_id >= 0 and source.lag == 0
                report[source.name] = replace(report[source.name], is_at_end=is_at_end)
