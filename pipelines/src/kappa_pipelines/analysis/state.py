"""The state of a query and its bounds, read from Spark's analysed plan.

State is bounded if the watermark removes it: an aggregation whose keys have an event time (or a window of one), a join whose
condition limits the distance of the event times of both sides. The rules are Spark's; see `StreamingJoinHelper` and
`UnsupportedOperationChecker`. Other state grows with the number of distinct keys.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kappa_crds.reasons import Reason
from kappa_crds.sink import OutputMode
from kappa_crds.view import View
from kappa_pipelines.analysis.catalyst import (
    children_of,
    expressions_of,
    has_watermark,
    is_streaming,
    items,
    kind_of,
    name_of,
    read_plan,
    view_of,
)
from kappa_pipelines.errors import SpecError

_OWN = {"TransformWithState", "TransformWithStateInPySpark", "FlatMapGroupsInPandasWithState"}
"""Operators of the runtime or of Python views."""
_COLLECTS = re.compile(r"\b(array_agg|collect_list|collect_set|listagg|median|mode|percentile|string_agg)\(")
"""Aggregates whose state has each value, or each distinct one."""
_SIDE = "side of a join"
_ANY_WATERMARK = 1 << 40  # as wide as a Long in Java, so that it arrives as one


@dataclass(frozen=True, slots=True)
class State:
    """The state of one operator.

    `view` is the innermost view of the operator, None outside of views. `until` describes what removes the state, None if nothing
    does: then it grows with the number of `grows_with`, or is one row if that is None.
    """

    view: str | None
    operator: str
    by: tuple[str, ...]
    until: str | None
    grows_with: str | None = "keys"


def find_states(
    spark: SparkSession, rows: DataFrame, views: Mapping[str, State], mode: OutputMode
) -> tuple[State, ...]:
    """Return the state of a streaming query of these rows, from the sources to the sink.

    `views` are the views, each with its state in an operator of the runtime, if any, which is not in the plan.
    """
    found = _walk(spark, read_plan(rows), None, views)
    if mode is OutputMode.COMPLETE:  # each batch writes all groups, so none is removed
        found = (replace(state, until=None) for state in found)
    return tuple(dict.fromkeys(found))  # a part that is read twice is in the plan twice


def find_joined_views(states: Iterable[State]) -> frozenset[str | None]:
    """Return the views with joins of streams."""
    return frozenset(state.view for state in states if state.operator.endswith(_SIDE))


def check_bounds(views: Sequence[View], states: Iterable[State]) -> None:
    """Raise SpecError for a view with unbounded state, unless its spec accepts that."""
    # The state of aggregates is kept by definition.
    accepted = {v.name for v in views if v.allow_unbounded_state or v.event_sourced or v.projection}
    for state in states:
        is_bounded = state.until is not None or state.grows_with is None
        if not is_bounded and state.view is not None and state.view not in accepted:
            by = f" by {', '.join(state.by)}" if state.by else ""
            raise SpecError(
                Reason.UNBOUNDED_STATE,
                f"view {state.view!r}: the {state.operator}{by} is unbounded: its state grows with the number of"
                f" {state.grows_with}; {_remedy(state)}, or set allowUnboundedState on the view if all of them fit",
            )


def _remedy(state: State) -> str:
    if "join" in state.operator:
        return (
            "give both sources an eventTime and limit how far apart the two may be, as in"
            " `b.time BETWEEN a.time AND a.time + INTERVAL 1 HOUR` or with maxAge"
        )
    if "stored queries" in state.operator:
        return "name the column that marks deletions in search.queries.deleted"
    if "matches" in state.operator:
        return "limit the duration of a match with pattern.within"
    return "give the source an eventTime and group by a window of it, as in `GROUP BY window(time, '1 hour')`"


def _walk(spark: SparkSession, plan: Any, view: str | None, views: Mapping[str, State]) -> Iterator[State]:
    name = view_of(plan)
    if name in views:
        view = name
    for child in children_of(plan):
        yield from _walk(spark, child, view, views)
    if kind_of(plan) in _OWN and view is not None:
        yield views[view]
    elif is_streaming(plan):
        yield from _read_operator(spark, plan, view)


def _read_operator(spark: SparkSession, plan: Any, view: str | None) -> Iterator[State]:
    match kind_of(plan):
        case "Aggregate":
            yield _read_aggregation(view, plan)
        case "Distinct":
            yield _read_keys(view, "distinct rows", items(plan.output()))
        case "Deduplicate":
            yield _read_keys(view, "first rows", items(plan.keys()))
        case "DeduplicateWithinWatermark":
            by = tuple(map(name_of, items(plan.keys())))
            yield State(view, "first rows", by, "the watermark passes its event time")
        case "GlobalLimit":
            yield State(view, "LIMIT", (), None, None)
        case "Join" if all(map(is_streaming, children_of(plan))):
            yield from _read_join(spark, plan, view)
        case _:
            return


def _read_keys(view: str | None, operator: str, keys: list[Any]) -> State:
    timed = [name_of(key) for key in keys if has_watermark(key)]
    until = f"the watermark passes {timed[0]}" if timed else None
    return State(view, operator, tuple(map(name_of, keys)), until)


def _read_aggregation(view: str | None, plan: Any) -> State:
    keys = items(plan.groupingExpressions())
    collects = any(_COLLECTS.search(each.sql()) for each in items(plan.aggregateExpressions()))
    grows_with = "records" if collects else "keys" if keys else None
    return replace(_read_keys(view, "aggregation", keys), grows_with=grows_with)


def _read_join(spark: SparkSession, join: Any, view: str | None) -> Iterator[State]:
    """Yield the state of both sides: rows that a row of the other side may still match."""
    conditions = [part for each in expressions_of(join) for part in _split(each)]
    equal = [children_of(part) for part in conditions if kind_of(part) == "EqualTo"]
    on_time = any(has_watermark(each) for pair in equal for each in pair)
    left, right = children_of(join)
    for name, side, other in (("left", left, right), ("right", right, left)):
        bounded = on_time or _is_limited(spark, join, side, other)
        own = {name_of(column) for column in items(side.output())}
        by = tuple(dict.fromkeys(name_of(each) for pair in equal for each in pair if name_of(each) in own))
        until = "the watermark excludes further matches" if bounded else None
        yield State(view, f"{name} {_SIDE}", by, until, "records")


def _split(condition: Any) -> list[Any]:
    if kind_of(condition) != "And":
        return [condition]
    return [part for child in children_of(condition) for part in _split(child)]


def _is_limited(spark: SparkSession, join: Any, side: Any, other: Any) -> bool:
    """Return whether the condition and the other side's watermark limit the rows of this side that can still match."""
    jvm: Any = spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    helper, attribute_set = catalyst.analysis.StreamingJoinHelper, catalyst.expressions.AttributeSet
    watermark = jvm.scala.Some(_ANY_WATERMARK)
    timed = [attribute_set.apply(column) for column in items(other.output()) if has_watermark(column)]
    return any(
        helper.getStateValueWatermark(side.outputSet(), time, join.condition(), watermark).isDefined()
        for time in timed
    )
