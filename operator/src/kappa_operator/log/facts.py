"""What is known of the logs that a run of a pipeline reads, as frozen values.

Offsets are next offsets, as in Kafka: `end` is the next one to be written. All that is unknown is None or has a problem, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Self

from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.topic.configs import CLEANUP, RETENTION_SIZE, RETENTION_TIME, parse_cleanup

MIN_COMPACTION_LAG, TOMBSTONE_RETENTION = "min.compaction.lag.ms", "delete.retention.ms"
SETTINGS = frozenset({CLEANUP, RETENTION_TIME, RETENTION_SIZE, MIN_COMPACTION_LAG, TOMBSTONE_RETENTION})
"""The topic configs that decide what is in a log."""


class Use(StrEnum):
    """How a pipeline uses the records of a source."""

    STREAM = "stream"
    """Every record counts."""
    TABLE = "table"
    """The last record of each key counts."""


class Edge(StrEnum):
    """An end of a log where a run starts."""

    EARLIEST = "earliest"
    LATEST = "latest"


Start = Edge | datetime
"""Where a run starts to read: at an end of the log, or at the first record of a time."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a run of a pipeline needs for a source. `topics` are names in Kafka; a `pattern` fits whole names instead of them."""

    source: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    use: Use = Use.STREAM
    start: Start = Edge.EARLIEST


@dataclass(frozen=True, slots=True)
class Known:
    """What is recorded of logs: the ids of topics, the offsets up to which the pipeline has processed them, and those in archives.

    Of an archive that a new run can read, it is the first offset and the end.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    committed: Mapping[Partition, int] = field(default_factory=dict)
    archived: Mapping[Partition, tuple[int, int]] = field(default_factory=dict)


class Record(NamedTuple):
    """The offset of a record and its timestamp in Unix milliseconds."""

    offset: int
    stamp: int

    @property
    def time(self) -> datetime:
        """Return the timestamp as a time."""
        return datetime.fromtimestamp(self.stamp / 1000, UTC)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The configs of a topic that decide what is in its log. Times are in seconds; None for unlimited."""

    deletes: bool = True
    compacts: bool = False
    retention: float | None = None
    retention_bytes: int | None = None
    min_compaction_lag: float = 0.0
    tombstone_retention: float = 86_400.0

    @classmethod
    def parse(cls, configs: Mapping[str, str]) -> Self:
        """Return the settings from the configs of a topic in effect."""
        policies = parse_cleanup(configs.get(CLEANUP, "delete"))
        time, size = int(configs.get(RETENTION_TIME, -1)), int(configs.get(RETENTION_SIZE, -1))
        return cls(
            deletes="delete" in policies,
            compacts="compact" in policies,
            retention=time / 1000 if time >= 0 else None,
            retention_bytes=size if size >= 0 else None,
            min_compaction_lag=int(configs.get(MIN_COMPACTION_LAG, 0)) / 1000,
            tombstone_retention=int(configs.get(TOMBSTONE_RETENTION, 86_400_000)) / 1000,
        )


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition: its log, its first existing record, and the offset where the run starts.

    `first` is None without a record that has a timestamp. `begin` is None where it is unknown. `committed` is what the pipeline has
    processed, None where that is unknown. `archived` are the first offset and the end of an archive that the run can read.
    A `problem` is why the log is unknown.
    """

    number: int
    log: PartitionLog | None = None
    first: Record | None = None
    begin: int | None = None
    committed: int | None = None
    problem: str = ""
    archived: tuple[int, int] | None = None

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """Return the ranges of offsets before the start of the log that no archive has, each with its end."""
        start = 0 if self.log is None else self.log.start
        first, end = self.archived or (0, 0)
        ranges = ((0, min(first, start)), (max(end, 0), start)) if first < end else ((0, start),)
        return tuple((begin, stop) for begin, stop in ranges if begin < stop)

    @property
    def first_readable(self) -> int:
        """Return the first offset that a run from the earliest record reads."""
        if self.log is None:
            return 0
        return self.log.start if self.missing else 0


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it is now. `known_id` is the id that was recorded before, if any.

    Without an `identity` the topic does not exist, or may not be described. `settings` are None where its configs may not be read.
    """

    topic: str
    identity: str | None = None
    known_id: str | None = None
    settings: LogSettings | None = None
    partitions: tuple[PartitionFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A source: what its run needs, and the topics that it reads."""

    question: Question
    topics: tuple[TopicFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The logs of all sources of a pipeline at one time."""

    at: datetime
    sources: tuple[SourceFacts, ...] = ()
