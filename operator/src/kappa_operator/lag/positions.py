"""Computes the positions of groups in their logs: which requests are still needed, and the samples from their responses."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kappa_operator.lag.forecast import UNKNOWN, Retention, forecast_loss
from kappa_operator.lag.log_history import Removal
from kappa_operator.lag.markers import Markers
from kappa_operator.lag.model import GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.lag.timestamps import Search


class Target(NamedTuple):
    """A position in a log whose timestamp is needed."""

    partition: Partition
    offset: int


class Position(NamedTuple):
    """A group partition with known offsets and log. `begin` is the first offset that may hold a record for the group, `limit` their end."""

    pair: GroupPartition
    committed: int | None
    log: PartitionLog
    begin: int
    limit: int

    @property
    def is_behind(self) -> bool:
        """Return whether there may be unread records."""
        return self.begin < self.limit

    @property
    def target(self) -> Target:
        """Return the position of the oldest unread record."""
        return Target(self.pair.partition, self.begin)


def place(pair: GroupPartition, committed: int | None, log: PartitionLog) -> Position:
    """Return the position of a group; without a committed offset it is the end of the log."""
    if committed is None:
        return Position(pair, None, log, log.end, log.end)
    limit = log.stable if committed <= log.stable else log.end
    return Position(pair, committed, log, max(committed, log.start), limit)


def find_pairs(
    offsets: Mapping[str, Mapping[Partition, int]], sizes: Mapping[str, Iterable[Partition]]
) -> Iterator[tuple[GroupPartition, int | None]]:
    """Yield the committed offsets of groups, and None for the other partitions of the same topics."""
    for group, committed in offsets.items():
        for partition, offset in committed.items():
            yield GroupPartition(group, partition), offset
        for topic in {partition.topic for partition in committed}:
            for partition in sizes.get(topic, ()):
                if partition not in committed:
                    yield GroupPartition(group, partition), None


def skip_markers(position: Position, markers: Markers) -> Position:
    """Return the position behind the markers at the committed offset."""
    begin = markers.skip(position.pair.partition, position.begin, position.limit)
    return position if begin == position.begin else position._replace(begin=begin)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The inputs of samples. `at` is when the ends of the logs were read, `secret` are topics without READ permission."""

    at: datetime
    searches: Mapping[Target, Search]
    markers: Markers
    retentions: Mapping[str, Retention]
    measure_removal: Callable[[Partition], Removal | None]
    secret: AbstractSet[str] = frozenset()


def build_sample(position: Position, evidence: Evidence) -> Sample:
    """Return the sample of the group partition."""
    (_, partition), committed, log, begin, limit = position
    if committed is None:
        return Sample(evidence.at, log, None)
    if begin >= limit:
        empty = max(0, limit - max(committed, log.start))
        behind = None if committed > log.end else 0.0
        return Sample(evidence.at, log, committed, behind, 0.0 if committed < log.start else None, empty)
    retention = evidence.retentions.get(partition.topic, UNKNOWN)
    age = _find_age(Target(partition, begin), evidence)
    return Sample(
        evidence.at,
        log,
        committed,
        age,
        _find_loss(position, age, retention, evidence),
        evidence.markers.count(partition, max(committed, log.start), limit),
        _may_be_fewer(position, retention, evidence),
    )


def _may_be_fewer(position: Position, retention: Retention, evidence: Evidence) -> bool:
    """Return whether unread offsets may hold no record, without that being known."""
    partition, log = position.pair.partition, position.log
    is_transactional = log.stable < log.end or evidence.markers.is_transactional(partition)
    return retention.compacts or is_transactional or partition.topic in evidence.secret


def _find_age(target: Target, evidence: Evidence) -> float | None:
    search = evidence.searches.get(target)
    if search is None or search.stamp is None:
        return None
    return max(0.0, evidence.at.timestamp() - search.stamp / 1000)


def _find_loss(
    position: Position, age: float | None, retention: Retention, evidence: Evidence
) -> float | None:
    """Return the seconds until the oldest unread record may be removed."""
    (_, partition), committed, log, begin, _ = position
    if committed is not None and committed < log.start:
        return 0.0
    removal = evidence.measure_removal(partition)
    oldest = None if removal is None else _find_age(Target(partition, log.start), evidence)
    return forecast_loss(begin, age, retention, removal, oldest)
