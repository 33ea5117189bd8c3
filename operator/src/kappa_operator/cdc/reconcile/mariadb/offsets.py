"""Evidence of how far a connector of MariaDB has come: the positions that Kafka Connect stores.

The server does not know what a connector has received. But Kafka Connect writes the position of the last record of a connector into its
topic of offsets, after the record or in the same transaction. Where the tables do not change, heartbeats are such records. The topic is
read from its present end: what is stored later is enough, and the topic may be large.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kappa_operator.cdc.reconcile.mariadb.position import encode_position
from kappa_operator.cdc.reconcile.topic import CLIENT_SETTINGS

_TIMEOUT, _MOST = 5.0, 1000
_BEHIND = (
    "the connector has not shown in time that it has passed the position: check its task; where no later change is in the topic, the"
    " position that Kafka Connect stores shows this, so {hint}"
)
_NAME_IT = "name the topic of its offsets with --offsets-topic, and set heartbeat.interval.ms"
_CHECK_IT = "set heartbeat.interval.ms, and let the user read topic {topic}"


class OffsetEvidence:
    """A context manager over the topic of offsets; without its name, or the permission to read it, it knows nothing."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._settings, self._topic = {**CLIENT_SETTINGS, **settings}, topic
        self._consumer: Consumer | None = None
        self._stored: dict[str, int] = {}

    def __enter__(self) -> "OffsetEvidence":
        if self._topic:
            with suppress(KafkaException):
                self._consumer = self._open()
        return self

    def __exit__(self, *_: object) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _open(self) -> Consumer:
        consumer = Consumer(self._settings)
        found = consumer.list_topics(self._topic, timeout=_TIMEOUT).topics[self._topic]
        ends = []
        for partition in found.partitions:
            _, end = consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=_TIMEOUT)
            ends.append(TopicPartition(self._topic, partition, end))
        consumer.assign(ends)
        return consumer

    def find_passed(self, position: int, server: str) -> int:
        """Return the position that was stored last for the connector of this name; 0 for none."""
        if self._consumer is not None:
            with suppress(KafkaException):
                for message in self._consumer.consume(_MOST, 0):
                    self._note(message)
        return self._stored.get(server, 0)

    def _note(self, message: Message) -> None:
        if message.error() is None and (found := read_position(message.key(), message.value())) is not None:
            server, position = found
            self._stored[server] = position

    def describe(self, position: int, reached: int) -> str:
        """Return what is waited for."""
        return "wait for the connector, which has not shown that it has passed the position"

    def explain(self) -> str:
        """Return the cause, and what helps."""
        return _BEHIND.format(hint=_CHECK_IT.format(topic=self._topic) if self._topic else _NAME_IT)


def read_position(key: bytes | str | None, value: bytes | str | None) -> tuple[str, int] | None:
    """Return the logical name of a connector and its position; None for another record.

    An offset in the middle of a transaction has the position of its begin, so it is not past it. One from the middle of a snapshot has the
    position of all of its rows, and proves nothing.
    """
    with suppress(ValueError, KeyError, TypeError, AttributeError, IndexError):
        server, offset = json.loads(key or b"null")[1]["server"], json.loads(value or b"null")
        if isinstance(server, str) and not offset.get("snapshot"):
            return server, encode_position(offset["file"], int(offset["pos"]))
    return None
