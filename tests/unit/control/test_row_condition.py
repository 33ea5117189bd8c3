"""What of the condition of a run for some rows is wrong before any driver starts."""

from typing import Any

import pytest

from kappa_crds.pipeline import PipelineSpec
from kappa_operator.verdict.decide import explain_applying
from kappa_operator.verdict.row_condition import find_condition_problems
from unit.control.pipelines import SPEC, observed, pipeline

COUNT = "SELECT k, count(*) AS n FROM events GROUP BY k"
STREAM = {"topic": "out"}


def build(only: str | None, sql: str = COUNT, mode: str = "append", **kafka: Any) -> dict[str, Any]:
    reprocessing = {"gates": {"cut": "Never"}, **({} if only is None else {"only": only})}
    return {
        "views": [{"name": "counted", "sql": sql}],
        "sinks": [{"name": "log", "from": "counted", "mode": mode, "kafka": {**STREAM, **kafka}}],
        "upgrade": {"mode": "Shadow", "reprocessing": reprocessing},
    }


def find(spec: dict[str, Any]) -> list[str]:
    return list(find_condition_problems(PipelineSpec.model_validate({**SPEC, **spec})))


@pytest.mark.parametrize(
    "spec",
    [
        build(None),
        build("k IN ('a', 'b')"),
        build("K = 'a' AND n > 2"),
        build("a.b = 3", "SELECT k, named_struct('b', 1) AS a FROM events"),
        build("exists(array(1, 2), x -> x > n)"),
        build("other = 1", "SELECT * FROM events"),
        build("other = 1", "SELECT k, upper(k) FROM events"),
        build("other = 1", "SELECT k FROM events UNION ALL SELECT k FROM events"),
        build("other = 1", "this is no SQL that can be read"),
        build("k = 'a'", mode="update", key=["k"]),
        build("n = 1", value=["n"], key=["k"]),
        {**build("other = 1"), "sinks": [{"name": "log", "from": "events", "kafka": STREAM}]},
    ],
)
def test_a_condition_that_may_be_right_has_no_problem(spec: dict[str, Any]) -> None:
    assert find(spec) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (build("k = 'a' AND"), "cannot be read as a condition"),
        (build("k = 'a'; DROP TABLE x"), "cannot be read as a condition"),
        (build("k IN (SELECT k FROM events)"), "has a subquery"),
        (build("count(k) > 1"), "has an aggregate"),
        (build("1 = 1"), "names no column"),
        (build("carrier = 'AA'"), "column carrier of sink 'log' is not written; its columns for it: k, n"),
        (build("n = 1", value=["k"]), "column n of sink 'log' is not written; its columns for it: k"),
        (build("n = 1", raw="k"), "column n of sink 'log' is not written; its columns for it: k"),
        (
            build("n = 1 AND k = 'a'", mode="update", key=["k"]),
            "column n of sink 'log' is not part of the key, and rows replace each other; its columns for it: k",
        ),
    ],
)
def test_a_condition_that_a_driver_refuses_is_found_without_one(spec: dict[str, Any], problem: str) -> None:
    (found,) = find(spec)
    assert found.startswith("spec.upgrade.reprocessing.only") and problem in found


def test_it_is_a_warning_when_the_pipeline_is_applied() -> None:
    warnings = explain_applying(observed(pipeline(build("carrier = 'AA'"))), None)
    assert warnings == (
        "delays: a Reprocessing would fail: spec.upgrade.reprocessing.only: column carrier of sink 'log' is not written;"
        " its columns for it: k, n",
    )
