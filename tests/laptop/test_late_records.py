"""Stragglers that go to a topic: with the results they are all of the input, none twice."""

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kappa_pipelines.errors import SpecError
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from lab.paths import REPOSITORY
from laptop.commands import kappa
from laptop.equivalence import Row, build_story, build_table

EXAMPLE = REPOSITORY / "pipelines" / "examples" / "late-records"
START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATE: Mapping[str, Any] = {"sideOutput": {"topic": "late"}}
WINDOWS: Mapping[str, Row] = {
    "tumbling": {"tumbling": "1h"},
    "hopping": {"hopping": {"length": "1h", "slide": "20m"}},
    "session": {"session": "10m"},
    "corrected": {"tumbling": "1h", "lateRecords": {**LATE, "correct": {"after": ["1h"]}}},
}
VIEWS = [
    {
        "name": "shorter",
        "sql": "WITH some AS (SELECT ts AS at, k, n FROM clicks WHERE n >= 0) SELECT k, n, at FROM some",
    },
    {"name": "both", "sql": "SELECT * FROM shorter UNION ALL SELECT k, n, ts AS at FROM taps"},
]


SLIDING: Row = {
    "from": "both",
    "key": ["k"],
    "length": "1h",
    "aggregates": {"rows": "collect_list(n)"},
    "lateRecords": LATE,
}


def build_run(spark: SparkSession, folder: Path, view: Row) -> LocalRun:
    sources = [
        build_table(name, "k STRING, n BIGINT, ts TIMESTAMP", "ts", "10m") for name in ("clicks", "taps")
    ]
    manifest = build_story(sources, view, "").manifest
    manifest["spec"]["views"] = [*manifest["spec"]["views"], *VIEWS]
    revision = build_local_revision({**manifest, "metadata": {"namespace": "t", "name": "late"}})
    return LocalRun(start_spark(revision), revision, folder)


def feed(run: LocalRun, batches: int, seed: int) -> int:
    """Give it rows in batches, of which some come hours too late; the driver dies in the middle one. Return how many rows."""
    rng, number = random.Random(seed), 0
    for step in range(batches):
        fed: dict[str, list[Record]] = {}
        for source in ("clicks", "taps"):
            for _ in range(60 // batches):
                time = (
                    START
                    + step * HOUR
                    + (rng.random() - (3 * rng.random() if rng.random() < 0.4 else 0)) * HOUR
                )
                row = {"k": rng.choice("ab"), "n": number, "ts": time.isoformat(timespec="microseconds")}
                fed.setdefault(source, []).append(Record(json.dumps(row).encode()))
                number += 1
        run.feed(fed)
        if step == batches // 2:
            assert run.crash()
        if step % 3 == 2:
            run.process()
    run.end()
    run.process()
    return number


@pytest.mark.chaos  # `make test` has the example below, and `tests/spark/test_late_records.py`
@pytest.mark.parametrize("batches", [3, 5, 17])
@pytest.mark.parametrize("window", WINDOWS)
def test_results_and_late_records_together_are_all_rows(
    window: str, batches: int, spark: SparkSession, tmp_path: Path
) -> None:
    count = {"from": "both", "key": ["k"], "aggregates": {"rows": "collect_list(n)"}, "lateRecords": LATE}
    run = build_run(spark, tmp_path, {"window": {**count, **WINDOWS[window]}})
    rows = feed(run, batches, seed=batches)
    results = [json.loads(output.value or "") for output in run.outputs("answer")]
    last = {(row["k"], row["window_start"]): row["rows"] for row in results if not row.get("retraction")}
    counted = [number for numbers in last.values() for number in numbers]
    late = [record.row for record in run.late_records()]
    found = sorted([*counted, *(row["n"] for row in late)])
    times = 3 if window == "hopping" else 1
    assert found == sorted(list(range(rows)) * times)
    assert late or (window, batches) == ("corrected", 3), (
        "rows are to be late, where corrections are over in time for that"
    )
    assert run.late > 0, "a driver reads again only what Spark says that it dropped"


@pytest.mark.chaos
@pytest.mark.parametrize("batches", [3, 5, 17])
def test_each_event_of_a_sliding_window_has_a_row_or_is_a_late_record(
    batches: int, spark: SparkSession, tmp_path: Path
) -> None:
    run = build_run(spark, tmp_path, {"sliding": SLIDING})
    rows = feed(run, batches, seed=batches)
    results = [json.loads(output.value or "") for output in run.outputs("answer")]
    late = [record.row["n"] for record in run.late_records()]
    assert late
    assert sorted([*(row["n"] for row in results), *late]) == list(range(rows))
    assert not {number for row in results for number in row["rows"]} & set(late)
    assert run.late > 0
    for record in run.late_records():
        assert record.headers["windowEnd"] <= record.headers["watermark"]


@pytest.mark.chaos  # 6 s; `make test` has late records in other pipelines
def test_the_test_case_of_the_example_passes_and_explain_shows_the_side_output(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = str(EXAMPLE / "pipeline.yaml")
    assert kappa("test", ["-f", pipeline, "-f", str(EXAMPLE / "tests" / "late.kappatest")]) == 0, (
        capsys.readouterr().out
    )
    assert kappa("explain", ["-f", pipeline]) == 0
    assert (
        "    late records go to topic late-departures, at least once and with the same key each time;"
        " the query of sink departures decides which records are late"
    ) in capsys.readouterr().out.splitlines()


REFUSED: Mapping[str, tuple[Row, Row, str]] = {
    "rows once": ({"sql": "SELECT DISTINCT k, ts FROM clicks"}, {}, "(Distinct)"),
    "a window": (
        {"window": {"from": "clicks", "tumbling": "1m", "aggregates": {"k": "max(k)"}}},
        {},
        "view 'before' is window",
    ),
    "a join": (
        {"sql": "SELECT a.k, a.ts FROM clicks a JOIN clicks b ON a.k = b.k AND a.ts = b.ts"},
        {},
        "(Join)",
    ),
    "chance": ({"sql": "SELECT * FROM clicks WHERE rand() < 0.5"}, {}, "rand"),
    "the clock": ({"sql": "SELECT k, ts, current_timestamp() AS now FROM clicks"}, {}, "CurrentTimestamp"),
    "the mode": ({"sql": "SELECT * FROM clicks"}, {"mode": "complete", "key": ["n"]}, "mode complete"),
}


def _refuse(spark: SparkSession, view: Row, before: Row, sink: Row) -> str:
    """Return why a pipeline with a side output is refused."""
    story = build_story([build_table("clicks", "k STRING, ts TIMESTAMP", "ts", "1m")], view, "", **sink)
    story.manifest["spec"]["views"].append({"name": "before", **before})
    revision = build_local_revision({**story.manifest, "metadata": {"namespace": "t", "name": "no"}})
    with pytest.raises(SpecError) as refusal:
        compile_revision(start_spark(revision), revision)
    return refusal.value.message


def test_what_could_not_be_found_again_is_refused_with_its_cause(spark: SparkSession) -> None:
    count = {"from": "before", "aggregates": {"n": "count(*)"}, "lateRecords": LATE}
    for name, (before, sink, said) in REFUSED.items():
        window = {"window": {**count, "tumbling": "1h"}, "allowUnboundedState": True}
        message = _refuse(spark, window, before, sink)
        assert message.startswith("view 'answer': window.lateRecords.sideOutput"), name
        assert said in message, (name, message)
    message = _refuse(spark, {"sliding": {**count, "length": "1h"}}, REFUSED["a join"][0], {})
    assert message.startswith("view 'answer': sliding.lateRecords.sideOutput reads the records again")
