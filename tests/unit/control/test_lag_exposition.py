"""What Prometheus is told of consumer lag: the names that dashboards know, nothing for what is unknown, and never too much."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from prometheus_client.core import Metric

from kappa_operator.lag.exposition import METRICS, PAIR_GAUGES, LagCollector
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample

AT = datetime(2026, 1, 1, tzinfo=UTC)


def build_sweep(pairs: int = 2) -> ClusterSample:
    logs = {Partition("t", number): PartitionLog(10, 1000, 1000) for number in range(pairs)}
    samples = {
        GroupPartition(f"g{partition.number % 2}", partition): Sample(
            AT, log, 900 - partition.number, behind=60.0 + partition.number, loss=3600.0
        )
        for partition, log in logs.items()
    }
    return ClusterSample(AT, 1.5, frozenset({"g0", "g1"}), logs, samples)


def collect(sampled: ClusterSample, limit: int = 1000) -> dict[str, Metric]:
    collector = LagCollector(lambda: [("shop/main", sampled)], limit, now=lambda: AT + timedelta(seconds=20))
    return {metric.name: metric for metric in collector.collect()}


def read(metric: Metric) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def test_group_partitions_partitions_and_groups_have_common_metric_names() -> None:
    found = collect(build_sweep())
    assert found["kafka_consumergroup_group_lag"].samples[0].labels == {
        "cluster_name": "shop/main",
        "group": "g0",
        "topic": "t",
        "partition": "0",
    }
    assert read(found["kafka_consumergroup_group_lag"])["shop/main", "g0", "t", "0"] == 100
    assert read(found["kafka_consumergroup_group_lag_seconds"])["shop/main", "g1", "t", "1"] == 61.0
    assert read(found["kafka_consumergroup_group_offset"])["shop/main", "g1", "t", "1"] == 899
    assert read(found["kafka_consumergroup_group_max_lag"]) == {
        ("shop/main", "g0"): 100,
        ("shop/main", "g1"): 101,
    }
    assert read(found["kafka_consumergroup_group_max_lag_seconds"])["shop/main", "g1"] == 61.0
    assert read(found["kafka_partition_latest_offset"])["shop/main", "t", "0"] == 1000
    assert read(found["kafka_partition_earliest_offset"])["shop/main", "t", "0"] == 10
    assert read(found["kappa_consumergroup_time_to_loss_seconds"])["shop/main", "g0", "t", "0"] == 3600.0
    assert read(found["kappa_consumergroup_lost_records"])["shop/main", "g0", "t", "0"] == 0


def test_a_sample_has_its_duration_and_age() -> None:
    found = collect(build_sweep())
    assert read(found["kappa_lag_sample_seconds"]) == {("shop/main",): 1.5}
    assert read(found["kappa_lag_sample_age_seconds"]) == {("shop/main",): 20.0}
    assert read(found["kappa_lag_sample_failed"]) == {("shop/main",): 0.0}
    assert read(found["kappa_lag_left_out_series"]) == {("shop/main",): 0.0}


def test_every_declared_metric_is_exported_and_no_other() -> None:
    assert sorted(collect(build_sweep())) == sorted(metric.name for metric in METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_of_what_is_not_known_there_is_no_sample_and_a_count() -> None:
    partition, log = Partition("t", 0), PartitionLog(0, 10, 10)
    samples = {
        GroupPartition("new", partition): Sample(AT, log, None),
        GroupPartition("ahead", partition): Sample(AT, log, 40),
        GroupPartition("blind", partition): Sample(AT, log, 4),
    }
    unknown = {GroupPartition("hidden", partition): "not allowed"}
    found = collect(
        ClusterSample(
            AT, 1.0, frozenset({"new"}), {partition: log}, samples, unknown, {"hidden": "not allowed"}
        )
    )
    assert read(found["kafka_consumergroup_group_lag"]) == {("shop/main", "blind", "t", "0"): 6}
    assert read(found["kafka_consumergroup_group_lag_seconds"]) == {}
    assert read(found["kafka_consumergroup_group_max_lag"]) == {("shop/main", "blind"): 6}
    assert read(found["kappa_lag_unknown_partitions"]) == {("shop/main",): 1.0}
    assert read(found["kappa_lag_unread_groups"]) == {("shop/main",): 1.0}


def test_above_the_limit_the_worst_series_all_groups_and_the_missing_number_are_exported() -> None:
    sampled = build_sweep(pairs=100)
    found = collect(sampled, limit=50)
    lags = read(found["kafka_consumergroup_group_lag_seconds"])
    assert sorted(lags.values(), reverse=True) == [159.0 - index for index in range(10)]
    assert not found["kafka_partition_latest_offset"].samples
    assert read(found["kafka_consumergroup_group_max_lag"])["shop/main", "g0"] == 198
    assert read(found["kappa_lag_left_out_series"]) == {("shop/main",): 90 * len(PAIR_GAUGES) + 200}


def test_losses_come_before_what_is_far_behind() -> None:
    log = PartitionLog(500, 1000, 1000)
    lost = GroupPartition("lost", Partition("t", 0))
    sampled = build_sweep(pairs=20)
    worse = ClusterSample(
        AT,
        1.0,
        sampled.groups,
        sampled.logs,
        {**sampled.samples, lost: Sample(AT, log, 100, behind=1.0, loss=0.0)},
    )
    found = collect(worse, limit=len(PAIR_GAUGES))
    assert list(read(found["kappa_consumergroup_lost_records"])) == [("shop/main", "lost", "t", "0")]


def test_topics_are_counted_and_have_a_quarter_of_the_bound_for_the_busiest() -> None:
    sampled = replace(build_sweep(), written={f"t{number}": number for number in range(100)})
    family = collect(sampled)["kappa_topic_written_records"]
    assert (family.type, len(family.samples)) == ("counter", 100)
    assert family.samples[0].labels == {"cluster_name": "shop/main", "topic": "t99"}
    few = collect(sampled, limit=40)
    assert list(read(few["kappa_topic_written_records"]).values()) == list(range(99, 89, -1))
    assert read(few["kappa_lag_left_out_series"])["shop/main",] == 90
