"""Corrected windows against their meaning: random rows, of which many are late, some too late for all."""

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from laptop.equivalence import build_story, build_table
from reference.windows import correct

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DELAYS = [timedelta(0), HOUR, 3 * HOUR]
STORY = build_story(
    [build_table("clicks", "k STRING, v BIGINT, ts TIMESTAMP", "ts", "10m")],
    {
        "window": {
            "from": "clicks",
            "key": ["k"],
            "tumbling": "1h",
            "aggregates": {"n": "count(*)", "total": "sum(v)"},
            "lateRecords": {"correct": {"after": ["1h", "3h"]}},
        }
    },
    "",
)
Result = tuple[int, int]


def count(events: Any) -> Result:
    return len(events), sum(events)


def test_late_rows_correct_their_windows_as_often_as_they_are_in_time_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(3)
    revision = build_local_revision({**STORY.manifest, "metadata": {"namespace": "t", "name": "c"}})
    run = LocalRun(start_spark(revision), revision, tmp_path)
    arrivals: dict[tuple[str, datetime], list[tuple[datetime, int]]] = defaultdict(list)
    watermark = datetime.min.replace(tzinfo=UTC)
    for step in range(3):
        rows: list[dict[str, Any]] = [
            {
                "k": rng.choice("ab"),
                "v": rng.randrange(9),
                "ts": START + step * HOUR + rng.random() * 5 * HOUR - 4 * HOUR,
            }
            for _ in range(40)
        ]
        for row in rows:
            arrivals[row["k"], row["ts"].replace(minute=0, second=0, microsecond=0)].append(
                (watermark, row["v"])
            )
        run.feed(
            {
                "clicks": [
                    Record(json.dumps(row, default=lambda time: time.isoformat()).encode()) for row in rows
                ]
            }
        )
        run.process()
        watermark = max(watermark, max(row["ts"] for row in rows) - timedelta(minutes=10))
    run.end()
    run.process()
    expected: list[tuple[Any, ...]] = [
        (key, start, revision, retraction, result)
        for (key, start), events in arrivals.items()
        for revision, retraction, result in correct(events, start + HOUR, DELAYS, count)
    ]
    found = [
        (
            row["k"],
            datetime.fromisoformat(row["window_start"]),
            row["revision"],
            row["retraction"],
            (row["n"], row["total"]),
        )
        for row in (json.loads(output.value or "") for output in run.outputs("answer"))
    ]
    assert sorted(found) == sorted(expected)
    assert {revision for _, _, revision, _, _ in expected} == {0, 1, 2}, (
        "the rows are to be late enough for corrections"
    )
