"""Queries that name a source several times, on real Spark and Kafka: it is read once, also from a checkpoint of a release before (ADR 104)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kappa_pipelines.revision.settings import SHARED_SCANS
from spark.conftest import wait_for
from spark.revisions import build_revision, source, spark_conf

START = datetime(2026, 1, 1, tzinfo=UTC)
PARTS = "SELECT k, v, ts FROM flights WHERE v < 60 UNION ALL SELECT k + 100 AS k, -v AS v, ts FROM flights WHERE v >= 40"
VIEWS = {
    "a union": f"SELECT window.start AS w, k, sum(v) AS n FROM ({PARTS}) GROUP BY window(ts, '1 minute'), k",  # noqa: S608 - constants
    "a join": "SELECT l.k, l.v, r.v AS w FROM flights l JOIN flights r ON l.k = r.k"
    " AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 5 SECONDS WHERE l.v < 50 AND r.v >= 50",
}
BEFORE = {"a union": "false", "a join": "true"}
"""Whether the first driver reads the source once. The state of a join is another one then, which a checkpoint does not change."""


def make_records(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"k": number % 3, "v": float(number % 100), "ts": (START + timedelta(seconds=number)).isoformat()}
        for number in range(first, first + count)
    ]


def compute(view: str, records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the rows of a view, without the windows that are still open after the last record."""
    if view == "a join":
        return sorted(
            (x["k"], x["v"], y["v"])
            for at, x in enumerate(records)
            for y in records[at : at + 6]
            if x["k"] == y["k"] and x["v"] < 50 <= y["v"]
        )
    sums: dict[tuple[int, int], float] = {}
    for number, each in enumerate(records):
        parts = [(each["k"], each["v"])] if each["v"] < 60 else []
        parts += [(each["k"] + 100, -each["v"])] if each["v"] >= 40 else []
        for k, v in parts:
            sums[number // 60, k] = sums.get((number // 60, k), 0) + v
    closed = (len(records) - 1) // 60
    return sorted((k, v) for (minute, k), v in sums.items() if minute < closed)


@pytest.mark.parametrize("view", VIEWS)
def test_a_source_is_read_once_and_its_dead_letters_are_counted_once(
    view: str, run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("flights", "out", "dead")}
    spec = {
        "sources": [source(eventTime={"column": "ts", "watermark": "0s"})],
        "views": [{"name": "answer", "sql": VIEWS[view]}],
        "sinks": [{"name": "out", "from": "answer", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }
    records = make_records(0, 601)
    for shared, part in ((BEFORE[view], records[:250]), ("true", records[250:])):
        conf = {**spark_conf(), SHARED_SCANS: shared}
        topics.write(names["flights"], [json.dumps(each) for each in part] + ["{"])
        driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names, spark_conf=conf))
        progress = driver.wait_for(
            "no lag", lambda p: p.queries and p.queries[0].batch_id >= 0 and p.lag == 0
        )
        [read] = progress.queries[0].sources
        assert (read.total_input_rows, read.total_malformed_rows) == (len(part) + 1, 1)
        expected = compute(view, records[: records.index(part[-1]) + 1])
        wait_for("the rows", lambda: len(topics.read(names["out"])) >= len(expected))  # noqa: B023 - it is called here
        assert driver.stop().graceful
    assert len(topics.read(names["dead"])) == 2
    columns = ("k", "v", "w") if view == "a join" else ("k", "n")
    found = [tuple(row[name] for name in columns) for row in topics.values(names["out"])]
    assert sorted(found) == expected
