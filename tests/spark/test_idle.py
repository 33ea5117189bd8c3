"""A source that is silent does not hold what it is read with, in Kafka: marks, restarts, and what comes after."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.broker import Broker
from spark.conftest import wait_for
from spark.revisions import build_revision, source
from spark.topics import Topics

START = datetime(2026, 1, 1, tzinfo=UTC)
IDLE: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "0s", "idleAfter": "4s"}}
LIVE: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "0s"}}
VIEWS = [
    {
        "name": "priced",
        "asOf": {
            "from": "bids",
            "table": "rates",
            "key": {"k": "k"},
            "columns": {"rate": "v"},
            "maxAge": "1h",
        },
    },
    {"name": "both", "sql": "SELECT k, v, ts FROM bids UNION ALL SELECT k, v, ts FROM rates"},
    {"name": "hourly", "window": {"from": "both", "tumbling": "1h", "aggregates": {"n": "count(*)"}}},
]
SINKS = [{"name": name, "from": name, "kafka": {"topic": name}} for name in ("priced", "hourly")]


def write(topics: Topics, topic: str, *rows: tuple[float, float]) -> None:
    """Write rows of one key: hours after the start, and a value."""
    times = [(START + timedelta(hours=hours), value) for hours, value in rows]
    topics.write(topic, [json.dumps({"k": 1, "v": v, "ts": ts.isoformat()}) for ts, v in times])


@pytest.mark.chaos  # its rule is in tests/unit/runtime/test_idleness.py
def test_a_silent_source_holds_neither_a_join_nor_a_union_also_after_a_restart(
    run: Any, broker: Broker, topics: Topics, checkpoint: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("bids", "rates", "priced", "hourly")}
    spec = {"sources": [source("bids", **LIVE), source("rates", **IDLE)], "views": VIEWS, "sinks": SINKS}
    revision = build_revision(spec, checkpoint, broker.bootstrap, topics=names)

    def has(hours: list[int], rates: dict[int, float]) -> bool:
        found = sorted(topics.values(names["hourly"]), key=lambda row: row["window_start"])
        priced = {row["v"]: row["rate"] for row in topics.values(names["priced"])}
        return [row["n"] for row in found] == hours and rates.items() <= priced.items()

    write(topics, names["rates"], (0, 0.5))
    write(topics, names["bids"], (0.1, 1), (0.2, 2), (2.5, 3))
    driver = run(revision)
    wait_for("the first hour", lambda: has([3], {1: 0.5, 2: 0.5}))
    assert driver.stop().graceful
    write(topics, names["bids"], (4.5, 4))
    again = run(revision, 2)
    wait_for("the third hour", lambda: has([3, 1], {1: 0.5}))
    write(topics, names["rates"], (3, 0.7), (5.2, 0.9))  # the first of them is late: its hour was done
    write(topics, names["bids"], (5.5, 5), (7.5, 6))
    wait_for("all but the last", lambda: has([3, 1, 1, 2], {5: 0.9}))
    late = again.progress.queries
    assert sum(query.total_late_rows for query in late if query.sink == "hourly") == 1
    assert again.stop().graceful
