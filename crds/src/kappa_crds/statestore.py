"""`StateStore`: where checkpoints (and savepoints) live."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, PositiveSize, ResourceName, Rule, Status
from kappa_crds.resource import Kind, PrinterColumn, ResourceStatus, SecretRef, build_columns
from kappa_crds.savepoint_work import WorkState
from kappa_crds.stores import StoreContents
from kappa_crds.topic import DeletionPolicy

STATE_STORE_FINALIZER = "kappa-platform.io/state-store"

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany"]


class PersistentVolume(Model):
    """A PersistentVolumeClaim: one that exists, or one that the operator makes."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.claimName) != has(self.size)",
            "set exactly one of pvc.claimName (a claim that exists) and pvc.size (a claim to be made)",
        ),
        Rule(
            "!(has(self.claimName) && has(self.storageClassName))",
            "pvc.storageClassName goes with pvc.size; an existing claim has its class already",
        ),
        Rule(
            "!has(self.size) || !has(oldSelf.size) || (self.accessMode == oldSelf.accessMode"
            " && has(self.storageClassName) == has(oldSelf.storageClassName)"
            " && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName))",
            "pvc.storageClassName and pvc.accessMode of a claim cannot change once it is made; create a new StateStore",
        ),
    )
    claim_name: ResourceName | None = None
    """An existing claim in the same namespace."""
    size: PositiveSize | None = None
    """Size of the claim to be made; can only grow."""
    storage_class_name: ResourceName | None = None
    """Storage class of the claim to be made; the cluster's default else."""
    access_mode: AccessMode = "ReadWriteOnce"
    """ReadWriteMany lets drivers and executors run on several nodes. With ReadWriteOnce, executors run on the
    node of their driver. Set ReadWriteMany for an existing claim that has it, too."""


class S3(Model):
    """A bucket of an S3-compatible store."""

    bucket: Annotated[
        str,
        Field(min_length=3, max_length=63),
        Rule(
            "self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')",
            "must be a bucket name: lower-case letters, digits, '.' and '-'",
        ),
    ]
    """Name of the bucket; it must exist."""
    prefix: Annotated[
        str,
        Field(max_length=512),
        Rule(
            "!self.startsWith('/') && !self.endsWith('/')",
            "must not start or end with '/'; write prod/kappa, not /prod/kappa/",
        ),
    ] = ""
    """Path within the bucket under which everything is kept."""
    endpoint: Annotated[
        str | None,
        Field(max_length=512),
        Rule(
            "self.matches('^https?://[^/]+$')", "must be http://host:port or https://host:port, with no path"
        ),
    ] = None
    """URL of the store, such as http://s3:7070; Amazon S3 where left out."""
    region: Annotated[
        str,
        Field(min_length=1, max_length=64),
        Rule("self.matches('^[A-Za-z0-9_-]+$')", "must be the name of a region, such as eu-central-1"),
    ] = "us-east-1"
    """Region of the bucket."""
    path_style: bool = True
    """Put the bucket in the path rather than the host name; most own servers need it."""
    credentials_secret_ref: SecretRef | None = None
    """A Secret with the keys accessKeyId and secretAccessKey, which pods get as variables; the pods' own
    identity where left out. The Secret must name the host of the endpoint in its annotation secrets.kappa-platform.io/s3."""


class Hdfs(Model):
    """A folder in HDFS, without Kerberos."""

    namenode: Annotated[
        str,
        Field(max_length=253),
        Rule(
            "self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?:[0-9]{1,5}$')",
            "must be host:port, such as namenode.hdfs.svc:8020, with no scheme",
        ),
    ]
    """Host and port of the namenode, as in fs.defaultFS; one, not a nameservice."""
    path: Annotated[
        str,
        Field(max_length=512),
        Rule(
            "self.matches('^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$')",
            "must be an absolute path such as /kappa/prod: letters, digits, '.', '_' and '-', and no '/' at its end",
        ),
    ]
    """Folder under which everything is kept; it is made where the user may."""
    web_url: Annotated[
        str | None,
        Field(max_length=512),
        Rule(
            "self.matches('^https?://[^/]+$')", "must be http://host:port or https://host:port, with no path"
        ),
    ] = None
    """URL of the namenode's WebHDFS; http, its host and port 9870 where left out."""
    user: Annotated[
        str,
        Field(max_length=64),
        Rule(
            "self.matches('^[a-z_][a-z0-9_.-]*$')",
            "must be a user's name: lower-case letters, digits, '_', '.' and '-'",
        ),
    ] = "kappa"
    """The user name of drivers. HDFS without Kerberos does not verify it."""
    replication: Annotated[int, Field(ge=1, le=512)] = 3
    """Number of datanodes that keep a copy of each block."""


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


class StateStoreSpec(Model):
    """Where checkpoints live."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.pvc) ? 1 : 0) + (has(self.s3) ? 1 : 0) + (has(self.hdfs) ? 1 : 0) == 1",
            "set exactly one of spec.pvc, spec.s3 and spec.hdfs",
        ),
        Rule(
            "has(self.pvc) == has(oldSelf.pvc) && has(self.s3) == has(oldSelf.s3)",
            "spec.pvc, spec.s3 and spec.hdfs cannot be exchanged: the checkpoints would be left behind; create a new StateStore",
        ),
        Rule(
            "!has(self.hdfs) || !has(oldSelf.hdfs) || (self.hdfs.namenode == oldSelf.hdfs.namenode && self.hdfs.path == oldSelf.hdfs.path)",
            "spec.hdfs.namenode and spec.hdfs.path cannot change: the checkpoints would be left behind; create a new StateStore",
        ),
        Rule(
            "!has(self.s3) || !has(oldSelf.s3) || (self.s3.bucket == oldSelf.s3.bucket && self.s3.prefix == oldSelf.s3.prefix)",
            "spec.s3.bucket and spec.s3.prefix cannot change: the checkpoints would be left behind; create a new StateStore",
        ),
        Rule(
            "!has(self.pvc) || !has(oldSelf.pvc) || (has(self.pvc.claimName) == has(oldSelf.pvc.claimName)"
            " && (!has(self.pvc.claimName) || self.pvc.claimName == oldSelf.pvc.claimName))",
            "spec.pvc.claimName cannot change: the checkpoints would be left behind; create a new StateStore",
        ),
    )
    pvc: PersistentVolume | None = None
    """Keep state on a PersistentVolumeClaim."""
    s3: S3 | None = None
    """Keep state in a bucket of an S3-compatible store."""
    hdfs: Hdfs | None = None
    """Keep state in a folder in HDFS."""
    collection: Collection | None = None
    """When unused files are removed. Default: never automatically."""
    measure_interval: PositiveDuration | None = None
    """How often a pod counts what the store holds, for status.measurement and metrics; never where left out."""
    import_namespaces: Annotated[tuple[ResourceName, ...], Field(max_length=64)] = ()
    """Other namespaces whose savepoints in this store may be imported in this one. Default: none. The
    bucket policy decides what its keys may read."""
    check_interval: PositiveDuration = "5m"
    """How often the store is checked by writing and reading."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether a claim made by the operator, with all state, goes with this resource."""


class StateStoreStatus(ResourceStatus):
    """What the operator saw of the store."""

    location: str | None = None
    """Where state is kept, for people."""
    claim_name: str | None = None
    """The claim that holds the state."""
    last_check: datetime | None = None
    """When the last check ended."""
    check: int | None = None
    """Number of the last check that was started."""
    checked: int | None = None
    """Number of the last check that ended."""
    check_fingerprint: str | None = None
    """Fingerprint of the settings and of the version of the Secret the last check was started with."""
    collection: CollectionStatus | None = None
    """What was removed last that nothing needed any more."""
    measurement: Measurement | None = None
    """What the store was found to hold last."""
    free_bytes: int | None = None
    """Bytes free at the last check, where known."""


STATE_STORE = Kind(
    name="StateStore",
    plural="statestores",
    short_names=("kps",),
    description="Where checkpoints live: a PersistentVolumeClaim, a bucket or a folder in HDFS.",
    spec=StateStoreSpec,
    status=StateStoreStatus,
    columns=build_columns(
        PrinterColumn("Location", ".status.location"),
        PrinterColumn("Checked", ".status.lastCheck", "date"),
        PrinterColumn("Holds", ".status.measurement.message", priority=1),
    ),
    name_limit=50,
)
