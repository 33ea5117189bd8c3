"""Batches that are bounded by the time that they take (ADR 96): the decision alone, and on topics of Kafka."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kappa_pipelines.checkpoint.fence.fence import BATCHES
from kappa_pipelines.checkpoint.format.offsets import Offsets, read_entry
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.revision.settings import CHECKPOINT_SETTINGS
from lab.broker import Broker
from spark.revisions import build_revision, source

TARGET, FIRST, MOST = 20.0, 400_000, 4_000_000
LEAST, GROWTH, DROP = 1_000, 8, 10
LIMITS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def build(spark: SparkSession) -> Callable[..., Any]:
    jvm = spark._jvm
    assert jvm is not None
    return lambda first=FIRST: jvm.kappa.kafka.BatchBound(TARGET, first, MOST)


@LIMITS
@given(
    batches=st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1e6)), max_size=40),
    first=st.integers(1, 2 * MOST),
)
def test_the_bound_has_limits_and_moves_by_a_factor(
    build: Callable[..., Any], batches: list[tuple[float, float]], first: int
) -> None:
    bound = build(first)
    known = bound.records()
    assert known == min(first, MOST)
    for part, took in batches:
        bound.adapt(part, took)
        found = bound.records()
        assert min(known, LEAST, MOST) <= found <= MOST
        assert known // DROP <= found <= GROWTH * (known + 1)
        known = found


costs = st.tuples(st.floats(0.0, 1.9 * TARGET), st.floats(-6.5, -3.0).map(lambda power: 10**power))
"""Seconds of a batch without records, and of a record."""


@LIMITS
@given(cost=costs, first=st.integers(LEAST, MOST))
def test_batches_of_a_backlog_approach_the_target_and_stay_there(
    build: Callable[..., Any], cost: tuple[float, float], first: int
) -> None:
    fixed, each = cost
    bound = build(first)
    took, sizes = 0.0, []
    for _ in range(60):
        sizes.append(bound.records())
        took = fixed + each * sizes[-1]
        bound.adapt(1.0, took)
    goal = max(TARGET, 2 * fixed)
    assert took <= 1.1 * goal
    assert took >= 0.85 * TARGET or sizes[-1] >= 0.99 * MOST
    # Near the target a batch has room for few records beside its fixed cost, and settles over more batches.
    assert 0.8 * TARGET < fixed < 1.1 * TARGET or max(sizes[-8:]) <= 1.05 * min(sizes[-8:]), "does not settle"


@LIMITS
@given(each=st.floats(-6.0, -4.0).map(lambda power: 10**power), pause=st.floats(1.0, 500.0))
def test_after_one_slow_batch_the_bound_returns_without_going_beyond(
    build: Callable[..., Any], each: float, pause: float
) -> None:
    bound = build()
    for _ in range(20):
        bound.adapt(1.0, 0.5 + each * bound.records())
    known = bound.records()
    bound.adapt(1.0, 0.5 + each * known + pause)
    sizes = []
    for _ in range(10):
        bound.adapt(1.0, 0.5 + each * bound.records())
        sizes.append(bound.records())
    assert sizes == sorted(sizes)
    assert 0.9 * known <= sizes[-1] <= 1.01 * known


@LIMITS
@given(each=st.floats(-6.0, -4.0).map(lambda power: 10**power), factor=st.floats(1.0, 3.0))
def test_batches_that_are_slow_by_turns_stay_near_the_target(
    build: Callable[..., Any], each: float, factor: float
) -> None:
    bound, taken = build(), []
    for number in range(40):
        taken.append(0.5 + each * bound.records() * (factor if number % 2 else 1.0))
        bound.adapt(1.0, taken[-1])
    assert max(taken[20:]) <= 1.1 * TARGET * factor**0.75


def test_a_rate_that_falls_to_a_hundredth_is_found_in_two_batches(build: Callable[..., Any]) -> None:
    bound = build(MOST)
    for _ in range(2):
        bound.adapt(1.0, 400e-6 * bound.records())
    assert 400e-6 * bound.records() <= TARGET


def test_a_short_batch_of_few_records_says_nothing(build: Callable[..., Any]) -> None:
    bound = build()
    for _ in range(50):
        bound.adapt(0.01, 0.4)
    assert bound.records() == FIRST


def test_a_long_batch_of_few_records_lowers_the_bound_by_no_more_than_its_factor(
    build: Callable[..., Any],
) -> None:
    bound = build()
    bound.adapt(0.001, 100 * TARGET)
    assert bound.records() == FIRST // DROP


def read(spark: SparkSession, broker: Broker, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("kappa.kafka.Source").name(topic.replace("-", "_"))
    known = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kappaMostRecords": "1000000",
    }
    return reader.options(**{**known, **options}).load().select("topic", "partition", "offset")


def run(rows: DataFrame, checkpoint: Path, work: Callable[[int, list[Any]], None]) -> None:
    """Process what is there, with all rows of each batch."""
    writer = rows.writeStream.foreachBatch(lambda batch, number: work(number, batch.collect()))
    settings_of = {"checkpointLocation": str(checkpoint)}
    query = writer.options(**settings_of).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def write(topics: Any, name: str, count: int) -> str:
    """Write a topic of two partitions with the same number of records."""
    topic: str = topics.make(name)
    for partition in range(2):
        topics.write(topic, ["x"] * (count // 2), partition=partition)
    return topic


@pytest.fixture(autouse=True)
def _settings_of_drivers(spark: SparkSession) -> None:
    for name, value in CHECKPOINT_SETTINGS.items():
        spark.conf.set(name, value)


FAST = {"kappaTargetMillis": "600000", "kappaFirstRecords": "100"}


def test_a_backlog_is_read_in_batches_that_grow_while_they_are_short(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    rows = read(spark, broker, write(topics, "events", 7_300), **FAST)
    sizes: list[int] = []
    run(rows, checkpoint, lambda _, found: sizes.append(len(found)))
    assert sizes == [100, 800, 6_400]


def test_a_query_begins_with_the_bound_that_a_driver_before_has_measured(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    spark._jvm.kappa.kafka.Source.expect(f"file:{checkpoint}", 50)  # type: ignore[union-attr]
    topic = write(topics, "events", 500)
    sizes: list[int] = []
    for _ in range(2):
        run(read(spark, broker, topic, **FAST), checkpoint, lambda _, found: sizes.append(len(found)))
        for partition in range(2):
            topics.write(topic, ["x"] * 60, partition=partition)
    assert sizes == [50, 400, 50, 100, 20], "a query that starts again has its own first bound"


def test_a_driver_hands_its_bound_to_the_next_one(
    run: Any, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("events", "out")}
    topics.write(names["events"], [f"{number}" for number in range(500)])
    LocalFolder(str(checkpoint)).write(BATCHES, b'{"content": "", "records": {"out": 50}}')
    spec = {
        "sources": [source("events", "k BIGINT")],
        "sinks": [{"name": "out", "from": "events", "kafka": {"topic": "out"}}],
    }
    revision = build_revision(spec, checkpoint, broker.bootstrap, topics=names)
    driver = run(revision, 1)
    driver.wait_for_records(500)
    assert driver.stop().graceful
    files = LocalFolder(str(checkpoint))
    assert sum(read_ends(files, 0).values()) == 50
    assert json.loads(files.read(BATCHES) or b"")["records"]["out"] >= 100, (
        "a full batch was shorter than 20 s"
    )


def read_ends(files: LocalFolder, batch: int) -> Offsets:
    """Return where a batch ends."""
    entry = read_entry(files, "out", batch)
    assert entry is not None
    return entry.offsets["events"]


def test_the_sources_of_a_query_have_the_same_bound(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    many, few = write(topics, "many", 2_300), write(topics, "few", 300)
    rows = read(spark, broker, many, **FAST).union(read(spark, broker, few, **FAST))
    sizes: list[tuple[int, int]] = []

    def work(_: int, found: list[Any]) -> None:
        sizes.append((sum(row["topic"] == many for row in found), sum(row["topic"] == few for row in found)))

    run(rows, checkpoint, work)
    assert sizes == [(100, 100), (800, 200), (1_400, 0)]


def test_a_slow_sink_gets_smaller_batches_and_a_batch_is_repeated_as_it_was(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    slow = {"kappaTargetMillis": "1000", "kappaFirstRecords": "4000"}
    topic = write(topics, "events", 6_000)
    begun: list[tuple[int, list[Any]]] = []

    def work(number: int, found: list[Any]) -> None:
        begun.append((number, found))
        time.sleep(0.001 * len(found))
        if len(begun) == 2:
            raise RuntimeError("the sink fails")

    with pytest.raises(StreamingQueryException, match="the sink fails"):
        run(read(spark, broker, topic, **slow), checkpoint, work)
    run(read(spark, broker, topic, **slow), checkpoint, work)
    sizes = [len(found) for _, found in begun]
    assert sizes[0] == 4_000
    assert sizes[1] <= 1_000, "it takes a second, however fast the machine is"
    assert [number for number, _ in begun[:3]] == [0, 1, 1]
    assert sorted(begun[1][1]) == sorted(begun[2][1])
    kept = [(row["partition"], row["offset"]) for _, found in {**dict(begun)}.items() for row in found]
    assert sorted(kept) == [(partition, offset) for partition in range(2) for offset in range(3_000)]


def test_a_limit_of_spark_is_stronger(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    rows = read(spark, broker, write(topics, "events", 300), **FAST, maxOffsetsPerTrigger="200")
    sizes: list[int] = []
    run(rows, checkpoint, lambda _, found: sizes.append(len(found)))
    assert sizes == [200, 100]


def test_progress_has_the_bound_of_the_next_batch(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    rows = read(spark, broker, write(topics, "events", 300), **FAST)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()
    found = [each for each in query.recentProgress if each.numInputRows > 0]
    assert [each.sources[0].metrics["maxRecords"] for each in found] == ["800", "800"]
