"""Event time from three clocks: Spark's plan against the same rule in Python, and from Kafka to a result."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from kappa_crds.source import EventTime, Source
from kappa_pipelines.errors import SpecError
from kappa_pipelines.sources.event_time import build_time, check_event_time, explain_wrong, is_wrong
from reference.windows import correct_clock
from spark.revisions import build_revision, source

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CORRECTION = {"occurred": "o", "sent": "s", "received": "r", "max": "1h"}


def random_rows(count: int) -> list[tuple[datetime, datetime | None, datetime | None]]:
    """Rows with clocks that are off by microseconds to years, and with times missing."""
    rng = random.Random(5)

    def shift(time: datetime) -> datetime:
        return time + timedelta(microseconds=rng.choice((1, -1)) * int(10 ** rng.uniform(0, 14)))

    rows = [(shift(NOON), shift(NOON), shift(NOON)) for _ in range(count)]
    return [(o, None if rng.random() < 0.1 else s, None if rng.random() < 0.1 else r) for o, s, r in rows]


def test_the_plan_computes_the_same_as_the_rule(spark: SparkSession) -> None:
    edge = timedelta(hours=1)
    tick = timedelta(microseconds=1)
    edges = [
        (NOON, NOON, NOON + d) for d in (edge - tick, edge, edge + tick, -edge + tick, -edge, -edge - tick)
    ]
    rows = [*random_rows(3000), *edges]
    event_time = EventTime.model_validate({"column": "t", "watermark": "1m", "clockCorrection": CORRECTION})
    frame = spark.createDataFrame(
        [(number, *row) for number, row in enumerate(rows)], "n INT, o TIMESTAMP, s TIMESTAMP, r TIMESTAMP"
    )
    timed = frame.withColumn("t", build_time(event_time, f.col))
    found = timed.selectExpr("n", "unix_micros(t) AS t").collect()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert {row.n: epoch + timedelta(microseconds=row.t) for row in found} == {
        number: correct_clock(*row, edge) for number, row in enumerate(rows)
    }
    assert len({row.t for row in found}) > 1000, "the rows must differ, or nothing was compared"


def test_a_device_clock_an_hour_behind_counts_in_the_correct_window(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out")}
    behind = NOON - timedelta(hours=1)
    topics.write(
        names["flights"],
        [f'{{"o": "{behind.isoformat()}", "s": "{(behind + timedelta(seconds=90)).isoformat()}"}}'],
        timestamp=int((NOON + timedelta(seconds=91)).timestamp() * 1000),
    )
    correction = {**CORRECTION, "max": "1d"}
    spec = {
        "sources": [
            source(
                schema="o TIMESTAMP, s TIMESTAMP",
                recordColumns={"timestamp": "r"},
                eventTime={"column": "happened", "watermark": "1m", "clockCorrection": correction},
            )
        ],
        "views": [
            {
                "name": "counted",
                "sql": "SELECT window(happened, '1 minute').start AS minute, count(*) AS n FROM flights"
                " GROUP BY window(happened, '1 minute')",
            }
        ],
        "sinks": [
            {"name": "out", "from": "counted", "kafka": {"topic": "out", "key": ["minute"]}, "mode": "update"}
        ],
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for_records(1)
    assert driver.stop().graceful
    assert topics.values(names["out"]) == [{"minute": "2026-03-01T12:00:00.000000Z", "n": 1}]


def test_a_partition_and_a_topic_that_are_silent_hold_no_window(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "more", "out")}
    minutes = [NOON + timedelta(minutes=number) for number in range(3)]
    written = [f'{{"k": 1, "ts": "{minute.isoformat()}"}}' for minute in minutes]
    topics.write(names["flights"], written, key="same")  # so all in one of two partitions
    read = source(eventTime={"column": "ts", "watermark": "1m"}, topics=["flights", "more"])
    count = "SELECT window(ts, '1 minute').start AS minute, count(*) AS n FROM flights GROUP BY window(ts, '1 minute')"
    spec = {
        "sources": [{name: value for name, value in read.items() if name != "topic"}],
        "views": [{"name": "counted", "sql": count}],
        "sinks": [{"name": "out", "from": "counted", "kafka": {"topic": "out"}}],
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("a watermark", lambda p: p.queries and p.queries[0].watermark == minutes[1])
    driver.wait_for("the batch that closes windows", lambda p: p.queries[0].batch_id >= 1)
    assert driver.stop().graceful
    assert [row["n"] for row in topics.values(names["out"])] == [1]


COUNT = "SELECT window(ts, '1 minute').start AS minute, count(*) AS n FROM flights GROUP BY window(ts, '1 minute')"


def _count(**event_time: Any) -> dict[str, Any]:
    schema = "k BIGINT, ts BIGINT" if "epochUnit" in event_time else "k BIGINT, ts TIMESTAMP"
    read = source(schema=schema, eventTime={"column": "ts", "watermark": "1m", **event_time})
    return {
        "sources": [read],
        "views": [{"name": "counted", "sql": COUNT}],
        "sinks": [{"name": "out", "from": "counted", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }


def _write(topics: Any, topic: str, time: object, at: datetime = NOON) -> None:
    topics.write(topic, [json.dumps({"k": 1, "ts": time})], timestamp=int(at.timestamp() * 1000))


def test_a_record_of_the_year_2999_is_a_dead_letter_and_closes_no_window(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("flights", "out", "dead")}
    driver = run(build_revision(_count(maxAhead="1h"), checkpoint, broker.bootstrap, topics=names))
    for time in (NOON, NOON + timedelta(hours=1), datetime(2999, 1, 1, tzinfo=UTC), NOON + timedelta(hours=1, milliseconds=1)):  # fmt: skip
        _write(topics, names["flights"], time.isoformat())
    driver.wait_for("dead letters", lambda p: p.dead_lettered == 2)
    driver.wait_for(
        "the watermark", lambda p: p.queries and p.queries[0].watermark == NOON + timedelta(minutes=59)
    )
    driver.wait_for("the first window", lambda p: len(topics.values(names["out"])) == 1)
    assert driver.stop().graceful
    errors = {dict(letter.headers())["kappa.error"].decode() for letter in topics.read(names["dead"])}
    assert all("event time ts is" in error and "1h ahead (eventTime.maxAhead)" in error for error in errors)
    assert any("2999-01-01" in error for error in errors)


_OLDEST = "-290308-12-21T19:59:06Z"
"""Within an hour of the first time that Spark has."""


def test_a_record_before_the_year_1_is_a_dead_letter_and_ends_no_query(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("flights", "out", "dead")}
    driver = run(build_revision(_count(), checkpoint, broker.bootstrap, topics=names))
    for time in (NOON.isoformat(), _OLDEST, "0000-12-31T23:59:59Z", (NOON + timedelta(hours=3)).isoformat()):
        _write(topics, names["flights"], time)
    driver.wait_for("dead letters", lambda p: p.dead_lettered == 2)
    driver.wait_for("the first window", lambda p: len(topics.values(names["out"])) == 1)
    assert driver.stop().graceful
    errors = [dict(letter.headers())["kappa.error"].decode() for letter in topics.read(names["dead"])]
    assert [error.split(",")[0] for error in errors] == [
        "event time ts is -290308-12-21 19:59:06",
        "event time ts is 0000-12-31 23:59:59",
    ]


@pytest.mark.parametrize("odd", ["o", "s", "r"])
def test_clocks_out_of_range_are_never_computed_with(spark: SparkSession, odd: str) -> None:
    event_time = EventTime.model_validate({"column": "t", "watermark": "1m", "clockCorrection": CORRECTION})
    oldest = f.from_json(f.lit(json.dumps({"t": _OLDEST})), "t TIMESTAMP")["t"]
    rows = spark.createDataFrame([(1, NOON, NOON, NOON), (2, NOON, NOON, NOON)], "n INT, o TIMESTAMP, s TIMESTAMP, r TIMESTAMP")  # fmt: skip
    rows = rows.withColumn(odd, f.when(f.col("n") == 1, oldest).otherwise(f.col(odd)))
    wrong = is_wrong(event_time, f.col, f.lit(NOON))
    found = rows.select("n", f.when(wrong, explain_wrong(event_time, f.col, f.lit(NOON))).alias("error"))
    first, second = (row.error for row in found.orderBy("n").collect())
    assert second is None
    assert first.startswith(f"event time t is {'-290308' if odd == 'o' else '2026-03-01'}")


@pytest.mark.parametrize(("unit", "factor"), [("Seconds", 1), ("Milliseconds", 10**3), ("Microseconds", 10**6)])  # fmt: skip
def test_a_number_since_1970_is_a_time_in_its_unit(
    run: Any, broker: Any, topics: Any, checkpoint: Path, unit: str, factor: int
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("flights", "out", "dead")}
    times = [int((NOON + timedelta(minutes=minute)).timestamp()) * factor for minute in (0, 0, 5)]
    driver = run(build_revision(_count(epochUnit=unit), checkpoint, broker.bootstrap, topics=names))
    for time in (*times, None, 2**63 - 1, -(2**63), times[0] * 1000 if unit != "Microseconds" else 2**62):
        _write(topics, names["flights"], time)
    driver.wait_for("the window", lambda p: len(topics.values(names["out"])) == 1)
    driver.wait_for("dead letters", lambda p: p.dead_lettered == 3)
    assert driver.stop().graceful
    assert topics.values(names["out"]) == [{"minute": "2026-03-01T12:00:00.000000Z", "n": 2}]


@pytest.mark.parametrize(
    ("schema", "event_time", "says"),
    [
        ("ts BIGINT", {}, "set eventTime.epochUnit"),
        ("ts STRING", {}, "as BIGINT with eventTime.epochUnit"),
        ("ts TIMESTAMP", {"epochUnit": "Seconds"}, "epochUnit is for BIGINT and INT"),
        ("ts DOUBLE", {"epochUnit": "Seconds"}, "epochUnit is for BIGINT and INT"),
    ],
)
def test_a_column_that_is_no_time_is_refused_with_what_to_do(
    spark: SparkSession, schema: str, event_time: dict[str, Any], says: str
) -> None:
    spec = source(schema=schema, eventTime={"column": "ts", "watermark": "1m", **event_time})
    with pytest.raises(SpecError, match=says):
        check_event_time(Source.model_validate(spec), {"ts": DataType.fromDDL(schema.split()[1])})
