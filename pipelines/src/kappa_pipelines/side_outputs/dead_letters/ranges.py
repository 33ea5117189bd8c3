"""The offsets that are checked for malformed records, and the ranges to scan. Pure.

`position` is the first unchecked offset of each partition. A batch without malformed records advances it. A batch with some, or a gap
(batches without a progress event), becomes pending: one range from the position to the end of the newest such batch, so its size in memory is
constant.
"""

from dataclasses import dataclass, replace

from kappa_pipelines.checkpoint.format.offsets import PARTITION_SHIFT, Malformed, Offsets


@dataclass(frozen=True)
class Span:
    """A range of offsets of each partition: from `start` up to, without, `end`."""

    start: Offsets
    end: Offsets

    @property
    def size(self) -> int:
        """Return the number of offsets."""
        return sum(max(0, until - self.start.get(part, 0)) for part, until in self.end.items())

    def first(self, limit: int) -> "Span":
        """Return the first part with at most `limit` offsets, at least one per partition, distributed over the partitions."""
        if self.size <= limit:
            return self
        share = max(1, limit // max(1, len(self.end)))
        end = {part: min(until, self.start.get(part, 0) + share) for part, until in self.end.items()}
        return Span(self.start, end)


@dataclass(frozen=True)
class Ledger:
    """State of one source: checked up to `position`, known from events up to `seen`, to be scanned up to `dirty`."""

    position: Offsets
    seen: Offsets
    dirty: Offsets

    @classmethod
    def at(cls, position: Offsets) -> "Ledger":
        """Return a ledger in which all offsets before `position` are checked."""
        return cls(position, position, {})

    def with_partitions(self, first: Offsets) -> "Ledger":
        """Add new partitions, unchecked from their first offsets on."""
        return replace(self, position={**first, **self.position}, seen={**first, **self.seen})

    def with_batch(self, start: Offsets, end: Offsets, malformed: Malformed | None) -> "Ledger":
        """Add a committed batch. It is to be scanned if its malformed records are not counted, or after a gap.

        Where nothing else is pending and their positions are known, only the offsets from the first to the last of them are.
        """
        gap = any(offset > self.seen.get(part, offset) for part, offset in start.items())
        new = any(offset > self.seen.get(part, -1) for part, offset in end.items())
        position = {**{p: start.get(p, 0) for p in end if p not in self.position}, **self.position}
        noted = replace(self, position=position, seen=_latest(self.seen, end))
        if new and (gap or malformed is None or malformed.count):
            if gap or malformed is None or self.dirty:
                return replace(noted, dirty=_latest(self.dirty, end))
            near = locate(Span({part: position[part] for part in end}, end), malformed)
            return replace(noted, position=_latest(position, near.start), dirty=near.end)
        return noted if noted.dirty else replace(noted, position=_latest(position, end))

    def pending(self) -> Span | None:
        """Return the range to scan, if any."""
        span = Span(
            {part: self.position.get(part, 0) for part in self.dirty},
            {part: max(end, self.position.get(part, 0)) for part, end in self.dirty.items()},
        )
        return span if span.size > 0 else None

    def after_scan(self, span: Span) -> "Ledger":
        """Mark a span, from the position on, as scanned, with its dead letters written."""
        position = _latest(self.position, span.end)
        left = {part: end for part, end in self.dirty.items() if end > position.get(part, 0)}
        if left:
            return replace(self, position=position, dirty=self.dirty)
        return replace(self, position=_latest(position, self.seen), dirty={})


def locate(span: Span, malformed: Malformed) -> Span:
    """Return the part of a span that has the malformed records; the whole span if their positions are not known.

    Positions order the partitions of one topic, so all of one partition is before the first one, or after the last one, of another.
    """
    first, last = malformed.first, malformed.last
    if first is None or last is None or len({topic for topic, _ in span.end}) != 1:
        return span
    start, end = {}, {}
    for at, until in span.end.items():
        base = at[1] << PARTITION_SHIFT
        start[at] = min(max(first - base, span.start[at]), until)
        end[at] = min(max(last + 1 - base, start[at]), until)
    near = Span(start, end)
    return near if near.size > 0 else span


def _latest(one: Offsets, other: Offsets) -> Offsets:
    return {part: max(one.get(part, -1), other.get(part, -1)) for part in one.keys() | other.keys()}
