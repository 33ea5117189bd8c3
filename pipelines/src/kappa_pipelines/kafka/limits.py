"""Limits of topics: whether a record needs a key, and its maximum size. Kafka reports them before the queries start.

A record that its topic rejects would fail the batch at each retry, so sinks compare rows with these limits before they write.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from kappa_crds.revision import KafkaConnection
from kappa_pipelines.kafka.options import connect_admin

_TIMEOUT_SECONDS = 10.0
_RECORD_OVERHEAD = 512  # maximum bytes that Kafka adds to a record: batch, lengths, compression frames
_BUFFER_BYTES = 33_554_432  # Kafka's buffer.memory: a record is never larger

log = structlog.get_logger()


@dataclass(frozen=True)
class Limits:
    """Limits of one topic. The defaults are Kafka's own."""

    needs_key: bool = False
    message_bytes: int = 1_048_576

    @property
    def record_bytes(self) -> int:
        """Return the maximum number of bytes of key, value and headers together."""
        return self.message_bytes - _RECORD_OVERHEAD


@dataclass(frozen=True)
class Target:
    """A topic to write, by its name in Kafka, with its limits."""

    topic: str
    limits: Limits = Limits()


def fetch_limits(kafka: KafkaConnection, topics: Iterable[str]) -> dict[str, Limits]:
    """Return the limits of topics. Where Kafka does not report them, log a warning and use Kafka's defaults."""
    admin = connect_admin(kafka)
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in dict.fromkeys(topics)]
    found: dict[str, Limits] = {}
    for resource, future in admin.describe_configs(wanted, request_timeout=_TIMEOUT_SECONDS).items():
        try:
            config = {name: str(entry.value) for name, entry in future.result().items()}
        except KafkaException as error:
            log.warning("the limits of a topic are unknown", topic=resource.name, error=str(error)[:300])
            config = {}
        found[resource.name] = parse_limits(config)
    return found


def parse_limits(config: dict[str, str]) -> Limits:
    """Return the limits in a topic's configuration."""
    size = int(config.get("max.message.bytes", Limits.message_bytes))
    return Limits("compact" in config.get("cleanup.policy", ""), min(size, _BUFFER_BYTES))
