"""Finds the offsets of a log that hold a transaction marker instead of a record.

A marker takes an offset. A group that commits the last record's offset plus one stays before the marker and seems to lag by one. The content
of an offset never changes, so it is read once.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kappa_operator.lag.model import Partition

FEW = 32
"""Up to so many offsets, all are read; of more only the first ones, up to one that is no marker."""


class Batch(NamedTuple):
    """The content of the offsets from `first` to `last`."""

    first: int
    last: int
    is_marker: bool


class Markers:
    """What is known of the offsets that groups have not reached. Only those between `begin` and `end` are kept."""

    def __init__(self) -> None:
        self._known: dict[Partition, dict[int, bool]] = {}

    def __bool__(self) -> bool:
        """Return whether anything is known."""
        return bool(self._known)

    def is_transactional(self, partition: Partition) -> bool:
        """Return whether the partition has a known marker."""
        known = self._known.get(partition)
        return known is not None and any(known.values())

    def ask(self, partition: Partition, begin: int, end: int) -> int | None:
        """Return the next offset to read, or None."""
        known = self._known.get(partition, {})
        few = end - begin <= FEW
        for offset in range(begin, min(end, begin + FEW)):
            if offset not in known:
                return offset
            if not few and not known[offset]:
                return None
        return None

    def take(self, partition: Partition, batch: Batch) -> None:
        """Take the content of a requested offset."""
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
        """Return the number of known markers between the two."""
        known = self._known.get(partition)
        return sum(begin <= offset < end and is_marker for offset, is_marker in known.items()) if known else 0

    def keep(self, begins: Mapping[Partition, int]) -> None:
        """Forget all but these partitions, and earlier offsets; one marker is kept to know that there are transactions."""
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
        """Forget the partition: it was recreated."""
        self._known.pop(partition, None)
