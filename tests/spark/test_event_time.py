"""Event time from three clocks: Spark's plan against the same rule in Python, and from Kafka to a result."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kappa_crds.source import EventTime
from kappa_pipelines.sources.event_time import add_corrected_time, correct_clock
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


def test_the_plan_computes_what_the_rule_says(spark: SparkSession) -> None:
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
    found = add_corrected_time(frame, event_time).selectExpr("n", "unix_micros(t) AS t").collect()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert {row.n: epoch + timedelta(microseconds=row.t) for row in found} == {
        number: correct_clock(*row, edge) for number, row in enumerate(rows)
    }
    assert len({row.t for row in found}) > 1000, "the rows must differ, or nothing was compared"


def test_a_device_that_is_an_hour_behind_counts_in_the_right_window(
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
        "sinks": [{"name": "out", "from": "counted", "topic": "out", "mode": "update", "key": ["minute"]}],
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
        "sinks": [{"name": "out", "from": "counted", "topic": "out"}],
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("a watermark", lambda p: p.queries and p.queries[0].watermark == minutes[1])
    driver.wait_for("the batch that closes windows", lambda p: p.queries[0].batch_id >= 1)
    assert driver.stop().graceful
    assert [row["n"] for row in topics.values(names["out"])] == [1]
