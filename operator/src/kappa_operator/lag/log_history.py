"""The history of the partitions' logs: their starts and ends at each sample, in compact arrays.

Old samples are thinned out, so that a fixed number of them covers half a minute to hours. Times are those of a monotonic clock, in seconds,
so that setting the wall clock changes no age.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kappa_operator.lag.model import Partition, PartitionLog

CAPACITY = 32
_UNSEEN = -1


@dataclass(frozen=True, slots=True)
class Removal:
    """How the start of a log moves: it moved to `start` `ago` seconds ago, and moves by `rate` offsets per second."""

    start: int
    ago: float
    rate: float


@dataclass(slots=True)
class _LogSample:
    at: float
    starts: "array[int]" = field(default_factory=lambda: array("q"))
    ends: "array[int]" = field(default_factory=lambda: array("q"))


class LogHistory:
    """The history of one Kafka cluster's partitions."""

    def __init__(self) -> None:
        self._places: dict[Partition, int] = {}
        self._samples: list[_LogSample] = []
        self._moved: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, at: float, logs: Mapping[Partition, PartitionLog]) -> None:
        """Add a sample of some or all partitions; the history of a log that has become shorter is removed."""
        for partition in self._find_shortened(logs):
            self.forget(partition)
        for partition in logs:
            self._places.setdefault(partition, len(self._places))
        sample = _LogSample(at, *(array("q", [_UNSEEN]) * len(self._places) for _ in range(2)))
        for partition, log in logs.items():
            place = self._places[partition]
            sample.starts[place], sample.ends[place] = log.start, log.end
        self._samples.append(sample)
        if len(self._samples) > CAPACITY:
            del self._samples[self._choose_superfluous()]
        self._moved = self._find_moved()

    def _find_shortened(self, logs: Mapping[Partition, PartitionLog]) -> list[Partition]:
        if not self._samples:
            return []
        seen = self._samples[-1]
        return [
            partition
            for partition, log in logs.items()
            if (place := self._places.get(partition, _UNSEEN)) >= 0
            and place < len(seen.ends)
            and (log.end < seen.ends[place] or log.start < seen.starts[place])
        ]

    def _choose_superfluous(self) -> int:
        """Return the sample whose removal leaves the smallest gap for its age."""
        samples, now = self._samples, self._samples[-1].at
        return min(
            range(1, len(samples) - 1),
            key=lambda i: (samples[i + 1].at - samples[i - 1].at) / max(now - samples[i].at, 1e-9),
        )

    def forget(self, partition: Partition) -> None:
        """Forget the partition: it was recreated."""
        place = self._places.get(partition)
        for sample in self._samples:
            if place is not None and place < len(sample.ends):
                sample.starts[place] = sample.ends[place] = _UNSEEN

    def keep(self, partitions: Iterable[Partition]) -> None:
        """Forget all others; release their memory when they are half of all."""
        kept = [partition for partition in partitions if partition in self._places]
        if 2 * len(kept) > len(self._places):
            return
        places = [self._places[partition] for partition in kept]
        for sample in self._samples:
            sample.starts, sample.ends = _pick(sample.starts, places), _pick(sample.ends, places)
        self._places = {partition: place for place, partition in enumerate(kept)}
        self._moved = self._find_moved()

    def _walk(self, partition: Partition) -> Iterator[tuple[float, int, int]]:
        """Yield time, start and end, the newest first."""
        place = self._places.get(partition, _UNSEEN)
        for sample in reversed(self._samples):
            if not 0 <= place < len(sample.ends):
                return
            if sample.ends[place] >= 0:
                yield sample.at, sample.starts[place], sample.ends[place]

    def guess_time(self, partition: Partition, offset: int) -> float | None:
        """Return the approximate time of the record at the offset, with an even rate between two samples."""
        later: tuple[float, int] | None = None
        for at, _, end in self._walk(partition):
            if end <= offset:
                if later is None:
                    return None
                return at + (later[0] - at) * (offset - end) / (later[1] - end)
            later = at, end
        return None

    def measure_removal(self, partition: Partition) -> Removal | None:
        """Return how the log's start moves, from its first to its last known move; None where it did not move.

        The duration of a single move is unknown, so it is spread over the whole history.
        """
        if not self.has_moved(partition):
            return None
        moves: list[tuple[float, int]] = []
        for at, start, _ in self._walk(partition):
            if moves and moves[-1][1] == start:
                moves[-1] = at, start
            else:
                moves.append((at, start))
        if len(moves) < 2:
            return None
        now, (last, start) = self._samples[-1].at, moves[0]
        if len(moves) == 2:
            first, before = moves[1]
            return Removal(start, now - last, (start - before) / (now - first))
        first, before = moves[-2]  # the oldest start may be much older
        return Removal(start, now - last, (start - before) / (last - first))

    def has_moved(self, partition: Partition) -> bool:
        """Return False where the ends of the history show that the log's start did not move."""
        return bool(self._moved) and self._places.get(partition, _UNSEEN) in self._moved

    def _find_moved(self) -> frozenset[int]:
        """Return the places whose start differs between the first and the last sample, or is unknown at the first."""
        if not self._samples:
            return frozenset()
        first, last = self._samples[0].starts, self._samples[-1].starts
        if first == last and _UNSEEN not in first:
            return frozenset()
        known = len(first)
        return frozenset(
            place
            for place, start in enumerate(last)
            if place >= known or first[place] != start or start == _UNSEEN
        )


def _pick(values: "array[int]", places: list[int]) -> "array[int]":
    return array("q", (values[place] if place < len(values) else _UNSEEN for place in places))
