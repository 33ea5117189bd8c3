"""The metrics of consumer lag, computed from the last sample at each scrape.

The first names and their labels are those of kafka-lag-exporter, which dashboards use; `cluster_name` is namespace/name of the KafkaCluster.
An unknown figure has no series. There are as many series as groups and partitions, so each cluster has a limit: above it the most important
group partitions are exported, and the largest lag of each group; `kappa_lag_left_out_series` is the number of the others. A quarter of the
limit is for topics: those with the most written records.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from prometheus_client.core import Metric

from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.telemetry.declare import ComputedMetrics, Declared

_PAIR = ("cluster_name", "group", "topic", "partition")
_PARTITION = ("cluster_name", "topic", "partition")


class ExportedSample(NamedTuple):
    """The last sample of a cluster, its age in seconds, and how many series are left out."""

    sampled: ClusterSample
    age: float
    left_out: int


def _find_largest(values: Iterable[float | None]) -> float | None:
    """Return the largest value of those that are known."""
    return max((value for value in values if value is not None), default=None)


def _read_lag(sample: Sample) -> float | None:
    return None if sample.committed is None or sample.ahead else sample.lag


def _read_lost(sample: Sample) -> float | None:
    return None if sample.committed is None else sample.lost


_GROUP, _CLUSTER = ("cluster_name", "group"), ("cluster_name",)
PAIR_GAUGES: tuple[Declared[Sample], ...] = (
    Declared("kafka_consumergroup_group_lag", "Unread records of the group in the partition.", _PAIR, _read_lag),
    Declared("kafka_consumergroup_group_lag_seconds", "Age of the oldest unread record of the group in the partition, in seconds.", _PAIR, lambda sample: sample.behind),
    Declared("kafka_consumergroup_group_offset", "Committed offset of the group in the partition.", _PAIR, lambda sample: sample.committed),
    Declared("kappa_consumergroup_time_to_loss_seconds", "Seconds until unread records of the group may be removed from the log.", _PAIR, lambda sample: sample.loss),
    Declared("kappa_consumergroup_lost_records", "Offsets that were removed from the log before the group read them.", _PAIR, _read_lost),
)  # fmt: skip
GROUP_GAUGES: tuple[Declared[Sequence[Sample]], ...] = (
    Declared("kafka_consumergroup_group_max_lag", "Largest lag in records of all partitions of the group.", _GROUP, lambda samples: _find_largest(map(_read_lag, samples))),
    Declared("kafka_consumergroup_group_max_lag_seconds", "Largest lag in seconds of all partitions of the group.", _GROUP, lambda samples: _find_largest(sample.behind for sample in samples)),
)  # fmt: skip
PARTITION_GAUGES: tuple[Declared[PartitionLog], ...] = (
    Declared("kafka_partition_latest_offset", "Offset of the next record to be written to the partition.", _PARTITION, lambda log: log.end),
    Declared("kafka_partition_earliest_offset", "Offset of the first record in the partition.", _PARTITION, lambda log: log.start),
)  # fmt: skip
CLUSTER_GAUGES: tuple[Declared[ExportedSample], ...] = (
    Declared("kappa_lag_sample_seconds", "Duration of the last sample of all groups and partitions.", _CLUSTER, lambda seen: seen.sampled.seconds),
    Declared("kappa_lag_sample_age_seconds", "Seconds since the last sample read the ends of logs.", _CLUSTER, lambda seen: seen.age),
    Declared("kappa_lag_sample_failed", "1 if the last sample failed, otherwise 0.", _CLUSTER, lambda seen: float(seen.sampled.failure is not None)),
    Declared("kappa_lag_groups", "Sampled consumer groups.", _CLUSTER, lambda seen: len(seen.sampled.groups)),
    Declared("kappa_lag_unknown_partitions", "Group partitions whose lag is unknown and was known before.", _CLUSTER, lambda seen: len(seen.sampled.unknown)),
    Declared("kappa_lag_unread_groups", "Groups whose committed offsets could not be read.", _CLUSTER, lambda seen: len(seen.sampled.unread)),
    Declared("kappa_lag_left_out_series", "Series that are not exported because the cluster has too many.", _CLUSTER, lambda seen: seen.left_out),
)  # fmt: skip
WRITTEN: Declared[float] = Declared(
    "kappa_topic_written_records",
    "Records written to the topic since this replica is active, by the end of its logs; commit markers count too.",
    ("cluster_name", "topic"),
    lambda count: count,
    "counter",
)
METRICS: tuple[Declared[Any], ...] = (
    *PAIR_GAUGES, *GROUP_GAUGES, *PARTITION_GAUGES, WRITTEN, *CLUSTER_GAUGES,
)  # fmt: skip
"""Every metric of consumer lag."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The exported series of a cluster, and the number of the others."""

    pairs: Iterable[tuple[GroupPartition, Sample]]
    partitions: Iterable[tuple[Partition, PartitionLog]]
    topics: Iterable[tuple[str, int]]
    left_out: int


def select(sampled: ClusterSample, limit: int) -> Selection:
    """Select at most so many series: a quarter for topics, then the worst group partitions, then partitions."""
    topics = min(len(sampled.written), max(0, limit) // 4)
    room = max(0, limit) - topics
    pairs = min(len(sampled.samples), room // len(PAIR_GAUGES))
    room -= pairs * len(PAIR_GAUGES)
    partitions = min(len(sampled.logs), room // len(PARTITION_GAUGES))
    left_out = (len(sampled.samples) - pairs) * len(PAIR_GAUGES)
    left_out += (len(sampled.logs) - partitions) * len(PARTITION_GAUGES)
    left_out += len(sampled.written) - topics
    busy = sorted(sampled.written.items(), key=lambda item: item[1], reverse=True)[:topics]
    chosen: Iterable[tuple[GroupPartition, Sample]] = sampled.samples.items()
    if pairs < len(sampled.samples):
        chosen = islice(sorted(chosen, key=lambda item: _rank(item[1]), reverse=True), pairs)
    return Selection(chosen, islice(sampled.logs.items(), partitions), busy, left_out)


def _rank(sample: Sample) -> tuple[bool, float, int]:
    """Return the rank of a sample: losses first, then the lag."""
    return sample.lost > 0 or sample.loss == 0.0, sample.behind or 0.0, sample.lag


class LagCollector(ComputedMetrics):
    """Computes the metrics of consumer lag. `find` yields clusters with their last sample, `limit` is the most series of each."""

    def __init__(
        self,
        find: Callable[[], Iterable[tuple[str, ClusterSample]]],
        limit: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._find = find
        self._limit = limit
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples."""
        found = [(name, sampled, select(sampled, self._limit)) for name, sampled in self._find()]
        pairs = [
            ((name, group, topic, str(number)), sample)
            for name, _, selection in found
            for (group, (topic, number)), sample in selection.pairs
        ]
        yield from (gauge.fill(pairs) for gauge in PAIR_GAUGES)
        logs = [
            ((name, topic, str(number)), log)
            for name, _, selection in found
            for (topic, number), log in selection.partitions
        ]
        yield from (gauge.fill(logs) for gauge in PARTITION_GAUGES)
        yield WRITTEN.fill(
            ((name, topic), count) for name, _, selection in found for topic, count in selection.topics
        )
        groups = [
            ((name, group), each) for name, sampled, _ in found for group, each in _group(sampled).items()
        ]
        yield from (gauge.fill(groups) for gauge in GROUP_GAUGES)
        now = self._now()
        exported = [
            ((name,), ExportedSample(each, max(0.0, (now - each.at).total_seconds()), selection.left_out))
            for name, each, selection in found
        ]
        yield from (gauge.fill(exported) for gauge in CLUSTER_GAUGES)


def _group(sampled: ClusterSample) -> Mapping[str, Sequence[Sample]]:
    """Return all samples by their groups."""
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for pair, sample in sampled.samples.items():
        found[pair.group].append(sample)
    return found
