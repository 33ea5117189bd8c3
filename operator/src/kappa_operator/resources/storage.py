"""What a pipeline's pods mount: the state store and the Secrets of the Kafka cluster."""

from dataclasses import dataclass

from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.revision import CHECKPOINT_DIR, KAFKA_DIR, KafkaConnection
from kappa_operator.actions import Manifest

_SECRET_MODE = 0o440


@dataclass(frozen=True, slots=True)
class Mounts:
    """Volumes and where they are mounted, for driver and executors alike."""

    volumes: tuple[Manifest, ...] = ()
    volume_mounts: tuple[Manifest, ...] = ()

    def __add__(self, other: "Mounts") -> "Mounts":
        return Mounts(self.volumes + other.volumes, self.volume_mounts + other.volume_mounts)


def build_claim_mount(claim: str) -> Mounts:
    """Return the mount of a claim that holds the checkpoints."""
    return Mounts(
        ({"name": "state", "persistentVolumeClaim": {"claimName": claim}},),
        ({"name": "state", "mountPath": CHECKPOINT_DIR},),
    )


def build_kafka_mounts(spec: KafkaClusterSpec) -> Mounts:
    """Return the mounts of the Secrets that the connection needs, each in a folder of its own."""
    mounts = Mounts()
    if spec.tls and spec.tls.ca_secret_ref:
        items = [{"key": spec.tls.ca_secret_ref.key, "path": "ca.crt"}]
        mounts += _mount_secret("kafka-ca", spec.tls.ca_secret_ref.name, "ca", items)
    if spec.tls and spec.tls.client_secret_ref:
        mounts += _mount_secret("kafka-client", spec.tls.client_secret_ref.name, "client", None)
    if spec.sasl:
        items = [{"key": "username", "path": "username"}, {"key": "password", "path": "password"}]
        mounts += _mount_secret("kafka-sasl", spec.sasl.credentials_secret_ref.name, "sasl", items)
    return mounts


def _mount_secret(volume: str, secret: str, folder: str, items: list[Manifest] | None) -> Mounts:
    source: Manifest = {"secretName": secret, "defaultMode": _SECRET_MODE}
    if items:
        source["items"] = items
    return Mounts(
        ({"name": volume, "secret": source},),
        ({"name": volume, "mountPath": f"{KAFKA_DIR}/{folder}", "readOnly": True},),
    )


def build_kafka_connection(spec: KafkaClusterSpec) -> KafkaConnection:
    """Return how a driver reaches the cluster; what is secret is named by its file only."""
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
    )
