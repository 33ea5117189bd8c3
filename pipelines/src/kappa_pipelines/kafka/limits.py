"""What a topic takes: records with a key only or any, and of what size. Asked of Kafka before the queries start.

A record that its topic refuses would fail the batch, and again each time that the batch is tried; so rows are compared with these
limits before they are written.
"""

from dataclasses import dataclass, field

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from kappa_crds.revision import Revision
from kappa_pipelines.kafka.options import build_librdkafka_config
from kappa_pipelines.sinks.publisher import Publishers

_TIMEOUT_SECONDS = 10.0
_RECORD_OVERHEAD = 512  # bytes at most that Kafka adds to a record: batch, lengths, frames of the compression
_BUFFER_BYTES = 33_554_432  # of a producer; a record is never larger (Kafka: buffer.memory)

log = structlog.get_logger()


@dataclass(frozen=True)
class Limits:
    """What one topic takes. The defaults are Kafka's own."""

    needs_key: bool = False
    message_bytes: int = 1_048_576

    @property
    def record_bytes(self) -> int:
        """Return the most bytes that key, value and headers of a record may have together."""
        return self.message_bytes - _RECORD_OVERHEAD


@dataclass(frozen=True)
class Target:
    """A topic that is written, by its name in Kafka, and what it takes."""

    topic: str
    limits: Limits = Limits()


@dataclass(frozen=True)
class Targets:
    """The topics that a revision writes; those whose limits are not known have Kafka's defaults.

    `publishers` are those of the sinks that write exactly once.
    """

    revision: Revision
    limits: dict[str, Limits] = field(default_factory=dict)
    publishers: Publishers = field(default_factory=dict)

    def find(self, name: str) -> Target:
        """Return the topic for a name in the spec."""
        topic = self.revision.topics.get(name, name)
        return Target(topic, self.limits.get(topic, Limits()))

    @property
    def dead(self) -> Target | None:
        """Return the topic of dead letters, if there is one."""
        name = self.revision.spec.dead_letter
        return None if name is None else self.find(name)


def fetch_targets(revision: Revision) -> Targets:
    """Return the topics that a revision writes with their limits; Kafka's defaults, with a warning, where it does not tell."""
    topics = [revision.topics.get(name, name) for _, name in revision.spec.written]
    return Targets(revision, _fetch(revision, topics))


def _fetch(revision: Revision, topics: list[str]) -> dict[str, Limits]:
    admin = AdminClient({**build_librdkafka_config(revision.kafka), "log_level": 0})
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in dict.fromkeys(topics)]
    found: dict[str, Limits] = {}
    for resource, future in admin.describe_configs(wanted, request_timeout=_TIMEOUT_SECONDS).items():
        try:
            config = {name: str(entry.value) for name, entry in future.result().items()}
        except KafkaException as error:
            log.warning("the limits of a topic are not known", topic=resource.name, error=str(error)[:300])
            config = {}
        found[resource.name] = parse_limits(config)
    return found


def parse_limits(config: dict[str, str]) -> Limits:
    """Return the limits that a topic's configuration in Kafka sets."""
    size = int(config.get("max.message.bytes", Limits.message_bytes))
    return Limits("compact" in config.get("cleanup.policy", ""), min(size, _BUFFER_BYTES))
