"""A new version for some keys beside the old one, on real Spark and Kafka: what is compared, and what state it keeps."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, Semantics
from kappa_crds.progress import ComparisonState, DriverRole, HoldPhase
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.compare.bounds import TopicBounds
from kappa_pipelines.compare.compare import Comparison
from kappa_pipelines.compare.selection import RecordColumn, Selection
from kappa_pipelines.errors import SpecError
from lab.broker import Broker
from spark.revisions import build_revision, source
from spark.topics import Topics

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
KEY = RecordColumn("customer", "key", None, StringType())
PARTS = (RecordColumn("customer", "key", "customer", StringType()), RecordColumn("n", "key", "n", LongType()))
VALUE = RecordColumn("total", "value", "total", LongType())


def compare_rows(
    spark: SparkSession, topics: Topics, old: Any, new: Any, selection: Selection, semantics: Semantics
) -> ComparisonSummary:
    """Write both versions of an output, and compare the selected rows."""
    kafka, ranges = KafkaConnection(bootstrap_servers=(topics.bootstrap,)), []
    for rows in (old, new):
        topic = topics.make("output", 2)
        for key, value in rows:
            topics.queue(topic, key, None if value is None else json.dumps(value))
        topics.flush()
        ranges.append(TopicBounds(kafka, committed=True).find_range(topic))
    request = ComparisonRequest(name="some", semantics=semantics, old=ranges[0], new=ranges[1])
    return Comparison(kafka=kafka, request=request, group="some", selection=selection).run(spark)


def count(found: ComparisonSummary) -> dict[str, int]:
    names = ("old_rows", "new_rows", "equal", "changed", "only_old", "only_new", "undecided")
    return {name: value for name in names if (value := getattr(found, name))}


def test_rows_of_a_table_are_selected_by_the_key_with_their_tombstones(
    spark: SparkSession, topics: Topics
) -> None:
    old = [
        ("a", {"n": 1}),
        ("b", {"n": 1}),
        ("c", {"n": 1}),
        ("a", {"n": 2}),
        ("d", {"n": 1}),
        ("d", None),
        (None, {"n": 1}),
    ]
    new = [("a", {"n": 3}), ("d", {"n": 1})]
    found = compare_rows(
        spark, topics, old, new, Selection("Customer IN ('a', 'd')", "v", (KEY,)), Semantics.TABLE
    )
    assert count(found) == {"old_rows": 1, "new_rows": 2, "changed": 1, "only_new": 1}
    written = [(json.dumps({"customer": key, "n": n}), {"v": n}) for key in "ab" for n in (9, 10, 11)]
    selection = Selection("v.customer = 'a' AND n >= 10", "v", PARTS)
    found = compare_rows(spark, topics, written, written[1:3], selection, Semantics.TABLE)
    assert count(found) == {"old_rows": 2, "new_rows": 2, "equal": 2}


def test_rows_of_a_stream_are_selected_by_their_values(spark: SparkSession, topics: Topics) -> None:
    old = [("a", {"total": 5}), ("a", {"total": 50}), ("b", {"total": 70}), ("c", {"total": None})]
    new = [("a", {"total": 50}), ("b", {"total": 71}), ("e", {"total": 1})]
    found = compare_rows(spark, topics, old, new, Selection("total > 10", "v", (VALUE,)), Semantics.STREAM)
    assert count(found) == {"old_rows": 2, "new_rows": 2, "equal": 1, "changed": 1}


@pytest.mark.parametrize(
    ("value", "why"),
    [({"other": 1}, "has no column total"), ({"total": "many"}, "has no BIGINT in column total")],
)
def test_a_record_that_the_condition_does_not_fit_fails_the_comparison(
    value: Any, why: str, spark: SparkSession, topics: Topics
) -> None:
    selection = Selection("total > 10", "v", (VALUE,))
    with pytest.raises(Exception, match=why) as caught:
        compare_rows(spark, topics, [("a", value)], [("a", {"total": 50})], selection, Semantics.STREAM)
    assert "so reprocessing.only cannot select it; leave this column out" in str(caught.value)


TIMED = source("orders", "k STRING, v BIGINT, ts TIMESTAMP", eventTime={"column": "ts", "watermark": "10m"})
KEYS = [f"k{number:02d}" for number in range(40)]
ONLY = "k IN ('k07', 'k11')"


def write_orders(bootstrap: str, topic: str) -> None:
    """An order of each key each 20 minutes for a day; those of k07 end after five hours, and one more is late."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def write(number: int, key: str, minute: float, written: float | None = None) -> None:
        at, stamp = (
            BEGIN + timedelta(minutes=each) for each in (minute, minute if written is None else written)
        )
        value = json.dumps({"k": key, "v": number, "ts": at.isoformat()})
        producer.produce(topic, value, partition=number % 3, timestamp=int(stamp.timestamp() * 1000))

    for number in range(72 * len(KEYS)):
        minute, key = number / len(KEYS) * 20, KEYS[number % len(KEYS)]
        if key != "k07" or minute < 300:
            write(number, key, minute)
    # By the records of k07 alone it would not be late.
    write(1, "k07", 290, 1439)
    assert producer.flush(30) == 0


MOST = 700
"""Records of a batch, of 2,880, so that the late one is in a later batch than its window."""


def build_version(broker: Broker, topics: Topics, folder: Path, orders: str, total: str) -> tuple[Any, Any]:
    """Return the topics and the revision of a version that computes the totals so, by hour and of all time."""
    names = {"orders": orders, **{name: topics.make(name, partitions=2) for name in ("hours", "sums")}}
    view = {"from": "orders", "key": ["k"], "tumbling": "1h", "aggregates": {"n": "count(*)", "total": total}}
    sums = f"SELECT k, {total} AS total FROM orders GROUP BY k"  # noqa: S608 - not of a stranger
    spec = {
        "sources": [TIMED],
        "views": [{"name": "hourly", "window": view}, {"name": "added", "sql": sums, "allowUnboundedState": True}],
        "sinks": [
            {"name": "hours", "from": "hourly", "kafka": {"topic": "hours", "key": ["k", "window_start"]}},
            {"name": "sums", "from": "added", "mode": "update", "kafka": {"topic": "sums", "key": ["k"]}},
        ],
    }  # fmt: skip
    revision = build_revision(spec, folder / names["hours"], broker.bootstrap, topics=names, pipeline="some")
    return names, revision


def follow(driver: Any) -> dict[str, int]:
    """Wait until all is read, and return the rows of state by sink."""
    driver.wait_for("the replay ends", lambda p: p.queries and not p.replaying)
    found = driver.wait_for_records(len(KEYS) * 72 - 57 + 1)
    return {query.sink: query.state_rows for query in found.queries}


def compare(driver: Any, broker: Broker, old: str, new: str, semantics: Semantics) -> ComparisonSummary:
    """Have a driver compare two topics up to their ends, and return the result."""
    kafka = KafkaConnection(bootstrap_servers=(broker.bootstrap,))
    old_range, new_range = (TopicBounds(kafka, committed=True).find_range(each) for each in (old, new))
    request = ComparisonRequest(name=f"some.{new}", semantics=semantics, old=old_range, new=new_range)
    assert driver.driver.request_comparison(request)

    def find(progress: Any) -> Any:
        return next((each for each in progress.comparisons if each.name == request.name and each.ended), None)

    found = find(driver.wait_for("it is compared", find))
    assert found.state is ComparisonState.DONE, found.failure
    summary: ComparisonSummary = found.summary
    return summary


@pytest.mark.chaos  # three drivers with state
def test_the_planted_differences_of_the_selected_keys_are_found_and_state_has_only_them(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    orders = topics.make("orders", partitions=3, **{"retention.ms": "-1"})
    write_orders(broker.bootstrap, orders)
    old, revision = build_version(broker, topics, tmp_path, orders, "sum(v)")
    active = run(revision, role=DriverRole.SHADOW, replay=ReplayProfile(max_records=MOST))
    rows = follow(active)
    assert rows["sums"] == 40
    assert rows["hours"] >= 39
    assert active.stop().graceful
    # The new version counts two orders of the selected keys in another way, and one of another key.
    planted = "sum(CASE WHEN k = 'k07' AND v = 7 OR k IN ('k11', 'k12') AND v > 2700 THEN 1000 ELSE v END)"
    new, revision = build_version(broker, topics, tmp_path, orders, planted)
    profile = ReplayProfile(max_records=MOST, only=ONLY)
    changed = run(revision, role=DriverRole.SHADOW, replay=profile)
    rows = follow(changed)
    assert rows["sums"] == 2
    assert rows["hours"] < 10, "windows of two keys that are not closed"
    assert changed.stop().graceful
    changed = run(revision, role=DriverRole.SHADOW, replay=profile, generation=2)
    changed.wait_until_running()
    found = compare(changed, broker, old["sums"], new["sums"], Semantics.TABLE)
    assert count(found) == {"old_rows": 2, "new_rows": 2, "changed": 2}
    found = compare(changed, broker, old["hours"], new["hours"], Semantics.STREAM)
    # The watermark has closed 23 hours of k11 and all five of k07; an order of each is another one.
    assert (found.old_rows, found.new_rows, found.equal, found.differing) == (28, 28, 26, 2)
    assert changed.stop().graceful


def test_a_condition_that_does_not_fit_ends_the_driver_before_its_first_batch(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("orders", "out")}
    spec = {"sources": [TIMED], "sinks": [{"name": "out", "from": "orders", "kafka": {"topic": "out"}}]}
    revision = build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="unfit")
    driver = run(revision, role=DriverRole.SHADOW, replay=ReplayProfile(only="carrier = 'AA'"))
    failure = driver.failure()
    assert isinstance(failure, SpecError) and not failure.retryable
    assert "sink 'out': reprocessing.only: [UNRESOLVED_COLUMN" in failure.message
    assert topics.read(names["out"]) == []


@pytest.mark.chaos  # a query with state; that nothing is selected is rare
def test_a_condition_that_is_never_true_writes_nothing_and_the_query_continues(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    orders, out = (
        topics.make("orders", partitions=3, **{"retention.ms": "-1"}),
        topics.make("out", partitions=1),
    )
    write_orders(broker.bootstrap, orders)
    view = {"name": "hourly", "window": {"from": "orders", "tumbling": "1h", "aggregates": {"n": "count(*)"}}}
    spec = {
        "sources": [TIMED],
        "views": [view],
        "sinks": [{"name": "out", "from": "hourly", "kafka": {"topic": "out"}}],
    }
    names = {"orders": orders, "out": out}
    revision = build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="never")
    # Spark knows that a count is never NULL, so its plan has no source any more.
    driver = run(revision, role=DriverRole.SHADOW, replay=ReplayProfile(only="n IS NULL"))
    driver.wait_for("the replay ends", lambda p: p.queries and not p.replaying)
    assert driver.driver.request_hold(30)
    driver.wait_for("it holds", lambda p: p.hold is not None and p.hold.phase is HoldPhase.HOLDING)
    assert driver.stop().graceful
    assert topics.read(out) == []
