"""Which offsets of a log hold no record for a consumer, but the marker that ends a transaction.

A marker takes an offset. Who commits the last record's offset plus one stands before the marker for ever, and seems to lag by one. What an
offset holds never changes, so it is found out once.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kappa_operator.lag.model import Partition

FEW = 32
"""Of so many offsets all are looked at; of more only the first ones, up to one that is no marker."""


class Batch(NamedTuple):
    """What stands at the offsets from `first` to `last`."""

    first: int
    last: int
    is_marker: bool


class Markers:
    """What is known of the offsets that groups have still to come to. Memory is for those between `begin` and `end` only."""

    def __init__(self) -> None:
        self._known: dict[Partition, dict[int, bool]] = {}

    def __bool__(self) -> bool:
        """Return whether anything is known."""
        return bool(self._known)

    def is_transactional(self, partition: Partition) -> bool:
        """Return whether a marker was seen in the partition."""
        known = self._known.get(partition)
        return known is not None and any(known.values())

    def ask(self, partition: Partition, begin: int, end: int) -> int | None:
        """Return the offset to ask about next, or None."""
        known = self._known.get(partition, {})
        few = end - begin <= FEW
        for offset in range(begin, min(end, begin + FEW)):
            if offset not in known:
                return offset
            if not few and not known[offset]:
                return None
        return None

    def take(self, partition: Partition, batch: Batch) -> None:
        """Take what stands at an offset that was asked about."""
        known = self._known.setdefault(partition, {})
        for offset in range(batch.first, min(batch.last, batch.first + FEW) + 1):
            known[offset] = batch.is_marker

    def skip(self, partition: Partition, begin: int, end: int) -> int:
        """Return the first offset that is not known to be a marker."""
        known = self._known.get(partition)
        while known and begin < end and known.get(begin):
            begin += 1
        return begin

    def count(self, partition: Partition, begin: int, end: int) -> int:
        """Return how many markers are known to be between the two."""
        known = self._known.get(partition)
        return sum(begin <= offset < end and is_marker for offset, is_marker in known.items()) if known else 0

    def keep(self, begins: Mapping[Partition, int]) -> None:
        """Forget all but these partitions, and the offsets before those; one marker is kept to know that there are transactions."""
        for partition in self._known.keys() - begins.keys():
            del self._known[partition]
        for partition, begin in begins.items():
            known = self._known.get(partition)
            if known:
                marker = max((offset for offset, is_marker in known.items() if is_marker), default=-1)
                self._known[partition] = {
                    offset: known[offset] for offset in known if offset >= begin or offset == marker
                }

    def forget(self, partition: Partition) -> None:
        """Forget what was known of the partition: it is another one by now."""
        self._known.pop(partition, None)
