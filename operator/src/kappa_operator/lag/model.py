"""The position of consumer groups in partitions, at one time.

Offsets are next offsets, as in Kafka's own tools: `committed` is the next record to be processed, `end` the next one to be written.
Types with tens of thousands of objects in each sample are tuples, which are the fastest to create.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class GroupPartition(NamedTuple):
    """A consumer group in a partition."""

    group: str
    partition: Partition


class PartitionLog(NamedTuple):
    """A partition's log: from `start` (the first offset that is still there) to `end` (the high watermark).

    `stable` is the last stable offset: a consumer of committed records reads up to it. It is `end` where no transaction is open.
    """

    start: int
    end: int
    stable: int


class Sample(NamedTuple):
    """The sample of a group in a partition.

    `committed` is None where the group has no committed offset. `behind` is the age in seconds of the oldest unread record: 0.0 without
    one, None where it is unknown. `loss` are the seconds until retention removes the record at the committed offset: 0.0 where it has,
    None for never or unknown.

    `empty` is the number of unread offsets that hold no record, such as transaction markers. `bound` is True where there may be more of
    them, so that the lag is an upper bound: in a compacted topic, or one with transactions.
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
        """Return the existing records between the committed offset and the last stable one; never negative.

        A group that has committed more reads uncommitted records too; for it the lag counts up to the end.
        """
        if self.committed is None:
            return 0
        log = self.log
        limit = log.stable if self.committed <= log.stable else log.end
        return max(0, limit - max(self.committed, log.start) - self.empty)

    @property
    def ahead(self) -> int:
        """Return by how much the committed offset is past the log's end, as after the topic was recreated."""
        return 0 if self.committed is None else max(0, self.committed - self.log.end)

    @property
    def lost(self) -> int:
        """Return the number of offsets that were removed from the log before the group read them."""
        return 0 if self.committed is None else max(0, self.log.start - self.committed)


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The sample of all groups of a Kafka cluster, which took so many seconds.

    What is unknown is never left out or taken as zero: `unknown` has the cause for group partitions that were known before, `unread` for whole
    groups and `unavailable` for partitions. `groups` are all groups; one without a sample has no committed offset. `written` are the records
    written to each topic since its first sample, `rates` the records per second where known.
    """

    at: datetime
    seconds: float
    groups: frozenset[str] = frozenset()
    logs: Mapping[Partition, PartitionLog] = field(default_factory=dict)
    samples: Mapping[GroupPartition, Sample] = field(default_factory=dict)
    unknown: Mapping[GroupPartition, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    unavailable: Mapping[Partition, str] = field(default_factory=dict)
    failure: str | None = None
    written: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)

    def as_failed(self, at: datetime, why: str) -> "ClusterSample":
        """Return the next sample where sampling fails: all that was known is unknown."""
        pairs = dict.fromkeys((*self.samples, *self.unknown), why)
        return ClusterSample(
            at, 0.0, self.groups, unknown=pairs, unread=dict.fromkeys(self.groups, why), failure=why
        )
