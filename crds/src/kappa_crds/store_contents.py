"""What a StateStore holds, as a pod counted it."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Status


class StoreContents(Status):
    """What the store holds of this namespace. Where there was more than is counted, `partial` says so, and each figure is at least that."""

    checkpoints: Annotated[
        int, Field(ge=0, description="Checkpoints, those of pipelines that are gone among them.")
    ] = 0
    checkpoint_bytes: Annotated[int, Field(ge=0, description="Bytes of all checkpoints.")] = 0
    savepoints: Annotated[int, Field(ge=0, description="Savepoints that are whole.")] = 0
    savepoint_objects: Annotated[
        int, Field(ge=0, description="Files of savepoints; one that several share is one.")
    ] = 0
    savepoint_bytes: Annotated[int, Field(ge=0, description="Bytes of those files and of the manifests.")] = 0
    oldest_savepoint: Annotated[
        datetime | None, Field(description="When the oldest savepoint was written to this store.")
    ] = None
    newest_savepoint: Annotated[
        datetime | None, Field(description="When the newest savepoint was written to this store.")
    ] = None
    partial: Annotated[bool, Field(description="Whether there was more than is counted at once.")] = False
