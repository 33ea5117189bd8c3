"""The status of a `Pipeline`: what the operator observed and did, and what it does next."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, model_validator

from kappa_crds.conversion.pipeline_status import convert_pipeline_status
from kappa_crds.model import LIST_MAP_KEYS, LIST_TYPE, Status
from kappa_crds.recovery import RecoveryStatus
from kappa_crds.resource import ResourceStatus
from kappa_crds.savepoint import Restoration, Restore
from kappa_crds.upgrade import Handover, UpgradeMode, UpgradeVerdict


class PipelineState(StrEnum):
    """The states of a pipeline."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    FAILED = "Failed"
    SUSPENDED = "Suspended"


class Restarts(Status):
    """Failures in a row, and when the next start is due."""

    crashes: Annotated[int, Field(ge=0, description="Drivers that started and died.")] = 0
    scheduling: Annotated[int, Field(ge=0, description="Drivers that could not be started.")] = 0
    total: Annotated[int, Field(ge=0, description="Restarts since the pipeline was created.")] = 0
    next_start: Annotated[datetime | None, Field(description="Earliest time of the next start.")] = None
    last_failure: Annotated[str | None, Field(description="Message of the last failure.")] = None
    last_reason: Annotated[str | None, Field(description="Reason of the last failure.")] = None
    non_retryable_revision: Annotated[
        str | None,
        Field(description="Revision whose failure is not retryable: it is not started again."),
    ] = None


class SourceStatus(Status):
    """The position of the pipeline in one source."""

    name: Annotated[str, Field(description="Name of the source.")]
    topic: Annotated[str | None, Field(description="Topic in Kafka.")] = None
    lag: Annotated[
        int | None, Field(ge=0, description="Records in the topic that are not processed yet.")
    ] = None


class RunRole(StrEnum):
    """What a run does for its pipeline. Each role has at most one run; further roles may follow."""

    ACTIVE = "active"
    STANDBY = "standby"


class Run(Status):
    """One revision at work: which driver runs it, and in which checkpoint."""

    role: Annotated[
        RunRole,
        Field(
            description="active: it processes the records, or did so last. standby: it takes over from the active run."
        ),
    ]
    generation: Annotated[
        int, Field(ge=0, description="Fencing token of its driver; recorded before the driver is created.")
    ] = 0
    revision: Annotated[str | None, Field(description="Name of the ConfigMap with its revision.")] = None
    content: Annotated[
        str | None,
        Field(description="Hash of what the revision does, without its checkpoint and restartNonce."),
    ] = None
    checkpoint: Annotated[int, Field(ge=0, description="Number of the checkpoint that it works in.")] = 0
    driver: Annotated[
        str | None, Field(description="Name of its driver pod, until the end of the driver is recorded.")
    ] = None
    driver_uid: Annotated[
        str | None, Field(description="UID of the driver pod, once the operator observed it.")
    ] = None
    running_since: Annotated[datetime | None, Field(description="When its queries started.")] = None
    stopping_since: Annotated[
        datetime | None, Field(description="When the operator requested that the driver stop.")
    ] = None


class UpgradePhase(StrEnum):
    """The phase of a change."""

    DRY_RUN = "DryRun"
    SAVING = "Saving"
    HANDING_OVER = "HandingOver"
    WATCHING = "Watching"
    DONE = "Done"
    REFUSED = "Refused"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    WITHDRAWN = "Withdrawn"


AT_WORK = (UpgradePhase.DRY_RUN, UpgradePhase.SAVING, UpgradePhase.HANDING_OVER)
"""Phases in which the new revision does not run yet."""
TAKEN_BACK = (UpgradePhase.REFUSED, UpgradePhase.ROLLING_BACK, UpgradePhase.ROLLED_BACK)
"""Phases in which the previous revision has to run."""

NEEDS_SAVEPOINT = (UpgradePhase.SAVING, UpgradePhase.HANDING_OVER, UpgradePhase.WATCHING)
"""Phases in which a rollback may still restore the savepoint that was taken before the change."""


class NewCheckpoint(Status):
    """The checkpoint of a revision that does not continue in the current one."""

    checkpoint: Annotated[
        int,
        Field(ge=0, description="Number of the checkpoint; it starts empty, or as a copy of a savepoint."),
    ]
    instead_of: Annotated[
        int, Field(ge=0, description="Number of the previous checkpoint, which is not changed.")
    ]
    from_beginning: Annotated[
        tuple[str, ...],
        Field(description="Sources that are read from their first record, whatever startingOffsets is."),
    ] = ()


class FirstBatch(Status):
    """The first batch that a new revision committed in one query."""

    sink: Annotated[str, Field(description="Name of the sink.")]
    batch: Annotated[int, Field(ge=0, description="Number of the batch.")]


class Health(Status):
    """The reference values of the health check of a new revision."""

    lag: Annotated[
        int, Field(ge=0, description="Lag in records at the handover, or after the first batch.")
    ] = 0
    batches: Annotated[
        tuple[FirstBatch, ...], Field(description="Its first batches, once each query has one.")
    ] = ()


class UpgradeStatus(Status):
    """The last change of a pipeline's revision. Its drivers are in status.runs."""

    phase: Annotated[UpgradePhase, Field(description="Phase of the change.")]
    revision: Annotated[str, Field(description="The new revision.")]
    previous: Annotated[
        str | None, Field(description="The previous revision, which a rollback starts again.")
    ] = None
    handover: Annotated[Handover, Field(description="How the drivers follow each other.")] = Handover.WARM
    mode: Annotated[
        UpgradeMode, Field(description="Mode of the change; a mere restart always has LastState.")
    ] = UpgradeMode.LAST_STATE
    intent: Annotated[
        str | None, Field(description="Hash of what the new revision does, whatever its checkpoint is.")
    ] = None
    savepoint: Annotated[
        str | None, Field(description="Name of the Savepoint that is taken before the change.")
    ] = None
    new_checkpoint: Annotated[
        NewCheckpoint | None,
        Field(
            description="Where the new revision starts, if it does not continue in the current checkpoint."
        ),
    ] = None
    health: Annotated[
        Health | None, Field(description="Reference values of the health check of the new revision.")
    ] = None
    verdict: Annotated[UpgradeVerdict | None, Field(description="What the change means for the state.")] = (
        None
    )
    attempts: Annotated[
        int, Field(ge=0, description="Standby drivers that ended before they were ready.")
    ] = 0
    message: Annotated[str | None, Field(description="Why the change is in this phase, for people.")] = None
    since: Annotated[datetime | None, Field(description="When this phase started.")] = None


def put_run(runs: tuple[Run, ...], run: Run) -> tuple[Run, ...]:
    """Return the runs with this one in its role."""
    others = drop_run(runs, run.role)
    return tuple(sorted((*others, run), key=lambda each: list(RunRole).index(each.role)))


def drop_run(runs: tuple[Run, ...], role: RunRole) -> tuple[Run, ...]:
    """Return the runs without the one in a role."""
    return tuple(each for each in runs if each.role is not role)


class PipelineStatus(ResourceStatus):
    """What the operator observed and did, and what it does next."""

    runs: Annotated[
        tuple[Run, ...],
        Field(
            description="The revisions at work, one for each role.",
            json_schema_extra={LIST_TYPE: "map", LIST_MAP_KEYS: ["role"]},
        ),
    ] = ()
    upgrade: Annotated[UpgradeStatus | None, Field(description="The last change of the active revision.")] = (
        None
    )
    last_generation: Annotated[
        int, Field(ge=0, description="Highest generation that was assigned to a driver; none is used twice.")
    ] = 0
    checkpoint: Annotated[
        int,
        Field(
            ge=0,
            description="Number of the checkpoint that the next driver works in; each restored savepoint and each empty state has"
            " a number of its own.",
        ),
    ] = 0
    last_checkpoint: Annotated[
        int, Field(ge=0, description="Highest number that was assigned to a checkpoint; none is used twice.")
    ] = 0
    restoration: Annotated[
        Restoration | None, Field(description="The savepoint that the checkpoint was created from.")
    ] = None
    from_beginning: Annotated[
        tuple[str, ...],
        Field(
            description="Sources that the checkpoint reads from their first record, whatever startingOffsets is."
        ),
    ] = ()
    shuffle_partitions: Annotated[int | None, Field(ge=1, description="Partitions of the state.")] = None
    restored: Annotated[
        Restore | None, Field(description="The last spec.restore that was carried out, or is in progress.")
    ] = None
    last_scheduled: Annotated[
        datetime | None, Field(description="Until when the schedule of spec.savepoints was handled.")
    ] = None
    restarts: Annotated[Restarts, Field(description="Failures and restarts.")] = Restarts()
    recovery: Annotated[
        RecoveryStatus | None,
        Field(description="Duration of the last start, and the expected duration of the next."),
    ] = None
    executors: Annotated[int, Field(ge=0, description="Executors of the active run.")] = 0
    selector: Annotated[
        str | None, Field(description="Label selector of the executors, for autoscalers.")
    ] = None
    tuning: Annotated[tuple[str, ...], Field(description="Sizes that the operator chose, and why.")] = ()
    guarantee: Annotated[
        str | None,
        Field(description="Delivery guarantee, computed from sources and sinks: AtLeastOnce or ExactlyOnce."),
    ] = None
    measured_at: Annotated[
        datetime | None,
        Field(
            description="When the figures from batch to sources were measured; they are updated twice a minute, and with each other change."
        ),
    ] = None
    batch: Annotated[int | None, Field(description="Last committed batch.")] = None
    records: Annotated[int | None, Field(description="Records read by the active driver.")] = None
    dead_lettered: Annotated[
        int | None, Field(description="Records that the active driver could not read.")
    ] = None
    late: Annotated[int | None, Field(description="Records that the active driver dropped as late.")] = None
    late_records: Annotated[
        int | None, Field(description="Late records that the active driver wrote to topics.")
    ] = None
    lag_records: Annotated[int | None, Field(description="Lag over all sources, in records.")] = None
    lag: Annotated[str | None, Field(description="Lag, for people.")] = None
    rate: Annotated[str | None, Field(description="Records per second, for people.")] = None
    watermark: Annotated[datetime | None, Field(description="Event-time watermark.")] = None
    sources: Annotated[tuple[SourceStatus, ...], Field(description="The position in each source.")] = ()

    @model_validator(mode="before")
    @classmethod
    def _convert(cls, stored: Any) -> Any:
        """Read a status that an earlier release wrote."""
        return convert_pipeline_status(stored) if isinstance(stored, dict) else stored

    @property
    def active(self) -> Run:
        """Return the run that processes records, or did so last; an empty one before the first."""
        return self.find_run(RunRole.ACTIVE) or Run(role=RunRole.ACTIVE)

    @property
    def standby(self) -> Run | None:
        """Return the run that takes over from the active one."""
        return self.find_run(RunRole.STANDBY)

    def find_run(self, role: RunRole) -> Run | None:
        """Return the run in a role."""
        return next((run for run in self.runs if run.role is role), None)

    def update_active(self, **fields: Any) -> tuple[Run, ...]:
        """Return the runs with other fields of the active one."""
        return put_run(self.runs, self.active.replace(**fields))
