"""From a `KafkaCluster` and the contents of its Secrets to the settings of the client library.

Certificates are handed over as PEM texts, never as files. Source of the names: librdkafka's CONFIGURATION.md.
"""

from collections.abc import Mapping

from kappa_crds.kafkacluster import KafkaClusterSpec, Tls, UserMechanism
from kappa_operator.consent import KAFKA, KAFKA_CONNECT, KAFKA_USERS, Purpose
from kappa_operator.errors import SecretProblem
from kappa_operator.kafka.model import KafkaAccess

Secrets = Mapping[str, Mapping[str, str]]
"""Contents of Secrets by the Secret's name and key."""

_BASE = {
    "client.id": "kappa-operator",
    "allow.auto.create.topics": "false",
    "enable.metrics.push": "false",
    "reconnect.backoff.ms": "2000",
    "reconnect.backoff.max.ms": "10000",
    "socket.connection.setup.timeout.ms": "5000",
    "log_level": "0",
    "receive.message.max.bytes": str(24 * 1024),
}
"""The error callback reports the brokers' errors; the library's log on stderr would only repeat them. The library repeats a refused
log-in with these pauses until its client is closed.

It starts a thread for each broker of a response, so a hostile one could start any number. Hence it gets small responses only: 24 KiB have
room for 200 brokers with long names. What is large is read over the connection of `kafka.connection`.
"""


def build_purpose(spec: KafkaClusterSpec, *uses: str) -> Purpose:
    """Return what the Secrets of the connection are for. Certificates are never sent in clear, but a password is without TLS."""
    in_clear = f"the {spec.sasl.mechanism.value} log-in" if spec.sasl and spec.tls is None else ""
    return Purpose.of_servers(uses, spec.bootstrap_servers, in_clear)


def name_uses(spec: KafkaClusterSpec, secret: str, use: str) -> tuple[str, str]:
    """Return the uses that allow a Secret, the proposed one first: credentials that are not shared are proposed for one use only."""
    is_authority = spec.tls and spec.tls.ca_secret_ref and spec.tls.ca_secret_ref.name == secret
    workers = None if spec.connect is None or use != KAFKA_CONNECT else spec.connect.workers
    has_own = workers is not None and workers.credentials is not None
    is_shared = is_authority or not (spec.pipeline_credentials or spec.pipeline_users or has_own)
    return (KAFKA, use) if is_shared else (use, KAFKA)


def build_user_purpose(spec: KafkaClusterSpec) -> Purpose:
    """Return what the operator's log-in must allow besides, where it creates users of pipelines."""
    return Purpose.of_servers((KAFKA_USERS,), spec.bootstrap_servers)


def choose_mechanism(spec: KafkaClusterSpec) -> str:
    """Return the mechanism of users of pipelines."""
    return UserMechanism.SCRAM_SHA_512 if spec.pipeline_users is None else spec.pipeline_users.mechanism


def find_secret_keys(spec: KafkaClusterSpec) -> list[tuple[str, str]]:
    """Return the Secrets that the connection needs, as (name, key)."""
    keys: list[tuple[str, str]] = []
    if spec.tls and spec.tls.ca_secret_ref:
        keys.append((spec.tls.ca_secret_ref.name, spec.tls.ca_secret_ref.key))
    if spec.tls and spec.tls.client_secret_ref:
        keys += [(spec.tls.client_secret_ref.name, key) for key in ("tls.crt", "tls.key")]
    if spec.sasl:
        keys += [(spec.sasl.credentials_secret_ref.name, key) for key in ("username", "password")]
    return keys


def build_access(spec: KafkaClusterSpec, secrets: Secrets) -> KafkaAccess:
    """Return the settings; raise SecretProblem for a certificate or key that is no PEM."""
    protocol = ("sasl_" if spec.sasl else "") + ("ssl" if spec.tls else "plaintext")
    settings = {
        **_BASE,
        "bootstrap.servers": ",".join(spec.bootstrap_servers),
        "security.protocol": protocol,
    }
    hidden: list[str] = []
    if spec.tls:
        settings |= _build_tls(spec.tls, secrets)
        hidden += [settings[name] for name in ("ssl.key.pem",) if name in settings]
    if spec.sasl:
        content = secrets[spec.sasl.credentials_secret_ref.name]
        settings |= {
            "sasl.mechanism": spec.sasl.mechanism.value,
            "sasl.username": content["username"],
            "sasl.password": content["password"],
        }
        hidden.append(content["password"])
    return KafkaAccess.of(settings, tuple(hidden))


def _build_tls(tls: Tls, secrets: Secrets) -> dict[str, str]:
    settings = {"ssl.endpoint.identification.algorithm": "https" if tls.verify_hostname else "none"}
    if tls.ca_secret_ref:
        ca = tls.ca_secret_ref
        settings["ssl.ca.pem"] = _check_pem(secrets[ca.name][ca.key], ca.name, ca.key, "CERTIFICATE")
    if tls.client_secret_ref:
        name = tls.client_secret_ref.name
        content = secrets[name]
        settings["ssl.certificate.pem"] = _check_pem(content["tls.crt"], name, "tls.crt", "CERTIFICATE")
        settings["ssl.key.pem"] = _check_pem(content["tls.key"], name, "tls.key", "PRIVATE KEY")
    return settings


def _check_pem(text: str, name: str, key: str, what: str) -> str:
    if "-----BEGIN " not in text or what not in text:
        raise SecretProblem.incomplete(name, key, f"is no PEM text of a {what.lower()}")
    return text
