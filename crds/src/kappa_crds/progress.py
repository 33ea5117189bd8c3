"""What a driver reports: one typed record for status, metrics and lag alike.

The driver serves it as JSON at `GET /progress` and writes a `DriverExit` to the container's termination message.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import ConfigDict, FailFast, Field

from kappa_crds.comparison import ComparisonSummary
from kappa_crds.model import Status
from kappa_crds.reasons import Reason
from kappa_crds.upgrade import UpgradeVerdict


class DriverState(StrEnum):
    """The states of a driver."""

    STARTING = "Starting"
    WAITING_FOR_EXECUTORS = "WaitingForExecutors"
    DRY_RUN = "DryRun"
    STANDING_BY = "StandingBy"
    RUNNING = "Running"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    FAILED = "Failed"

    @classmethod
    def _missing_(cls, value: object) -> "DriverState | None":
        """Return the state that a driver of release 0.1 reports in its own word."""
        return cls.DRY_RUN if value == "Rehearsing" else None


class DriverRole(StrEnum):
    """What a driver does for its pipeline. Only an active one commits offsets to the pipeline's consumer group."""

    ACTIVE = "active"
    SHADOW = "shadow"
    SOAKING = "soaking"


class HoldPhase(StrEnum):
    """How far a hold is. A driver that holds is still Running: it reads no further, and answers as before."""

    ENDING = "Ending"
    HOLDING = "Holding"
    ADVANCING = "Advancing"


TopicOffsets = dict[str, dict[int, int]]
"""Offsets by topic and partition, as Spark writes them."""


Item = TypeVar("Item")
Few = Annotated[tuple[Item, ...], FailFast(), Field(max_length=1000)]
"""A list in a report, which is not trusted: all errors of a long list would take a thousand times its size."""


class Report(Status):
    """A part of a report. Other than in a status, unknown fields are left out: nothing writes a report back."""

    model_config = ConfigDict(extra="ignore")


class SourceProgress(Report):
    """Where a query is in one source. Offsets are by topic and partition: the next offset to be read.

    `topic` is the topic, topics or pattern that it reads, `latest` the latest event time in the last batch, where it is computed.
    Totals are since the driver started; malformed records are those that become dead letters.
    """

    name: str
    topic: str
    start_offsets: TopicOffsets = Field(default_factory=dict)
    end_offsets: TopicOffsets = Field(default_factory=dict)
    latest_offsets: TopicOffsets = Field(default_factory=dict)
    input_rows: int = 0
    total_input_rows: int = 0
    total_malformed_rows: int = 0
    latest: datetime | None = None

    @property
    def lag(self) -> int:
        """Return the records between the committed offsets and the end of the log seen by the same batch."""
        return self._count_after(self.end_offsets)

    @property
    def ahead(self) -> int:
        """Return the records between the start of the batch and the end of the log seen by it."""
        return self._count_after(self.start_offsets)

    def _count_after(self, offsets: TopicOffsets) -> int:
        return sum(
            max(0, end - offsets.get(topic, {}).get(part, end))
            for topic, ends in self.latest_offsets.items()
            for part, end in ends.items()
        )


class QueryProgress(Report):
    """The last committed batch of one sink's query, and totals since the driver started.

    Durations are milliseconds by phase, rates records a second, state sizes rows and bytes over all operators. `written_rows` is None where
    Spark does not report it. `max_records` is how many records of each source the next batch has at most, where its time bounds it.
    """

    sink: str
    query_id: str
    run_id: str
    batch_id: int
    timestamp: datetime
    input_rows: int = 0
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    duration_ms: dict[str, int] = Field(default_factory=dict)
    watermark: datetime | None = None
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    malformed_rows: int = 0
    refused_rows: int = 0
    written_rows: int | None = None
    max_records: int | None = None
    total_input_rows: int = 0
    total_late_rows: int = 0
    total_malformed_rows: int = 0
    total_refused_rows: int = 0
    total_written_rows: int | None = None
    sources: Few[SourceProgress] = ()


class SavepointProgress(Report):
    """A requested savepoint, how far it is in files, and how it ended.

    `location` is the folder of the pipeline's savepoints, `batches` the committed batch of each sink's query. Where `failure` is
    set, it was not taken; `sizes` are in bytes.
    """

    name: str
    location: str
    done: bool = False
    files: int = 0
    files_done: int = 0
    taken: datetime | None = None
    batches: dict[str, int] = Field(default_factory=dict)
    shuffle_partitions: int | None = None
    size_bytes: int = 0
    copied_bytes: int = 0
    failure: "DriverExit | None" = None


class ComparisonState(StrEnum):
    """How far a comparison is."""

    WAITING = "Waiting"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"


class ComparisonProgress(Report):
    """A requested comparison of two versions of an output, and what it found.

    `step` is what it does now. Where it is Done there is a `summary`, shortened for a status; where it Failed there is a `failure`.
    """

    name: str
    state: ComparisonState = ComparisonState.WAITING
    step: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    summary: ComparisonSummary | None = None
    failure: "DriverExit | None" = None


class Recovery(Report):
    """How a driver's start went. Durations are in seconds.

    `since` is when its process began, or, for a `warm` one that was on standby, its activation; `seconds` go from then until each
    query had committed a batch or found nothing to do, `prepare_seconds` until the first batch began. In their first batches the
    queries spent `state_seconds` loading state, summed over all partitions, which came to `state_rows`; `records` were left to be read.
    """

    since: datetime
    warm: bool = False
    seconds: float
    prepare_seconds: float
    state_seconds: float = 0.0
    state_rows: int = 0
    records: int = 0


class InputVector(Report):
    """A point in the input of a pipeline, which needs no names of a spec: the next offset of each partition that is read.

    `idle` has, by the name of a source, the time up to which the source counts as idle, in milliseconds since the epoch.
    """

    offsets: TopicOffsets = Field(default_factory=dict)
    idle: dict[str, int] = Field(default_factory=dict)


def find_common_cut(positions: Iterable[InputVector]) -> InputVector:
    """Return the first point that each driver can reach from its position: the highest offset of each partition."""
    offsets: TopicOffsets = {}
    idle: dict[str, int] = {}
    for position in positions:
        for topic, parts in position.offsets.items():
            highest = offsets.setdefault(topic, {})
            highest.update({part: max(at, highest.get(part, 0)) for part, at in parts.items()})
        idle.update({source: max(at, idle.get(source, 0)) for source, at in position.idle.items()})
    return InputVector(offsets=offsets, idle=idle)


class Hold(Report):
    """A driver whose queries read no further than a point, until a request to continue, or until `until` by its clock.

    `position` is that point; where queries differ, the highest offset of each partition. It is right from the phase Holding on, also if
    batches without records still follow. `target` is the last point that it was to advance to. If it was not possible, `refusal` is why,
    and the driver holds where it was. Otherwise, in the phase Holding, all queries have committed exactly `target` and have no batch left to run, and
    `outputs` are the ends of the topics of the sinks there: the offset after the last committed record or marker of each partition.
    """

    phase: HoldPhase
    until: datetime
    position: InputVector = InputVector()
    target: InputVector | None = None
    outputs: TopicOffsets = Field(default_factory=dict)
    refusal: str = ""

    def has_reached(self, target: InputVector) -> bool:
        """Return whether the driver holds at this target, and `outputs` are the ends there."""
        return self.phase is HoldPhase.HOLDING and self.target == target and not self.refusal


class Progress(Report):
    """All that a driver reports, by its own clock. A standby driver has a `verdict`, and no queries yet.

    `refusal` is why the API server refuses executors now, empty where it does not.
    `replaying` is whether a query reads the log in slices of a replay; its outputs are behind until that has ended.
    All records with an earlier timestamp than `replayed_until` are read then.
    """

    namespace: str
    pipeline: str
    revision: str
    generation: int
    state: DriverState
    started_at: datetime
    reported_at: datetime | None = None
    running_since: datetime | None = None
    executors: int = 0
    refusal: Annotated[str, Field(max_length=2000)] = ""
    dead_lettered: int = 0
    late_records: int = 0
    error: "DriverExit | None" = None
    queries: Few[QueryProgress] = ()
    savepoints: Few[SavepointProgress] = ()
    comparisons: Few[ComparisonProgress] = ()
    verdict: UpgradeVerdict | None = None
    recovery: Recovery | None = None
    role: DriverRole = DriverRole.ACTIVE
    hold: Hold | None = None
    replaying: bool = False
    replayed_until: datetime | None = None

    @property
    def lag(self) -> int:
        """Return the records not processed yet: for each source the query that is furthest behind."""
        worst: dict[str, int] = {}
        for query in self.queries:
            for source in query.sources:
                worst[source.name] = max(worst.get(source.name, 0), source.lag)
        return sum(worst.values())


class DriverExit(Status):
    """Why a driver ended, from its termination message.

    `retryable` is False where the same revision would fail again in the same way, so that restarting is of no use.
    """

    reason: Reason
    message: str
    retryable: bool = True
    graceful: bool = False


SavepointProgress.model_rebuild()
ComparisonProgress.model_rebuild()
Progress.model_rebuild()
