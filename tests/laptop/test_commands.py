"""A pipeline on a laptop: its test cases, a run over files, and what `explain` says of it."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab.paths import REPOSITORY
from laptop.commands import kappa
from spark.topics import Topics

FLIGHTS = REPOSITORY / "pipelines" / "examples" / "flights"
PIPELINE = str(FLIGHTS / "pipeline.yaml")
ALERTS = str(FLIGHTS.parent / "auction-alerts" / "pipeline.yaml")
SKETCHES = str(FLIGHTS.parent / "sketches" / "pipeline.yaml")


def test_the_cases_of_the_flights_pass(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert kappa("test", [PIPELINE]) == 0, capsys.readouterr().out
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("✓ delays: ") for line in lines[:4])
    assert lines[4] == "4 passed"


WRONG = """
apiVersion: kappa-platform.io/v1alpha1
kind: PipelineTest
metadata: {name: all wrong}
spec:
  pipeline: delays
  input:
    - value: {origin: JFK, scheduled: 2013-01-01T05:15:00Z, dep_delay: 2}
    - value: "?"
    - mark: end
  expect:
    sinks: [{name: hourly, rows: [{origin: JFK, departures: 2}]}]
    deadLetters: [{error: value is null}]
    late: 3
"""


def test_what_is_not_as_expected_is_shown_line_by_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    assert kappa("test", ["-f", PIPELINE, "-f", str(tmp_path / "wrong.yaml")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✗ delays: all wrong")
    assert [line.strip() for line in lines[1:]] == [
        "sink hourly, last rows of each key: `-` is missing, `+` was not expected",
        '- {"origin": "JFK", "departures": 2}',
        '+ {"origin": "JFK", "departures": 1}',
        "- dead letter of any source: value is null",
        "+ dead letter of flights at offset 1: value is not a JSON object",
        "0 rows were dropped as late, 3 expected",
        "0 passed, 1 failed",
    ]


CLOSED = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: closed}
spec:
  sources:
    - {name: a, topic: first, format: {json: {schema: "k STRING, at TIMESTAMP"}}, eventTime: {column: at, watermark: 1h}}
    - {name: b, topic: second, format: {csv: {schema: "k STRING, at TIMESTAMP"}}, eventTime: {column: at, watermark: 1h}}
  views:
    - {name: both, sql: "SELECT k, at FROM a UNION ALL SELECT k, at FROM b"}
    - {name: daily, sql: "SELECT k, window.start AS day, count(*) AS n FROM both GROUP BY k, window(at, '1 day')"}
    - name: pairs
      sql: SELECT a.k, a.at, b.at AS later FROM a JOIN b ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR
  sinks:
    - {name: out, from: daily, kafka: {topic: daily, key: [k]}}
    - {name: pairs, from: pairs, kafka: {topic: pairs}}
"""


@pytest.mark.chaos
def test_over_files_every_window_closes_at_the_end(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "closed.yaml").write_text(CLOSED)
    first = [{"k": "x", "at": f"2026-01-0{day}T08:00:00Z"} for day in (1, 2, 2)]
    (tmp_path / "first.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in first))
    second = {"value": "x,2026-01-01T08:30:00Z", "key": "x", "timestamp": "2026-01-01T09:00:00Z"}
    (tmp_path / "second.records.jsonl").write_text(json.dumps(second) + "\n" + json.dumps({"value": "x"}))
    arguments = ["-f", str(tmp_path / "closed.yaml"), "--local", "--data", str(tmp_path), "--batch-size", "2"]
    assert kappa("run", arguments) == 0
    output = capsys.readouterr()
    rows = [json.loads(line) for line in output.out.splitlines()]
    assert sorted((row["sink"], row["key"], row["value"].get("n")) for row in rows) == [
        ("out", "x", 2),
        ("out", "x", 2),
        ("pairs", None, None),
    ]
    batches = [line for line in output.err.splitlines() if "sink out: batch" in line]
    assert len(batches) >= 3, "every batch is shown"
    assert "1970" not in output.err
    assert "watermark none" in batches[0]
    assert "watermark at the end of the input" in batches[-1]
    assert "1 records could not be read" in output.err


def test_over_topics_it_reads_what_is_there_and_writes_nothing(
    spark: SparkSession, topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {name: topics.make(name) for name in ("first", "second")}
    text = CLOSED.replace("topic: first", f"topic: {names['first']}").replace(
        "topic: second", f"topic: {names['second']}"
    )
    (tmp_path / "closed.yaml").write_text(text)
    topics.write(names["first"], ['{"k": "x", "at": "2026-01-01T08:00:00Z"}'])
    topics.write(names["second"], ["x,2026-01-01T08:30:00Z"])
    before = set(topics.admin.list_topics(timeout=10).topics)
    arguments = ["-f", str(tmp_path / "closed.yaml"), "--local", "--data", f"kafka://{topics.bootstrap}"]
    assert kappa("run", arguments) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["sink"], row["value"]["k"]) for row in rows] == [("pairs", "x")], "no day has ended"
    assert set(topics.admin.list_topics(timeout=10).topics) == before


def test_a_missing_kafka_is_reported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "closed.yaml").write_text(CLOSED)
    assert (
        kappa("run", ["-f", str(tmp_path / "closed.yaml"), "--local", "--data", "kafka://127.0.0.1:1"]) == 1
    )
    assert "pipeline/closed: KafkaUnavailable: " in capsys.readouterr().out


SELF_JOIN = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: pairs}
spec:
  sources:
    - {name: a, topic: first, format: {json: {schema: "k STRING, at TIMESTAMP"}}, eventTime: {column: at, watermark: 1m}}
    - {name: b, topic: second, format: {json: {schema: "k STRING, at TIMESTAMP"}}, eventTime: {column: at, watermark: 1m}}
  views:
    - name: alone
      sql: |
        SELECT e.k, e.at, later.at AS next FROM a AS e LEFT JOIN a AS later
        ON e.k = later.k AND later.at > e.at AND later.at <= e.at + INTERVAL 1 HOUR
    - {name: unread, sql: SELECT * FROM b}
  sinks:
    - {name: pairs, from: alone, kafka: {topic: pairs}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: PipelineTest
metadata: {name: a self-join goes on while a source that it does not read is silent}
spec:
  pipeline: pairs
  input:
    - {source: a, value: {k: x, at: 2026-01-01T08:00:00Z}}
    - {source: a, value: {k: x, at: 2026-01-01T08:30:00Z}}
    - {mark: batch}
    - {source: a, value: {k: y, at: 2026-01-01T12:00:00Z}}
    - {mark: stop}
    - {source: a, value: {k: y, at: 2026-01-01T16:00:00Z}}
  expect:
    sinks:
      - name: pairs
        rows:
          - {k: x, at: 2026-01-01T08:00:00Z, next: 2026-01-01T08:30:00Z}
          - {k: x, at: 2026-01-01T08:30:00Z, next: null}
          - {k: y, at: 2026-01-01T12:00:00Z, next: null}
"""


@pytest.mark.chaos
def test_a_source_that_is_not_read_does_not_hold_the_watermark_of_a_self_join(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.yaml").write_text(SELF_JOIN)
    assert kappa("test", ["-f", str(tmp_path / "pairs.yaml")]) == 0, capsys.readouterr().out


def test_progress_counts_a_source_once_and_the_summary_names_every_sink(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = SELF_JOIN.split("---", maxsplit=1)[0].replace(
        "  sinks:\n", "  sinks:\n    - {name: silent, from: unread, kafka: {topic: silent}}\n"
    )
    (tmp_path / "pairs.yaml").write_text(pipeline)
    rows = [{"k": "x", "at": f"2026-01-01T0{hour}:30:00Z"} for hour in (8, 9, 8)]
    (tmp_path / "first.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "second.jsonl").write_text("")
    assert kappa("run", [str(tmp_path / "pairs.yaml"), "--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert "sink silent: 0 rows" in lines
    assert "sink pairs: 3 rows" in lines
    counted = [line.split(", ")[1] for line in lines if "sink pairs: batch" in line]
    assert counted[0] == "3 records"
    assert set(counted[1:]) <= {"0 records"}


FILTERED = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: filtered}
spec:
  sources:
    - {name: a, topic: first, format: {json: {schema: "v INT, at TIMESTAMP"}}, eventTime: {column: at, watermark: 1m}}
  views:
    - {name: large, sql: "SELECT window.start AS hour, count(*) AS n FROM a WHERE v > 5 GROUP BY window(at, '1 hour')"}
  sinks:
    - {name: out, from: large, kafka: {topic: out}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: PipelineTest
metadata: {name: rows that a view leaves out move the watermark too}
spec:
  pipeline: filtered
  input:
    - {value: {v: 9, at: 2026-01-01T08:00:00Z}}
    - {value: {v: 1, at: 2026-01-01T12:00:00Z}}
    - {mark: stop}
    - {value: {v: 2, at: 2026-01-01T12:00:00Z}}
  expect:
    sinks: [{name: out, rows: [{hour: 2026-01-01T08:00:00Z, n: 1}]}]
"""


def test_the_watermark_follows_all_rows_of_a_source_whatever_a_view_leaves_out(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "filtered.yaml").write_text(FILTERED)
    assert kappa("test", ["-f", str(tmp_path / "filtered.yaml")]) == 0, capsys.readouterr().out


PYTHON = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: scored}
spec:
  sources:
    - {name: a, topic: first, format: {json: {schema: "k STRING, v INT"}}}
  views:
    - {name: answer, sql: "SELECT k, score FROM scored WHERE score > 1"}
    - {name: scored, python: {function: "kappa_test_scores.views:score", reads: [a]}}
  sinks:
    - {name: out, from: answer, kafka: {topic: out}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: PipelineTest
metadata: {name: a function beside the manifest makes the rows}
spec:
  pipeline: scored
  input:
    - {value: {k: x, v: 1}}
    - {value: {k: y, v: 4}}
  expect:
    sinks: [{name: out, rows: [{k: y, score: 2}]}]
"""
MODULE = "def score(rows):\n    return rows.selectExpr('k', 'CAST(sqrt(v) AS INT) AS score')\n"
WRONG_MODULES = {
    "def rate(rows): ...": "kappa_test_scores.views has no function score; it has rate",
    "import kappa_missing": "cannot be imported in views.py, line 1: ModuleNotFoundError",
    "def score(rows):\n    return rows.groupBy('x').count()": "score failed in views.py, line 2",
    "def score(rows):\n    return 1": "returned int, not a DataFrame",
    "def score(rows):\n    return rows.sparkSession.range(3)": "not a stream over its inputs",
}


@pytest.fixture
def scores(tmp_path: Path) -> Iterator[Path]:
    """A package beside a manifest, forgotten afterwards."""
    (tmp_path / "kappa_test_scores").mkdir()
    (tmp_path / "kappa_test_scores" / "__init__.py").touch()
    (tmp_path / "scored.yaml").write_text(PYTHON)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith("kappa_test_scores")]:
        del sys.modules[name]


def test_a_python_view_is_a_function_beside_the_manifest(
    spark: SparkSession, scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (scores / "kappa_test_scores" / "views.py").write_text(MODULE)
    assert kappa("test", ["-f", str(scores / "scored.yaml")]) == 0, capsys.readouterr().out


WATERMARKED = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: scored}
spec:
  sources:
    - {name: a, topic: first, format: {json: {schema: "k STRING, at STRING"}}}
    - {name: b, topic: second, format: {json: {schema: "k STRING, at TIMESTAMP"}}, eventTime: {column: at, watermark: 1m}}
  views:
    - {name: timed, python: {function: "kappa_test_scores.views:score", reads: [a]}}
    - {name: daily, sql: "SELECT k, window.start AS day, count(*) AS n FROM timed GROUP BY k, window(at, '1 day')"}
    - {name: both, sql: "SELECT * FROM timed UNION ALL SELECT * FROM b"}
    - {name: hourly, sql: "SELECT window.start AS hour, count(*) AS n FROM both GROUP BY window(at, '1 hour')"}
  sinks:
    - {name: days, from: daily, kafka: {topic: days, key: [k]}}
    - {name: hours, from: hourly, kafka: {topic: hours}}
    - {name: all, from: b, kafka: {topic: all}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: PipelineTest
metadata: {name: windows of a watermark that a function sets close at the end and no row is lost however late its time}
spec:
  pipeline: scored
  input:
    - {source: a, value: {k: x, at: "2026-01-01T08:00:00Z"}}
    - {source: b, value: {k: x, at: "2026-01-01T08:30:00Z"}}
    - {mark: batch}
    - {source: a, value: {k: x, at: "2026-01-02T08:00:00Z"}}
    - {source: b, value: {k: z, at: "9999-06-01T00:00:00Z"}}
    - {mark: end}
  expect:
    sinks:
      - name: days
        rows: [{k: x, day: 2026-01-01T00:00:00Z, n: 1}, {k: x, day: 2026-01-02T00:00:00Z, n: 1}]
      - name: hours
        rows: [{hour: 2026-01-01T08:00:00Z, n: 2}, {hour: 2026-01-02T08:00:00Z, n: 1}]
      - name: all
        rows: [{k: x, at: 2026-01-01T08:30:00Z}, {k: z, at: 9999-06-01T00:00:00Z}]
"""


def test_over_files_windows_of_a_watermark_that_a_function_sets_close_too(
    spark: SparkSession, scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    function = "def score(rows):\n    return rows.selectExpr('k', 'CAST(at AS TIMESTAMP) AS at').withWatermark('at', '1 minute')\n"
    (scores / "kappa_test_scores" / "views.py").write_text(function)
    (scores / "watermarked.yaml").write_text(WATERMARKED)
    assert kappa("test", ["-f", str(scores / "watermarked.yaml")]) == 0, capsys.readouterr()


@pytest.mark.parametrize("module", WRONG_MODULES)
def test_an_error_of_a_python_view_names_its_line(
    module: str, spark: SparkSession, scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (scores / "kappa_test_scores" / "views.py").write_text(module)
    assert kappa("validate", ["-f", str(scores / "scored.yaml")]) == 1
    said = capsys.readouterr().out
    assert "PythonViewFailed: view 'scored': " in said
    assert WRONG_MODULES[module] in said


def test_a_topic_without_a_file_is_named_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kappa("run", ["-f", PIPELINE, "--local", "--data", str(tmp_path)]) == 2
    assert f"{tmp_path} has no records of topic flights" in capsys.readouterr().err


def test_explain_shows_the_graph_the_state_with_its_bounds_and_the_guarantee(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "closed.yaml").write_text(CLOSED)
    assert (
        kappa("explain", ["-f", str(tmp_path / "closed.yaml"), "-f", PIPELINE, "-f", ALERTS, "-f", SKETCHES])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert "view both ← a, b" in lines
    assert "view daily ← both" in lines
    assert "    keeps the aggregation by k, window until the watermark passes window" in lines
    assert "view pairs ← a, b" in lines
    for side in ("left", "right"):
        assert (
            f"    keeps the {side} side of a join by k until the watermark excludes further matches" in lines
        )
    assert "sink hourly ← hourly → topic delays-hourly (mode update, key origin, hour)" in lines
    found = lines.index("view alerts ← lots, searches")
    assert "    JSON is read by Kappa" in lines
    assert "    JSON is written by Kappa" in lines
    assert lines[found + 1] == (
        "    keeps the documents until the watermark passes them, and the stored queries by id"
        " until the watermark passes their next version or deletion"
    )
    assert "against all that need none" in lines[found + 2]
    assert "    bloom_filter(tailnum, 1000, 0.001) is a Bloom filter of 8 KiB for each group" in lines
