"""What a pipeline's pods mount: the state store and the Secrets of the Kafka cluster."""

from dataclasses import dataclass, replace

from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.revision import CHECKPOINT_DIR, KAFKA_DIR, REGISTRY_DIR, KafkaConnection, RegistrySecrets
from kappa_crds.source import Source, find_registries
from kappa_crds.statestore import S3, AccessMode, Hdfs
from kappa_crds.stores import (
    DEFAULT_KEYS,
    USER_VARIABLE,
    BucketConnection,
    HdfsConnection,
    name_key_variables,
)
from kappa_operator.consent import S3 as S3_USE
from kappa_operator.consent import Purpose
from kappa_operator.engine.actions import Manifest

OTHER_DIR = "/var/lib/kappa/other"
"""Where a pod that reaches two stores has the second one mounted."""
_OWN_KEYS, _OTHER_KEYS = "KAPPA_OWN", "KAPPA_OTHER"
_SECRET_MODE = 0o440
_WEB_PORT = 9870
_LOGIN: list[Manifest] = [{"key": key, "path": key} for key in ("username", "password")]
_CERTIFICATE: list[Manifest] = [{"key": key, "path": key} for key in ("tls.crt", "tls.key")]


@dataclass(frozen=True, slots=True)
class Mounts:
    """Volumes and where they are mounted, and variables, for driver and executors alike."""

    volumes: tuple[Manifest, ...] = ()
    volume_mounts: tuple[Manifest, ...] = ()
    variables: tuple[Manifest, ...] = ()

    def __add__(self, other: "Mounts") -> "Mounts":
        return Mounts(
            self.volumes + other.volumes,
            self.volume_mounts + other.volume_mounts,
            self.variables + other.variables,
        )


@dataclass(frozen=True, slots=True)
class Storage:
    """Where state is kept, as pods find it: below `root`, on a claim, or in the place of the StateStore `store`.

    `access` is how the claim can be mounted; None for an existing claim where the StateStore does not declare it. `secret` names the Secret with the
    bucket's keys, if it has some.
    """

    root: str
    claim: str | None = None
    store: str | None = None
    bucket: BucketConnection | None = None
    secret: str | None = None
    hdfs: HdfsConnection | None = None
    access: AccessMode | None = None

    def is_same(self, other: "Storage") -> bool:
        """Return whether both are one place, whatever the StateStores are called."""
        endpoints = tuple(each.bucket and each.bucket.endpoint for each in (self, other))
        return (self.root, self.claim, endpoints[0]) == (other.root, other.claim, endpoints[1])


def build_pair(own: Storage, other: Storage) -> tuple[Storage, Storage]:
    """Return two stores as one pod finds them. Only the root of a second PVC differs.

    Each has its keys in variables of its own. Neither uses the default variables of clients, or a bucket without keys would be used
    with those of the other.
    """
    seated = _give_keys(other, _OTHER_KEYS)
    if seated.claim is not None:
        seated = replace(seated, root=f"file://{OTHER_DIR}")
    return _give_keys(own, _OWN_KEYS), seated


def _give_keys(storage: Storage, keys: str) -> Storage:
    if storage.bucket is None or storage.secret is None:
        return storage
    return replace(storage, bucket=storage.bucket.replace(keys=keys))


def build_claim_storage(claim: str, access: AccessMode | None = None) -> Storage:
    """Return the storage on a claim."""
    return Storage(f"file://{CHECKPOINT_DIR}", claim=claim, access=access)


def build_bucket_storage(store: str, s3: S3) -> Storage:
    """Return the storage in the bucket of a StateStore."""
    reference = s3.credentials_secret_ref
    connection = BucketConnection(
        endpoint=s3.endpoint, region=s3.region, path_style=s3.path_style, has_keys=reference is not None
    )
    root = f"s3a://{s3.bucket}/{s3.prefix}".rstrip("/")
    return Storage(root, store=store, bucket=connection, secret=reference.name if reference else None)


def build_store_purpose(bucket: BucketConnection) -> Purpose:
    """Return what the keys of a bucket are for. Requests are signed, so that keys stay secret, but the state would be sent in clear."""
    address = bucket.endpoint or f"https://s3.{bucket.region}.amazonaws.com"
    return Purpose.of_url(S3_USE, address, "the state of pipelines")


def build_hdfs_storage(store: str, hdfs: Hdfs) -> Storage:
    """Return the storage in the folder of a StateStore in HDFS."""
    return Storage(f"hdfs://{hdfs.namenode}{hdfs.path}", store=store, hdfs=build_hdfs_connection(hdfs))


def build_hdfs_connection(hdfs: Hdfs) -> HdfsConnection:
    """Return how the folder is reached without the JVM."""
    host = hdfs.namenode.rpartition(":")[0]
    web = hdfs.web_url or f"http://{host}:{_WEB_PORT}"
    return HdfsConnection(web=web, user=hdfs.user, replication=hdfs.replication)


def build_storage_mounts(storage: Storage, *, read_only: bool = False) -> Mounts:
    """Return what a pod needs to reach the storage: the claim's mount, the bucket's keys, or the user in HDFS.

    Those are variables and no files, because that is where the clients of Python and of the JVM both look.
    """
    if storage.hdfs is not None:
        return Mounts(variables=({"name": USER_VARIABLE, "value": storage.hdfs.user},))
    if storage.claim is not None:
        folder = storage.root.removeprefix("file://")
        volume = "state" if folder == CHECKPOINT_DIR else "other"
        mount: Manifest = {"name": volume, "mountPath": folder}
        return Mounts(
            ({"name": volume, "persistentVolumeClaim": {"claimName": storage.claim}},),
            (mount | {"readOnly": True} if read_only else mount,),
        )
    if storage.secret is None or storage.bucket is None:
        return Mounts()
    return Mounts(
        variables=tuple(
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": storage.secret, "key": key}}}
            for variable, key in name_key_variables(storage.bucket.keys or DEFAULT_KEYS).items()
        )
    )


def build_kafka_mounts(spec: KafkaClusterSpec) -> Mounts:
    """Return the mounts of the Secrets that the connection needs, each in a folder of its own."""
    mounts = Mounts()
    if spec.tls and spec.tls.ca_secret_ref:
        items = [{"key": spec.tls.ca_secret_ref.key, "path": "ca.crt"}]
        mounts += mount_secret("kafka-ca", spec.tls.ca_secret_ref.name, f"{KAFKA_DIR}/ca", items)
    if spec.tls and spec.tls.client_secret_ref:
        mounts += mount_secret(
            "kafka-client", spec.tls.client_secret_ref.name, f"{KAFKA_DIR}/client", _CERTIFICATE
        )
    if spec.sasl:
        name = spec.sasl.credentials_secret_ref.name
        mounts += mount_secret("kafka-sasl", name, f"{KAFKA_DIR}/sasl", _LOGIN)
    return mounts


def build_registry_mounts(sources: tuple[Source, ...]) -> Mounts:
    """Return the mounts of the Secrets that sources' schema registries need. Only drivers use registries."""
    mounts = Mounts()
    for number, (source, registry) in enumerate(find_registries(sources)):
        folder = f"{REGISTRY_DIR}/{source}"
        if registry.credentials_secret_ref:
            name = registry.credentials_secret_ref.name
            mounts += mount_secret(f"registry-{number}-user", name, f"{folder}/user", _LOGIN)
        if registry.ca_secret_ref:
            items = [{"key": registry.ca_secret_ref.key, "path": "ca.crt"}]
            mounts += mount_secret(
                f"registry-{number}-ca", registry.ca_secret_ref.name, f"{folder}/ca", items
            )
    return mounts


def build_registry_secrets(sources: tuple[Source, ...]) -> dict[str, RegistrySecrets]:
    """Return where a driver finds those Secrets, for each source that has some."""
    return {
        source: RegistrySecrets(
            credentials_dir=f"{REGISTRY_DIR}/{source}/user" if registry.credentials_secret_ref else None,
            ca_file=f"{REGISTRY_DIR}/{source}/ca/ca.crt" if registry.ca_secret_ref else None,
        )
        for source, registry in find_registries(sources)
        if registry.credentials_secret_ref or registry.ca_secret_ref
    }


def mount_secret(volume: str, secret: str, folder: str, items: list[Manifest]) -> Mounts:
    """Return the mount of these keys of a Secret, and no others."""
    source: Manifest = {"secretName": secret, "defaultMode": _SECRET_MODE, "items": items}
    return Mounts(
        ({"name": volume, "secret": source},),
        ({"name": volume, "mountPath": folder, "readOnly": True},),
    )


def build_kafka_connection(spec: KafkaClusterSpec, user: str | None = None) -> KafkaConnection:
    """Return how a driver reaches the cluster; what is secret is named by its file only. `user` is one of its own."""
    protocol = ("SASL_" if spec.sasl else "") + ("SSL" if spec.tls else "PLAINTEXT")
    tls = spec.tls
    return KafkaConnection(
        bootstrap_servers=spec.bootstrap_servers,
        security_protocol=protocol,
        sasl_mechanism=spec.sasl.mechanism if spec.sasl else None,
        ca_file=f"{KAFKA_DIR}/ca/ca.crt" if tls and tls.ca_secret_ref else None,
        credentials_dir=f"{KAFKA_DIR}/sasl" if spec.sasl else None,
        client_certificate_dir=f"{KAFKA_DIR}/client" if tls and tls.client_secret_ref else None,
        verify_hostname=tls.verify_hostname if tls else True,
        user=user,
    )
