"""Filters over sessions see whole sessions, wherever they are, and those over other keys are below the state (ADR 94)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kappa_crds import API_VERSION
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from laptop.equivalence import build_table, optimize

START = datetime(2026, 1, 1, tzinfo=UTC)
CLICKS = build_table("clicks", "k STRING, ts TIMESTAMP", "ts", "10m")
SEEN = build_table("seen", "k STRING, at TIMESTAMP", "at", "10m")
SESSIONS = {"from": "clicks", "key": ["k"], "session": "10m", "aggregates": {"n": "count(*)"}}
BEGUN, ENDED = "TIMESTAMP'2026-01-01T00:05:00Z'", "TIMESTAMP'2026-01-01T00:15:00Z'"
HAVING = (
    "SELECT k, count(*) AS n FROM clicks GROUP BY k, session_window(ts, '10 minutes')"
    " HAVING session_window.{} AND k <> 'c' AND n > 1"
)
WHERE = "SELECT k, n FROM sessions WHERE {} AND k <> 'c' AND n > 1"
JOIN = (
    "SELECT s.k, s.n FROM sessions s JOIN seen ON seen.k = s.k AND seen.k <> 'c' AND seen.at = s.window_start"
    " AND seen.at >= {}"
)
A, B = {"k": "a", "n": 3}, {"k": "b", "n": 2}
VIEWS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "having_start": (HAVING.format(f"start >= {BEGUN}"), [B]),
    "having_end": (HAVING.format(f"end > {ENDED}"), [A, B]),
    "where_start": (WHERE.format(f"window_start >= {BEGUN}"), [B]),
    "where_end": (WHERE.format(f"window_end > {ENDED}"), [A, B]),
    "inferred": (JOIN.format(BEGUN), [B]),
}  # fmt: skip
"""A view of each kind, and its rows. A session of `a` begins before one bound and ends after the other, so each cuts it."""


RUN = ("having_start", "where_end", "inferred")
"""Those that are run; of all the plan is read."""


def build_revision(names: tuple[str, ...] = tuple(VIEWS)) -> Any:
    views = [
        {"name": "sessions", "window": SESSIONS},
        *({"name": name, "sql": VIEWS[name][0]} for name in names),
    ]
    sinks = [{"name": name, "from": name, "kafka": {"topic": name}} for name in names]
    return build_local_revision(
        {
            "apiVersion": API_VERSION,
            "kind": "Pipeline",
            "metadata": {"name": "visits", "namespace": "test"},
            "spec": {"sources": [CLICKS, SEEN], "views": views, "sinks": sinks},
        }
    )


def make_records(name: str, times: dict[str, tuple[int, ...]]) -> list[Record]:
    """Records with the minutes of each key."""
    return [
        Record(json.dumps({"k": key, name: (START + timedelta(minutes=each)).isoformat()}).encode())
        for key, minutes in times.items()
        for each in minutes
    ]


def test_a_filter_over_sessions_divides_none(spark: SparkSession, tmp_path: Path) -> None:
    revision = build_revision(RUN)
    run = LocalRun(start_spark(revision), revision, tmp_path)
    clicks = make_records("ts", {"a": (0, 5, 10), "b": (30, 34), "c": (31, 33)})
    seen = make_records("at", {"a": (0, 5), "b": (30,), "c": (31,)})
    run.feed({"clicks": clicks[:2], "seen": seen})
    run.feed({"clicks": clicks[2:]})
    run.end()
    run.process()
    found = {name: [json.loads(each.value or "") for each in run.outputs(name)] for name in RUN}
    assert {name: sorted(rows, key=str) for name, rows in found.items()} == {
        name: VIEWS[name][1] for name in RUN
    }


def test_a_filter_over_another_key_is_below_the_state(spark: SparkSession) -> None:
    revision = build_revision()
    for sink in compile_revision(start_spark(revision), revision).sinks:
        above, below = optimize(sink.rows).toString().split("Aggregate [", 1)
        below = below.split("EventTimeWatermark", 1)[0]
        for text, has, lacks in (("= c)", below, above), ("2026-01-01", above, below)):
            assert text in has, sink.sink.name
            assert text not in lacks, sink.sink.name
