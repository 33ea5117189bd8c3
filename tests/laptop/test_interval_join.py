"""Joins of two streams within a time interval that keep each row once (ADR 102) give the rows of Spark's join."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.laptop.explanation import explain
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.fingerprint import build_fingerprints
from kappa_pipelines.revision.settings import NATIVE_JOINS
from kappa_pipelines.transforms import interval_join
from kappa_pipelines.upgrade.compare import compare_pipelines, judge
from laptop.formers import FORMER, check_former
from laptop.two_plans import START, build_answer, check_same, make_rows, run_both

AFTER = "SELECT a.k, a.v, b.v AS w, b.d, b.ts FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 40 SECONDS"
JOINS = {  # without NULL in a key that is DOUBLE: Spark pairs it with NULL
    "after": f"{AFTER} WHERE a.k IS NOT NULL",
    "around": "SELECT a.s, a.k, b.k AS other, a.ts, b.ts AS at FROM a JOIN b ON a.s = b.s"
    " AND b.ts > a.ts - INTERVAL 30 SECONDS AND b.ts < a.ts + INTERVAL 1 MINUTE",
    "with other conditions": "SELECT a.*, b.v * 2 AS w FROM a JOIN b ON a.k = b.k AND coalesce(a.s, '') = coalesce(b.s, '')"
    " AND a.v < b.v AND a.d > 2000 AND a.ts >= b.ts - INTERVAL 20 SECONDS AND b.ts + INTERVAL 30 SECONDS >= a.ts WHERE b.v <> 3"
    " AND a.k IS NOT NULL",
    "with NULL as a key": "SELECT a.k, b.v FROM a JOIN b ON a.k <=> b.k AND a.s <=> b.s"
    " AND unix_seconds(a.ts) BETWEEN unix_seconds(b.ts) - 15 AND unix_seconds(b.ts) + 15"
    " AND a.ts BETWEEN b.ts - INTERVAL 20 SECONDS AND b.ts + INTERVAL 20 SECONDS",
    "of parts": "SELECT x.k, y.d, x.ts FROM (SELECT k, ts, explode(sequence(1, v)) AS n FROM a WHERE k IS NOT NULL) x"
    " JOIN (SELECT k, d, v, ts FROM b WHERE s IS NOT NULL) y"
    " ON x.k = y.k AND x.n = y.v AND x.ts BETWEEN y.ts AND y.ts + INTERVAL 50 SECONDS",
}


@pytest.fixture(autouse=True)
def restore(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(NATIVE_JOINS)


def build(sql: str, mode: str = "append") -> Revision:
    key = {} if mode == "append" else {"key": ["k"]}
    sink = {"name": "answer", "from": "answer", "kafka": {"topic": "answer", **key}, "mode": mode}
    return build_answer(sql, sinks=[sink])


def test_a_key_with_many_rows_is_kept_in_chunks_and_null_is_no_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interval_join, "CHUNK_BYTES", 300)
    revision = build(
        "SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 MINUTES"
    )
    start_spark(revision)
    run, rng = LocalRun(spark, revision, tmp_path), random.Random(0)
    times: dict[str, list[int]] = {"a": [], "b": []}
    for batch in range(4):
        fed = {}
        for name, known in tuple(times.items()):
            new = [60 * batch + rng.randrange(-15, 60) for _ in range(30)]
            rows = [(START + timedelta(seconds=each), len(known) + v) for v, each in enumerate(new)]
            fed[name] = [
                Record(json.dumps({"k": k, "v": v if k else -1, "ts": ts.isoformat()}).encode())
                for ts, v in rows
                for k in (1.5, None)
            ]
            times[name] = known + new
        run.feed(fed)
        run.process()
    found = [json.loads(each.value or "") for each in run.outputs("answer")]
    lefts, rights = enumerate(times["a"]), list(enumerate(times["b"]))
    expected = [(v, w) for v, left in lefts for w, right in rights if left <= right <= left + 120]
    assert Counter((row["v"], row["w"]) for row in found) == Counter(expected)


@pytest.mark.chaos  # each takes 20 s
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chunk", [1 << 16, 100])
@pytest.mark.parametrize("name", JOINS)
def test_the_rows_are_those_of_sparks_join(
    name: str, chunk: int, seed: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interval_join, "CHUNK_BYTES", chunk)
    own, other = run_both(build(JOINS[name]), NATIVE_JOINS, tmp_path, make_rows(seed))
    assert own.compiled.sinks[0].joined is not None
    assert other.compiled.sinks[0].joined is None
    check_same(own, other)


def compile_join(spark: SparkSession, revision: Revision, native: str = "true", **options: Any) -> Compiled:
    start_spark(revision).conf.set(NATIVE_JOINS, native)
    return compile_revision(spark, revision, **options)


OTHERS = {
    "mode append": (build(AFTER, "update"), "true"),
    "nativeJoins is false": (build(AFTER), "false"),
    "no inner join": (build(AFTER.replace("JOIN", "LEFT JOIN")), "true"),
    "no equal keys": (build(AFTER.replace("a.k = b.k", "a.k < b.k")), "true"),
    "in both directions": (build("SELECT a.k, b.v FROM a JOIN b ON a.k = b.k AND b.ts >= a.ts"), "true"),
    "another operator, Aggregate": (
        build(
            AFTER.replace("a.k, a.v, b.v AS w, b.d, b.ts", "window(a.ts, '1 minute') AS at, count(*) AS n")
            + " GROUP BY window(a.ts, '1 minute')"
        ),
        "true",
    ),
    "reads a source twice": (
        build(AFTER.replace("JOIN b", "JOIN (SELECT * EXCEPT (k), explode(array(k)) AS k FROM a) b")),
        "true",
    ),
}


@pytest.mark.parametrize("words", OTHERS)
def test_what_it_cannot_join_is_a_join_of_spark_and_explain_shows_why(
    words: str, spark: SparkSession
) -> None:
    revision, native = OTHERS[words]
    compiled = compile_join(spark, revision, native)
    assert compiled.sinks[0].joined is None
    lines = list(explain("joined", spark, revision, compiled))
    assert any("a join of Spark" in line and words in line for line in lines), lines


def test_explain_shows_what_it_keeps(spark: SparkSession) -> None:
    compiled = compile_join(spark, build(AFTER))
    assert compiled.sinks[0].joined is not None
    lines = list(explain("joined", spark, build(AFTER), compiled))
    assert "    keeps the left side of a join by k until the watermark excludes further matches" in lines
    assert "    for sink answer each row is kept once, with the others of its key" in lines


def test_the_state_of_a_join_of_spark_is_continued_by_it(spark: SparkSession, tmp_path: Path) -> None:
    revision = build(AFTER)
    old = build_fingerprints(revision, compile_join(spark, revision, former=FORMER))
    new = build_fingerprints(revision, compile_join(spark, revision))
    check_former(tmp_path, revision.spec, old, new, "instead of a")


def test_other_output_fits_the_state_and_other_rows_do_not(spark: SparkSession) -> None:
    def read(sql: str) -> Any:
        return build_fingerprints(build(sql), compile_join(spark, build(sql)))

    present = read(AFTER)
    verdict = judge(compare_pipelines(present, read(AFTER.replace("b.v AS w", "b.v + 1 AS w"))))
    assert verdict.kind is VerdictKind.RESUME
    others = {
        "condition": AFTER.replace("40 SECONDS", "41 SECONDS"),
        "columns of the left side": AFTER.replace("a.v,", "a.v, a.s,"),
        "columns of the right side": AFTER.replace("b.d, ", ""),
        "key": AFTER.replace("FROM a", "FROM (SELECT * EXCEPT (k), k + 1 AS k FROM a) a"),
    }
    for name, sql in others.items():
        verdict = judge(compare_pipelines(present, read(sql)))
        assert verdict.kind is VerdictKind.REPROCESS
        assert any(f"the {name} of the join within an interval" in each for each in verdict.reasons)
