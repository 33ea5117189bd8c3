"""What is known about how far a consumer group is in a partition, at one moment and over time.

Offsets are next offsets, as Kafka's own tools say them: `committed` is the next record to be processed, `end` the next one to be written.
What there are tens of thousands of in each sweep are tuples, which are made faster than anything else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class Share(NamedTuple):
    """What one consumer group has to do with one partition."""

    group: str
    partition: Partition


class PartitionLog(NamedTuple):
    """A partition's log: from `start` (the first offset that is still there) to `end` (the high watermark).

    `stable` is the last stable offset: who reads committed records only gets no further. It is `end` where no transaction is open.
    """

    start: int
    end: int
    stable: int


class Sample(NamedTuple):
    """One look at one group in one partition.

    `committed` is None where the group has committed nothing there. `behind` is the age in seconds of the oldest record that is there
    and not processed: 0.0 where there is none, None where it could not be found out. `loss` is in how many seconds the committed
    offset is expected to fall off the log: 0.0 where it has, None where nothing is going to remove it, or nobody knows.

    `empty` is how many of the offsets to come are known to hold nothing for a consumer, as the markers of transactions do. `bound` is True
    where there may be more of them, so that the lag is an upper bound: in a compacted topic, or one that is written to in transactions.
    """

    at: datetime
    log: PartitionLog
    committed: int | None
    behind: float | None = None
    loss: float | None = None
    empty: int = 0
    bound: bool = False

    @property
    def lag(self) -> int:
        """Return the records between the committed offset and the last stable one that are still there; never negative.

        Who has committed more than that reads uncommitted records too, and for them it counts up to the end.
        """
        if self.committed is None:
            return 0
        log = self.log
        limit = log.stable if self.committed <= log.stable else log.end
        return max(0, limit - max(self.committed, log.start) - self.empty)

    @property
    def ahead(self) -> int:
        """Return by how much the group is ahead of the log's end: it stands in another log, as after the topic was made anew."""
        return 0 if self.committed is None else max(0, self.committed - self.log.end)

    @property
    def lost(self) -> int:
        """Return how many offsets were removed from the log before the group came to them."""
        return 0 if self.committed is None else max(0, self.log.start - self.committed)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One look at all groups of a Kafka cluster, which took so many seconds.

    What could not be found out is never left out nor taken for nothing: `unknown` says why for shares that were known before, `unread` for
    whole groups and `dark` for partitions. `groups` are all that there are; a group without a sample has committed nothing. `written` are the
    records that came into each topic since it was first seen, `rates` how many come a second, where that is known.
    """

    at: datetime
    seconds: float
    groups: frozenset[str] = frozenset()
    logs: Mapping[Partition, PartitionLog] = field(default_factory=dict)
    samples: Mapping[Share, Sample] = field(default_factory=dict)
    unknown: Mapping[Share, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    dark: Mapping[Partition, str] = field(default_factory=dict)
    failure: str | None = None
    written: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)

    def lose_sight(self, at: datetime, why: str) -> "Sweep":
        """Return the sweep after this one in which nothing can be seen: all that was known is unknown now."""
        shares = dict.fromkeys((*self.samples, *self.unknown), why)
        return Sweep(
            at, 0.0, self.groups, unknown=shares, unread=dict.fromkeys(self.groups, why), failure=why
        )
