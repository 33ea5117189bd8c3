"""The last heartbeat of a connector, which has a time but no position.

Debezium writes heartbeats in the thread that reads the log, behind the changes that it has read. PostgreSQL knows when the connector sent
the position that it has received, by the connector's own clock. So a heartbeat after that time is behind all changes up to the position.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kappa_operator.cdc.reconcile.topic import CLIENT_SETTINGS

_TIMEOUT, _MOST = 5.0, 1000


class Heartbeats:
    """A context manager over the topic of heartbeats; without it, or the permission to read it, there are none."""

    def __init__(self, settings: Mapping[str, str], topic: str = "") -> None:
        self._settings, self._topic = {**CLIENT_SETTINGS, **settings}, topic
        self._consumer: Consumer | None = None
        self._latest = 0

    def __enter__(self) -> "Heartbeats":
        return self

    def __exit__(self, *_: object) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def read_latest(self, server: str) -> int:
        """Return the time of the last heartbeat of a connector, by its logical name, in milliseconds since 1970; 0 for none."""
        if not self._topic and not server:
            return 0
        with suppress(KafkaException):
            if self._consumer is None:
                self._consumer = self._open(self._topic or f"__debezium-heartbeat.{server}")
            for message in self._consumer.consume(_MOST, 0):
                self._latest = max(self._latest, _read_time(message))
        return self._latest

    def _open(self, topic: str) -> Consumer:
        consumer = Consumer(self._settings)
        found = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        ends = []
        for partition in found.partitions:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT)
            ends.append(TopicPartition(topic, partition, max(first, end - 1)))
        consumer.assign(ends)
        return consumer


def _read_time(message: Message) -> int:
    """Return the time of a heartbeat; 0 for a record that is none."""
    value = message.value() if message.error() is None else None
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        found = json.loads(value or b"null")
        return int(found.get("payload", found)["ts_ms"])
    return 0
