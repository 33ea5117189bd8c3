"""`Savepoint`: a committed batch of every query of a pipeline, kept apart from its checkpoint."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.conditions import EXPORTED, VERIFIED
from kappa_crds.model import Model, ResourceName, Rule, Status
from kappa_crds.resource import Kind, PrinterColumn, ResourceStatus, build_columns
from kappa_crds.savepoint_work import StateRows, VerifyBy, Work
from kappa_crds.topic import DeletionPolicy

SAVEPOINT_FINALIZER = "kappa-platform.io/savepoint"


class Import(Model):
    """A savepoint that is there already: one whose resource was deleted, or that is to be brought in from elsewhere."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.storeRef) || !has(self.targetStoreRef) || self.storeRef != self.targetStoreRef",
            "spec.import.storeRef and spec.import.targetStoreRef name one StateStore; leave storeRef out where nothing is brought in from another one",
        ),
    )
    name: Annotated[
        str,
        Field(min_length=1, max_length=253),
        Rule(
            "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
            "must be the name of a folder of a savepoint: lower-case letters, digits, '-' and '.'",
        ),
    ]
    """Name of its folder among the savepoints of the pipeline, such as before-the-change-1a2b3c4d."""
    store_ref: ResourceName | None = None
    """The StateStore that it is brought in from, with all its files; left out, it is in the Pipeline's store
    already."""
    pipeline: ResourceName | None = None
    """The Pipeline that it was taken of, where that has another name than spec.pipelineRef; it need not be
    there."""
    namespace: ResourceName | None = None
    """The namespace that it was taken in, if not this one; spec.importNamespaces of the StateStore that it
    comes from has to allow that."""
    target_store_ref: ResourceName | None = None
    """The StateStore that it is brought to; the Pipeline's where left out. Needed where there is no Pipeline
    yet and several StateStores."""


ONE_STORE_EACH = Rule(
    "self.all(e, self.exists_one(other, other.storeRef == e.storeRef))",
    "names a StateStore more than once; name it once",
)
"""For a list of exports."""


class Export(Model):
    """A copy of the savepoint in another StateStore."""

    store_ref: ResourceName
    """The StateStore, of the same namespace, that it is copied to."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether the copy goes when this resource is deleted."""
    request: Annotated[str, Field(max_length=64)] = ""
    """Any text; with another one it is exported again: what is missing."""


class ExportState(StrEnum):
    """How far a copy is."""

    PENDING = "Pending"
    COPYING = "Copying"
    EXPORTED = "Exported"
    ABANDONED = "Abandoned"
    DELETED = "Deleted"


class ExportStatus(Status):
    """How far the copy in one StateStore is."""

    store_ref: str
    """The StateStore."""
    state: ExportState = ExportState.PENDING
    """How far it is."""
    request: str = ""
    """The spec.exports.request that this is about."""
    location: str | None = None
    """URI of the copy, as pods see it that have the StateStore mounted."""
    exported: datetime | None = None
    """When it was last there whole."""
    copied_bytes: Annotated[int | None, Field(ge=0)] = None
    """Bytes that the last attempt had to copy."""
    attempts: Annotated[int, Field(ge=0)] = 0
    """How often it was attempted."""
    next_attempt: datetime | None = None
    """When it is attempted again, after an attempt failed."""
    message: str = ""
    """What is under way, or what went wrong."""


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
