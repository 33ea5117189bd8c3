"""How a process reaches a store, and what a StateStore holds, as a pod counted it."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.buckets import BucketConnection
from kappa_crds.hdfs import HdfsConnection
from kappa_crds.model import Model, Status


class StoreAccess(Model):
    """How the store of a location is reached: by `bucket` or `hdfs`, or by neither where it is mounted."""

    bucket: BucketConnection | None = None
    hdfs: HdfsConnection | None = None

    @property
    def connection(self) -> BucketConnection | HdfsConnection | None:
        """Return how the store is reached; None where it is mounted."""
        return self.bucket or self.hdfs


class StoreContents(Status):
    """Contents of the store for this namespace. If there is more than is counted, `partial` is set and the figures are lower bounds."""

    checkpoints: Annotated[int, Field(ge=0)] = 0
    """Checkpoints, those of pipelines that are gone among them."""
    checkpoint_bytes: Annotated[int, Field(ge=0)] = 0
    """Bytes of all checkpoints."""
    savepoints: Annotated[int, Field(ge=0)] = 0
    """Savepoints that are whole."""
    savepoint_objects: Annotated[int, Field(ge=0)] = 0
    """Files of savepoints; one that several share is one."""
    savepoint_bytes: Annotated[int, Field(ge=0)] = 0
    """Bytes of those files and of the manifests."""
    oldest_savepoint: datetime | None = None
    """When the oldest savepoint was written to this store."""
    newest_savepoint: datetime | None = None
    """When the newest savepoint was written to this store."""
    partial: bool = False
    """Whether there was more than is counted at once."""
