"""Sliding windows and as-of joins that keep each row once (ADR 81) give the rows of the joins that Spark alone would make of them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kappa_crds import API_VERSION
from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.analysis.catalyst import get_plan
from kappa_pipelines.laptop.explanation import explain
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.fingerprint import build_fingerprints
from kappa_pipelines.revision.settings import ONE_SIDED
from kappa_pipelines.upgrade.compare import compare_pipelines, judge
from laptop.formers import FORMER, check_former
from laptop.two_plans import COLUMNS, check_same, make_rows, run_both

AGGREGATES = {
    "n": "count(*)",
    "mean": "avg(d)",
    "most": "max_by(s, struct(v, s))",
    "some": "sum(v) FILTER (WHERE v > 3) + 1",
    "all": "sort_array(collect_list(struct(v, s)))",
    "kinds": "size(collect_set(s))",
    "many": "count_if(v > 2)",
    "spread": "max(a.v) - min(v)",
    "about": "approx_count_distinct(v)",
    "middle": "percentile(v, 0.5)",
}
SLIDING: dict[str, Any] = {"from": "a", "key": ["k"], "length": "90s", "aggregates": AGGREGATES}
AS_OF: dict[str, Any] = {
    "from": "a",
    "table": "b",
    "key": {"s": "s"},
    "columns": {"w": "v", "price": "d", "since": "ts"},
}
VIEWS: dict[str, dict[str, Any]] = {
    "sliding": {"sliding": SLIDING},
    "sliding, by several columns": {"sliding": {**SLIDING, "key": ["s", "k"]}},
    "as of": {"asOf": AS_OF, "allowUnboundedState": True},
    "as of, by several columns": {
        "asOf": {**AS_OF, "key": {"k": "k", "s": "s"}},
        "allowUnboundedState": True,
    },
    "as of, with an age": {"asOf": {**AS_OF, "maxAge": "40s", "unmatched": "drop"}},
}


@pytest.fixture(autouse=True)
def restore(spark: SparkSession) -> Any:
    yield
    spark.conf.unset(ONE_SIDED)


def build(view: dict[str, Any], mode: str = "append") -> Revision:
    time = {"column": "ts", "watermark": "20s"}
    reads = ("a", "b") if "asOf" in view else ("a",)
    spec = {
        "sources": [
            {"name": n, "topic": n, "format": {"json": {"schema": COLUMNS}}, "eventTime": time} for n in reads
        ],
        "views": [{"name": "answer", **view}],
        "sinks": [
            {"name": "answer", "from": "answer", "kafka": {"topic": "answer", "key": ["k"]}, "mode": mode}
        ],
    }
    return build_local_revision(
        {
            "apiVersion": API_VERSION,
            "kind": "Pipeline",
            "metadata": {"name": "one", "namespace": "test"},
            "spec": spec,
        }
    )


def is_one_sided(compiled: Compiled) -> bool:
    return "TransformWithState" in get_plan(compiled.sinks[0].rows).toString()


@pytest.mark.chaos  # each takes 20 s; `make test` has the stories of `test_equivalence.py`
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("view", VIEWS)
def test_the_rows_are_those_of_a_join(view: str, seed: int, spark: SparkSession, tmp_path: Path) -> None:
    own, other = run_both(build(VIEWS[view]), ONE_SIDED, tmp_path, make_rows(seed))
    assert (is_one_sided(own.compiled), is_one_sided(other.compiled)) == (True, False)
    check_same(own, other)


def compile_view(
    spark: SparkSession, view: dict[str, Any], mode: str = "append", one_sided: str = "true", **options: Any
) -> Compiled:
    revision = build(view, mode)
    start_spark(revision).conf.set(ONE_SIDED, one_sided)
    return compile_revision(spark, revision, **options)


def test_what_it_cannot_compute_is_a_join_and_explain_tells_why(spark: SparkSession) -> None:
    counted = {**SLIDING, "aggregates": {"n": "count(*)"}}
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "mode append": ({"sliding": counted}, "update"),
        "current time": ({"sliding": {**counted, "aggregates": {"n": "max(current_timestamp())"}}}, "append"),
        "is false": ({"sliding": counted}, "append"),
    }
    for words, (view, mode) in cases.items():
        compiled = compile_view(spark, view, mode, "false" if words == "is false" else "true")
        lines = list(explain("one", spark, build(view, mode), compiled))
        assert not is_one_sided(compiled)
        assert any("a join of Spark" in line and words in line for line in lines), lines
    compiled = compile_view(spark, {"sliding": counted})
    assert is_one_sided(compiled)
    lines = list(explain("one", spark, build({"sliding": counted}), compiled))
    assert "    keeps the events of a sliding window by k until the watermark has passed them by 90s" in lines
    assert not any("a join of Spark" in line for line in lines)


def test_the_state_of_a_join_is_continued_by_a_join(spark: SparkSession, tmp_path: Path) -> None:
    view = {"sliding": SLIDING}
    revision = build(view)
    old = build_fingerprints(revision, compile_view(spark, view, former=FORMER))
    new = build_fingerprints(revision, compile_view(spark, view))
    check_former(tmp_path, revision.spec, old, new, "instead of a")


def test_other_aggregates_fit_the_state_and_another_length_or_key_does_not(spark: SparkSession) -> None:
    def read(**changes: Any) -> Any:
        view = {"sliding": {**SLIDING, **changes}}
        return build_fingerprints(build(view), compile_view(spark, view))

    present = read()
    assert judge(compare_pipelines(present, read(aggregates={"m": "max(v)"}))).kind is VerdictKind.RESUME
    others: dict[str, dict[str, Any]] = {"length": {"length": "2m"}, "key": {"key": ["s"]}}
    for name, changes in others.items():
        verdict = judge(compare_pipelines(present, read(**changes)))
        assert verdict.kind is VerdictKind.REPROCESS
        assert f"the {name} of the sliding window" in verdict.reasons[0]
