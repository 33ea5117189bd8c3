"""Which offsets have been looked at for malformed records, and which are to be scanned. Pure.

`position` is, for each partition, the first offset that has not been dealt with. A batch without malformed records
moves it on. A batch with some, or a gap (batches whose progress was never seen), becomes pending: one range from the
position to the end of the newest such batch, so that it takes the same room however many batches wait.
"""

from dataclasses import dataclass, replace

from kappa_pipelines.checkpoint.format.offsets import Offsets


@dataclass(frozen=True)
class Span:
    """A range of offsets of each partition: from `start` up to, without, `end`."""

    start: Offsets
    end: Offsets

    @property
    def size(self) -> int:
        """Return the number of offsets in it."""
        return sum(max(0, until - self.start.get(part, 0)) for part, until in self.end.items())

    def first(self, limit: int) -> "Span":
        """Return a part from its start with at most `limit` offsets, at least one, spread over the partitions."""
        if self.size <= limit:
            return self
        share = max(1, limit // max(1, len(self.end)))
        end = {part: min(until, self.start.get(part, 0) + share) for part, until in self.end.items()}
        return Span(self.start, end)


@dataclass(frozen=True)
class Ledger:
    """What is known of one source: done up to `position`, seen up to `seen`, to be scanned up to `dirty`."""

    position: Offsets
    seen: Offsets
    dirty: Offsets

    @classmethod
    def at(cls, position: Offsets) -> "Ledger":
        """Return a ledger with everything before `position` done."""
        return cls(position, position, {})

    def with_partitions(self, first: Offsets) -> "Ledger":
        """Take up new partitions, of which nothing has been dealt with from their first offsets on."""
        return replace(self, position={**first, **self.position}, seen={**first, **self.seen})

    def with_batch(self, start: Offsets, end: Offsets, malformed: int | None) -> "Ledger":
        """Take note of a committed batch. One that nobody has counted, or a gap before it, is to be scanned."""
        gap = any(offset > self.seen.get(part, offset) for part, offset in start.items())
        new = any(offset > self.seen.get(part, -1) for part, offset in end.items())
        position = {**{p: start.get(p, 0) for p in end if p not in self.position}, **self.position}
        noted = replace(self, position=position, seen=_latest(self.seen, end))
        if new and (malformed != 0 or gap):
            return replace(noted, dirty=_latest(self.dirty, end))
        return noted if noted.dirty else replace(noted, position=_latest(position, end))

    def pending(self) -> Span | None:
        """Return what is to be scanned, if anything."""
        span = Span(
            {part: self.position.get(part, 0) for part in self.dirty},
            {part: max(end, self.position.get(part, 0)) for part, end in self.dirty.items()},
        )
        return span if span.size > 0 else None

    def after_scan(self, span: Span) -> "Ledger":
        """Take note that a span, from the position on, has been scanned and its dead letters are written."""
        position = _latest(self.position, span.end)
        left = {part: end for part, end in self.dirty.items() if end > position.get(part, 0)}
        if left:
            return replace(self, position=position, dirty=self.dirty)
        return replace(self, position=_latest(position, self.seen), dirty={})


def _latest(one: Offsets, other: Offsets) -> Offsets:
    return {part: max(one.get(part, -1), other.get(part, -1)) for part in one.keys() | other.keys()}
