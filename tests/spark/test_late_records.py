"""Stragglers in Kafka: every row is in a result or in the topic of those that came too late, whatever becomes of the driver."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.progress import Progress
from kappa_crds.revision import Revision
from lab.broker import Broker
from spark.revisions import build_revision, source
from spark.topics import Topics

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
VIEWS = [
    {"name": "some", "sql": "SELECT k, v, ts FROM clicks WHERE k % 10 <> 9"},
    {
        "name": "hourly",
        "window": {
            "from": "some",
            "tumbling": "1h",
            "aggregates": {"found": "collect_list(k)"},
            "lateRecords": {"sideOutput": {"topic": "late"}},
        },
    },
]


def build(names: dict[str, str], checkpoint: Path, bootstrap: str) -> Revision:
    timed: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "10m"}}
    spec = {
        "sources": [source("clicks", **timed)],
        "views": VIEWS,
        "sinks": [{"name": "out", "from": "hourly", "kafka": {"topic": "out", "key": ["window_start"]}}],
        "trigger": {"maxRecords": 200},
    }
    return build_revision(spec, checkpoint, bootstrap, topics=names)


def build_rows(first: int, count: int, begin: datetime) -> list[str]:
    """Rows that move on by an hour for each hundred; every fourth comes up to nine hours late."""
    rng = random.Random(first)
    late = [rng.random() * 9 * HOUR if number % 4 == 0 else timedelta(0) for number in range(count)]
    times = [begin + number * HOUR / 100 - each for number, each in enumerate(late)]
    return [json.dumps({"k": first + n, "v": 1.0, "ts": time.isoformat()}) for n, time in enumerate(times)]


def read_late(topics: Topics, topic: str) -> dict[str, tuple[Any, dict[str, str]]]:
    """Each straggler by its key, with its headers; what was written twice is there once."""
    messages: list[Any] = topics.read(topic)
    return {
        message.key().decode(): (
            json.loads(message.value()),
            {name: value.decode() for name, value in message.headers()},
        )
        for message in messages
    }


def check_all_are_there(topics: Topics, names: dict[str, str], count: int) -> int:
    """Every wanted row but those of open windows is counted or a straggler, and none is both. Return the stragglers."""
    results = {row["window_start"]: row["found"] for row in topics.values(names["out"])}
    counted = [k for found in results.values() for k in found]
    late = [row["k"] for row, _ in read_late(topics, names["late"]).values()]
    assert sorted([*counted, *late]) == [k for k in range(count) if k % 10 != 9]
    return len(late)


def end(topics: Topics, names: dict[str, str]) -> None:
    """Close the windows; the row itself is left out by the view, but moves the watermark."""
    for _ in range(2):
        topics.write(names["clicks"], [json.dumps({"k": 9, "ts": (START + 1000 * HOUR).isoformat()})])


def is_done(count: int) -> Any:
    def holds(progress: Progress) -> bool:
        query = progress.queries[0] if progress.queries else None
        return (
            query is not None
            and query.batch_id >= 0
            and progress.lag == 0
            and (query.watermark or START) > START + 900 * HOUR
        )

    return holds


def test_a_late_record_has_the_window_that_it_missed(
    run: Any, broker: Broker, topics: Topics, checkpoint: Path
) -> None:
    names = {"clicks": topics.make("clicks", partitions=1), **{n: topics.make(n) for n in ("out", "late")}}
    revision = build(names, checkpoint, broker.bootstrap)
    rows = build_rows(0, 300, START)
    topics.write(names["clicks"], rows[:200])
    driver = run(revision)
    # The batch without data, which has the watermark of the first rows: without it no later row is late.
    driver.wait_for("a watermark", lambda p: any(q.watermark and q.watermark > START for q in p.queries))
    topics.write(names["clicks"], rows[200:])
    driver.wait_for_records(300)
    assert driver.stop().graceful
    first = read_late(topics, names["late"])
    end(topics, names)
    again = run(revision, 2)
    again.wait_for("the end", is_done(300))
    assert again.stop().graceful
    assert check_all_are_there(topics, names, 300) >= 5
    assert {key: first[key] for key in first} == {
        key: value for key, value in read_late(topics, names["late"]).items() if key in first
    }
    key, (row, headers) = next(iter(first.items()))
    assert (
        headers["kappa.watermark"] >= headers["kappa.windowEnd"] > row["ts"] >= headers["kappa.windowStart"]
    )
    assert headers["kappa.view"] == "hourly"
    assert key == f"{names['clicks']}/0/{row['k']}/hourly/{headers['kappa.windowStart']}/0"
    assert (headers["kappa.topic"], headers["kappa.offset"]) == (names["clicks"], str(row["k"]))


@pytest.mark.chaos
def test_no_late_record_is_lost_when_drivers_are_killed(
    start: Any, broker: Broker, topics: Topics, checkpoint: Path
) -> None:
    names = {n: topics.make(n) for n in ("clicks", "out", "late")}
    revision = build(names, checkpoint, broker.bootstrap)
    topics.write(names["clicks"], build_rows(0, 4000, START))
    moments = (
        lambda p: p.queries and p.queries[0].total_late_rows > 0,
        lambda p: p.late_records > 0,
    )
    for generation, moment in enumerate(moments, start=1):
        driver = start(revision, generation)
        driver.wait_for(f"moment {generation}", moment)
        driver.kill()
    end(topics, names)
    driver = start(revision, len(moments) + 1)
    driver.wait_for("the end", is_done(4000))
    driver.get("/stop", token="let-me-in", method="POST")
    assert driver.wait().graceful
    assert check_all_are_there(topics, names, 4000) >= 100
