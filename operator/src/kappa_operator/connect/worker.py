"""The settings of a worker of Kafka Connect. Nothing in them is secret: `connect/start.py` adds what is, in the pod.

Source of the names: Kafka's documentation, "Kafka Connect Configs".
"""

from kappa_operator.connect.log_in import build_security
from kappa_operator.connect.names import (
    REST_PORT,
    SECRETS_DIR,
    SOURCES_DIR,
    SOURCES_PROVIDER,
    KafkaClusterResource,
    name_group,
)
from kappa_operator.connect.topics import list_topics

_CLIENTS = ("", "producer.", "consumer.", "admin.")
_PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_OVERRIDES = "batch.size,buffer.memory,compression.type,linger.ms,max.request.size"
"""What connectors may set of their own Kafka clients: sizes, and no address or log-in."""

_BATCH_BYTES = "131072"
"""With Kafka's default of 16 KiB, which is some 30 changes, a snapshot takes 1.35 times as long. A batch does not wait to be full."""


def build_settings(resource: KafkaClusterResource) -> str:
    """Return the settings, one in a line."""
    settings = {
        "bootstrap.servers": ",".join(resource.spec.bootstrap_servers),
        "group.id": name_group(resource),
        **{each.setting: each.name for each in list_topics(resource)},
        "offset.storage.partitions": "5",
        "status.storage.partitions": "3",
        "exactly.once.source.support": "enabled",
        "key.converter": _JSON,
        "value.converter": _JSON,
        "plugin.path": "/opt/connect/plugins",
        "plugin.discovery": "service_load",
        # A worker that leaves or dies is given up so long after it was noticed, and its tasks start elsewhere.
        "scheduled.rebalance.max.delay.ms": "3000",
        "session.timeout.ms": "10000",
        "heartbeat.interval.ms": "3000",
        "task.shutdown.graceful.timeout.ms": "20000",
        "producer.batch.size": _BATCH_BYTES,
        "connector.client.config.override.policy": "Allowlist",
        "connector.client.config.override.allowlist": _OVERRIDES,
        "config.providers": SOURCES_PROVIDER,
        f"config.providers.{SOURCES_PROVIDER}.class": _PROVIDER,
        f"config.providers.{SOURCES_PROVIDER}.param.allowed.paths": SOURCES_DIR,
        **_build_rest(),
    }
    for name, value in build_security(resource.spec.of_workers).items():
        settings |= {f"{client}{name}": value for client in _CLIENTS}
    return "".join(f"{name}={_escape(value)}\n" for name, value in settings.items())


def _escape(value: str) -> str:
    """Return a value in which nothing ends the line, whatever text the spec has: else the name of a server could add a setting."""
    return "".join(
        each if " " < each < "\x7f" and each != "\\" else f"\\u{ord(each) & 0xFFFF:04x}" for each in value
    )


def _build_rest() -> dict[str, str]:
    """Return the settings of the REST API: TLS only, for clients with a certificate of the same authority."""
    stores = {
        f"{store}.{name}": value
        for store in ("keystore", "truststore")
        for name, value in (("type", "PKCS12"), ("location", f"{SECRETS_DIR}/rest/{store}.p12"))
    }
    tls = {"client.auth": "required", "endpoint.identification.algorithm": "https", **stores}
    return {
        "listeners": f"https://0.0.0.0:{REST_PORT}",
        "rest.advertised.listener": "https",
        "rest.advertised.port": str(REST_PORT),
        **{f"listeners.https.ssl.{name}": value for name, value in tls.items()},
    }
