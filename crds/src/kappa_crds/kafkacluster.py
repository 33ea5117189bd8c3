"""`KafkaCluster`: where a Kafka cluster is and how to talk to it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, Rule, Status
from kappa_crds.resource import (
    AGE,
    MESSAGE,
    READY,
    REASON,
    STATE,
    CaSecretRef,
    Kind,
    PrinterColumn,
    ResourceStatus,
    SecretRef,
)

BootstrapServer = Annotated[
    str,
    Field(min_length=3, max_length=261),
    Rule("self.matches('^[^:/ ,]+:[0-9]{1,5}$')", "must be host:port, such as kafka.kafka.svc:9092"),
    Rule(
        "!self.matches(':[0-9]{1,5}$') || self.matches(':0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')",
        "must have a port from 1 to 65535, such as kafka.kafka.svc:9092",
    ),
]


class SaslMechanism(StrEnum):
    """The SASL mechanisms that the platform speaks."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class Tls(Model):
    """TLS to the brokers. An empty object means TLS with the authorities that the images trust."""

    ca_secret_ref: Annotated[
        CaSecretRef | None, Field(description="The authorities that signed the brokers' certificates.")
    ] = None
    client_secret_ref: Annotated[
        SecretRef | None,
        Field(
            description="A kubernetes.io/tls Secret (tls.crt, tls.key) for mutual TLS; the key must be PKCS#8."
        ),
    ] = None
    verify_hostname: Annotated[
        bool, Field(description="Whether the broker's certificate must name the host that is dialled.")
    ] = True


class Sasl(Model):
    """SASL log-in to the brokers."""

    mechanism: Annotated[SaslMechanism, Field(description="The SASL mechanism.")] = (
        SaslMechanism.SCRAM_SHA_512
    )
    credentials_secret_ref: Annotated[
        SecretRef, Field(description="A Secret with the keys username and password.")
    ]


GroupPattern = Annotated[str, Field(min_length=1, max_length=255)]


class LagSampling(Model):
    """How consumer lag is sampled."""

    enabled: Annotated[bool, Field(description="Whether consumer lag is sampled at all.")] = True
    interval: Annotated[
        PositiveDuration,
        Field(description="How often all groups and partitions are swept."),
        Rule("self.matches('^([0-9]+(s|m|h|d|w))+$')", "must be whole seconds or more, such as 10s or 1m"),
    ] = "30s"
    include: Annotated[
        tuple[GroupPattern, ...],
        Field(
            max_length=64, description="Groups to sample, by name or with * for any text; all where left out."
        ),
    ] = ()
    exclude: Annotated[
        tuple[GroupPattern, ...],
        Field(max_length=64, description="Groups that are not sampled, by name or with * for any text."),
    ] = ()


class LagSampled(Status):
    """What the last sweep came to."""

    at: Annotated[datetime, Field(description="When it began to read where logs end.")]
    milliseconds: Annotated[int, Field(description="How long it took.")]
    groups: Annotated[int, Field(description="Consumer groups that there are.")]
    partitions: Annotated[int, Field(description="Partitions whose offsets are known.")]
    unknown: Annotated[
        int, Field(description="Groups, partitions, and groups in a partition of which it is not known.")
    ]
    rate: Annotated[
        str | None,
        Field(
            description="Records that came into all topics a second, for people; ≥ where not all are known."
        ),
    ] = None
    failure: Annotated[str | None, Field(description="Why nothing could be sampled.")] = None


class KafkaClusterSpec(Model):
    """Where a Kafka cluster is and how to talk to it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.bootstrapServers.all(server, self.bootstrapServers.exists_one(other, other == server))",
            "spec.bootstrapServers names a server twice; name each one once",
        ),
    )
    bootstrap_servers: Annotated[
        tuple[BootstrapServer, ...],
        Field(min_length=1, max_length=16, description="Brokers to ask first, as host:port."),
    ]
    tls: Annotated[Tls | None, Field(description="TLS; leave it out for plain text.")] = None
    sasl: Annotated[Sasl | None, Field(description="SASL log-in; leave it out for none.")] = None
    check_interval: Annotated[PositiveDuration, Field(description="How often the connection is checked.")] = (
        "1m"
    )
    lag: Annotated[LagSampling, Field(description="How consumer lag is sampled.")] = LagSampling()


class KafkaClusterStatus(ResourceStatus):
    """What the operator saw of the Kafka cluster."""

    cluster_id: Annotated[str | None, Field(description="The cluster's own id.")] = None
    brokers: Annotated[int | None, Field(description="Brokers alive at the last check.")] = None
    controller: Annotated[int | None, Field(description="Broker id of the controller.")] = None
    topics: Annotated[int | None, Field(description="Topics that this user may see.")] = None
    last_seen: Annotated[datetime | None, Field(description="When the cluster last answered.")] = None
    lag: Annotated[LagSampled | None, Field(description="The last sweep of consumer lag at that time.")] = (
        None
    )


KAFKA_CLUSTER = Kind(
    name="KafkaCluster",
    plural="kafkaclusters",
    short_names=("kpk",),
    description="A Kafka cluster: where it is and how to talk to it.",
    spec=KafkaClusterSpec,
    status=KafkaClusterStatus,
    columns=(
        READY,
        STATE,
        PrinterColumn("Brokers", ".status.brokers", "integer"),
        PrinterColumn("Topics", ".status.topics", "integer"),
        PrinterColumn("Rate", ".status.lag.rate"),
        REASON,
        MESSAGE,
        AGE,
    ),
)
