"""The part of a log that a replay reads in its next batch. Pure.

A batch of a live query has what was written in some seconds, so its partitions are at one time. In a log that is read again, the same number
of records may be an hour of one partition and a month of another, and the watermark of the second makes the first late. So a replay reads
slices of time: all records up to one timestamp in each partition of each source. It drops no row that a live run keeps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kappa_pipelines.checkpoint.format.offsets import Offsets

Ends = dict[str, Offsets]
"""Offsets by the name of the source."""
Lookup = Callable[[int], Mapping[str, Offsets]]
"""Returns the first offset at or after a Unix time in milliseconds of each partition; partitions without one are left out."""


@dataclass(frozen=True)
class Slice:
    """Where a batch ends, and the time up to which it has all records. `is_last`: no record is left after it."""

    ends: Ends
    time: int
    is_last: bool = False


def find_slice(
    positions: Mapping[str, Offsets], ends: Ends, most: int, times: tuple[int, int], lookup: Lookup
) -> Slice:
    """Return a slice of time of at most so many records, and of at least half as many where there is one.

    `times` are Unix times in milliseconds: that of the last slice, and one that no record exceeds. Where more records than `most` have
    one timestamp, the slice has all of them.
    """
    since, now = times
    if count_records(positions, ends) <= most:
        return Slice(ends, now, is_last=True)
    low, high = since, now
    below, above = Slice(dict(positions), since), Slice(ends, now)
    while high - low > 1:
        time = (low + high) // 2
        found = Slice(_clip(positions, ends, lookup(time)), time)
        records = count_records(positions, found.ends)
        if records > most:
            high, above = time, found
            continue
        low, below = time, found
        if records >= max(1, most // 2):
            break
    return below if count_records(positions, below.ends) > 0 else above


def count_records(positions: Mapping[str, Offsets], ends: Mapping[str, Offsets]) -> int:
    """Return the number of offsets from the positions to the ends."""
    return sum(
        max(0, end - positions.get(source, {}).get(at, 0))
        for source, parts in ends.items()
        for at, end in parts.items()
    )


def _clip(positions: Mapping[str, Offsets], ends: Ends, found: Mapping[str, Offsets]) -> Ends:
    """Return what was found, never before a position or after an end: timestamps need not be in order."""
    return {
        source: {
            at: min(end, max(found.get(source, {}).get(at, end), positions.get(source, {}).get(at, 0)))
            for at, end in parts.items()
        }
        for source, parts in ends.items()
    }
