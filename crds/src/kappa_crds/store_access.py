"""How a process reaches a store."""

from kappa_crds.buckets import BucketConnection
from kappa_crds.hdfs import HdfsConnection
from kappa_crds.model import Model


class StoreAccess(Model):
    """How the store of a location is reached: by `bucket` or `hdfs`, or by neither where it is mounted."""

    bucket: BucketConnection | None = None
    hdfs: HdfsConnection | None = None

    @property
    def connection(self) -> BucketConnection | HdfsConnection | None:
        """Return how the store is reached; None where it is mounted."""
        return self.bucket or self.hdfs
