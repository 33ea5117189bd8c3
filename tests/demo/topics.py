"""The example's topics as Kafka has them: what a former run left, and how far the pipeline's group is."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from demo.errors import DemoError
from lab.groups import read_committed

_TIMEOUT = 20.0


def remove_topics(names: Sequence[str], bootstrap: str) -> list[str]:
    """Delete those of the topics that are still there, wait until they are gone, and return their names."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    left = _find(admin, names)
    if not left:
        return []
    for future in admin.delete_topics(left, operation_timeout=_TIMEOUT).values():
        future.result()
    deadline = time.monotonic() + _TIMEOUT
    while still := _find(admin, left):
        if time.monotonic() > deadline:
            raise DemoError(f"topics of a former run cannot be deleted: {', '.join(still)}")
        time.sleep(0.2)
    return left


def _find(admin: AdminClient, names: Sequence[str]) -> list[str]:
    there = admin.list_topics(timeout=_TIMEOUT).topics
    return [name for name in names if name in there]


def is_group_at(group: str, topic: str, ends: Mapping[int, int], bootstrap: str) -> bool:
    """Whether a consumer group's offsets have reached the given ends of a topic's partitions."""
    try:
        found = read_committed(bootstrap, group, topic, ends)
    except KafkaException:
        return False
    return all(found.get(partition, -1) >= end for partition, end in ends.items())
