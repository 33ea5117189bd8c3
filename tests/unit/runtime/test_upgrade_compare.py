"""What a change from one plan to another means for the state, as far as the plans say it. Spark's part is in tests/spark."""

from typing import Any

import pytest

from kappa_crds.sink import OutputMode
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.plan.fingerprint import OperatorFingerprint, QueryFingerprint
from kappa_pipelines.upgrade.compare import (
    Finding,
    compare_partitions,
    compare_pipelines,
    compare_queries,
    judge,
)

COUNT = OperatorFingerprint(
    view="counted", operator="aggregation", parts={"keys": ("k",), "aggregates": ("count(1)", "sum(v)")}
)
PYTHON = OperatorFingerprint(
    view="matched", operator="state in Python", parts={"definition": ('{"within": "1m", "steps": "A B"}',)}
)
OLD = QueryFingerprint(
    sources={"clicks": "clicks"},
    topic="out",
    mode=OutputMode.APPEND,
    operators=(COUNT,),
    views={"counted": "one"},
)


def change(**fields: Any) -> list[Finding]:
    return list(compare_queries(OLD, OLD.model_copy(update=fields)))


def with_parts(**parts: tuple[str, ...]) -> OperatorFingerprint:
    return COUNT.model_copy(update={"parts": {**COUNT.parts, **parts}})


def test_the_same_query_continues_without_warnings() -> None:
    verdict = judge(compare_pipelines({"out": OLD}, {"out": OLD}))
    assert (verdict.kind, verdict.reasons) == (VerdictKind.RESUME, ())


def test_the_most_severe_finding_decides_and_comes_first() -> None:
    findings = [
        Finding(VerdictKind.RESUME, "a"),
        Finding(VerdictKind.REPROCESS, "c"),
        Finding(VerdictKind.REPARTITION, "b"),
        Finding(VerdictKind.REPROCESS, "c"),
    ]
    verdict = judge(findings)
    assert (verdict.kind, verdict.reasons) == (VerdictKind.REPROCESS, ("c", "b", "a"))


def test_more_partitions_are_a_division_of_the_state() -> None:
    assert [each.kind for each in compare_partitions(2, 4)] == [VerdictKind.REPARTITION]
    assert list(compare_partitions(4, 4)) == list(compare_partitions(None, 4)) == []


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (with_parts(keys=("k", "w")), "view 'counted': the keys of the aggregation are k, w instead of k"),
        (with_parts(keys=()), "the keys of the aggregation are none instead of k"),
        (with_parts(aggregates=("count(1)",)), "removed aggregates that are in the state: sum(v)"),
        (
            with_parts(aggregates=("count(1)", "sum(w)")),
            "new aggregates without state: sum(w)",
        ),
        (with_parts(aggregates=("sum(v)", "count(1)")), "its aggregates have another order"),
        (PYTHON, "a state in Python instead of an aggregation"),
    ],
)
def test_an_operator_with_other_state_cannot_continue(shape: OperatorFingerprint, said: str) -> None:
    found = change(operators=(shape,))
    assert {each.kind for each in found} == {VerdictKind.REPROCESS}
    assert any(said in each.text for each in found), found


def test_operators_are_known_by_their_place() -> None:
    assert "a new aggregation" in change(operators=(COUNT, COUNT))[0].text
    assert "the aggregation was removed" in change(operators=())[0].text


def test_of_a_definition_the_fields_that_were_changed_are_named() -> None:
    other = PYTHON.model_copy(update={"parts": {"definition": ('{"within": "2m", "steps": "A B"}',)}})
    old = OLD.model_copy(update={"operators": (PYTHON,)})
    found = list(compare_queries(old, old.model_copy(update={"operators": (other,)})))
    assert "its definition has changed (within)" in found[0].text


def test_a_changed_view_is_reported_once() -> None:
    assert "computed by the previous one" in change(views={"counted": "two"})[0].text
    both = change(views={"counted": "two"}, operators=(with_parts(keys=("w",)),))
    assert [each.kind for each in both] == [VerdictKind.REPROCESS]


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"sources": {"clicks": "clicks", "taps": "taps"}}, VerdictKind.RESUME, "source 'taps' is new"),
        ({"sources": {}}, VerdictKind.RESUME, "source 'clicks' is no longer read"),
        ({"sources": {"clicks": "other"}}, VerdictKind.REPROCESS, "reads other instead of clicks"),
        ({"topic": "other"}, VerdictKind.RESUME, "writes to topic other instead of out"),
        ({"mode": OutputMode.UPDATE}, VerdictKind.RESUME, "its mode is update instead of append"),
        ({"mode": OutputMode.COMPLETE}, VerdictKind.REPROCESS, "its mode is complete instead of append"),
    ],
)
def test_the_ends_of_a_query(fields: dict[str, Any], kind: VerdictKind, said: str) -> None:
    found = change(**fields)
    assert [each.kind for each in found] == [kind]
    assert said in found[0].text


def test_added_and_removed_sinks_are_reported() -> None:
    verdict = judge(compare_pipelines({"out": OLD}, {"more": OLD}))
    assert verdict.kind is VerdictKind.RESUME
    assert sorted(verdict.reasons) == [
        "sink 'more' is new; it starts at the starting offsets of its sources",
        "sink 'out' was removed; its state stays unused",
    ]
