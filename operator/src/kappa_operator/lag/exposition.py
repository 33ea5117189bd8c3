"""What Prometheus is told of consumer lag, computed from the last sweep when it asks.

The first names and their labels are those of kafka-lag-exporter, which dashboards know; `cluster_name` is namespace/name of the KafkaCluster.
What is not known has no sample. There are as many series as groups and partitions, so they are bounded for each cluster: above the bound
those shares are told that matter most, and the largest lag of each group; `kappa_lag_left_out_series` says how many are not. Of the bound
a quarter is kept for topics: those into which most came.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kappa_operator.lag.model import Partition, PartitionLog, Sample, Share, Sweep

_SHARE = ("cluster_name", "group", "topic", "partition")
_PARTITION = ("cluster_name", "topic", "partition")


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    help: str


@dataclass(frozen=True, slots=True)
class ShareGauge(_Gauge):
    """A gauge of a group in a partition; its value is None where it is not known."""

    read: Callable[[Sample], float | None]


@dataclass(frozen=True, slots=True)
class PartitionGauge(_Gauge):
    """A gauge of a partition."""

    read: Callable[[PartitionLog], float]


@dataclass(frozen=True, slots=True)
class GroupGauge(_Gauge):
    """A gauge of a group: the largest of what its partitions say."""

    read: Callable[[Sample], float | None]


@dataclass(frozen=True, slots=True)
class ClusterGauge(_Gauge):
    """A gauge of a cluster: from the last sweep, and the seconds that have passed since."""

    read: Callable[[Sweep, float], float]


@dataclass(frozen=True, slots=True)
class TopicCounter(_Gauge):
    """A counter of a topic."""


def _read_lag(sample: Sample) -> float | None:
    return None if sample.committed is None or sample.ahead else sample.lag


def _read_lost(sample: Sample) -> float | None:
    return None if sample.committed is None else sample.lost


def _count_unknown(sweep: Sweep, _: float) -> float:
    return len(sweep.unknown)


SHARE_GAUGES = (
    ShareGauge("kafka_consumergroup_group_lag", "Records that the group has still to read in the partition.", _read_lag),
    ShareGauge("kafka_consumergroup_group_lag_seconds", "Age of the oldest record that the group has still to read in the partition, in seconds.", lambda sample: sample.behind),
    ShareGauge("kafka_consumergroup_group_offset", "Offset that the group has committed in the partition.", lambda sample: sample.committed),
    ShareGauge("kappa_consumergroup_time_to_loss_seconds", "Seconds until records that the group has not read may be removed from the log.", lambda sample: sample.loss),
    ShareGauge("kappa_consumergroup_lost_records", "Offsets that were removed from the log before the group came to them.", _read_lost),
)  # fmt: skip
GROUP_GAUGES = (
    GroupGauge("kafka_consumergroup_group_max_lag", "Largest lag in records of all partitions of the group.", _read_lag),
    GroupGauge("kafka_consumergroup_group_max_lag_seconds", "Largest lag in seconds of all partitions of the group.", lambda sample: sample.behind),
)  # fmt: skip
PARTITION_GAUGES = (
    PartitionGauge("kafka_partition_latest_offset", "Offset of the next record to be written to the partition.", lambda log: log.end),
    PartitionGauge("kafka_partition_earliest_offset", "Offset of the first record that is still in the partition.", lambda log: log.start),
)  # fmt: skip
CLUSTER_GAUGES = (
    ClusterGauge("kappa_lag_sweep_seconds", "Duration of the last sweep of all groups and partitions.", lambda sweep, _: sweep.seconds),
    ClusterGauge("kappa_lag_sweep_age_seconds", "Seconds since the last sweep read where logs end.", lambda _, age: age),
    ClusterGauge("kappa_lag_sweep_failed", "1 where the last sweep could see nothing at all, 0 else.", lambda sweep, _: float(sweep.failure is not None)),
    ClusterGauge("kappa_lag_groups", "Consumer groups that were sampled.", lambda sweep, _: len(sweep.groups)),
    ClusterGauge("kappa_lag_unknown_shares", "Groups in a partition of which the lag is not known though it was before.", _count_unknown),
    ClusterGauge("kappa_lag_unread_groups", "Groups of which the committed offsets could not be read.", lambda sweep, _: len(sweep.unread)),
)  # fmt: skip
WRITTEN = TopicCounter(
    "kappa_topic_written_records",
    "Records that came into the topic since the operator that acts first saw it, by where its logs end; ends of transactions count too.",
)
LEFT_OUT = _Gauge(
    "kappa_lag_left_out_series", "Series that are not told because there are too many for the cluster."
)
METRICS: tuple[_Gauge, ...] = (
    *SHARE_GAUGES, *GROUP_GAUGES, *PARTITION_GAUGES, WRITTEN, *CLUSTER_GAUGES, LEFT_OUT,
)  # fmt: skip
"""Every metric of consumer lag."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is told of a cluster, and how many series are not."""

    shares: Iterable[tuple[Share, Sample]]
    partitions: Iterable[tuple[Partition, PartitionLog]]
    topics: Iterable[tuple[str, int]]
    left_out: int


def select(sweep: Sweep, limit: int) -> Selection:
    """Choose so that there are at most so many series of shares and partitions; a quarter is for topics, then come shares, the worst of them before others."""
    topics = min(len(sweep.written), max(0, limit) // 4)
    room = max(0, limit) - topics
    shares = min(len(sweep.samples), room // len(SHARE_GAUGES))
    room -= shares * len(SHARE_GAUGES)
    partitions = min(len(sweep.logs), room // len(PARTITION_GAUGES))
    left_out = (len(sweep.samples) - shares) * len(SHARE_GAUGES)
    left_out += (len(sweep.logs) - partitions) * len(PARTITION_GAUGES)
    left_out += len(sweep.written) - topics
    busy = sorted(sweep.written.items(), key=lambda item: item[1], reverse=True)[:topics]
    chosen: Iterable[tuple[Share, Sample]] = sweep.samples.items()
    if shares < len(sweep.samples):
        chosen = islice(sorted(chosen, key=lambda item: _rank(item[1]), reverse=True), shares)
    return Selection(chosen, islice(sweep.logs.items(), partitions), busy, left_out)


def _rank(sample: Sample) -> tuple[bool, float, int]:
    """Return how much a sample matters: losses first, then what is furthest behind."""
    return sample.lost > 0 or sample.loss == 0.0, sample.behind or 0.0, sample.lag


class LagCollector(Collector):
    """Computes the metrics of consumer lag. `find` yields clusters with their last sweep, `limit` is the most series of each."""

    def __init__(
        self,
        find: Callable[[], Iterable[tuple[str, Sweep]]],
        limit: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._find = find
        self._limit = limit
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples."""
        found = [(name, sweep, select(sweep, self._limit)) for name, sweep in self._find()]
        chosen = [(name, list(selection.shares), list(selection.partitions)) for name, _, selection in found]
        for share_gauge in SHARE_GAUGES:
            family = _begin(share_gauge, _SHARE)
            for name, shares, _ in chosen:
                for (group, (topic, number)), sample in shares:
                    _add(family, (name, group, topic, str(number)), share_gauge.read(sample))
            yield family
        for partition_gauge in PARTITION_GAUGES:
            family = _begin(partition_gauge, _PARTITION)
            for name, _, partitions in chosen:
                for (topic, number), log in partitions:
                    _add(family, (name, topic, str(number)), partition_gauge.read(log))
            yield family
        yield _count_written((name, selection.topics) for name, _, selection in found)
        yield from self._collect_totals(found)

    def _collect_totals(self, found: Iterable[tuple[str, Sweep, Selection]]) -> Iterator[Metric]:
        """Yield what there is one of for each group or each cluster."""
        for group_gauge in GROUP_GAUGES:
            family = _begin(group_gauge, ("cluster_name", "group"))
            for name, sweep, _ in found:
                for group, value in _find_largest(sweep, group_gauge).items():
                    _add(family, (name, group), value)
            yield family
        for cluster_gauge in CLUSTER_GAUGES:
            family = _begin(cluster_gauge, ("cluster_name",))
            for name, sweep, _ in found:
                age = max(0.0, (self._now() - sweep.at).total_seconds())
                _add(family, (name,), cluster_gauge.read(sweep, age))
            yield family
        family = _begin(LEFT_OUT, ("cluster_name",))
        for name, _, selection in found:
            _add(family, (name,), selection.left_out)
        yield family

    def describe(self) -> Iterable[Metric]:
        """Return none: what there is depends on the clusters, and nothing else has these names."""
        return ()


def _begin(gauge: _Gauge, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(gauge.name, gauge.help, labels=labels)


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _count_written(found: Iterable[tuple[str, Iterable[tuple[str, int]]]]) -> CounterMetricFamily:
    family = CounterMetricFamily(WRITTEN.name, WRITTEN.help, labels=("cluster_name", "topic"))
    for name, topics in found:
        for topic, count in topics:
            family.add_metric((name, topic), count)
    return family


def _find_largest(sweep: Sweep, gauge: GroupGauge) -> dict[str, float]:
    """Return the largest value of each group, of what is known of it."""
    largest: dict[str, float] = {}
    for share, sample in sweep.samples.items():
        value = gauge.read(sample)
        if value is not None and value >= largest.get(share.group, 0.0):
            largest[share.group] = value
    return largest
