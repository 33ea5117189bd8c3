"""How many tasks and consumers read topics of many partitions, what the consumers hold, and how long they wait."""

from typing import Any, cast

import pytest

from kappa_crds.batches import NATIVE_KAFKA
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision, Tuning
from kappa_operator.pipeline.tuning import CONSUMER
from kappa_pipelines.executors import count_replay_factor
from kappa_pipelines.kafka.consumers import (
    CAPACITY,
    bound_fetches,
    build_consumer_settings,
    build_reader_options,
    find_tasks,
)
from kappa_pipelines.kafka.subscription import build_subscription
from kappa_pipelines.sources.kafka import KafkaSource, build_read_options
from kappa_pipelines.sources.values import Values
from spark.revisions import build_revision

LOCAL = {"spark.master": "local[2]"}
BY_SPARK = {**LOCAL, NATIVE_KAFKA: "false"}
EXECUTORS = {"spark.master": "k8s://x", "spark.executor.instances": "8", "spark.executor.cores": "2"}


def build(conf: dict[str, str], sinks: int = 1, **spec: Any) -> Revision:
    written = {
        "sources": [
            {"name": "flights", "topic": "flights", "format": {"raw": {}}},
            {"name": "carriers", "topicPattern": "carriers-.*", "format": {"raw": {}}},
        ],
        "sinks": [
            {"name": f"out-{number}", "from": "flights", "kafka": {"topic": "out"}} for number in range(sinks)
        ],
        **spec,
    }
    tuning = Tuning(shuffle_partitions=2, consumer=CONSUMER)
    return build_revision(written, "/ck", "kafka:9092", spark_conf=conf, tuning=tuning)


@pytest.mark.parametrize(
    ("conf", "partitions", "tasks"),
    [
        (LOCAL, 8, None),
        (LOCAL, 9, 8),
        (LOCAL, 1000, 8),
        (EXECUTORS, 64, None),
        (EXECUTORS, 1000, 64),
        ({}, 1000, 4),
        ({"spark.master": "local[*]"}, 1000, None),
        ({"spark.master": "k8s://x"}, 1000, None),
    ],
)
def test_each_core_has_four_tasks_where_a_topic_has_more_partitions(
    conf: dict[str, str], partitions: int, tasks: int | None
) -> None:
    assert find_tasks(build(conf), partitions) == tasks


@pytest.mark.parametrize(
    ("executors", "tasks", "splits"), [(None, 64, "32"), (8, 64, "32"), (9, 128, "64"), (24, 192, "96")]
)
def test_a_replay_with_more_executors_is_divided_among_all_their_cores(
    executors: int | None, tasks: int, splits: str
) -> None:
    revision = build(EXECUTORS)
    revision = revision.model_copy(update={"tuning": Tuning(shuffle_partitions=2, min_partitions=32)})
    replay, spec = ReplayProfile(executors=executors), revision.spec.sources[0]
    source = KafkaSource(spec, build_subscription(revision, spec), cast("Values", None))
    assert find_tasks(revision, 1000, count_replay_factor(revision, replay)) == tasks
    assert build_read_options(revision, source, replay)["minPartitions"] == splits
    assert count_replay_factor(build(LOCAL), ReplayProfile(executors=4)) == 1, "tasks run in the driver"


def test_real_time_mode_reads_each_partition_in_its_own_task() -> None:
    assert find_tasks(build(LOCAL, trigger={"realTime": {}}), 1000) is None


TOPICS = {"flights": 300, "carriers-a": 3, "carriers-b": 2, "of-others": 5000}


@pytest.mark.parametrize(
    ("conf", "flights", "carriers"),
    [
        (LOCAL, {"kappaTasks": "8", "kappaConsumers": "26"}, {"kappaConsumers": "26"}),
        (EXECUTORS, {"kappaTasks": "64", "kappaConsumers": "26"}, {"kappaConsumers": "26"}),
        ({"spark.master": "local[*]"}, {"kappaConsumers": "610"}, {"kappaConsumers": "610"}),
        (BY_SPARK, {}, {}),
    ],
)
def test_a_jvm_keeps_as_many_consumers_as_the_tasks_of_all_queries_need(
    conf: dict[str, str], flights: dict[str, str], carriers: dict[str, str]
) -> None:
    revision = build(conf, sinks=2)
    subscriptions = [build_subscription(revision, each) for each in revision.spec.sources]
    assert [build_reader_options(revision, each, TOPICS, 1) for each in subscriptions] == [flights, carriers]


def test_the_reader_of_spark_keeps_the_consumers_of_all_partitions() -> None:
    assert build_consumer_settings(build(BY_SPARK, sinks=2), TOPICS) == {CAPACITY: "610"}
    assert build_consumer_settings(build(BY_SPARK), {"flights": 64}) == {}, "Spark keeps as many by itself"
    assert build_consumer_settings(build({**BY_SPARK, CAPACITY: "70"}), TOPICS) == {}, "the spec decides"
    assert build_consumer_settings(build(LOCAL, sinks=2), TOPICS) == {}, "the module has its own consumers"


@pytest.mark.parametrize(
    ("conf", "partitions", "records", "size", "response"),
    [
        (LOCAL, 4, "10000", "8388608", "33554432"),
        (LOCAL, 64, "4096", "2097152", "16777216"),
        (LOCAL, 1000, "262", "134217", "16777216"),
        ({**LOCAL, "spark.driver.memory": "720m"}, 1000, "184", "94371", "11796480"),
        ({**LOCAL, "spark.driver.memory": "8G"}, 1000, "640", "536870", "67108864"),
        ({**LOCAL, "spark.executor.memory": "8g"}, 1000, "262", "134217", "16777216"),
        ({**EXECUTORS, "spark.executor.memory": "2048m"}, 1000, "4194", "2147483", "33554432"),
        (LOCAL, 100_000, "100", "65536", "16777216"),
        (BY_SPARK, 1000, "262", "134217", "1048576"),
    ],
)
def test_what_all_consumers_of_a_jvm_hold_is_bounded_by_its_heap(
    conf: dict[str, str], partitions: int, records: str, size: str, response: str
) -> None:
    assert bound_fetches(build(conf), {"flights": partitions}) == {
        "max.poll.records": records,
        "max.partition.fetch.bytes": size,
        "fetch.max.bytes": response,
    }


def test_settings_that_the_operator_does_not_give_stay_those_of_kafka() -> None:
    plain = build(LOCAL).model_copy(update={"tuning": Tuning(shuffle_partitions=2)})
    assert bound_fetches(plain, {"flights": 1000}) == {}


@pytest.mark.parametrize(("trigger", "wait"), [({}, "10"), ({"realTime": {}}, None)])
def test_only_a_task_that_runs_all_the_time_waits_for_records(
    trigger: dict[str, Any], wait: str | None
) -> None:
    revision = build(LOCAL, trigger=trigger)
    spec = revision.spec.sources[0]
    source = KafkaSource(spec, build_subscription(revision, spec), cast("Values", None))
    assert build_read_options(revision, source).get("kafka.fetch.max.wait.ms") == wait
