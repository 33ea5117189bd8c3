"""How a client logs in to Kafka with SASL."""

from enum import StrEnum

from kappa_crds.model import Model
from kappa_crds.resource import SecretRef


class SaslMechanism(StrEnum):
    """The supported SASL mechanisms."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class Sasl(Model):
    """SASL log-in to the brokers."""

    mechanism: SaslMechanism = SaslMechanism.SCRAM_SHA_512
    """The SASL mechanism."""
    credentials_secret_ref: SecretRef
    """A Secret with the keys username and password. As all Secrets of a KafkaCluster, it must name the brokers
    in its annotation secrets.kappa-platform.io/kafka."""
