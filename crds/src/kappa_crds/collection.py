"""What a StateStore removes that nothing needs any more, and when; and when it is counted what it holds."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, Status
from kappa_crds.savepoint_work import WorkState
from kappa_crds.store_contents import StoreContents
from kappa_crds.topic import DeletionPolicy


class Collection(Model):
    """When the store is collected. Files that no savepoint names are always deleted; checkpoints only if
    configured."""

    interval: PositiveDuration | None = None
    """How often; only on request where left out."""
    request: Annotated[str, Field(max_length=64)] = ""
    """Any text; a change starts a collection at once."""
    replaced_checkpoints: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether to delete checkpoints that a Pipeline left when it was restored from a savepoint."""
    orphaned_checkpoints: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether checkpoints go whose Pipeline was deleted."""


class CollectionStatus(Status):
    """The last collection of the store."""

    number: Annotated[int, Field(ge=1)]
    """Number of its pod; recorded before the pod is made."""
    state: WorkState = WorkState.RUNNING
    """How far it is."""
    request: str = ""
    """The last spec.collection.request that was seen to."""
    at: datetime
    """When it began."""
    message: str = ""
    """What was removed, or why nothing could be."""


class Measurement(Status):
    """The last measurement of the contents of the store."""

    number: Annotated[int, Field(ge=1)]
    """Number of its pod; recorded before the pod is made."""
    state: WorkState = WorkState.RUNNING
    """How far it is."""
    at: datetime
    """When it began."""
    message: str = ""
    """What was found, or why nothing could be."""
    contents: StoreContents | None = None
    """What was found last; also where the last try failed."""
