"""Whether retention removes records before a replay has read them, and when.

Retention removes by age, and it moves the start of the log. Both are a race with the replay: the oldest unread record gets older by a
second each second and younger by what the replay reads of the log's time; and the start of the log follows the replay's position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from kappa_crds.quantities import format_duration
from kappa_operator.lag.model import Partition
from kappa_operator.log.eta import Eta
from kappa_operator.log.facts import LogSettings
from kappa_operator.log.rates import Point, keep_moves, measure_rate


class RaceSample(NamedTuple):
    """A replay and the start of its log. `stamp` is the timestamp in Unix seconds of the record at the position, None where it is unknown."""

    at: datetime
    position: int
    start: int
    stamp: float | None = None


@dataclass(frozen=True, slots=True)
class Overtake:
    """Retention reaches the replay at the time `at`, the earliest possible; `lost` offsets are removed unread already."""

    partition: Partition
    at: datetime
    lost: int = 0

    def describe(self, now: datetime) -> str:
        """Return the danger in one line."""
        name = f"partition {self.partition.number} of {self.partition.topic}"
        if self.lost:
            return f"retention has removed {self.lost:,} offsets of {name} that the replay has not read"
        left = (self.at - now).total_seconds()
        when = f"in {format_duration(left)}" if left >= 1 else "at any time"
        return f"retention may remove records of {name} {when} that the replay has not read by then"


def find_overtakes(
    samples: Mapping[Partition, Sequence[RaceSample]],
    settings: Mapping[str, LogSettings],
    now: datetime,
    eta: Eta | None = None,
) -> tuple[Overtake, ...]:
    """Return the partitions that retention reaches before the replay has read them, the most urgent first. `settings` are by topic."""
    done = {} if eta is None else {each.partition: each.at for each in eta.partitions}
    found = (
        find_overtake(partition, some, settings.get(partition.topic), now, done.get(partition))
        for partition, some in samples.items()
    )
    return tuple(
        sorted((each for each in found if each is not None), key=lambda each: (each.at, each.partition))
    )


def find_overtake(
    partition: Partition,
    samples: Sequence[RaceSample],
    settings: LogSettings | None,
    now: datetime,
    done: datetime | None = None,
) -> Overtake | None:
    """Return when retention overtakes the replay; None where it does not, or not before the replay is `done`.

    Without `settings`, only the start of the log counts. One sample is enough where the age of its record is known: the replay then
    counts as without progress.
    """
    if not samples:
        return None
    last = samples[-1]
    if last.start > last.position:
        return Overtake(partition, now, last.start - last.position)
    bounds = [
        each for each in (_race_by_age(samples, settings, now), _race_by_start(samples)) if each is not None
    ]
    if not bounds:
        return None
    at = now + timedelta(seconds=max(0.0, min(bounds)))
    return None if done is not None and done <= at else Overtake(partition, at)


def _race_by_age(samples: Sequence[RaceSample], settings: LogSettings | None, now: datetime) -> float | None:
    """Return the seconds until the record at the position is too old."""
    stamp = samples[-1].stamp
    if settings is None or not settings.deletes or settings.retention is None or stamp is None:
        return None
    room = settings.retention - (now.timestamp() - stamp)
    points = [Point(each.at.timestamp(), each.stamp) for each in samples if each.stamp is not None]
    speed = measure_rate(keep_moves(points)) or 0.0
    if room <= 0:
        return 0.0
    return room / (1 - speed) if speed < 1 else None


def _race_by_start(samples: Sequence[RaceSample]) -> float | None:
    """Return the seconds until the start of the log is at the position, at the rates of both."""
    first, last = samples[0], samples[-1]
    seconds = (last.at - first.at).total_seconds()
    if seconds <= 0:
        return None
    # A log loses whole segments, so a median of slopes would be 0 in most samples.
    closing = ((last.start - first.start) - (last.position - first.position)) / seconds
    return (last.position - last.start) / closing if closing > 0 and last.start > first.start else None
