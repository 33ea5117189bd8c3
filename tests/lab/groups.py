"""Offsets that consumer groups have committed."""

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_SECONDS = 20.0
_COMING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)
"""Errors of a broker that becomes the coordinator of the group in a moment."""


def read_committed(bootstrap: str, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return the next offset of each partition that the group has committed; raise KafkaException.

    A consumer asks, without joining the group. librdkafka 2.16 ends the process where an AdminClient asks and the
    coordinator is not available yet, as on a new cluster.
    """
    wanted = [TopicPartition(topic, each) for each in partitions]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    deadline = time.monotonic() + _SECONDS
    try:
        while True:
            try:
                found = consumer.committed(wanted, timeout=_SECONDS)
                return {each.partition: each.offset for each in found if each.offset >= 0}
            except KafkaException as error:
                if error.args[0].code() not in _COMING or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()
