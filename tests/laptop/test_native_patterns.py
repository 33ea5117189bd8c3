"""Patterns that the module in Java searches (ADR 101): the matches are those of the step in Python."""

import json
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kappa_crds import API_VERSION
from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.analysis.catalyst import get_plan
from kappa_pipelines.laptop.explanation import explain
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.fingerprint import build_fingerprints
from kappa_pipelines.revision.settings import NATIVE_PATTERNS
from kappa_pipelines.upgrade.compare import compare_pipelines, judge
from laptop.formers import FORMER, check_former
from laptop.two_plans import START, check_same, run_both

COLUMNS = "k DOUBLE, s STRING, v INT, w BIGINT, d DECIMAL(12,2), x DOUBLE, day DATE, ts TIMESTAMP"
MEASURES = {
    "n": "COUNT(*)",
    "first": "A.v",
    "words": "upper(LAST(s))",
    "total": "SUM(A.d)",
    "mean": "AVG(x)",
    "seen": "LAST(ts, 1)",
}
PATTERN: dict[str, Any] = {
    "from": "a",
    "key": ["k"],
    "steps": "A B+ C?",
    "define": {"B": "v >= PREV(v)", "C": "s < LAST(A.s) OR LAST(A.s) IS NULL"},
    "measures": MEASURES,
    "within": "90s",
}
VALUES = """
    SUM(B.w) < 9 AND (AVG(d) <= 3000.5 OR MAX(A.d) - MIN(d) > 10 OR COUNT(B.s) = COUNT(B.*))
    AND ts - FIRST(ts) < INTERVAL 40 SECONDS AND x + LAST(x, 1) IS NOT NULL AND day BETWEEN FIRST(A.day) AND date '2026-01-03'
"""
DIVISION = "LAST(A.w) / (v - 2) > 0.5 OR coalesce(PREV(w) * 3 - v, 9) IN (0, 1, 2) OR abs(-SUM(x)) > 2"
VIEWS: dict[str, dict[str, Any]] = {
    "a repetition": {},
    "values of all types": {"steps": "A B*? C", "define": {"B": VALUES, "C": DIVISION}, "key": ["k", "s"]},
    "alternatives": {
        "steps": "(A | B)+ C",
        "define": {"A": "v > 2", "B": "v < 5 AND COUNT(A.*) < 3", "C": "LAST(A.v) > FIRST(B.v, 1)"},
        "skip": {"to": "last", "step": "B"},
    },
    "a negation": {"steps": "A !B C", "define": {"A": "v > 3", "B": "v = LAST(A.v)"}, "skip": {"to": "nextRow"}},
    "a negation at the end": {"steps": "A !B", "define": {"A": "v > 3", "B": "d > LAST(A.d)"}, "within": "30s"},
    "no key": {"steps": "A{2} B", "key": [], "define": {"A": "v IS NOT NULL"}, "skip": {"to": "first", "step": "B"}},
    "no limit": {"steps": "A B{2,3}", "define": {"A": "v = 1", "B": "B.v <> PREV(v)"}, "within": None},
}  # fmt: skip


@pytest.fixture(autouse=True)
def restore(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(NATIVE_PATTERNS)


def build(changes: dict[str, Any], columns: str = COLUMNS) -> Revision:
    pattern = {name: value for name, value in {**PATTERN, **changes}.items() if value is not None}
    view = {"name": "answer", "pattern": pattern, "allowUnboundedState": True}
    time = {"column": "ts", "watermark": "20s"}
    spec = {
        "sources": [{"name": "a", "topic": "a", "format": {"json": {"schema": columns}}, "eventTime": time}],
        "views": [view if "within" not in pattern else {**view, "allowUnboundedState": False}],
        "sinks": [{"name": "answer", "from": "answer", "kafka": {"topic": "answer"}}],
    }
    metadata = {"name": "found", "namespace": "test"}
    return build_local_revision({"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec})  # fmt: skip


def is_native(compiled: Compiled) -> bool:
    plan = get_plan(compiled.sinks[0].rows).toString()
    return "TransformWithState" in plan and "TransformWithStateInPySpark" not in plan


def make_rows(seed: int, keys: int) -> list[dict[str, list[Record]]]:
    """Return six batches of a minute, many keys: equal times, equal rows, NULLs, and rows that come too late."""
    rng = random.Random(seed)
    names = [*(key / 2 for key in range(1, keys)), None, "NaN"]
    batches = []
    for minute in range(6):
        rows = []
        for _ in range(4 * keys):
            delay = rng.choice([0, 0, 0, 0, 15, 150])
            moment = START + timedelta(seconds=60 * minute + rng.randrange(0, 60, 4) - delay)
            row = {
                "k": rng.choice(names),
                "s": rng.choice(["x", "", "größe", None]),
                "v": rng.choice([None, *range(7), *range(7)]),
                "w": rng.choice([None, 1, 2, 3]),
                "d": f"{rng.randrange(9999)}.25",
                "x": rng.choice([None, 0.1, 0.2, 1e3, -0.5]),
                "day": f"2026-01-0{rng.randrange(1, 6)}",
                "ts": None if rng.random() < 0.02 else moment.isoformat(),
            }
            rows += [Record(json.dumps(row).encode())] * rng.choice([1, 1, 1, 1, 2])
        batches.append({"a": rows})
    return batches


@pytest.mark.chaos  # 20 s for each; `make test` has the matches of the standard in `test_patterns.py`
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("view", VIEWS)
def test_the_matches_are_those_of_the_step_in_python(
    view: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    own, other = run_both(build(VIEWS[view]), NATIVE_PATTERNS, tmp_path, make_rows(seed, keys=30))
    assert (is_native(own.compiled), is_native(other.compiled)) == (True, False)
    check_same(own, other)
    assert own.late > 0
    assert own.rows.total() > 15


def compile_view(spark: SparkSession, revision: Revision, native: str = "true", **options: Any) -> Compiled:
    start_spark(revision).conf.set(NATIVE_PATTERNS, native)
    return compile_revision(spark, revision, **options)


@pytest.mark.parametrize(
    ("changes", "columns", "native", "line"),
    [
        ({}, COLUMNS, "true", "by Kappa in the JVM"),
        ({}, COLUMNS, "false", f"in Python, more slowly: {NATIVE_PATTERNS} is false"),
        (
            {"key": ["s"]},
            COLUMNS.replace("s STRING", "s STRING COLLATE UTF8_LCASE"),
            "true",
            "in Python, more slowly: equal values of its key may have different bytes",
        ),
    ],
)
def test_explain_shows_where_matches_are_found(
    changes: dict[str, Any], columns: str, native: str, line: str, spark: SparkSession
) -> None:
    revision = build(changes, columns)
    compiled = compile_view(spark, revision, native)
    assert is_native(compiled) == ("JVM" in line)
    lines = list(explain("found", spark, revision, compiled))
    assert f"    matches are found {line}" in lines


def test_state_in_python_stays_there(spark: SparkSession, tmp_path: Path) -> None:
    revision = build({})
    old = build_fingerprints(revision, compile_view(spark, revision, former=FORMER))
    new = build_fingerprints(revision, compile_view(spark, revision))
    assert [each.operator for each in old["answer"].operators] == ["state in Python"]
    check_former(tmp_path, revision.spec, old, new, "instead of a")


def test_another_definition_or_type_does_not_fit_the_state(spark: SparkSession) -> None:
    def read(columns: str = COLUMNS, **changes: Any) -> Any:
        revision = build(changes, columns)
        return build_fingerprints(revision, compile_view(spark, revision))

    present = read()
    assert judge(compare_pipelines(present, read(f"{COLUMNS}, more STRING"))).kind is VerdictKind.RESUME
    others: dict[str, Any] = {
        "pattern.within": read(within="2m"),
        "the key of the search for a pattern": read(key=["s"]),
        "the columns of the search for a pattern": read(COLUMNS.replace("v INT", "v BIGINT")),
    }
    for words, other in others.items():
        verdict = judge(compare_pipelines(present, other))
        assert verdict.kind is VerdictKind.REPROCESS
        assert any(words in reason for reason in verdict.reasons), verdict.reasons
