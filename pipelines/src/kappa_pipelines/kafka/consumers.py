"""Tasks and consumers for topics of many partitions ([ADR 85], [ADR 99]).

Spark reads each partition with new records in a task of its own, by a consumer of its own. So with a thousand partitions a batch of a
thousand records takes longer than one of a million in four, and each of a thousand consumers has a copy of the metadata of a thousand
partitions. Here a task reads several partitions by one consumer, and a JVM keeps as many consumers as its tasks need. With Spark's own
reader, a task reads them one after the other, and a JVM keeps a consumer for each. What is fetched and not read yet has a bound for all.
"""

import math
import re
from collections.abc import Mapping

from kappa_crds.revision import Revision
from kappa_pipelines.executors import count_cores, count_executor_cores, find_executors
from kappa_pipelines.kafka.native import is_native
from kappa_pipelines.kafka.subscription import Subscription, build_subscription

CAPACITY = "spark.kafka.consumer.cache.capacity"
_SPARK_KEEPS = 64
TASKS_PER_CORE = 4
"""A partition with more records than others holds up the ones that share its task, but not those of other tasks."""
_HEAP_PARTS = 8
"""The part of the heap that fetched bytes may fill, and the part that records may fill which are delivered and not read yet."""
_HELD_BYTES, _LEAST_BYTES, _LEAST_FETCH = 2**29, 2**16, 2**20
_HELD_RECORDS, _LEAST_RECORDS, _RECORD_BYTES = 640_000, 100, 512
"""The bounds in a large heap, and the least of a partition or consumer. A larger record is read nevertheless."""
_SIZE = re.compile(r"(\d+)([kmgt])b?")
_DEFAULT_HEAP, _DEFAULT_BYTES = "1g", 2**30
TASKS, CONSUMERS = "kappaTasks", "kappaConsumers"


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
    """Return the settings of Spark by which a JVM keeps the consumers of all queries; empty where Spark keeps as many by default.

    The Java module has consumers of its own.
    """
    wanted = _count_partitions(revision, topics)
    is_default = wanted <= _SPARK_KEEPS or is_native(revision) or CAPACITY in revision.spark_conf
    return {} if is_default else {CAPACITY: str(wanted)}


def build_reader_options(
    revision: Revision, subscription: Subscription, topics: Mapping[str, int], factor: int
) -> dict[str, str]:
    """Return the options of the Java module: how many tasks read the source, and how many consumers a JVM keeps; empty with Spark's reader."""
    if not is_native(revision) or not topics:
        return {}
    tasks = find_tasks(revision, count_partitions(subscription, topics), factor)
    kept = {CONSUMERS: str(_count_consumers(revision, topics))}
    return kept if tasks is None else {TASKS: str(tasks), **kept}


def bound_fetches(revision: Revision, topics: Mapping[str, int]) -> dict[str, str]:
    """Return the settings of consumers, with what each fetches at most for as many as there are in a JVM."""
    partitions = max(1, math.ceil(_count_partitions(revision, topics) / _count_executors(revision)))
    consumers = max(1, _count_consumers(revision, topics))
    memory = _find_heap(revision) // _HEAP_PARTS
    held, records = min(_HELD_BYTES, memory), min(_HELD_RECORDS, memory // _RECORD_BYTES)
    wanted = {
        "max.poll.records": max(_LEAST_RECORDS, records // partitions),
        "max.partition.fetch.bytes": max(_LEAST_BYTES, held // partitions),
        "fetch.max.bytes": max(_LEAST_FETCH, held // consumers),
    }
    found = revision.tuning.consumer
    return found | {name: str(min(most, int(found[name]))) for name, most in wanted.items() if name in found}


def _find_heap(revision: Revision) -> int:
    """Return the bytes of the heap of a JVM with tasks."""
    where = "executor" if count_executor_cores(revision) else "driver"
    found = _SIZE.fullmatch(revision.spark_conf.get(f"spark.{where}.memory", _DEFAULT_HEAP).strip().lower())
    return _DEFAULT_BYTES if found is None else int(found[1]) << 10 * " kmgt".index(found[2])


def _count_executors(revision: Revision) -> int:
    return max(1, find_executors(revision))


def _count_consumers(revision: Revision, topics: Mapping[str, int]) -> int:
    """Return how many consumers the tasks of all queries need in a JVM: one for each partition, or for each task that reads several."""
    if not is_native(revision):
        return math.ceil(_count_partitions(revision, topics) / _count_executors(revision))
    counts = (count_partitions(build_subscription(revision, each), topics) for each in revision.spec.sources)
    needed = (_count_needed(revision, partitions) for partitions in counts)
    return len(revision.spec.sinks) * sum(needed)


def _count_needed(revision: Revision, partitions: int) -> int:
    tasks = find_tasks(revision, partitions)
    return partitions if tasks is None else math.ceil(tasks / _count_executors(revision))


def _count_partitions(revision: Revision, topics: Mapping[str, int]) -> int:
    sources = [build_subscription(revision, source) for source in revision.spec.sources]
    return len(revision.spec.sinks) * sum(count_partitions(each, topics) for each in sources)
