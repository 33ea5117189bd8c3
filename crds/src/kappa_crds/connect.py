"""`KafkaCluster.spec.connect`: Kafka Connect beside a Kafka cluster, run by the operator or by others."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.kafka_login import Sasl
from kappa_crds.model import Cpu, Model, PositiveSize, Rule, Status
from kappa_crds.pod_template import NO_TEMPLATE, PlacementTemplate, PodTemplate
from kappa_crds.resource import CaSecretRef, SecretRef

CONNECT_READY = "ConnectReady"
"""The condition that is True if every worker of Kafka Connect that the spec declares answers."""


class WorkerResources(Model):
    """The size of a worker."""

    cpu: Cpu = "500m"
    """Cores requested for each worker."""
    memory: Annotated[
        PositiveSize,
        Rule(
            "!isQuantity(self) || quantity(self).compareTo(quantity('512Mi')) >= 0",
            "must be at least 512Mi, or Kafka Connect does not start; a number without a unit counts bytes, so write 1Gi, not 1",
        ),
    ] = "1Gi"
    """Memory limit of each worker. The heap of Java takes 60 % of it."""


class WorkerCredentials(Model):
    """How workers log in to Kafka."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.sasl) || has(self.clientSecretRef)",
            "set sasl or clientSecretRef, or leave credentials out, so that workers log in as pipelines do",
        ),
    )
    sasl: Sasl | None = None
    """SASL log-in of workers. The Secret must name the brokers in its annotation secrets.kappa-platform.io/kafka-connect."""
    client_secret_ref: SecretRef | None = None
    """A kubernetes.io/tls Secret (tls.crt, tls.key) for mutual TLS of workers; the key must be PKCS#8."""


class ConnectWorkers(Model):
    """Workers of Kafka Connect that the operator runs."""

    replicas: Annotated[int, Field(ge=1, le=32)] = 2
    """Workers. With one, connectors pause while it restarts."""
    resources: WorkerResources = WorkerResources()
    """The size of each worker."""
    credentials: WorkerCredentials | None = None
    """How workers log in to Kafka; as pipelines do where left out. They need more permissions than pipelines."""
    pod_template: PlacementTemplate | None = None
    """Added to the pods of workers, after the chart's: labels, annotations, placement, pull Secrets. Containers and volumes
    are not available, as workers hold the log-ins of all sources. A change of it replaces the workers one after another."""

    @property
    def template(self) -> PodTemplate:
        """Return what is added to the pods."""
        return NO_TEMPLATE if self.pod_template is None else self.pod_template.to_pod_template()


class ExistingConnect(Model):
    """Kafka Connect that others run."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.url.startsWith('https://') || !(has(self.caSecretRef) || has(self.clientSecretRef))",
            "caSecretRef and clientSecretRef are for TLS; begin url with https://, or remove them",
        ),
    )
    url: Annotated[
        str,
        Field(max_length=2048),
        Rule(
            "self.matches('^https?://[^/@?# ]+(/[^?# ]*)?$')",
            "must be the http or https address of Kafka Connect's REST API, without user and password, such as https://connect.example.com:8083",
        ),
    ]
    """Address of the REST API. Plain http only to hosts in the chart's secrets.allowClearText."""
    ca_secret_ref: CaSecretRef | None = None
    """The authorities that signed the certificate of the REST API; those that the image trusts where left out."""
    client_secret_ref: SecretRef | None = None
    """A kubernetes.io/tls Secret (tls.crt, tls.key) for mutual TLS."""
    credentials_secret_ref: SecretRef | None = None
    """A Secret with the keys username and password, for basic authentication. As all Secrets of an existing Connect, it must name the host
    of url in its annotation secrets.kappa-platform.io/connect."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of the Secrets."""
        named = (self.ca_secret_ref, self.client_secret_ref, self.credentials_secret_ref)
        return tuple(dict.fromkeys(each.name for each in named if each is not None))


class Connect(Model):
    """Kafka Connect: workers that the operator runs, or one that exists already."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.workers) != has(self.existing)",
            "spec.connect takes either workers or existing; workers: {} runs two workers with the defaults",
        ),
    )
    workers: ConnectWorkers | None = None
    """Workers that the operator runs."""
    existing: ExistingConnect | None = None
    """Kafka Connect that others run."""


class ConnectStatus(Status):
    """What the operator saw of Kafka Connect."""

    url: str | None = None
    """Address of the REST API."""
    ready: Annotated[int | None, Field(ge=0)] = None
    """Workers that are ready; not known of an existing Connect."""
    workers: str | None = None
    """Ready and declared workers that the operator runs, for people."""
    version: str | None = None
    """Version of Kafka Connect."""
    plugins: tuple[str, ...] = ()
    """Classes of connectors that the workers have, each with its version, at most 64."""
    topics: dict[str, str] = Field(default_factory=dict)
    """Internal topics of the workers that the operator runs, with their ids in Kafka."""
    failure: str | None = None
    """Why Kafka Connect cannot be used."""
