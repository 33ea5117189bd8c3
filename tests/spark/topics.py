"""Topics of a test: made under names of their own, written and read whole."""

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from lab.groups import read_committed


@dataclass
class Topics:
    """Makes topics, and writes and reads records."""

    bootstrap: str

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self._found: dict[str, tuple[dict[int, int], list[Message]]] = {}
        self._queue: Producer | None = None

    def make(self, name: str, partitions: int = 2, **config: str) -> str:
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(unique, partitions, 1, config=config)])[unique].result(30)
        return unique

    def write(self, topic: str, values: Sequence[bytes | str | None], **fields: Any) -> None:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "message.max.bytes": 2_000_000}
        )
        for number, value in enumerate(values):
            while True:
                try:
                    producer.produce(topic, value=value, key=fields.get("key", str(number)), **_rest(fields))
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(30) == 0

    def queue(self, topic: str, key: str | bytes | None, value: bytes | str | None) -> None:
        """Write a record with its key, null ones too, by the next `flush`."""
        if self._queue is None:
            # Without idempotence a retry to a partition that has no leader yet changes the order of its records.
            config = {"bootstrap.servers": self.bootstrap, "message.max.bytes": 8_000_000}
            self._queue = Producer({**config, "enable.idempotence": True})
        self._queue.produce(topic, value=value, key=key)
        self._queue.poll(0)

    def flush(self) -> None:
        assert self._queue is None or self._queue.flush(30) == 0

    def ends(self, topic: str) -> dict[int, int]:
        deadline = time.monotonic() + 30
        while True:
            try:
                # A topic that was just made may not be known yet, and have no leader.
                if parts := self.admin.list_topics(topic, timeout=30).topics[topic].partitions:
                    return self._ends(topic, parts)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline, f"{topic} has no partitions"
            time.sleep(0.05)

    def _ends(self, topic: str, parts: Iterable[int]) -> dict[int, int]:
        latest = {TopicPartition(topic, p): OffsetSpec.latest() for p in parts}  # type: ignore[no-untyped-call]
        asked = self.admin.list_offsets(latest)
        return {at.partition: answer.result(30).offset for at, answer in asked.items()}

    def read(self, topic: str) -> list[Message]:
        """All records up to the present end. Tests ask again and again, so nothing is read twice while nothing comes."""
        ends = self.ends(topic)
        before, found = self._found.get(topic, ({}, []))
        if before == ends and len(found) == sum(ends.values()):
            return list(found)
        self._found[topic] = ends, self._read(topic, ends)
        return list(self._found[topic][1])

    def _read(self, topic: str, ends: dict[int, int]) -> list[Message]:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "read", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(topic, p, 0) for p in ends])
        wanted = sum(ends.values())
        found: list[Message] = []
        deadline = time.monotonic() + 30
        while len(found) < wanted and time.monotonic() < deadline:
            found += [m for m in consumer.consume(min(5000, wanted - len(found)), 1.0) if not m.error()]
        consumer.close()
        return found

    def read_committed(self, topic: str) -> list[Message]:
        """The records that a reader of committed records finds, in the order of each partition."""
        config = {"bootstrap.servers": self.bootstrap, "group.id": "read", "enable.auto.commit": False}
        consumer = Consumer({**config, "isolation.level": "read_committed", "enable.partition.eof": True})
        left = set(self.ends(topic))
        consumer.assign([TopicPartition(topic, part, 0) for part in left])
        found: list[Message] = []
        deadline = time.monotonic() + 30
        while left and time.monotonic() < deadline:
            for message in consumer.consume(5000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
        consumer.close()
        assert not left, f"{topic} was not read to its end, as a transaction is open: partitions {left}"
        return found

    def values(self, topic: str) -> list[Any]:
        return [json.loads(message.value() or b"") for message in self.read(topic)]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return read_committed(self.bootstrap, group, topic, self.ends(topic))


def _rest(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "key"}
