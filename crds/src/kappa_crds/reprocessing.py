"""`Reprocessing`: a changed pipeline computes its whole log again beside the active run, and then takes its place (ADR 66).

The operator creates one for each change of a Pipeline whose spec.upgrade.mode is Shadow. It decides on phases; the Pipeline runs the drivers.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.comparison import ComparisonSummary
from kappa_crds.model import LIST_MAP_KEYS, LIST_TYPE, Model, ResourceName, Rule, Status
from kappa_crds.progress import TopicOffsets
from kappa_crds.reprocessing_policy import ReprocessingPolicy
from kappa_crds.resource import Kind, PrinterColumn, ResourceStatus, build_columns

REPROCESSING_FINALIZER = "kappa-platform.io/reprocessing"


class RequestAction(StrEnum):
    """What a person requests."""

    COMPARE = "Compare"
    CUT = "Cut"
    FINISH = "Finish"
    ROLLBACK = "Rollback"
    ABORT = "Abort"


class ReprocessingRequest(Model):
    """A request of a person. Each value is carried out once."""

    action: RequestAction
    """Compare, Cut and Finish pass the gate of that name; a Cut also passes one that is closed by unexpected
    differences. Rollback gives the place back to the old version while it soaks. Abort ends the reprocessing
    before the cutover."""
    id: Annotated[str, Field(max_length=64)] = ""
    """Any text; with another one the same action is requested again."""


class ReprocessingSpec(ReprocessingPolicy):
    """A second run of a Pipeline, over its whole log."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *ReprocessingPolicy.rules,
        Rule(
            "has(self.from) == has(oldSelf.from) && (!has(self.from) || self.from == oldSelf.from)",
            "spec.from cannot change: the new version has begun there",
        ),
        Rule(
            "has(self.only) == has(oldSelf.only) && (!has(self.only) || self.only == oldSelf.only)",
            "spec.only cannot change: the new version has computed these rows",
        ),
        Rule(
            "self.pipelineRef == oldSelf.pipelineRef",
            "spec.pipelineRef cannot change: a reprocessing is of one pipeline",
        ),
    )
    pipeline_ref: ResourceName
    """Name of the Pipeline. It has to be the controller of this resource."""
    acknowledge_missing: bool = False
    """Continue although records at the start of the log are missing; status.gaps has them."""
    request: ReprocessingRequest | None = None
    """The last request of a person."""


class ReprocessingPhase(StrEnum):
    """The phases of a reprocessing."""

    PENDING = "Pending"
    PROVING = "Proving"
    CATCHING_UP = "CatchingUp"
    COMPARING = "Comparing"
    READY_TO_CUT = "ReadyToCut"
    CUTTING_OVER = "CuttingOver"
    SOAKING = "Soaking"
    ROLLING_BACK = "RollingBack"
    DONE = "Done"
    ROLLED_BACK = "RolledBack"
    FAILED = "Failed"
    ABORTED = "Aborted"


WANTS_SHADOW = (
    ReprocessingPhase.CATCHING_UP,
    ReprocessingPhase.COMPARING,
    ReprocessingPhase.READY_TO_CUT,
    ReprocessingPhase.CUTTING_OVER,
)
"""Phases in which the new version runs beside the active one."""
WANTS_SOAKING = (ReprocessingPhase.SOAKING, ReprocessingPhase.ROLLING_BACK)
"""Phases in which the old version runs beside the new one, which is active."""
ENDS = (
    ReprocessingPhase.DONE,
    ReprocessingPhase.ROLLED_BACK,
    ReprocessingPhase.FAILED,
    ReprocessingPhase.ABORTED,
)
"""Phases after which nothing follows."""


class TopicPosition(Status):
    """A position in one topic."""

    topic: str
    """Topic in Kafka."""
    offsets: dict[str, int]
    """The next offset of each partition."""


class Cut(Status):
    """One point of the input, and the ends of the outputs of both versions that stand for it."""

    inputs: tuple[TopicPosition, ...]
    """The next offsets to be read."""
    old: tuple[TopicPosition, ...] = ()
    """Ends of the outputs of the version that was active before; empty where it could not be held at this
    input."""
    new: tuple[TopicPosition, ...] = ()
    """Ends of the outputs of the version that is active after."""
    taken: datetime
    """When it was recorded."""
    readers: tuple[str, ...] = ()
    """Pipelines that had read the old outputs exactly up to here: they continue in the new ones."""
    groups: tuple[str, ...] = ()
    """Consumer groups that had committed these ends of the old outputs: the positions of the new ones are
    committed for them."""


def write_positions(offsets: TopicOffsets) -> tuple[TopicPosition, ...]:
    """Return offsets by topic and partition in the form of a status, sorted."""
    return tuple(
        TopicPosition(topic=topic, offsets={str(part): parts[part] for part in sorted(parts)})
        for topic, parts in sorted(offsets.items())
    )


def read_positions(positions: tuple[TopicPosition, ...]) -> TopicOffsets:
    """Return the positions of a status as offsets by topic and partition."""
    return {each.topic: {int(part): offset for part, offset in each.offsets.items()} for each in positions}


class PartitionCatchUp(Status):
    """How far the new version is in one partition."""

    topic: str
    """Topic in Kafka."""
    partition: int
    """Partition."""
    offset: int
    """The next offset to be read."""
    end: int
    """The end of the log."""
    eta_seconds: int | None = None
    """Seconds until it has caught up, at the present rates; None where it falls behind, or is not known yet."""


class CatchUp(Status):
    """How far the new version is."""

    lag: Annotated[int, Field(ge=0)] = 0
    """Records that it has not read yet."""
    active_lag: Annotated[int, Field(ge=0)] = 0
    """The same of the active version."""
    records_per_second: float | None = None
    """Records that it read per second."""
    executors: Annotated[int, Field(ge=0)] = 0
    """Its executors; 0 where its tasks run in the driver."""
    wanted_executors: Annotated[int, Field(ge=0)] = 0
    """Executors that it may have now: those of replay.executors while it replays, or those of
    resources.executors.count of its Pipeline. Fewer run where the cluster or a ResourceQuota has no room."""
    eta: str | None = None
    """Time until it has caught up, for people."""
    measured: datetime | None = None
    """When this was measured."""
    partitions: tuple[PartitionCatchUp, ...] = ()
    """The partitions that are furthest behind, at most 50."""
    overtake: str | None = None
    """What retention removes before the new version reads it, and when, for people; the most urgent partition."""


class LogGap(Status):
    """Records at the start of a log that a reprocessing cannot read."""

    topic: str
    """Topic in Kafka."""
    partition: int
    """Partition."""
    first: int
    """First offset that is missing."""
    end: int
    """First offset after it that is there."""
    message: str = ""
    """What is missing, and since when, for people."""


class SinkComparison(Status):
    """The comparison of the outputs of one sink."""

    sink: str
    """Name of the sink."""
    summary: ComparisonSummary | None = None
    """What was found."""
    message: str = ""
    """Why nothing was found."""


class ComparisonStatus(Status):
    """The last comparison."""

    number: Annotated[int, Field(ge=1)] = 1
    """How many there were."""
    cut: Cut
    """The input that both versions were compared at."""
    sinks: tuple[SinkComparison, ...] = ()
    """The result for each sink, once it is there."""
    unexpected: Annotated[int | None, Field(ge=0)] = None
    """Rows that differ and are not expected, over all sinks; absent before the end, and where it is not known."""
    message: str = ""
    """The result, or why there is none, for people."""


class MemberStatus(Status):
    """A Pipeline that is reprocessed with the first one, because it reads outputs of it or of another member."""

    pipeline_ref: str
    """Name of the Pipeline."""
    uid: str
    """UID of the Pipeline: one that is created again under its name is no member."""
    after: tuple[str, ...]
    """The Pipelines of this reprocessing whose outputs it reads."""
    joined: bool = False
    """Whether the Pipeline has recorded that it takes part."""
    catch_up: CatchUp | None = None
    """How far its new version is."""
    caught_up_since: datetime | None = None
    """Since when it is as near to the end of the log as its active version."""
    comparison: ComparisonStatus | None = None
    """The result of its last comparison."""
    cut: Cut | None = None
    """The point at which its new version took over."""
    rollback_cut: Cut | None = None
    """The point at which its old version took over again."""


MEMBER_FIELDS = ("catch_up", "caught_up_since", "comparison", "cut", "rollback_cut")
"""What a reprocessing has of each pipeline: of the first one in its status, of the others in their MemberStatus."""


class ReprocessingStatus(ResourceStatus):
    """What was measured and decided."""

    phase: ReprocessingPhase = ReprocessingPhase.PENDING
    """The phase."""
    since: datetime | None = None
    """When this phase started."""
    started: datetime | None = None
    """When the first phase started."""
    intent: str | None = None
    """Hash of what the new version does; the Pipeline's change has the same."""
    why: str | None = None
    """Why it was started, or has ended, for people."""
    request: ReprocessingRequest | None = None
    """The last request that was carried out, or refused."""
    gaps: tuple[LogGap, ...] = ()
    """Records that are missing at the start of the log."""
    unheld: tuple[str, ...] = ()
    """Topics whose retention is not held meanwhile, and why."""
    catch_up: CatchUp | None = None
    """How far the new version is."""
    caught_up_since: datetime | None = None
    """Since when it is as near to the end of the log as the active version."""
    replay_quota: int | None = None
    """Bytes per second that each broker sends to the new version at most. It is recorded before it is set, and
    until it is removed."""
    comparison: ComparisonStatus | None = None
    """The result of the last comparison."""
    cut: Cut | None = None
    """The point at which the new version took over: readers of the old topics continue in the new ones here."""
    holding_for_groups: datetime | None = None
    """Since when all drivers hold for consumer groups."""
    cut_refused: str | None = None
    """Why the last attempt of a cutover was given up, for people."""
    rollback_cut: Cut | None = None
    """The point at which the old version took over again."""
    members: Annotated[
        tuple[MemberStatus, ...], Field(json_schema_extra={LIST_TYPE: "map", LIST_MAP_KEYS: ["pipelineRef"]})
    ] = ()
    """The Pipelines that are reprocessed with it, each after those that it reads from. The cuts of all are recorded
    in one write of this status."""

    def view_member(self, pipeline: str) -> "ReprocessingStatus | None":
        """Return this status as it is for a member: with its measurements and its cuts; None for another pipeline."""
        member = next((each for each in self.members if each.pipeline_ref == pipeline), None)
        if member is None:
            return None
        return self.replace(**{name: getattr(member, name) for name in MEMBER_FIELDS})


REPROCESSING = Kind(
    name="Reprocessing",
    plural="reprocessings",
    short_names=("kprp",),
    description="A second run of a changed pipeline over its whole log, which takes the place of the first.",
    spec=ReprocessingSpec,
    status=ReprocessingStatus,
    columns=build_columns(
        PrinterColumn("Lag", ".status.catchUp.lag", "integer"),
        PrinterColumn("ETA", ".status.catchUp.eta"),
        PrinterColumn("Unexpected", ".status.comparison.unexpected", "integer"),
        PrinterColumn("Since", ".status.since", "date", priority=1),
        first=(PrinterColumn("Pipeline", ".spec.pipelineRef"),),
    ),
)
