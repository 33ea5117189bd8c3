"""What is known about how far a consumer group is in a partition, at one moment and over time.

Offsets are next offsets, as Kafka's own tools say them: `committed` is the next record to be processed, `end` the next one to be written.
"""

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """A partition's log: from `start` (the first offset that is still there) to `end` (the high watermark).

    `stable` is the last stable offset: who reads committed records only gets no further. It is `end` where no transaction is open.
    """

    start: int
    end: int
    stable: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at one group in one partition.

    `committed` is None where the group has committed nothing there. `behind` is the age in seconds of the oldest record that is there
    and not processed: 0.0 where there is none, None where it could not be found out. `loss` is in how many seconds the committed
    offset is expected to fall off the log: 0.0 where it has, None where nothing is going to remove it, or nobody knows.
    """

    at: datetime
    log: PartitionLog
    committed: int | None
    behind: float | None = None
    loss: float | None = None

    @property
    def lag(self) -> int:
        """Return the records between the committed offset and the last stable one that are still there; never negative."""
        if self.committed is None:
            return 0
        return max(0, self.log.stable - max(self.committed, self.log.start))

    @property
    def lost(self) -> int:
        """Return how many offsets were removed from the log before the group came to them."""
        return 0 if self.committed is None else max(0, self.log.start - self.committed)
