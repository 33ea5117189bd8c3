"""`KafkaCluster`: where a Kafka cluster is and how to talk to it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.connect import CONNECT_READY, Connect, ConnectStatus
from kappa_crds.kafka_login import Sasl, SaslMechanism
from kappa_crds.model import Model, PositiveDuration, Rule, Status
from kappa_crds.resource import CaSecretRef, Kind, PrinterColumn, ResourceStatus, SecretRef, build_columns

BootstrapServer = Annotated[
    str,
    Field(min_length=3, max_length=261),
    Rule("self.matches('^[^:/ ,]+:[0-9]{1,5}$')", "must be host:port, such as kafka.kafka.svc:9092"),
    Rule(
        "!self.matches(':[0-9]{1,5}$') || self.matches(':0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')",
        "must have a port from 1 to 65535, such as kafka.kafka.svc:9092",
    ),
]


class Tls(Model):
    """TLS to the brokers. An empty object means TLS with the authorities that the images trust."""

    ca_secret_ref: CaSecretRef | None = None
    """The authorities that signed the brokers' certificates."""
    client_secret_ref: SecretRef | None = None
    """A kubernetes.io/tls Secret (tls.crt, tls.key) for mutual TLS; the key must be PKCS#8."""
    verify_hostname: bool = True
    """Whether the broker's certificate must name the host that is dialled."""


class PipelineCredentials(Model):
    """How pipelines log in, in place of the operator's own log-in."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.sasl) || has(self.clientSecretRef)",
            "set sasl or clientSecretRef, or leave pipelineCredentials out, so that pipelines log in as the operator does",
        ),
    )
    sasl: Sasl | None = None
    """SASL log-in of pipelines."""
    client_secret_ref: SecretRef | None = None
    """A kubernetes.io/tls Secret (tls.crt, tls.key) for mutual TLS of pipelines; the key must be PKCS#8."""


class UserMechanism(StrEnum):
    """The SASL mechanisms whose passwords Kafka keeps itself."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class PipelineUsers(Model):
    """A user of each pipeline in Kafka, which the operator creates with just the permissions that the pipeline needs."""

    mechanism: UserMechanism = UserMechanism.SCRAM_SHA_512
    """The SASL mechanism of the users. The brokers must accept it at spec.bootstrapServers."""
    prefix: Annotated[
        str,
        Field(min_length=1, max_length=32),
        Rule("self.matches('^[a-z0-9._-]+$')", "must be lower-case letters, digits, '.', '_' and '-'"),
    ] = "kappa."
    """What the names of the users begin with; the namespace, the name and the uid of the pipeline follow."""
    rotation: Annotated[
        str,
        Field(max_length=16),
        Rule("self.matches('^[a-z0-9-]*$')", "must be lower-case letters, digits and '-'"),
    ] = ""
    """Any text, which becomes a part of the names. A change replaces the users, with new passwords, as a change of the pipelines."""


GroupPattern = Annotated[str, Field(min_length=1, max_length=255)]


class LagSampling(Model):
    """How consumer lag is sampled."""

    enabled: bool = True
    """Whether consumer lag is sampled at all."""
    interval: Annotated[
        PositiveDuration,
        Rule("self.matches('^([0-9]+(s|m|h|d|w))+$')", "must be whole seconds or more, such as 10s or 1m"),
    ] = "30s"
    """How often all groups and partitions are sampled."""
    include: Annotated[tuple[GroupPattern, ...], Field(max_length=64)] = ()
    """Groups to sample, by name or with * for any text; all where left out."""
    exclude: Annotated[tuple[GroupPattern, ...], Field(max_length=64)] = ()
    """Groups that are not sampled, by name or with * for any text."""


class LagSampled(Status):
    """The result of the last sample."""

    at: datetime
    """When it began to read where logs end."""
    milliseconds: int
    """How long it took."""
    groups: int
    """Consumer groups that there are."""
    partitions: int
    """Partitions whose offsets are known."""
    unknown: int
    """Groups, partitions, and groups in a partition of which it is not known."""
    rate: str | None = None
    """Records that came into all topics a second, for people; ≥ where not all are known."""
    failure: str | None = None
    """Why nothing could be sampled."""


class KafkaClusterSpec(Model):
    """Where a Kafka cluster is and how to talk to it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.bootstrapServers.all(server, self.bootstrapServers.exists_one(other, other == server))",
            "spec.bootstrapServers names a server twice; name each one once",
        ),
        Rule(
            "has(self.tls) || !has(self.pipelineCredentials) || !has(self.pipelineCredentials.clientSecretRef)",
            "spec.pipelineCredentials.clientSecretRef needs spec.tls; add it, tls: {} for the authorities that the images trust",
        ),
        Rule(
            "!has(self.pipelineUsers) || !has(self.pipelineCredentials)",
            "spec.pipelineUsers and spec.pipelineCredentials are two log-ins of pipelines; set one of them",
        ),
        Rule(
            "!has(self.pipelineUsers) || has(self.sasl)",
            "spec.pipelineUsers needs spec.sasl: the users log in with SASL at the same brokers, and the operator creates them",
        ),
        Rule(
            "!has(self.connect) || !has(self.connect.workers) || !has(self.pipelineUsers) || has(self.connect.workers.credentials)",
            "spec.connect.workers needs credentials: with spec.pipelineUsers pipelines have no common log-in that workers could use",
        ),
        Rule(
            "has(self.tls) || !has(self.connect) || !has(self.connect.workers) || !has(self.connect.workers.credentials) || !has(self.connect.workers.credentials.clientSecretRef)",
            "spec.connect.workers.credentials.clientSecretRef needs spec.tls; add it, tls: {} for the authorities that the images trust",
        ),
    )
    bootstrap_servers: Annotated[tuple[BootstrapServer, ...], Field(min_length=1, max_length=16)]
    """Brokers to ask first, as host:port."""
    tls: Tls | None = None
    """TLS; leave it out for plain text."""
    sasl: Sasl | None = None
    """SASL log-in; leave it out for none."""
    pipeline_credentials: PipelineCredentials | None = None
    """How pipelines log in, so that they need no permissions of the operator; as the operator where left out."""
    pipeline_users: PipelineUsers | None = None
    """Creates a user in Kafka for each pipeline, with just the permissions that it needs."""
    check_interval: PositiveDuration = "1m"
    """How often the connection is checked."""
    lag: LagSampling = LagSampling()
    """How consumer lag is sampled."""
    connect: Connect | None = None
    """Kafka Connect for this cluster; none where left out."""

    @property
    def of_pipelines(self) -> "KafkaClusterSpec":
        """Return the connection of pipelines: the same brokers and authorities, with their own credentials where there are some.

        With `pipeline_users` it has no log-in: each pipeline has its own.
        """
        if self.pipeline_users is not None:
            return self._replace_log_in(None, None)
        own = self.pipeline_credentials
        return self if own is None else self._replace_log_in(own.sasl, own.client_secret_ref)

    @property
    def of_workers(self) -> "KafkaClusterSpec":
        """Return the connection of the workers of Kafka Connect, with their own credentials where there are some."""
        workers = None if self.connect is None else self.connect.workers
        own = None if workers is None else workers.credentials
        return self.of_pipelines if own is None else self._replace_log_in(own.sasl, own.client_secret_ref)

    def log_in_with(self, secret: str) -> "KafkaClusterSpec":
        """Return the connection of a pipeline with a user of its own, whose password is in this Secret."""
        if self.pipeline_users is None:
            return self.of_pipelines
        mechanism = SaslMechanism(self.pipeline_users.mechanism)
        return self._replace_log_in(
            Sasl(mechanism=mechanism, credentials_secret_ref=SecretRef(name=secret)), None
        )

    def _replace_log_in(self, sasl: Sasl | None, certificate: SecretRef | None) -> "KafkaClusterSpec":
        tls = self.tls and self.tls.model_copy(update={"client_secret_ref": certificate})
        own = {"pipeline_credentials": None, "pipeline_users": None, "connect": None}
        return self.model_copy(update={"sasl": sasl, "tls": tls, **own})


class RefusedLogIn(Status):
    """Log-ins that Kafka refused in a row."""

    attempts: Annotated[int, Field(ge=1)]
    """How many there were."""
    next_attempt: datetime
    """When the next one is made; a change of the spec or of a Secret ends the wait."""
    settings: str
    """Fingerprint of the generation of the spec and the versions of the Secrets."""


class KafkaClusterStatus(ResourceStatus):
    """What the operator saw of the Kafka cluster."""

    cluster_id: str | None = None
    """The cluster's own id."""
    brokers: int | None = None
    """Brokers alive at the last check."""
    controller: int | None = None
    """Broker id of the controller."""
    topics: int | None = None
    """Topics that this user may see."""
    advertised: tuple[str, ...] = ()
    """Addresses that brokers advertised, as host:port, at most 64. NetworkPolicies of pipelines admit them."""
    last_seen: datetime | None = None
    """When the cluster last answered."""
    lag: LagSampled | None = None
    """The last sample of consumer lag at that time."""
    refused_log_in: RefusedLogIn | None = None
    """Log-ins that Kafka refused since the last one that it accepted."""
    connect: ConnectStatus | None = None
    """Kafka Connect, where the spec declares it."""
    orphaned_users: tuple[str, ...] = ()
    """Users of deleted pipelines that could not be deleted in Kafka, at most 100. The operator deletes them at the next check that succeeds."""


KAFKA_CLUSTER = Kind(
    name="KafkaCluster",
    plural="kafkaclusters",
    short_names=("kpk",),
    description="A Kafka cluster: where it is and how to talk to it.",
    spec=KafkaClusterSpec,
    status=KafkaClusterStatus,
    columns=build_columns(
        PrinterColumn("Brokers", ".status.brokers", "integer"),
        PrinterColumn("Topics", ".status.topics", "integer"),
        PrinterColumn("Rate", ".status.lag.rate"),
        PrinterColumn("Connect", ".status.connect.workers"),
    ),
    name_rules=(
        Rule(
            "!has(self.spec.connect) || !has(self.spec.connect.workers) || self.metadata.name.matches('^[a-z]([-a-z0-9]{0,42}[a-z0-9])?$')",
            "metadata.name of a KafkaCluster with spec.connect.workers must start with a letter and hold at most 44 lower-case letters, digits and"
            " '-', because a StatefulSet and Services are named after it",
        ),
    ),
    conditions=(CONNECT_READY,),
)
