"""Savepoints that come from elsewhere, and copies of them in other StateStores."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, ResourceName, Rule, Status
from kappa_crds.topic import DeletionPolicy


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
