"""When a replay has caught up: for each partition from the rates of the replay and of new records, and in all from the slowest one.

A driver moves its offsets at the end of a batch. So the rate is that between ends of batches, and a batch that runs counts as far as the
time since its start does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from kappa_crds.quantities import format_count, format_duration
from kappa_operator.lag.model import Partition
from kappa_operator.log.rates import Point, keep_moves, measure_rate

STILL = 120.0
"""Seconds without a move after which a partition makes no progress, unless its batches take a third of that time or more."""
_BATCHES = 3.0
CLOSE = 30.0
"""Seconds of new records that may be unread in a partition that has caught up."""
_FARTHEST = 3650 * 86_400.0
"""Seconds: what takes longer than ten years is never done."""


class ReplaySample(NamedTuple):
    """A replay in a partition: the next offset that it reads, and the end of the log."""

    at: datetime
    position: int
    end: int


class Pace(StrEnum):
    """How a replay comes along in a partition, in the order from good to bad."""

    CAUGHT_UP = "CaughtUp"
    CATCHING_UP = "CatchingUp"
    UNKNOWN = "Unknown"
    """There are too few samples."""
    NO_PROGRESS = "NoProgress"
    FALLS_BEHIND = "FallsBehind"
    """New records come faster than it reads."""


@dataclass(frozen=True, slots=True)
class PartitionEta:
    """A partition: the unread offsets, both rates per second, and the time at which it has caught up, where there is one."""

    partition: Partition
    pace: Pace
    remaining: int
    replayed: float | None = None
    arriving: float | None = None
    at: datetime | None = None
    moved: datetime | None = None
    """When it moved last, None where it never did."""


@dataclass(frozen=True, slots=True)
class Eta:
    """The estimate of a whole replay at the time `now`."""

    now: datetime
    partitions: tuple[PartitionEta, ...] = ()

    @property
    def slowest(self) -> PartitionEta | None:
        """Return the partition that decides: the one with the worst pace, and of those the last."""
        return max(self.partitions, key=self._rank, default=None)

    def _rank(self, each: PartitionEta) -> tuple[int, float, int]:
        seconds = (each.at - self.now).total_seconds() if each.at is not None else 0.0
        return list(Pace).index(each.pace), seconds, each.remaining

    @property
    def pace(self) -> Pace:
        """Return the worst pace of all partitions."""
        return self.slowest.pace if self.slowest is not None else Pace.UNKNOWN

    @property
    def at(self) -> datetime | None:
        """Return when all partitions have caught up, None where that is unknown or never."""
        return self.slowest.at if self.slowest is not None else None

    @property
    def message(self) -> str:
        """Return the estimate in one line."""
        slowest = self.slowest
        if slowest is None:
            return "nothing is known of the replay yet"
        if slowest.pace is Pace.CAUGHT_UP:
            return f"all {len(self.partitions)} partitions have caught up"
        return f"{_DESCRIBE[slowest.pace](slowest, self.now)}{_describe_others(self.partitions, slowest)}"


def estimate(samples: Mapping[Partition, Sequence[ReplaySample]], now: datetime) -> Eta:
    """Return the estimate from samples of each partition, in any order. Samples from before a step back do not count."""
    found = (_estimate_partition(partition, _clean(some), now) for partition, some in samples.items())
    return Eta(now, tuple(sorted(found, key=lambda each: each.partition)))


def _clean(samples: Sequence[ReplaySample]) -> list[ReplaySample]:
    """Return samples in order of time, from the last step back on: a restored checkpoint, or a topic that was created again."""
    kept: list[ReplaySample] = []
    for each in sorted(samples, key=lambda sample: sample.at):
        if kept and (each.position < kept[-1].position or each.end < kept[-1].end):
            kept = []
        if not kept or each.at > kept[-1].at:
            kept.append(each)
    return kept


def _estimate_partition(partition: Partition, samples: list[ReplaySample], now: datetime) -> PartitionEta:
    if not samples:
        return PartitionEta(partition, Pace.UNKNOWN, 0)
    last = samples[-1]
    remaining = max(0, last.end - last.position)
    arriving = measure_rate([Point(each.at.timestamp(), each.end) for each in samples])
    moves = keep_moves([Point(each.at.timestamp(), each.position) for each in samples])
    replayed = measure_rate(moves)
    moved = datetime.fromtimestamp(moves[-1].at, UTC) if len(moves) > 1 else None
    found = PartitionEta(partition, Pace.UNKNOWN, remaining, replayed, arriving, None, moved)
    if remaining <= CLOSE * (arriving or 0.0):
        return replace(found, pace=Pace.CAUGHT_UP, at=now)
    if _is_still(moves, now):
        return replace(found, pace=Pace.NO_PROGRESS)
    if replayed is None or arriving is None or moved is None:
        return found
    net = replayed - arriving
    if net <= 0 or remaining / net > _FARTHEST:
        return replace(found, pace=Pace.FALLS_BEHIND)
    return replace(found, pace=Pace.CATCHING_UP, at=max(now, moved + timedelta(seconds=remaining / net)))


def _is_still(moves: Sequence[Point], now: datetime) -> bool:
    """Return whether the last move is longer ago than three of the longest batches, and than `STILL`."""
    batches = [b.at - a.at for a, b in pairwise(moves)]
    return now.timestamp() - moves[-1].at > max(STILL, _BATCHES * max(batches, default=0.0))


def _describe_end(each: PartitionEta, now: datetime) -> str:
    if each.at is None:
        return "unknown"
    seconds = (each.at - now).total_seconds()
    return (
        f"caught up in about {format_duration(max(1.0, round(seconds)))}, at {each.at:%Y-%m-%dT%H:%M:%SZ}; slowest is {_name(each)}"
        f" with {format_count(each.remaining)} records at {format_count(each.replayed or 0)}/s while {format_count(each.arriving or 0)}/s arrive"
    )


def _describe_still(each: PartitionEta, _now: datetime) -> str:
    since = f" since {each.moved:%Y-%m-%dT%H:%M:%SZ}" if each.moved is not None else ""
    return f"{_name(each)} makes no progress{since} with {format_count(each.remaining)} records to read"


def _describe_behind(each: PartitionEta, _now: datetime) -> str:
    return (
        f"never at this rate: {_name(each)} is read at {format_count(each.replayed or 0)}/s and gets {format_count(each.arriving or 0)}/s,"
        f" with {format_count(each.remaining)} records to read"
    )


def _describe_unknown(each: PartitionEta, _now: datetime) -> str:
    return f"unknown yet: {_name(each)} has {format_count(each.remaining)} records to read and has not moved twice"


_DESCRIBE = {
    Pace.CATCHING_UP: _describe_end,
    Pace.NO_PROGRESS: _describe_still,
    Pace.FALLS_BEHIND: _describe_behind,
    Pace.UNKNOWN: _describe_unknown,
}


def _describe_others(partitions: Sequence[PartitionEta], slowest: PartitionEta) -> str:
    """Return how many other partitions have caught up, or have the same pace."""
    done = sum(each.pace is Pace.CAUGHT_UP for each in partitions)
    same = sum(each.pace is slowest.pace for each in partitions) - 1
    parts = [f"so do {same} others"] if same and slowest.pace in (Pace.NO_PROGRESS, Pace.FALLS_BEHIND) else []
    parts += [f"{done} of {len(partitions)} partitions have caught up"] if done else []
    return f"; {'; '.join(parts)}" if parts else ""


def _name(each: PartitionEta) -> str:
    return f"partition {each.partition.number} of {each.partition.topic}"
