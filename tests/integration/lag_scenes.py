"""Logs of every kind on a real broker, groups that stand in them, and what a consumer that reads them says is there."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kappa_operator.lag.model import Partition
from lab.shell import wait_until

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "100",
}
Stamps = Sequence[int]
_MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Errors of a group whose coordinator moves."""


def _commit(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    """Return False where the group has another coordinator than the client knows, or none yet."""
    try:
        done = consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() in _MOVING:
            return False
        raise
    assert done is not None
    assert not any(each.error for each in done)
    return True


@dataclass
class Scene:
    """A broker's topics. `positions` are what each group has committed."""

    bootstrap: str
    now: int = field(default_factory=lambda: int(time.time() * 1000))
    positions: dict[Partition, int] = field(default_factory=dict)

    @cached_property
    def admin(self) -> AdminClient:
        """A client that lives as long as its calls."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def make(self, topic: str, partitions: int, **config: str) -> None:
        """Make a topic and wait until the broker shows it."""
        admin = self.admin
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin.create_topics([NewTopic(topic, partitions, config=settings)])[topic].result()
        wait_until(
            lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions,
            f"{topic} is shown",
        )

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until the broker no longer shows it."""
        admin = self.admin
        admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, f"{topic} is gone")

    def write(self, partition: Partition, ages: Sequence[float], keys: int = 0) -> None:
        """Write a record for each age in seconds; with keys, so many of them in turn."""
        producer = self.build_producer()
        for index, age in enumerate(ages):
            self.produce(producer, partition, age, str(index % keys) if keys else None)
        assert producer.flush(30) == 0

    def write_now(self, partition: Partition) -> None:
        """Write a record with the time of now."""
        producer = self.build_producer()
        self.produce(producer, partition)
        assert producer.flush(30) == 0

    def build_producer(self, **settings: str) -> Producer:
        """Return a producer; it sends each record in a batch of its own, so that each makes a segment where segments are short."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        fixed: dict[str, Any] = {"batch.num.messages": 1, "log_level": 0}
        return Producer({"bootstrap.servers": self.bootstrap, **fixed, **named})

    def produce(
        self, producer: Producer, partition: Partition, age: float | None = None, key: str | None = None
    ) -> None:
        """Hand over a record that is so old, or written now."""
        stamp = 0 if age is None else self.now - int(age * 1000)
        producer.produce(partition.topic, b"x" * 200, key, partition=partition.number, timestamp=stamp)
        producer.poll(0)

    def commit(self, group: str, positions: Mapping[Partition, int]) -> None:
        """Commit as a consumer does that is no member of the group. New brokers may move the coordinator of the group meanwhile."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        offsets = [TopicPartition(*partition, offset) for partition, offset in positions.items()]
        wait_until(lambda: _commit(consumer, offsets), f"positions of {group} are committed")
        consumer.close()

    def truncate(self, partition: Partition, before: int) -> None:
        """Delete all records before the offset."""
        wanted = TopicPartition(*partition, before)
        for future in self.admin.delete_records([wanted]).values():
            future.result()

    def read(self, partitions: Sequence[Partition]) -> dict[Partition, dict[int, int]]:
        """Return the timestamps by offset of all records that a consumer of committed records gets."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader-of-all",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        found: dict[Partition, dict[int, int]] = {partition: {} for partition in partitions}
        consumer.assign([TopicPartition(*partition, 0) for partition in partitions])
        left, deadline = set(partitions), time.monotonic() + 60
        while left and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            partition = Partition(str(message.topic()), int(message.partition() or 0))
            if message.error() is not None:
                left.discard(partition)
            else:
                found[partition][int(message.offset() or 0)] = int(message.timestamp()[1])
        consumer.close()
        assert not left, f"not read to their ends: {left}"
        return found


def every(seconds: float, count: int, last: float) -> list[float]:
    """Return the ages of records that came evenly, oldest first."""
    return [last + seconds * (count - 1 - index) for index in range(count)]
