"""Segments of an archive: one file for a range of offsets of a partition, named by it.

The name is the index: a file appears whole or not at all, so a listing shows what is archived. A range covers all offsets in it, also those
that never held a committed record. Two archivers may have written overlapping ranges; both have the same records, and a reading takes
each offset once.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from kappa_pipelines.checkpoint.store.folder import Folder

_PATH = re.compile(r"(\d{5})/(\d{20})-(\d{20})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """The offsets from `first` to `end`, excluded, of a partition."""

    partition: int
    first: int
    end: int

    @property
    def path(self) -> str:
        """Return the path of the file in the folder of the topic."""
        return f"{self.partition:05d}/{self.first:020d}-{self.end:020d}.parquet"

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """Return the segment of a path, None for any other file."""
        found = _PATH.fullmatch(path)
        segment = None if found is None else cls(int(found[1]), int(found[2]), int(found[3]))
        return segment if segment is not None and segment.first < segment.end else None


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a segment that is read: the offsets from `first` to `end`, excluded."""

    segment: Segment
    first: int
    end: int


def name_topic_folder(topic: str, topic_id: str) -> str:
    """Return the folder of a topic. Its id is a part: a topic that was created again has other records at the same offsets."""
    return f"{topic}/{topic_id.replace('/', '_').replace('+', '-')}"


def list_segments(folder: Folder) -> dict[int, list[Segment]]:
    """Return the segments in the folder of a topic, by partition and in order."""
    found: dict[int, list[Segment]] = {}
    for listed in folder.list_files(""):
        segment = Segment.parse(listed.path)
        if segment is not None:
            found.setdefault(segment.partition, []).append(segment)
    return {partition: sorted(some) for partition, some in found.items()}


def cover(segments: Iterable[Segment], begin: int, end: int | None = None) -> Iterator[Slice]:
    """Yield what to read from `begin` on, in order, each offset once, up to `end` or the first gap; the largest segments first."""
    left, at = sorted(segments), begin
    while end is None or at < end:
        fitting = [each for each in left if each.first <= at < each.end]
        if not fitting:
            return
        segment = max(fitting, key=lambda each: each.end)
        stop = segment.end if end is None else min(segment.end, end)
        yield Slice(segment, at, stop)
        at = stop


def find_end(segments: Sequence[Segment], begin: int) -> int:
    """Return the first offset from `begin` on that is not archived."""
    end = begin
    for each in cover(segments, begin):
        end = each.end
    return end


def find_first(segments: Mapping[int, Sequence[Segment]], partition: int) -> int | None:
    """Return the first archived offset of a partition, None without one."""
    return min((each.first for each in segments.get(partition, ())), default=None)


def find_last_range(segments: Sequence[Segment]) -> tuple[int, int]:
    """Return the range without a gap that reaches furthest, as its first offset and its end; (0, 0) without segments."""
    first = end = 0
    for each in sorted(segments):
        first = each.first if each.first > end or first == end else first
        end = max(end, each.end)
    return first, end
