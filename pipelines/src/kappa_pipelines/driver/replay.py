"""The replay of a driver: its queries read the log in slices of time until they are near its end, and then have the pace of the spec.

Queries of a replay start with a limit of no records and without an interval. Each slice is a bound, as in a hold (`bound`). The next slice is
looked up while Spark reads the present one. See ADR 0074.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import structlog
from confluent_kafka import KafkaException

from kappa_crds.quantities import parse_duration
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.driver.bound import QueryBusyError, Vector
from kappa_pipelines.driver.prepare import Running
from kappa_pipelines.driver.slices import Ends, Slice, find_slice
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.sources.idle import IDLE_SUFFIX
from kappa_pipelines.sources.kafka import find_max_records, is_timed

_FUTURE_MILLISECONDS = 86_400_000
"""Timestamps of producers may be ahead of this clock by as much."""

log = structlog.get_logger()


class PacedQuery(Protocol):
    """A query whose batches have a bound and a pace."""

    def bind(self) -> Vector:
        """Have the query read no further than its planned batch; return where that ends."""

    def move(self, ends: Mapping[str, Offsets]) -> None:
        """Have the query read up to these ends of its sources."""

    def release(self) -> None:
        """Have the query read whatever comes."""

    def pace(self, records: int | None, interval: int) -> None:
        """Have each batch take at most so many records of each source, None for what its time permits, and start every so many milliseconds."""

    def read_committed(self) -> Vector:
        """Return the end of the last committed batch."""


class LogTimes(Protocol):
    """What Kafka reports on topics. Each method raises KafkaException."""

    def current_ends(self) -> Offsets:
        """Return the ends of the source topics at this moment."""

    def find_times(self, milliseconds: int) -> Offsets:
        """Return the first offset at or after a Unix time of each partition of the source topics, where there is one."""


@dataclass(frozen=True)
class Pace:
    """The pace of a query: records of each source in a batch, None where its time bounds it, and milliseconds between batches."""

    records: int | None
    interval: int


@dataclass
class _Reading:
    """A query in the replay: how far it may read, the slice after that, and the times of the bound and of what is read."""

    bound: Ends
    next: Slice | None = None
    is_last: bool = False
    time: int = 0
    read: int = 0


@dataclass
class Replay:
    """The replay of a driver, used by one thread. `reads` are the sources of each sink's query, `live` is the pace after it."""

    profile: ReplayProfile
    reads: Mapping[str, Mapping[str, Subscription]]
    live: Pace
    kafka: LogTimes
    find_now: Callable[[], float] = time.time
    _readings: dict[str, _Reading | None] = field(default_factory=dict)
    _is_long: bool = False

    def __post_init__(self) -> None:
        self._readings = dict.fromkeys(self.reads)

    @property
    def is_active(self) -> bool:
        """Return whether a query still reads slices."""
        return bool(self._readings)

    @property
    def is_long(self) -> bool:
        """Return whether a query reads slices, and one has had more than one to read: then more executors are worth their start."""
        return self.is_active and self._is_long

    @property
    def position(self) -> datetime | None:
        """Return the time up to which all records are read, as far as slices are in order; None before the first slice is read."""
        times = [0 if each is None else each.read for each in self._readings.values()]
        earliest = min(times, default=0)
        return datetime.fromtimestamp(earliest / 1000, UTC) if earliest > 0 else None

    def step(self, queries: Mapping[str, PacedQuery]) -> None:
        """Do what is possible now. A query that has started late follows in a later step."""
        for sink in [each for each in self._readings if each in queries]:
            try:
                self._follow(sink, queries[sink])
            except QueryBusyError:
                continue  # the next step finds it less busy
            except KafkaException as error:
                log.warning("Kafka does not answer a replay", error=str(error)[:300])
                return

    def leave(self, queries: Mapping[str, PacedQuery]) -> None:
        """Give the queries the pace of the spec; a bound stays, because a hold has one of its own."""
        for sink in [each for each in self._readings if each in queries]:
            try:
                queries[sink].pace(self.live.records, self.live.interval)
            except QueryBusyError:
                continue
            del self._readings[sink]

    def _follow(self, sink: str, query: PacedQuery) -> None:
        if not self.profile.covers(sink):
            # The limit of no records is in the source, which all queries share.
            query.pace(self.live.records, self.live.interval)
            del self._readings[sink]
            return
        reading = self._readings[sink]
        if reading is None:
            reading = _Reading(_parse(query.bind()))
            query.pace(self.profile.max_records, 0)
            self._readings[sink] = reading
        if reading.next is None and not reading.is_last:
            reading.next = self._find_next(sink, reading)
            self._is_long |= not reading.next.is_last
        if not _has_read(query.read_committed(), reading.bound):
            return
        if reading.is_last:
            query.release()
            query.pace(self.live.records, self.live.interval)
            del self._readings[sink]
            log.info("the replay has reached the end of the log", sink=sink)
        elif reading.next is not None:
            self._move(query, reading, reading.next)

    def _move(self, query: PacedQuery, reading: _Reading, found: Slice) -> None:
        query.move(found.ends)
        reading.read = reading.time
        reading.bound, reading.time, reading.is_last = found.ends, found.time, found.is_last
        reading.next = None
        log.info("replay", ends={name: nest_offsets(at) for name, at in found.ends.items()})

    def _find_next(self, sink: str, reading: _Reading) -> Slice:
        reads = self.reads[sink]
        ends = _select(reads, self.kafka.current_ends())
        now = int(self.find_now() * 1000) + _FUTURE_MILLISECONDS

        def lookup(milliseconds: int) -> Ends:
            return _select(reads, self.kafka.find_times(milliseconds))

        return find_slice(reading.bound, ends, self.profile.max_records, (reading.time, now), lookup)


def find_since(kafka: LogTimes, subscription: Subscription, start: datetime) -> Offsets:
    """Return the first offset at or after a time of each partition of a source, its end where there is none; raises KafkaException."""
    found = {**kafka.current_ends(), **kafka.find_times(int(start.timestamp() * 1000))}
    return {at: offset for at, offset in found.items() if subscription.covers(at[0])}


def _select(reads: Mapping[str, Subscription], offsets: Offsets) -> Ends:
    return {
        name: {at: offset for at, offset in offsets.items() if subscription.covers(at[0])}
        for name, subscription in reads.items()
    }


def _parse(vector: Vector) -> Ends:
    return {name: parse_kafka_offsets(at) for name, at in vector.items() if not name.endswith(IDLE_SUFFIX)}


def _has_read(committed: Vector, bound: Ends) -> bool:
    found = _parse(committed)
    return all(found.get(name) == at for name, at in bound.items())


def build_replay(revision: Revision, running: Running, profile: ReplayProfile | None) -> Replay:
    """Return the replay of a driver; without a profile it is over."""
    sources = running.compiled.sources
    reads = {
        sink: {name: sources[name].subscription for name in names}
        for sink, names in running.compiled.reads.items()
    }
    interval = revision.spec.trigger.interval
    records = None if is_timed(revision) else find_max_records(revision)
    live = Pace(records, 0 if interval is None else int(parse_duration(interval) * 1000))
    wanted = {} if profile is None else reads
    return Replay(profile or ReplayProfile(), wanted, live, running.kafka)
