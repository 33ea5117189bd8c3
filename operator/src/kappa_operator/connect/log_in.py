"""How the Kafka clients in a worker of Kafka Connect reach the brokers: settings without any secret.

The files are those of `connect/start.py`. User and password are in the JVM's log-in file, so no setting names them. Source of the names:
Kafka's documentation, "Security".
"""

from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_operator.connect.names import SECRETS_DIR

_TRUST, _KEY_PAIR = f"{SECRETS_DIR}/kafka/ca/ca.crt", "/tmp/kafka.pem"  # noqa: S108 - memory of the pod


def build_security(spec: KafkaClusterSpec) -> dict[str, str]:
    """Return the protocol, the mechanism of the log-in, and whether the name of a broker is verified."""
    protocol = ("SASL_" if spec.sasl else "") + ("SSL" if spec.tls else "PLAINTEXT")
    settings = {"security.protocol": protocol}
    if spec.sasl is not None:
        settings["sasl.mechanism"] = spec.sasl.mechanism.value
    if spec.tls is not None and not spec.tls.verify_hostname:
        settings["ssl.endpoint.identification.algorithm"] = ""
    return settings


def build_connector_client(spec: KafkaClusterSpec) -> dict[str, str]:
    """Return the settings of a client that a connector has besides those of its worker."""
    settings = build_security(spec)
    files = {
        "truststore": _TRUST if spec.tls and spec.tls.ca_secret_ref else None,
        "keystore": _KEY_PAIR if spec.tls and spec.tls.client_secret_ref else None,
    }
    for store, file in files.items():
        if file is not None:
            settings |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": file}
    return settings
