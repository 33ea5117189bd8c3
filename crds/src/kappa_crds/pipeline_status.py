"""The status of a `Pipeline`: what the operator observed and did, and what it does next."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Status
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
    """Failures since the last quiet time, and when the next start is due."""

    crashes: Annotated[int, Field(ge=0, description="Drivers that started and died.")] = 0
    scheduling: Annotated[int, Field(ge=0, description="Drivers that could not be started.")] = 0
    total: Annotated[int, Field(ge=0, description="Restarts in the pipeline's life.")] = 0
    next_start: Annotated[datetime | None, Field(description="Earliest time of the next start.")] = None
    last_failure: Annotated[str | None, Field(description="Message of the last failure.")] = None
    last_reason: Annotated[str | None, Field(description="Reason of the last failure.")] = None
    hopeless_revision: Annotated[
        str | None,
        Field(description="Revision that would fail again in the same way; it is not started again."),
    ] = None


class SourceStatus(Status):
    """Where the pipeline is in one source."""

    name: Annotated[str, Field(description="Name of the source.")]
    topic: Annotated[str | None, Field(description="Topic in Kafka.")] = None
    lag: Annotated[
        int | None, Field(ge=0, description="Records in the topic that are not processed yet.")
    ] = None


class UpgradePhase(StrEnum):
    """How far a change is."""

    REHEARSING = "Rehearsing"
    SAVING = "Saving"
    HANDING_OVER = "HandingOver"
    WATCHING = "Watching"
    DONE = "Done"
    REFUSED = "Refused"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    WITHDRAWN = "Withdrawn"


AT_WORK = (UpgradePhase.REHEARSING, UpgradePhase.SAVING, UpgradePhase.HANDING_OVER)
"""Phases in which the new revision does not run yet."""
TAKEN_BACK = (UpgradePhase.REFUSED, UpgradePhase.ROLLING_BACK, UpgradePhase.ROLLED_BACK)
"""Phases in which the revision before the change is the one to run."""

NEEDS_SAVEPOINT = (UpgradePhase.SAVING, UpgradePhase.HANDING_OVER, UpgradePhase.WATCHING)
"""Phases in which the savepoint that was taken before a change may still be gone back to."""


class Anew(Status):
    """The checkpoint of a revision that does not go on from the state that there is."""

    checkpoint: Annotated[
        int, Field(ge=0, description="Number of the checkpoint, which begins empty, or as a savepoint.")
    ]
    instead_of: Annotated[
        int, Field(ge=0, description="Number of the checkpoint before; it is left as it is.")
    ]
    from_beginning: Annotated[
        tuple[str, ...],
        Field(description="Sources that are read from the first record that they have, whatever they say."),
    ] = ()


class FirstBatch(Status):
    """The first batch that a new revision has committed in one query."""

    sink: Annotated[str, Field(description="Name of the sink.")]
    batch: Annotated[int, Field(ge=0, description="The batch.")]


class Health(Status):
    """What a new revision is measured against while it is watched."""

    lag: Annotated[
        int, Field(ge=0, description="Records not processed at the handover, or after the first batch.")
    ] = 0
    batches: Annotated[
        tuple[FirstBatch, ...], Field(description="Its first batches, once each query has one.")
    ] = ()


class UpgradeStatus(Status):
    """The last change of a pipeline's revision."""

    phase: Annotated[UpgradePhase, Field(description="How far it is.")]
    revision: Annotated[str, Field(description="The new revision.")]
    previous: Annotated[str | None, Field(description="The revision before it.")] = None
    generation: Annotated[
        int, Field(ge=0, description="Generation of the driver that stands by, or stood by.")
    ] = 0
    uid: Annotated[str | None, Field(description="Uid of its pod, once it was seen.")] = None
    handover: Annotated[Handover, Field(description="How the drivers follow each other.")] = Handover.WARM
    mode: Annotated[
        UpgradeMode, Field(description="The mode it is made in; a mere restart always is one of LastState.")
    ] = UpgradeMode.LAST_STATE
    intent: Annotated[
        str | None, Field(description="What the new revision is to do, as a hash, wherever its state is.")
    ] = None
    savepoint: Annotated[
        str | None, Field(description="Name of the Savepoint that is taken before, and gone back to.")
    ] = None
    anew: Annotated[
        Anew | None, Field(description="Where it begins, if not from the state that there is.")
    ] = None
    health: Annotated[
        Health | None, Field(description="What it is measured against while it is watched.")
    ] = None
    verdict: Annotated[UpgradeVerdict | None, Field(description="What the change means for the state.")] = (
        None
    )
    attempts: Annotated[
        int, Field(ge=0, description="How many drivers that stood by have ended before they were ready.")
    ] = 0
    message: Annotated[str | None, Field(description="Why it is where it is, for people.")] = None
    since: Annotated[datetime | None, Field(description="When this phase began.")] = None


class PipelineStatus(ResourceStatus):
    """What the operator saw and did, and what it is about to do."""

    generation: Annotated[
        int,
        Field(ge=0, description="Fencing token of the current driver; written before the driver is made."),
    ] = 0
    revision: Annotated[str | None, Field(description="Name of the ConfigMap with the current revision.")] = (
        None
    )
    driver: Annotated[str | None, Field(description="Name of the current driver pod.")] = None
    driver_uid: Annotated[str | None, Field(description="Uid of the driver pod last seen.")] = None
    running_since: Annotated[datetime | None, Field(description="When the driver began to process.")] = None
    stopping_since: Annotated[datetime | None, Field(description="When the driver was asked to stop.")] = None
    restored: Annotated[
        Restore | None, Field(description="The last spec.restore that was carried out, or is about to be.")
    ] = None
    restoration: Annotated[
        Restoration | None, Field(description="The savepoint that the checkpoint is made of.")
    ] = None
    checkpoint: Annotated[
        int,
        Field(
            ge=0,
            description="Number of the checkpoint; each restored savepoint and each empty state begins another one.",
        ),
    ] = 0
    last_scheduled: Annotated[
        datetime | None, Field(description="Until when the schedule of spec.savepoints has been seen to.")
    ] = None
    running_checkpoint: Annotated[
        int, Field(ge=0, description="Number of the checkpoint that the current driver was started with.")
    ] = 0
    last_checkpoint: Annotated[
        int, Field(ge=0, description="Highest number that was meant for a checkpoint; none is given twice.")
    ] = 0
    from_beginning: Annotated[
        tuple[str, ...],
        Field(
            description="Sources that the checkpoint was begun with at their first record, whatever they say."
        ),
    ] = ()
    content: Annotated[
        str | None,
        Field(description="What the current revision does, as a hash, without its state and restartNonce."),
    ] = None
    upgrade: Annotated[UpgradeStatus | None, Field(description="The last change of the revision.")] = None
    restarts: Annotated[Restarts, Field(description="Failures and restarts.")] = Restarts()
    recovery: Annotated[
        RecoveryStatus | None, Field(description="How long the last start took, and the next one would.")
    ] = None
    executors: Annotated[int, Field(ge=0, description="Executors of the current revision.")] = 0
    selector: Annotated[
        str | None, Field(description="Label selector of the executors, for autoscalers.")
    ] = None
    shuffle_partitions: Annotated[int | None, Field(ge=1, description="Partitions of the state.")] = None
    tuning: Annotated[tuple[str, ...], Field(description="What the operator sized by itself, and why.")] = ()
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
    records: Annotated[int | None, Field(description="Records read by the current driver.")] = None
    dead_lettered: Annotated[
        int | None, Field(description="Records that could not be read, in this driver.")
    ] = None
    late: Annotated[int | None, Field(description="Records dropped as late by the current driver.")] = None
    stragglers: Annotated[
        int | None, Field(description="Rows that came too late, written to topics by the current driver.")
    ] = None
    lag_records: Annotated[int | None, Field(description="Records not processed yet, over all sources.")] = (
        None
    )
    lag: Annotated[str | None, Field(description="Lag, for people.")] = None
    rate: Annotated[str | None, Field(description="Records a second, for people.")] = None
    watermark: Annotated[datetime | None, Field(description="Event-time watermark.")] = None
    sources: Annotated[
        tuple[SourceStatus, ...], Field(description="Where the pipeline is in each source.")
    ] = ()
