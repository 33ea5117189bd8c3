"""What is told, as JSON with camelCase names. Times are in seconds; what is not known is absent, and never 0.

Fields that a newer operator adds are ignored by an older command.
"""

from datetime import datetime
from enum import StrEnum

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.model import Status


class ShareReport(Status):
    """A group in a partition. `lag` are the records that wait, `behind` is the age of the oldest, `loss` in what time it may be removed.

    `why` says why something is not known.
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

    Of `unknown` partitions the lag in records is not known, of `undated` ones that in time, so that `lag` and `behind` are at least that;
    with `bound` they are at most that, as markers of transactions count as records. `state` is the worst that LagPolicies say, absent
    where none selects the group. `worst` is the partition that is furthest behind.
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
    shares: tuple[ShareReport, ...] = ()


class TopicReport(Status):
    """A topic: records in it, by its offsets, and how many come a second."""

    topic: str
    partitions: int
    records: int | None = None
    rate: float | None = None


class ClusterReport(Status):
    """A KafkaCluster as it was looked at `at`, which took `seconds` and is done each `every` seconds."""

    namespace: str
    name: str
    every: float
    at: datetime | None = None
    seconds: float | None = None
    failure: str | None = None
    lags: tuple[LagReport, ...] = ()
    topics: tuple[TopicReport, ...] = ()


class PipelineReport(Status):
    """A pipeline; what its driver says of itself is of `at`. Rates are records a second, `came` that come in and `done` that are read."""

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
    """Where a report comes from."""

    OPERATOR = "operator"
    STATUS = "status"
    """The status of resources: less is known there, and not how old it is."""


class Report(Status):
    """All that was asked for."""

    at: datetime
    source: Source = Source.OPERATOR
    replica: str | None = None
    clusters: tuple[ClusterReport, ...] = ()
    pipelines: tuple[PipelineReport, ...] = ()
