"""`Savepoint`: a committed batch of every query of a pipeline, kept apart from its checkpoint."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.conditions import EXPORTED, VERIFIED
from kappa_crds.model import Model, ResourceName, Rule, Status
from kappa_crds.resource import Kind, PrinterColumn, ResourceStatus, build_columns
from kappa_crds.savepoint_transfer import ONE_STORE_EACH, Export, ExportStatus, Import
from kappa_crds.savepoint_work import StateRows, VerifyBy, Work
from kappa_crds.topic import DeletionPolicy

SAVEPOINT_FINALIZER = "kappa-platform.io/savepoint"


class Cause(StrEnum):
    """Why a savepoint was taken."""

    MANUAL = "Manual"
    SCHEDULE = "Schedule"
    UPGRADE = "Upgrade"
    BEFORE_ROLLBACK = "BeforeRollback"
    BEFORE_REMEDIATION = "BeforeRemediation"


class Restore(Model):
    """A savepoint to restore from."""

    savepoint: ResourceName
    """Name of the Savepoint: of this pipeline, to go back to it, or of another one, to begin as its copy."""
    request: Annotated[str, Field(max_length=64)] = ""
    """Any text; with another one the same savepoint is restored again."""


class Verify(Model):
    """How a savepoint is verified. It is done once for each value, after it was taken."""

    by: VerifyBy = VerifyBy.CHECKSUMS
    """Checksums reads every file again; StateReader also restores it in a pod and reads every row of state
    through Spark."""
    request: Annotated[str, Field(max_length=64)] = ""
    """Any text; with another one it is verified again."""


class Restoration(Status):
    """What a checkpoint is made of. In a fork, queries have other ids than in the pipeline that the
    savepoint is of."""

    location: str
    """URI of the folder with the savepoints."""
    savepoint: str
    """Name of the savepoint in that folder."""
    fork: bool = False
    """Whether it is of another pipeline."""


class SavepointSpec(Model):
    """A savepoint to be taken. It is taken once; later changes of the spec have no effect on it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.pipelineRef == oldSelf.pipelineRef",
            "spec.pipelineRef cannot change: a savepoint is of one pipeline; create a new Savepoint",
        ),
        Rule(
            "has(self.__import__) == has(oldSelf.__import__)"
            " && (!has(self.__import__) || self.__import__ == oldSelf.__import__)",
            "spec.import cannot change: a savepoint is taken or imported once; create a new Savepoint",
        ),
    )
    pipeline_ref: ResourceName
    """Name of the Pipeline. It continues while its savepoint is taken, and may be suspended or have failed."""
    import_: Annotated[Import | None, Field(alias="import")] = None
    """Have none taken, but a savepoint that is there already. The Pipeline need not be there any more."""
    exports: Annotated[tuple[Export, ...], Field(max_length=8), ONE_STORE_EACH] = ()
    """Copies in other StateStores, written after the savepoint was taken; the condition Exported shows
    whether all exist. A copy that is removed from the list is not deleted."""
    cause: Cause = Cause.MANUAL
    """Why it is taken. Those that are not Manual are deleted according to spec.savepoints of the Pipeline."""
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    """Whether the savepoint's files go when this resource is deleted; files that other savepoints share
    stay."""
    verify: Verify | None = None
    """Read it back; the condition Verified has the result. Default: no verification."""


class SavepointState(StrEnum):
    """The states of a savepoint."""

    PENDING = "Pending"
    TAKING = "Taking"
    READY = "Ready"
    FAILED = "Failed"
    DAMAGED = "Damaged"
    DELETING = "Deleting"


class QueryBatch(Status):
    """The batch of one query that a savepoint holds."""

    sink: str
    """Name of the sink."""
    batch: Annotated[int, Field(ge=0)]
    """The committed batch."""


class SavepointStatus(ResourceStatus):
    """What was taken."""

    location: str | None = None
    """URI of the folder with the savepoints of the pipeline."""
    claim_name: str | None = None
    """The claim that holds that folder."""
    store_name: str | None = None
    """The StateStore in whose bucket or HDFS that folder is."""
    taken: datetime | None = None
    """When its manifest was written."""
    revision: str | None = None
    """Revision of the pipeline that it was taken of."""
    queries: tuple[QueryBatch, ...] = ()
    """The batch of each query; queries that had none are left out."""
    shuffle_partitions: Annotated[int | None, Field(ge=1)] = None
    """Partitions of the state."""
    size_bytes: Annotated[int | None, Field(ge=0)] = None
    """Bytes of all its files."""
    copied_bytes: Annotated[int | None, Field(ge=0)] = None
    """Bytes that were not kept for an earlier savepoint already."""
    size: str | None = None
    """Both, for people."""
    verified: Verify | None = None
    """The last spec.verify that was carried out, or given up."""
    last_verified: datetime | None = None
    """When it was last found to be whole."""
    exports: tuple[ExportStatus, ...] = ()
    """How far each copy of spec.exports is."""
    state_rows: tuple[StateRows, ...] = ()
    """The rows of state that Spark's state reader found."""
    attempts: Annotated[int, Field(ge=0)] = 0
    """How often what is done with it now was attempted, by drivers or workers."""
    driver: str | None = None
    """The driver pod that takes it."""
    work: Work | None = None
    """The last pod that worked on it where no driver did."""
    next_attempt: datetime | None = None
    """When it is attempted again, after an attempt failed."""


SAVEPOINT = Kind(
    name="Savepoint",
    plural="savepoints",
    short_names=("kpsp",),
    conditions=(VERIFIED, EXPORTED),
    description="A committed batch of every query of a pipeline, kept apart from its checkpoint.",
    spec=SavepointSpec,
    status=SavepointStatus,
    columns=build_columns(
        PrinterColumn("Cause", ".spec.cause", priority=1),
        PrinterColumn("Size", ".status.size"),
        PrinterColumn("Taken", ".status.taken", "date"),
        PrinterColumn("Verified", ".status.lastVerified", "date"),
        PrinterColumn("Exported", '.status.conditions[?(@.type=="Exported")].status', priority=1),
        first=(PrinterColumn("Pipeline", ".spec.pipelineRef"),),
    ),
)
