"""What the operator hands to a driver: an immutable revision of a pipeline.

A revision is the whole of what decides a driver's behaviour except its generation: the spec with every reference
resolved, the connection, the place of the checkpoint and the settings. It is stored as JSON in a ConfigMap named by
its content hash, so the same revision always has the same name and two revisions never share one.
"""

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field

from kappa_crds.inputs import TopicMove
from kappa_crds.model import Model
from kappa_crds.permissions import Permission, Subject, list_permissions, name_consumer_group
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pod_template import NO_TEMPLATE, PodTemplate
from kappa_crds.savepoint import Restoration
from kappa_crds.stores import StoreAccess

REVISION_KEY = "revision.json"
EXECUTOR_TEMPLATE_KEY = "executor-pod.yaml"
REVISION_DIR = "/etc/kappa/revision"
KAFKA_DIR = "/etc/kappa/kafka"
REGISTRY_DIR = "/etc/kappa/registry"
CONTROL_TOKEN_FILE = "/etc/kappa/control/token"  # noqa: S105 - a path
RPC_SECRET_FILE = "/etc/kappa/rpc/token"  # noqa: S105 - a path
"""The secret by which driver and executors authenticate each other: a file, as Spark would otherwise put it into the environment of executors."""
CHECKPOINT_DIR = "/var/lib/kappa/state"
TERMINATION_FILE = "/dev/termination-log"
CONTROL_PORT = 8080
"""Health checks of the kubelet. Drivers of release 0.1 have everything here."""
CONTROL_TLS_PORT = 8443
"""Progress, requests and metrics, with the certificate beside the token."""
DRIVER_PORT = 7078
BLOCK_MANAGER_PORT = 7079
GENERATION_VARIABLE = "KAPPA_GENERATION"
STANDBY_VARIABLE = "KAPPA_STANDBY"
ROLE_VARIABLE = "KAPPA_ROLE"
"""The role in which a driver starts (`DriverRole`); active without it."""
PYTHON_VARIABLE = "KAPPA_ALLOW_PYTHON_VIEWS"
STANDBY_ANNOTATION = "kappa-platform.io/standby"
GENERATION_ANNOTATION = "kappa-platform.io/generation"


class KafkaConnection(Model):
    """How a driver reaches Kafka. Secrets are files in the pod, named here and never read into a setting."""

    bootstrap_servers: tuple[str, ...]
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    ca_file: str | None = None
    credentials_dir: str | None = None
    client_certificate_dir: str | None = None
    verify_hostname: bool = True
    user: str | None = None
    """The user, where the operator created it for this pipeline."""


class RegistrySecrets(Model):
    """Where a driver finds what it needs to reach a source's schema registry: files, never values."""

    credentials_dir: str | None = None
    ca_file: str | None = None


class Tuning(Model):
    """What the operator sized, so that users need not.

    `shuffle_partitions` is the number of state partitions, fixed when the checkpoint is born. `min_partitions` is
    the least number of Kafka input splits a batch; None leaves one for each topic partition.
    """

    shuffle_partitions: Annotated[int, Field(ge=1)]
    min_partitions: Annotated[int | None, Field(ge=1)] = None
    consumer: dict[str, str] = Field(default_factory=dict)
    producer: dict[str, str] = Field(default_factory=dict)


class Revision(StoreAccess):
    """A pipeline with every reference resolved.

    `registries` has an entry for each source with a registry that wants Secrets. `topics` maps each name used in the spec (sources, sinks, dead letter) to the topic's name in Kafka.
    `checkpoint` is the URI under which each sink's query has a folder of its own. `spark_conf` is complete: the
    driver adds nothing that depends on the cluster. `executor_pod` is the pod template that Spark completes, and
    `driver_template` what the operator adds to the pod of the driver.
    `restoration` is what the checkpoint is made of, where it does not begin empty.
    `modules` are the texts of the Python modules that are not in the image, by file name.
    `from_beginning` are sources that the checkpoint was created with at their first record, as in `spec` here, for any spec of the pipeline.
    `content` is a hash of all but where the state is and what it is made of, and `spec.restart_nonce`.
    `outputs` is the version of the topics that are written: 0 for those of the spec, N for `NAME.rN`. `topics` has their names.
    `moves` are those of sources to topics of another version: a checkpoint that was at the end of one continues at its beginning.
    """

    namespace: str
    pipeline: str
    uid: str
    spec: PipelineSpec
    kafka: KafkaConnection
    registries: dict[str, RegistrySecrets] = Field(default_factory=dict)
    topics: dict[str, str]
    checkpoint: str
    tuning: Tuning
    spark_conf: dict[str, str]
    image: str
    executor_pod: dict[str, Any] = Field(default_factory=dict)
    driver_template: PodTemplate = NO_TEMPLATE
    modules: dict[str, str] | None = None
    restoration: Restoration | None = None
    from_beginning: tuple[str, ...] = ()
    content: str = ""
    outputs: int = 0
    moves: tuple[TopicMove, ...] = ()

    def to_manifest(self) -> dict[str, Any]:
        """Return what is not as the contract's defaults: a field that a later contract has besides changes no revision (ADR 29)."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)

    def to_json(self) -> str:
        """Return canonical JSON: the same revision gives the same bytes, in whatever order its maps were made."""
        return json.dumps(self.to_manifest(), sort_keys=True, ensure_ascii=False, indent=1)

    @property
    def content_hash(self) -> str:
        """Return the first ten hex digits of the SHA-256 of canonical JSON in one line, which C writes: each reconcile of a pipeline needs it."""
        text = json.dumps(self.to_manifest(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def intent(self) -> str:
        """Return a hash of what a driver has to do, wherever its state is: two changes with one intent are the same change."""
        return hashlib.sha256(f"{self.content}/{self.spec.restart_nonce}".encode()).hexdigest()[:10]

    @property
    def name(self) -> str:
        """Return the name of the ConfigMap that holds this revision."""
        return f"{self.pipeline}-{self.content_hash}"

    @property
    def full_name(self) -> str:
        """Return the pipeline's namespace and name, as dead letters name it."""
        return f"{self.namespace}/{self.pipeline}"

    @property
    def consumer_group(self) -> str:
        """Return the group that carries the pipeline's progress for Kafka's own tools."""
        return name_consumer_group(self.namespace, self.pipeline)

    @property
    def permissions(self) -> list[Permission]:
        """Return what the pipeline needs in a Kafka with ACLs."""
        return list_permissions(Subject(self.spec, self.topics, self.consumer_group, self.uid, self.outputs))
