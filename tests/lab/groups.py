"""Offsets that consumer groups have committed."""

from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition


def read_committed(bootstrap: str, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return the next offset of each partition that the group has committed; raise KafkaException.

    A consumer asks, without joining the group. librdkafka 2.16 ends the process where an AdminClient asks and the
    coordinator is not available yet, as on a new cluster.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(topic, each) for each in partitions], timeout=20)
        return {each.partition: each.offset for each in found if each.offset >= 0}
    finally:
        consumer.close()
