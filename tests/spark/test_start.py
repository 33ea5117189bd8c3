"""A new version that starts at a time: what it reads, on real Spark and Kafka."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, OutputRange, Semantics, StreamWindows
from kappa_crds.progress import DriverRole, DriverState, HoldPhase
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.compare.bounds import TopicBounds
from kappa_pipelines.compare.compare import Comparison
from lab.broker import Broker
from spark.revisions import build_revision, source
from spark.topics import Topics

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
START = BEGIN + timedelta(minutes=50)
PROFILE = ReplayProfile(start=START)


def write(bootstrap: str, topic: str, records: list[tuple[int, int]]) -> None:
    """Write records, each with its partition and the minute of its timestamp."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for part, minute in records:
        at = BEGIN + timedelta(minutes=minute)
        value = json.dumps({"k": minute, "ts": at.isoformat()})
        producer.produce(topic, value, partition=part, timestamp=int(at.timestamp() * 1000))
    assert producer.flush(30) == 0


def read_minutes(topics: Topics, topic: str) -> list[int]:
    return sorted(json.loads(message.value() or b"")["k"] for message in topics.read(topic))


@pytest.mark.chaos  # four queries, ten seconds
def test_each_sink_starts_at_the_first_record_of_the_time_in_each_partition_and_a_restart_continues(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    names = {"orders": topics.make("orders", partitions=4, **{"retention.ms": "-1"})}
    names |= {name: topics.make(name, partitions=2) for name in ("out", "more")}
    spec = {
        "sources": [source("orders", "k BIGINT, ts TIMESTAMP", startingOffsets="latest")],
        "views": [{"name": "few", "sql": "SELECT k FROM orders WHERE k % 2 = 0"}],
        "sinks": [
            {"name": "out", "from": "orders", "kafka": {"topic": "out"}},
            {"name": "more", "from": "few", "kafka": {"topic": "more"}},
        ],
    }
    # Partition 1 has a late record after the start, partition 2 none from the time on, partition 3 none at all.
    in_order = [(0, minute) for minute in range(0, 100, 5)]
    write(broker.bootstrap, names["orders"], [*in_order, (1, 40), (1, 60), (1, 41), (2, 10), (2, 20)])
    revision = build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="begun")
    expected = sorted([*range(50, 100, 5), 60, 41])
    driver = run(revision, role=DriverRole.SHADOW, replay=PROFILE)
    driver.wait_for("the replay ends", lambda p: p.queries and not p.replaying)
    driver.wait_for_records(len(expected))
    assert read_minutes(topics, names["out"]) == expected
    assert read_minutes(topics, names["more"]) == [each for each in expected if each % 2 == 0]
    assert driver.stop().graceful
    later = [(2, 30), (3, 31), (0, 32)]  # all that follows is read, whatever its timestamp
    write(broker.bootstrap, names["orders"], later)
    driver = run(revision, role=DriverRole.SHADOW, replay=PROFILE, generation=2)
    driver.wait_for_records(len(later))
    expected = sorted([*expected, 30, 31, 32])
    assert read_minutes(topics, names["out"]) == expected
    driver.wait_for("a hold is possible", lambda p: p.state is DriverState.RUNNING)
    assert driver.driver.request_hold(30)
    held = driver.wait_for("it holds", lambda p: p.hold is not None and p.hold.phase is HoldPhase.HOLDING)
    assert held.hold.position.offsets == {names["orders"]: {0: 21, 1: 3, 2: 3, 3: 1}}
    assert driver.stop().graceful


def test_a_time_without_records_is_read_when_they_come(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    names = {"orders": topics.make("orders", partitions=2, **{"retention.ms": "-1"})}
    names["out"] = topics.make("out", partitions=1)
    spec = {
        "sources": [source("orders", "k BIGINT, ts TIMESTAMP")],
        "sinks": [{"name": "out", "from": "orders", "kafka": {"topic": "out"}}],
    }
    write(broker.bootstrap, names["orders"], [(0, 1), (1, 2)])
    revision = build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="waiting")
    driver = run(revision, role=DriverRole.SHADOW, replay=PROFILE)
    driver.wait_for("the replay ends", lambda p: p.queries and not p.replaying)
    driver.wait_for("a hold is possible", lambda p: p.state is DriverState.RUNNING)
    assert driver.driver.request_hold(30)
    held = driver.wait_for("it holds", lambda p: p.hold is not None and p.hold.phase is HoldPhase.HOLDING)
    assert held.hold.position.offsets == {names["orders"]: {0: 1, 1: 1}}
    driver.driver.request_continue()
    write(broker.bootstrap, names["orders"], [(0, 55)])
    driver.wait_for_records(1)
    assert read_minutes(topics, names["out"]) == [55]
    assert driver.stop().graceful


HOURLY = {"from": "orders", "tumbling": "1h"}
TIMED = source("orders", "k BIGINT, ts TIMESTAMP", eventTime={"column": "ts", "watermark": "10m"})


@pytest.mark.chaos  # two drivers with state
def test_windows_from_a_time_are_those_of_the_whole_log_once_they_need_no_earlier_record(
    run: Any, spark: SparkSession, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    orders = topics.make("orders", partitions=3, **{"retention.ms": "-1"})
    write(broker.bootstrap, orders, [(minute % 3, minute) for minute in range(700)])

    def compute(total: str, replay: ReplayProfile, records: int) -> OutputRange:
        """Compute the windows, of which the watermark closes eleven."""
        out = topics.make("out", partitions=2)
        sink = {"name": "out", "from": "hourly", "kafka": {"topic": "out", "key": ["window_start"]}}
        view = {"name": "hourly", "window": {**HOURLY, "aggregates": {"n": total}}}
        spec = {"sources": [TIMED], "views": [view], "sinks": [sink]}
        names = {"orders": orders, "out": out}
        revision = build_revision(spec, tmp_path / out, broker.bootstrap, topics=names, pipeline="hourly")
        driver = run(revision, role=DriverRole.SHADOW, replay=replay)
        driver.wait_for_records(records)
        driver.wait_for("its windows", lambda p: not p.replaying and len(topics.read(out)) == 11)
        assert driver.stop().graceful
        return TopicBounds(kafka, committed=True).find_range(out)

    def compare(warm_up: int) -> ComparisonSummary:
        request = ComparisonRequest(
            name="hourly", semantics=Semantics.STREAM, old=old, new=new, available=True,
            windows=StreamWindows(column="window_end", size="1h"), since=START + timedelta(minutes=warm_up),
        )  # fmt: skip
        return Comparison(kafka=kafka, request=request, group="hourly").run(spark)

    kafka = KafkaConnection(bootstrap_servers=(broker.bootstrap,))
    old = compute("sum(1)", ReplayProfile(), 700)
    # The new version counts the record of minute 500 twice.
    new = compute("sum(if(k = 500, 2, 1))", PROFILE.replace(warms_up=True), 650)
    found = [compare(minutes) for minutes in (0, 60)]
    # The window up to 01:00 has ten minutes in the new version; the one up to 09:00 has the change.
    assert [(each.equal, each.changed, each.undecided) for each in found] == [(9, 2, 0), (9, 1, 0)]
    assert [each.since and each.since.hour for each in found] == [1, 2]
    assert [each.start and each.start.hour for each in found[1].windows] == [9]
