"""The progress that drivers reported last, and how long this process has sampled each of them. A new process samples again."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from kappa_crds.progress import Progress
from kappa_operator.engine.keys import Key

SAMPLES = 3
"""Samples on which a verdict against a driver must agree: one that was missed is no verdict."""
SPACING = timedelta(seconds=5)
"""What is sampled faster than that counts as one sample."""
MOST_OFFSETS = 1_500_000
"""Offsets of all samples; each takes some 100 bytes."""
LONGEST_GAP = timedelta(minutes=1)
"""After a longer absence of the operator, or of its API server, sampling starts again."""


class Sample(NamedTuple):
    """What a driver reported at a time, None where it did not answer."""

    at: datetime
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class Samples:
    """The last samples of one generation of a driver, oldest first. `since` is the first of an unbroken series that ends at `until`."""

    generation: int
    since: datetime
    until: datetime
    last: tuple[Sample, ...] = ()

    @classmethod
    def start(cls, generation: int, sample: Sample) -> Self:
        """Return a series of one sample."""
        return cls(generation, sample.at, sample.at, (sample,))

    def add(self, generation: int, sample: Sample) -> "Samples":
        """Return the series with one more sample, or a new one after a gap and for another generation."""
        if generation != self.generation or not sample.at - self.until <= LONGEST_GAP:
            return Samples.start(generation, sample)
        if sample.at - self.last[-1].at < SPACING:
            last = (*self.last[:-1], Sample(self.last[-1].at, sample.progress))
        else:
            last = (*self.last, sample)[-SAMPLES:]
        return replace(self, until=sample.at, last=last)


def count_offsets(progress: Progress) -> int:
    """Return how many offsets a report has: nearly all of its memory."""
    sources = (source for query in progress.queries for source in query.sources)
    offsets = (each for source in sources for each in (source.start_offsets, source.end_offsets, source.latest_offsets))  # fmt: skip
    return sum(len(partitions) + 1 for topics in offsets for partitions in topics.values())


class ProgressCache:
    """The last progress of each pipeline's driver, and the samples of its current generation.

    `most` bounds the offsets in memory, and a namespace may hold no more of them than what is free: reports are not trusted.
    """

    def __init__(self, most: int = MOST_OFFSETS) -> None:
        self._most = most
        self._offsets: dict[Key, int] = {}
        self._held: Counter[str] = Counter()
        self._reported: dict[Key, tuple[datetime, Progress]] = {}
        self._samples: dict[Key, Samples] = {}

    def __len__(self) -> int:
        return len(self._reported)

    def has_room(self, pipeline: Key, progress: Progress) -> bool:
        """Count a report, and all samples of its size; return False where its namespace would hold too many offsets."""
        wanted = SAMPLES * count_offsets(progress)
        more, namespace = wanted - self._offsets.get(pipeline, 0), pipeline.namespace
        if more > 0 and self._held[namespace] + more > self._most - self._held.total() - more:
            return False
        self._offsets[pipeline] = wanted
        self._held[namespace] += more
        return True

    def record(self, pipeline: Key, generation: int, at: datetime, progress: Progress | None) -> Samples:
        """Record a sample; return the samples so far. A driver that does not answer keeps its last progress."""
        if progress is not None:
            self._reported[pipeline] = at, progress
        sample, known = Sample(at, progress), self._samples.get(pipeline)
        samples = Samples.start(generation, sample) if known is None else known.add(generation, sample)
        self._samples[pipeline] = samples
        return samples

    def get(self, pipeline: Key) -> tuple[datetime, Progress] | None:
        """Return the progress that was reported last, and when; None where there is none."""
        return self._reported.get(pipeline)

    def forget(self, pipeline: Key) -> None:
        """Forget a pipeline that is gone, or whose driver has stopped."""
        self._held[pipeline.namespace] -= self._offsets.pop(pipeline, 0)
        self._reported.pop(pipeline, None)
        self._samples.pop(pipeline, None)
