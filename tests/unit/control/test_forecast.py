"""What two specs alone tell of a change. Each verdict is the one that Spark comes to, where the dry start makes the same change."""

from typing import Any

import pytest

from kappa_crds.kinds import find_kind
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.upgrade import VerdictKind
from kappa_operator.verdict.forecast import forecast
from kappa_operator.verdict.view_names import find_name_problems
from unit.control.pipelines import SPEC

COUNT = "SELECT k, count(*) AS n, sum(v) AS total FROM clicks GROUP BY k, window(ts, '1 minute')"
JOIN = "SELECT c.k, t.v FROM clicks c JOIN taps t ON c.k = t.k AND t.ts BETWEEN c.ts AND c.ts + INTERVAL 20 SECONDS"
WINDOW = {"from": "clicks", "tumbling": "1m", "key": ["k"], "aggregates": {"n": "count(*)"}}
SCHEMA = {"json": {"schema": "k BIGINT, v INT, ts TIMESTAMP"}}
RESUME, REPARTITION, REPROCESS = VerdictKind.RESUME, VerdictKind.REPARTITION, VerdictKind.REPROCESS


def build(*views: dict[str, Any] | str, **fields: Any) -> PipelineSpec:
    """Return a spec whose sink has the rows of its last view, `result`."""
    named = [{"name": "result", "sql": view} if isinstance(view, str) else view for view in views]
    spec = {
        "sources": [{"name": name, "topic": name, "format": SCHEMA} for name in ("clicks", "taps")],
        "views": named,
        "sinks": [{"name": "out", "from": "result", "kafka": {"topic": "out"}}],
        **fields,
    }
    found: PipelineSpec = find_kind("Pipeline").parse({"metadata": {"name": "p"}, "spec": spec}).spec
    return found


@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        ("SELECT k FROM clicks", "SELECT k, v FROM clicks WHERE v > 2", RESUME, ""),
        ("SELECT k FROM clicks", COUNT, REPROCESS, "a new aggregation, for which there is no state"),
        (COUNT, "SELECT k FROM clicks", REPROCESS, "its aggregation is gone"),
        (COUNT, COUNT.replace("AS n", "AS number").lower(), RESUME, ""),
        (COUNT, COUNT.replace("sum(v) AS", "sum(v) * 2 AS"), RESUME, ""),
        (COUNT, COUNT + " HAVING count(*) > 1", RESUME, ""),
        (COUNT, COUNT.replace("FROM clicks", "FROM clicks WHERE v > 3"), RESUME, ""),
        (COUNT, COUNT.replace("AS total", "AS total, max(v)"), REPROCESS, "there is no state: max(v)"),
        (COUNT, COUNT.replace(", sum(v) AS total", ""), REPROCESS, "gone now: sum(v)"),
        (COUNT, COUNT.replace("count(*) AS n, sum(v)", "sum(v), count(*)"), REPROCESS, "another order"),
        (COUNT, COUNT.replace("1 minute", "2 minutes"), REPROCESS, "window(ts, '2 minutes') instead of"),
        (COUNT, COUNT.replace("FROM clicks", "FROM (SELECT DISTINCT * FROM clicks)"), REPROCESS, "distinct"),
        (JOIN, JOIN.replace("20", "60"), REPROCESS, "a join is"),
        (JOIN, JOIN.replace("JOIN taps", "LEFT JOIN taps"), REPROCESS, "a join is"),
        (JOIN, JOIN.replace("t.v", "t.v + 1 AS w"), RESUME, ""),
    ],
)  # fmt: skip
def test_a_change_of_sql_is_judged_by_what_it_groups_and_joins(
    old: str, new: str, verdict: VerdictKind, said: str
) -> None:
    found = forecast(build(old), build(new), 4)
    assert found is not None
    assert (found.kind, found.unread) == (verdict, ())
    assert said in "; ".join(found.reasons)
    assert forecast(build(old), build(old), 4) == forecast(build(new), build(new), 4)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        (
            build({"name": "result", "window": WINDOW}),
            build({"name": "result", "window": {**WINDOW, "tumbling": "2m"}}),
            REPROCESS,
            "its definition was changed (window.tumbling)",
        ),
        (build(COUNT), build({"name": "result", "window": WINDOW}), REPROCESS, "is window instead of sql"),
        (
            build({"name": "counted", "sql": COUNT}, "SELECT k FROM counted"),
            build("SELECT k FROM clicks"),
            REPROCESS,
            "view 'counted' keeps state and is gone",
        ),
        (
            build("SELECT k FROM clicks"),
            build({"name": "counted", "sql": COUNT}, "SELECT k FROM clicks"),
            RESUME,
            "",
        ),
        (build(COUNT), build(COUNT, statePartitions=8), REPARTITION, "is 8 and the state has 4 partitions"),
        (build(COUNT), build(COUNT, statePartitions=4), RESUME, ""),
        (build(COUNT), build(COUNT, sources=SPEC["sources"]), RESUME, ""),
    ],
    ids=["definition", "kind", "view gone", "view that no sink reads", "divided", "as divided", "sources"],
)
def test_operators_and_partitions_are_judged_too(
    old: PipelineSpec, new: PipelineSpec, verdict: VerdictKind, said: str
) -> None:
    found = forecast(old, new, 4)
    assert found is not None
    assert (found.kind, said in "; ".join(found.reasons)) == (verdict, True)


def test_another_topic_of_a_source_cannot_be_continued() -> None:
    other = [{"name": "clicks", "topic": "others", "format": SCHEMA}]
    found = forecast(build(COUNT), build(COUNT, sources=other), 4)
    assert found is not None
    assert found.reasons == (
        "source 'clicks' reads topic others instead of topic clicks; offsets of one mean nothing in the other",
    )


def test_what_cannot_be_read_here_is_named() -> None:
    by_hand = {"name": "result", "python": {"function": "rules:make", "reads": ["clicks"]}}
    changed = {"name": "result", "python": {"function": "rules:make_more", "reads": ["clicks"]}}
    found = forecast(build(by_hand), build(changed), 4)
    assert found is not None
    assert (found.kind, found.unread) == (RESUME, ("result",))
    found = forecast(build(COUNT), build("SELECT (((" * 9), 4)
    assert found is not None
    assert found.unread == ("result",)


def test_more_sql_than_can_be_read_in_time_is_not_read() -> None:
    long = COUNT + " " * 65_000
    assert forecast(build(COUNT), build({"name": "more", "sql": long}, long), 4) is None


def test_unknown_names_and_circles_are_found_without_spark() -> None:
    spec = build("SELECT * FROM Clicks JOIN clickz USING (k)")
    assert list(find_name_problems(spec)) == [
        "view 'result': there is no source or view 'clickz'; did you mean 'clicks'?"
    ]
    circle = build({"name": "one", "sql": "SELECT * FROM result"}, "SELECT * FROM one, clicks")
    assert list(find_name_problems(circle)) == [
        "views read each other in a circle: 'one' reads 'result', 'result' reads 'one'; take one of these references out"
    ]


def test_names_that_a_statement_makes_itself_are_known() -> None:
    spec = build(
        "WITH late AS (SELECT * FROM clicks) SELECT window.end, x FROM late LATERAL VIEW explode(array(1)) t AS x,"
        " range(3) GROUP BY window, x"
    )
    assert list(find_name_problems(spec)) == []
