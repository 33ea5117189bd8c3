"""How a process reaches a store: a bucket, or a folder in HDFS; and what a StateStore holds, as a pod counted it."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, Status

DEFAULT_KEYS = "AWS"
"""Prefix of the variables in which the Python and JVM clients expect keys by default."""
SCHEME = "hdfs"
USER_VARIABLE = "HADOOP_USER_NAME"
"""The variable with the user name for the Hadoop client."""


def name_key_variables(keys: str = DEFAULT_KEYS) -> dict[str, str]:
    """Return the variables in which a pod finds a bucket's keys, and the keys of the Secret that they come from."""
    return {f"{keys}_ACCESS_KEY_ID": "accessKeyId", f"{keys}_SECRET_ACCESS_KEY": "secretAccessKey"}


class BucketConnection(Model):
    """Where a bucket's store is. Keys are variables of the pod, see `name_key_variables`; without them it is the pod's own identity.

    A pod that reaches two stores finds the keys of each in variables of their own, whose names begin with `keys`.
    """

    endpoint: str | None = None
    """URL of the store; Amazon S3 where left out."""
    region: str
    path_style: bool = True
    has_keys: bool = True
    keys: str | None = None


class HdfsConnection(Model):
    """Where WebHDFS is, the user, and how many copies of a block are kept. There is no secret: HDFS does not verify the name."""

    web: str
    user: str
    replication: Annotated[int, Field(ge=1)] = 3


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
