"""The status of a `Pipeline`: what the operator observed and did, and what it does next."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from kappa_crds.inputs import InputTopic
from kappa_crds.model import LIST_MAP_KEYS, LIST_TYPE, Status
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

    crashes: Annotated[int, Field(ge=0)] = 0
    """Drivers that started and died."""
    kafka_unavailable: Annotated[int, Field(ge=0)] = 0
    """How many of them died because Kafka did not respond."""
    scheduling: Annotated[int, Field(ge=0)] = 0
    """Drivers that could not be started."""
    total: Annotated[int, Field(ge=0)] = 0
    """Restarts since the pipeline was created."""
    next_start: datetime | None = None
    """Earliest time of the next start."""
    last_failure: str | None = None
    """Message of the last failure."""
    last_reason: str | None = None
    """Reason of the last failure."""
    non_retryable_revision: str | None = None
    """Revision whose failure is not retryable: it is not started again."""

    @property
    def own_crashes(self) -> int:
        """Return how many drivers died for another reason than an outage of Kafka, which any revision meets."""
        return self.crashes - self.kafka_unavailable


class RecoveryStatus(Status):
    """The last start of a driver: how long no records were processed, and why."""

    generation: Annotated[int, Field(ge=0)]
    """Generation of the driver."""
    warm: bool = False
    """The driver was a standby driver; its start is measured from the handover."""
    took: str
    """Duration of the start, for people."""
    seconds: float
    """From the creation of its pod, or from the handover, until each query had committed a batch or had no
    records to read."""
    state_seconds: float = 0.0
    """Of that, the time to load state, summed over its partitions, which are loaded in parallel."""
    state_rows: Annotated[int, Field(ge=0)] = 0
    """Rows of state after the first batches."""
    records: Annotated[int, Field(ge=0)] = 0
    """Lag in records when the first batches started."""
    prepare_seconds: float | None = None
    """From pod creation to the first batch, in the last start without a standby driver."""
    expected_seconds: int | None = None
    """Expected duration of a start without a standby driver: prepareSeconds, the present state loaded as fast
    as last time, and the lag at the present rate."""


class SourceStatus(Status):
    """The position of the pipeline in one source."""

    name: str
    """Name of the source."""
    topic: str | None = None
    """Topic in Kafka."""
    lag: Annotated[int | None, Field(ge=0)] = None
    """Records in the topic that are not processed yet."""


class RunRole(StrEnum):
    """What a run does for its pipeline. Each role has at most one run."""

    ACTIVE = "active"
    STANDBY = "standby"
    SHADOW = "shadow"
    SOAKING = "soaking"


SIDE_ROLES = (RunRole.SHADOW, RunRole.SOAKING)
"""Roles of a run beside the active one, with a checkpoint and outputs of its own."""


class RunPlace(Status):
    """What the checkpoint of a run was created with."""

    restoration: Restoration | None = None
    """The savepoint that it was created from."""
    from_beginning: tuple[str, ...] = ()
    """Sources that it reads from their first record, whatever startingOffsets is."""
    shuffle_partitions: Annotated[int | None, Field(ge=1)] = None
    """Partitions of the state."""
    inputs: tuple[InputTopic, ...] | None = None
    """The topics that it reads in another version than the spec names; None where they are those of the status
    itself."""


class Run(Status):
    """One revision at work: which driver runs it, and in which checkpoint."""

    role: RunRole
    """active: it processes the records, or did so last. standby: it takes over from the active run. shadow:
    it computes the whole log again, for a Reprocessing. soaking: it was active before the cutover."""
    generation: Annotated[int, Field(ge=0)] = 0
    """Fencing token of its driver; recorded before the driver is created."""
    revision: str | None = None
    """Name of the ConfigMap with its revision."""
    content: str | None = None
    """Hash of what the revision does, without its checkpoint and restartNonce."""
    checkpoint: Annotated[int, Field(ge=0)] = 0
    """Number of the checkpoint that it works in."""
    driver: str | None = None
    """Name of its driver pod, until the end of the driver is recorded."""
    driver_uid: str | None = None
    """UID of the driver pod, once the operator observed it."""
    running_since: datetime | None = None
    """When its queries started."""
    stopping_since: datetime | None = None
    """When the operator requested that the driver stop."""
    outputs: Annotated[int, Field(ge=0)] = 0
    """Version of its output topics: 0 for those of the spec, N for NAME.rN."""
    reprocessing: str | None = None
    """Name of the Reprocessing that it was started by, or soaks for."""
    place: RunPlace | None = None
    """What its checkpoint was created with; that of the active run is in the status itself."""
    restarts: Restarts | None = None
    """Failures and restarts of a shadow or soaking run."""
    backfill: tuple[str, ...] = ()
    """Sinks that were added, and that read the log from its start in slices of time until they are near its end."""
    drops_outputs: bool = False
    """Whether the topics of its version are deleted with the run."""


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
    REPROCESSING = "Reprocessing"
    SOAKING = "Soaking"


AT_WORK = (UpgradePhase.DRY_RUN, UpgradePhase.SAVING, UpgradePhase.HANDING_OVER)
"""Phases in which the new revision does not run yet."""
TAKEN_BACK = (
    UpgradePhase.REFUSED,
    UpgradePhase.ROLLING_BACK,
    UpgradePhase.ROLLED_BACK,
    UpgradePhase.REPROCESSING,
)
"""Phases in which the previous revision has to run."""

NEEDS_SAVEPOINT = (UpgradePhase.SAVING, UpgradePhase.HANDING_OVER, UpgradePhase.WATCHING)
"""Phases in which a rollback may still restore the savepoint that was taken before the change."""


class NewCheckpoint(Status):
    """The checkpoint of a revision that does not continue in the current one."""

    checkpoint: Annotated[int, Field(ge=0)]
    """Number of the checkpoint; it starts empty, or as a copy of a savepoint."""
    instead_of: Annotated[int, Field(ge=0)]
    """Number of the previous checkpoint, which is not changed."""
    from_beginning: tuple[str, ...] = ()
    """Sources that are read from their first record, whatever startingOffsets is."""


class FirstBatch(Status):
    """The first batch that a new revision committed in one query."""

    sink: str
    """Name of the sink."""
    batch: Annotated[int, Field(ge=0)]
    """Number of the batch."""


class Health(Status):
    """The reference values of the health check of a new revision."""

    lag: Annotated[int, Field(ge=0)] = 0
    """Lag in records at the handover, or after the first batch."""
    batches: tuple[FirstBatch, ...] = ()
    """Its first batches, once each query has one."""


class UpgradeStatus(Status):
    """The last change of a pipeline's revision. Its drivers are in status.runs."""

    phase: UpgradePhase
    """Phase of the change."""
    revision: str
    """The new revision."""
    previous: str | None = None
    """The previous revision, which a rollback starts again."""
    handover: Handover = Handover.WARM
    """How the drivers follow each other."""
    mode: UpgradeMode = UpgradeMode.LAST_STATE
    """Mode of the change; a mere restart always has LastState."""
    intent: str | None = None
    """Hash of what the new revision does, whatever its checkpoint is."""
    declared: str | None = None
    """Hash of what the spec declares, where a Reprocessing makes the change: other defaults of the operator do not
    alter it, nor another number of executors."""
    given_up: str | None = None
    """The same hash, where the Reprocessing was rolled back or aborted, or has failed: nothing but another spec
    starts it again."""
    backfill: tuple[str, ...] = ()
    """Sinks that the change adds, and that read the log from its start."""
    reprocessing: str | None = None
    """Name of the Reprocessing of another Pipeline that this one is a member of; the spec did not change."""
    leaves: str | None = None
    """Why a Reprocessing of several Pipelines has to end for this one, for people: it ends for all, or cuts over all."""
    savepoint: str | None = None
    """Name of the Savepoint that is taken before the change."""
    new_checkpoint: NewCheckpoint | None = None
    """Where the new revision starts, if it does not continue in the current checkpoint."""
    health: Health | None = None
    """Reference values of the health check of the new revision."""
    verdict: UpgradeVerdict | None = None
    """What the change means for the state."""
    attempts: Annotated[int, Field(ge=0)] = 0
    """Standby drivers that ended before they were ready."""
    message: str | None = None
    """Why the change is in this phase, for people."""
    since: datetime | None = None
    """When this phase started."""


def put_run(runs: tuple[Run, ...], run: Run) -> tuple[Run, ...]:
    """Return the runs with this one in its role."""
    others = drop_run(runs, run.role)
    return tuple(sorted((*others, run), key=lambda each: list(RunRole).index(each.role)))


def drop_run(runs: tuple[Run, ...], role: RunRole) -> tuple[Run, ...]:
    """Return the runs without the one in a role."""
    return tuple(each for each in runs if each.role is not role)


class KafkaUser(Status):
    """A user in Kafka that the operator created for the pipeline, or is about to."""

    name: str
    """Name of the user."""
    cluster: str
    """Name of its KafkaCluster."""
    secret: str
    """Name of the Secret with its password."""
    password: str | None = None
    """Version of the Secret whose password Kafka has."""
    granted: str | None = None
    """Fingerprint of the permissions that the user has."""
    exact: bool = False
    """Whether it has no others."""


class OutputTopic(Status):
    """Where the active run writes what the spec writes to one topic."""

    name: str
    """Name of the topic in the spec."""
    topic: str
    """Topic in Kafka."""


class PipelineStatus(ResourceStatus):
    """What the operator observed and did, and what it does next."""

    runs: Annotated[
        tuple[Run, ...], Field(json_schema_extra={LIST_TYPE: "map", LIST_MAP_KEYS: ["role"]})
    ] = ()
    """The revisions at work, one for each role."""
    upgrade: UpgradeStatus | None = None
    """The last change of the active revision."""
    last_generation: Annotated[int, Field(ge=0)] = 0
    """Highest generation that was assigned to a driver; none is used twice."""
    checkpoint: Annotated[int, Field(ge=0)] = 0
    """Number of the checkpoint that the next driver works in; each restored savepoint and each empty state
    has a number of its own."""
    last_checkpoint: Annotated[int, Field(ge=0)] = 0
    """Highest number that was assigned to a checkpoint; none is used twice."""
    restoration: Restoration | None = None
    """The savepoint that the checkpoint was created from."""
    from_beginning: tuple[str, ...] = ()
    """Sources that the checkpoint reads from their first record, whatever startingOffsets is."""
    shuffle_partitions: Annotated[int | None, Field(ge=1)] = None
    """Partitions of the state."""
    restored: Restore | None = None
    """The last spec.restore that was carried out, or is in progress."""
    last_scheduled: datetime | None = None
    """Until when the schedule of spec.savepoints was handled."""
    restarts: Restarts = Restarts()
    """Failures and restarts."""
    recovery: RecoveryStatus | None = None
    """Duration of the last start, and the expected duration of the next."""
    executors: Annotated[int, Field(ge=0)] = 0
    """Executors of the active run."""
    selector: str | None = None
    """Label selector of the executors, for autoscalers."""
    tuning: tuple[str, ...] = ()
    """Sizes that the operator chose, and why."""
    guarantee: str | None = None
    """Delivery guarantee, computed from sources and sinks: AtLeastOnce or ExactlyOnce."""
    measured_at: datetime | None = None
    """When the figures from batch to sources were measured; they are updated twice a minute, and with each
    other change."""
    batch: int | None = None
    """Last committed batch."""
    records: int | None = None
    """Records read by the active driver."""
    dead_lettered: int | None = None
    """Records that the active driver could not read."""
    late: int | None = None
    """Records that the active driver dropped as late."""
    late_records: int | None = None
    """Late records that the active driver wrote to topics."""
    lag_records: int | None = None
    """Lag over all sources, in records."""
    lag: str | None = None
    """Lag, for people."""
    rate: str | None = None
    """Records per second, for people."""
    watermark: datetime | None = None
    """Event-time watermark."""
    sources: tuple[SourceStatus, ...] = ()
    """The position in each source."""
    outputs: Annotated[
        tuple[OutputTopic, ...], Field(json_schema_extra={LIST_TYPE: "map", LIST_MAP_KEYS: ["name"]})
    ] = ()
    """The topics that the active run writes to: what readers follow."""
    inputs: Annotated[
        tuple[InputTopic, ...], Field(json_schema_extra={LIST_TYPE: "map", LIST_MAP_KEYS: ["name"]})
    ] = ()
    """The topics that are read in another version than that of their names, because the Pipeline that writes
    them was reprocessed."""
    kafka_users: Annotated[
        tuple[KafkaUser, ...], Field(json_schema_extra={LIST_TYPE: "map", LIST_MAP_KEYS: ["name"]})
    ] = ()
    """Users of the pipeline in Kafka; recorded before they are created. There are two while one replaces the other."""

    @property
    def active(self) -> Run:
        """Return the run that processes records, or did so last; an empty one before the first."""
        return self.find_run(RunRole.ACTIVE) or Run(role=RunRole.ACTIVE)

    @property
    def standby(self) -> Run | None:
        """Return the run that takes over from the active one."""
        return self.find_run(RunRole.STANDBY)

    @property
    def sides(self) -> tuple[Run, ...]:
        """Return the runs beside the active one that have a checkpoint of their own."""
        return tuple(run for run in self.runs if run.role in SIDE_ROLES)

    def find_run(self, role: RunRole) -> Run | None:
        """Return the run in a role."""
        return next((run for run in self.runs if run.role is role), None)

    def update_active(self, **fields: Any) -> tuple[Run, ...]:
        """Return the runs with other fields of the active one."""
        return put_run(self.runs, self.active.replace(**fields))
