"""The report as JSON with camelCase names. Times are in seconds; an unknown figure is absent, never 0.

An older command ignores fields of a newer operator.
"""

from datetime import datetime
from enum import StrEnum

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.model import Status


class PartitionReport(Status):
    """A group in a partition. `lag` are the unread records, `behind` is the age of the oldest, `loss` the time until it may be removed.

    `why` is the reason of an unknown figure.
    """

    partition: int
    committed: int | None = None
    start: int | None = None
    end: int | None = None
    lag: int | None = None
    behind: float | None = None
    loss: float | None = None
    lost: int | None = None
    state: LagState | None = None
    severity: Severity = Severity.NONE
    why: str | None = None


class LagReport(Status):
    """A group in a topic: `lag` is summed over partitions, `behind` the largest and `loss` the smallest of them.

    In `unknown` partitions the lag in records is unknown, in `undated` ones that in time, so that `lag` and `behind` are lower bounds; with
    `bound` they are upper bounds, as transaction markers count as records. `state` is the worst state of LagPolicies, absent where none
    selects the group. `worst` is the partition with the largest lag.
    """

    group: str
    topic: str | None = None
    pipeline: str | None = None
    partitions: int = 0
    lag: int | None = None
    behind: float | None = None
    loss: float | None = None
    lost: int = 0
    bound: bool = False
    unknown: int = 0
    undated: int = 0
    state: LagState | None = None
    severity: Severity = Severity.NONE
    worst: int | None = None
    why: str | None = None
    by_partition: tuple[PartitionReport, ...] = ()


class TopicReport(Status):
    """A topic: its records by offsets, and the records written to it per second."""

    topic: str
    partitions: int
    records: int | None = None
    rate: float | None = None


class ClusterReport(Status):
    """A KafkaCluster at the sample of `at`, which took `seconds` and is repeated each `every` seconds."""

    namespace: str
    name: str
    every: float
    at: datetime | None = None
    seconds: float | None = None
    failure: str | None = None
    lags: tuple[LagReport, ...] = ()
    topics: tuple[TopicReport, ...] = ()


class PipelineReport(Status):
    """A pipeline; the figures of its driver are those of `at`. Rates are records per second, `came` of input and `done` of consumption."""

    namespace: str
    name: str
    state: str | None = None
    reason: str | None = None
    at: datetime | None = None
    executors: int | None = None
    batch: int | None = None
    came: float | None = None
    done: float | None = None
    lag: int | None = None
    batch_seconds: float | None = None
    watermark_delay: float | None = None
    state_rows: int | None = None


class Source(StrEnum):
    """The source of a report."""

    OPERATOR = "operator"
    STATUS = "status"
    """The status of resources: it has fewer figures, of unknown age."""


class Report(Status):
    """A report."""

    at: datetime
    source: Source = Source.OPERATOR
    replica: str | None = None
    clusters: tuple[ClusterReport, ...] = ()
    pipelines: tuple[PipelineReport, ...] = ()
