"""Queries that name a source several times read it once (ADR 104), and give the rows of a query that reads it as often as it names it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.laptop.explanation import explain
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.fingerprint import build_fingerprints
from kappa_pipelines.revision.settings import SHARED_SCANS
from laptop.formers import FORMER, check_former
from laptop.two_plans import build_answer, check_same, make_rows, run_both

PARTS = "SELECT k, v, ts FROM a WHERE v < 3 UNION ALL SELECT k, v * 10 AS v, ts FROM a WHERE v > 1"
SHARED = {
    "two parts": PARTS,
    "a part without a filter": "SELECT s, v FROM a UNION ALL SELECT 'again', v FROM a",
    "three parts in layers": "SELECT n, t, m FROM (SELECT upper(s) AS n, concat(s, '-', v) AS t, length(s) AS m FROM a WHERE s IS NOT NULL)"
    " WHERE m > 0 AND n <> 'Y' UNION ALL SELECT n, n || t, m + 1 FROM (SELECT s || 'z' AS n, 'const' AS t, v AS m FROM a) WHERE m > 2"
    " UNION ALL SELECT s, s, 7 FROM a",
    "an error outside of a part": "SELECT k, 12 / v AS x FROM a WHERE v <> 0 UNION ALL SELECT k, v AS x FROM a WHERE v = 0",
    "other types": "SELECT k AS x, named_struct('a', v) AS y FROM a UNION ALL SELECT v, named_struct('a', 1L) FROM a",
    "another source between": "SELECT k, v FROM a WHERE v < 3 UNION ALL SELECT k, v + 100 FROM b UNION ALL SELECT k, v + 200 FROM a",
    "two sources twice": "SELECT k, v FROM b WHERE v < 3 UNION ALL SELECT k, v + 100 FROM a UNION ALL SELECT k, v + 200 FROM a"
    " UNION ALL SELECT k, v + 300 FROM b WHERE k IS NOT NULL",
    "a window over parts": f"SELECT window.start AS w, sum(v) AS v, count(*) AS n FROM ({PARTS}) GROUP BY window(ts, '30 seconds')",  # noqa: S608 - constants
    "distinct rows": "SELECT DISTINCT ts, s FROM (SELECT ts, s FROM a UNION ALL SELECT ts, s FROM a WHERE v > 2)",
    "a common table expression": "WITH e AS (SELECT k, v, ts FROM a WHERE v > 0) SELECT k, v FROM e UNION ALL SELECT k, v * 10 FROM e WHERE v < 3"
    " UNION ALL SELECT k, 77 FROM (WITH f AS (SELECT * FROM b) SELECT * FROM f)",
    "a table beside": "SELECT x.s, y.t FROM (SELECT s FROM a WHERE v < 3 UNION ALL SELECT s FROM a WHERE v > 3) x"
    " JOIN (VALUES ('x', 1), ('', 2) AS u(s, t)) y ON x.s = y.s",
    "a join within an interval": "SELECT l.s, l.v, r.v AS w, r.ts FROM (SELECT * FROM a WHERE v < 4) l JOIN a r ON l.s = r.s"
    " AND r.v > l.v AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 40 SECONDS",
    "a join of unions": "SELECT l.s, r.v, r.ts FROM (SELECT s, ts FROM a WHERE v < 4 UNION ALL SELECT s, ts FROM b WHERE v < 2) l"
    " JOIN b r ON l.s = r.s AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 20 SECONDS",
    "a join of a common table expression": "WITH e AS (SELECT * FROM a WHERE s <> '') SELECT l.s, l.v, r.v AS w, r.ts FROM e l JOIN e r ON l.s = r.s"
    " AND r.v > l.v AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 40 SECONDS",
}
TWICE = {
    "an aggregate of itself": "SELECT l.s, l.v, r.n FROM a l JOIN (SELECT window, s, count(*) AS n FROM a GROUP BY window(ts, '30 seconds'), s) r"
    " ON l.s = r.s AND l.ts >= r.window.start AND l.ts < r.window.end",
    "a join without an interval": "SELECT l.v, r.v AS w FROM a l JOIN a r ON l.s = r.s AND l.v = r.v + 1",
    "a common table expression with an aggregation": "WITH e AS (SELECT * FROM a) SELECT window(ts, '30 seconds').start AS t, v FROM e"
    " UNION ALL SELECT window.start, count(*) FROM e GROUP BY window(ts, '30 seconds')",
    "a list in rows": "SELECT v FROM a UNION ALL SELECT explode(sequence(1, v)) AS v FROM a",
    "random numbers": "SELECT v FROM a WHERE rand() < 2 UNION ALL SELECT v FROM a",
}  # fmt: skip


@pytest.fixture(autouse=True)
def restore(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(SHARED_SCANS)


def compile_shared(spark: SparkSession, revision: Revision) -> Compiled:
    start_spark(revision)
    return compile_revision(spark, revision)


SHORT = {"a common table expression"}
"""The others take ten to twenty seconds each; `make chaos` has them, and `tests/spark` a union and a join."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.chaos) for name in SHARED]
)
def test_the_rows_are_those_of_two_scans(name: str, spark: SparkSession, tmp_path: Path) -> None:
    own, other = run_both(build_answer(SHARED[name]), SHARED_SCANS, tmp_path, make_rows(0))
    [shared], [twice] = own.compiled.sinks, other.compiled.sinks
    assert len(shared.scans) == len(set(shared.scans)) < len(twice.scans)
    assert (shared.joined is not None) == ("a join" in name)
    check_same(own, other)


@pytest.mark.chaos
def test_an_as_of_join_of_parts_is_a_step_over_one_scan(spark: SparkSession, tmp_path: Path) -> None:
    views = [
        {"name": "low", "sql": "SELECT * FROM a WHERE v < 4"},
        {"name": "high", "sql": "SELECT s, v * 2 AS w, ts FROM a WHERE v >= 2 AND s IS NOT NULL"},
        {
            "name": "answer",
            "asOf": {
                "from": "low",
                "table": "high",
                "key": {"s": "s"},
                "columns": {"w": "w"},
                "maxAge": "1m",
            },
        },
    ]
    own, other = run_both(build_answer("", views=views), SHARED_SCANS, tmp_path, make_rows(2))
    assert [own.compiled.sinks[0].scans, other.compiled.sinks[0].scans] == [("a",), ("a", "a")]
    check_same(own, other)


@pytest.mark.chaos
def test_a_source_has_very_many_parts(spark: SparkSession, tmp_path: Path) -> None:
    parts = [f"SELECT s || '{n}' AS s, v + {n} AS v FROM a WHERE v <> {n % 7}" for n in range(40)]  # noqa: S608 - constants
    own, other = run_both(build_answer(" UNION ALL ".join(parts)), SHARED_SCANS, tmp_path, make_rows(0)[:2])
    assert (len(own.compiled.sinks[0].scans), len(other.compiled.sinks[0].scans)) == (1, 40)
    check_same(own, other)


@pytest.mark.parametrize("name", TWICE)
def test_a_source_is_read_twice_where_its_parts_need_more_than_a_row(name: str, spark: SparkSession) -> None:
    revision = build_answer(TWICE[name])
    compiled = compile_shared(spark, revision)
    assert compiled.sinks[0].scans == ("a", "a")
    lines = list(explain("shared", spark, revision, compiled))
    assert any("reads source a 2 times" in line for line in lines), lines


def test_the_state_of_a_join_with_two_scans_is_continued_with_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    revision = build_answer(SHARED["a join within an interval"])
    new = compile_shared(spark, revision)
    old = compile_revision(spark, revision, former=FORMER)
    assert [each.sinks[0].scans for each in (new, old)] == [("a",), ("a", "a")]
    assert old.sinks[0].joined is None
    before, after = build_fingerprints(revision, old), build_fingerprints(revision, new)
    check_former(tmp_path, revision.spec, before, after, "instead of a")


def test_explain_has_no_line_for_a_source_that_is_read_once(spark: SparkSession) -> None:
    revision = build_answer(PARTS)
    lines = list(explain("shared", spark, revision, compile_shared(spark, revision)))
    assert not any("reads source a" in line for line in lines), lines
