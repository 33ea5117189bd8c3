"""Tasks and consumers for topics of many partitions ([ADR 85]).

Spark reads each partition with new records in a task of its own, by a consumer of its own. It keeps 64 consumers in a JVM, and creates all
others again in each batch. So with a thousand partitions a batch of a thousand records takes longer than one of a million in four. Here a
task reads several partitions, one after the other, and a JVM keeps as many consumers as its queries need. A consumer keeps what it has
fetched and not delivered yet, so many consumers fetch less at a time.
"""

import math
from collections.abc import Mapping

from kappa_crds.revision import Revision
from kappa_pipelines.executors import count_cores, find_executors
from kappa_pipelines.kafka.subscription import Subscription, build_subscription

CAPACITY = "spark.kafka.consumer.cache.capacity"
_SPARK_KEEPS = 64
TASKS_PER_CORE = 4
"""A partition with more records than others holds up the ones that share its task, but not those of other tasks."""
_HELD_RECORDS, _LEAST_RECORDS = 640_000, 500
_HELD_BYTES, _LEAST_BYTES = 2**29, 2**16
"""What all consumers of a JVM hold at most: that of 64 consumers with the settings of the operator. A larger record is read nevertheless."""


def count_partitions(subscription: Subscription, topics: Mapping[str, int]) -> int:
    """Return the number of partitions of a source; `topics` are those of Kafka with their partitions."""
    return sum(count for topic, count in topics.items() if subscription.covers(topic))


def find_tasks(revision: Revision, partitions: int, factor: int = 1) -> int | None:
    """Return the number of tasks in which a query reads a source of so many partitions; None for one task for each of them.

    It may get `factor` times as many executors.
    """
    cores = count_cores(revision)
    if revision.spec.trigger.real_time is not None or cores is None:
        return None
    tasks = TASKS_PER_CORE * cores * factor
    return tasks if tasks < partitions else None


def build_consumer_settings(revision: Revision, topics: Mapping[str, int]) -> dict[str, str]:
    """Return the settings of Spark by which a JVM keeps the consumers of all queries; empty where Spark keeps as many by default."""
    wanted = _count_consumers(revision, topics)
    return {} if wanted <= _SPARK_KEEPS or CAPACITY in revision.spark_conf else {CAPACITY: str(wanted)}


def bound_fetches(revision: Revision, topics: Mapping[str, int]) -> dict[str, str]:
    """Return the settings of consumers, with what each fetches at most for as many as there are in a JVM."""
    executors = max(1, find_executors(revision))
    consumers = max(1, math.ceil(_count_consumers(revision, topics) / executors))
    wanted = {
        "max.poll.records": max(_LEAST_RECORDS, _HELD_RECORDS // consumers),
        "max.partition.fetch.bytes": max(_LEAST_BYTES, _HELD_BYTES // consumers),
    }
    found = revision.tuning.consumer
    return found | {name: str(min(most, int(found[name]))) for name, most in wanted.items() if name in found}


def _count_consumers(revision: Revision, topics: Mapping[str, int]) -> int:
    sources = [build_subscription(revision, source) for source in revision.spec.sources]
    return len(revision.spec.sinks) * sum(count_partitions(each, topics) for each in sources)
