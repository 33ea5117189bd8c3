"""State fingerprints: what a query's state depends on, read from Spark's analysed plan and stored with the checkpoint.

When a query starts, Spark compares only the columns of state and their types. With `sum` instead of `max`, or a window of two hours
instead of one, it would continue with numbers of another meaning. So the runtime stores a fingerprint of each operator with state,
and compares it with that of a new revision.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import Field
from pyspark.sql import DataFrame

from kappa_crds.conversion import convert
from kappa_crds.model import Status
from kappa_crds.quantities import parse_duration
from kappa_crds.revision import Revision
from kappa_crds.sink import OutputMode
from kappa_crds.view import View
from kappa_pipelines.analysis.catalyst import (
    children_of,
    expressions_of,
    find_views,
    get_plan,
    id_of,
    is_streaming,
    items,
    kind_of,
    name_of,
    read_plan,
    read_tree,
    view_of,
)
from kappa_pipelines.kafka.subscription import build_subscription
from kappa_pipelines.plan.compile import Compiled, CompiledSink
from kappa_pipelines.sources.native_changes import find_expression

IN_PYTHON, _IN_JAVA = "state in Python", "state of tables"
JOIN, INTERVAL_JOIN = "join", "join within an interval"
_BY_DEFINITION = {
    "TransformWithStateInPySpark": IN_PYTHON,
    "FlatMapGroupsInPandasWithState": IN_PYTHON,
    "TransformWithState": _IN_JAVA,
}
"""Operators whose state depends on the whole definition of their view."""
_KEYED = {"sliding": "sliding window", "asOf": "as-of join", "pattern": "search for a pattern"}
"""Kinds of views that keep the rows of keys in Java, and their operators."""


class OperatorFingerprint(Status):
    """The fingerprint of one operator. `parts` are texts by kind, such as the `keys` of an aggregation."""

    view: str | None
    operator: str
    parts: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class QueryFingerprint(Status):
    """The fingerprints of a sink's query, from the sources to the sink, with its topics.

    `sources` are the topics by source, `views` the definitions of the views that it reads. It is `left` if the pipeline no longer
    has the sink.
    """

    sources: dict[str, str]
    topic: str
    mode: OutputMode
    operators: tuple[OperatorFingerprint, ...] = ()
    views: dict[str, str] = Field(default_factory=dict)
    left: bool = False


def build_fingerprints(revision: Revision, compiled: Compiled) -> dict[str, QueryFingerprint]:
    """Return the fingerprints of all queries of a revision, by sink."""
    return {each.sink.name: _read_query(revision, each) for each in compiled.sinks}


def _read_query(revision: Revision, compiled: CompiledSink) -> QueryFingerprint:
    spec, sink, rows = revision.spec, compiled.sink, compiled.rows
    known = {view.name: view for view in spec.views}
    sources = [source for source in spec.sources if source.name in compiled.sources]
    return QueryFingerprint(
        sources={source.name: str(build_subscription(revision, source)) for source in sources},
        topic=revision.topics.get(sink.target.topic, sink.target.topic),
        mode=sink.mode,
        operators=tuple(_Reader(rows, known, compiled.joined).read()),
        views={name: describe_view(known[name]) for name in sorted(compiled.views & known.keys())},
    )


def describe_view(view: View) -> str:
    """Return the definition of a view as a canonical text."""
    return view.model_dump_json(by_alias=True, exclude_defaults=True)


def update_names(stored: QueryFingerprint) -> QueryFingerprint:
    """Return a stored fingerprint with the present names of the fields of views, so that a renamed field is no change."""
    operators = tuple(
        each.replace(parts={**each.parts, "definition": tuple(map(_update_view, each.parts["definition"]))})
        if "definition" in each.parts
        else each
        for each in stored.operators
    )
    views = {name: _update_view(text) for name, text in stored.views.items()}
    return stored.replace(operators=operators, views=views)


def _update_view(definition: str) -> str:
    spec = convert("Pipeline", {"spec": {"views": [json.loads(definition)]}})["spec"]
    return describe_view(View.model_validate(spec["views"][0]))


class _Reader:
    """Reads the operators of one query, each with its columns in the optimised plan and its view."""

    def __init__(self, rows: DataFrame, views: Mapping[str, View], joined: DataFrame | None) -> None:
        self._views, self._spark, self._plan = views, rows.sparkSession, read_plan(rows)
        self._joined = None if joined is None else read_plan(joined)
        self._joins = self._left = len(list(_find_joins(self._plan)))
        self._kept = self._find_kept(rows) if self._joins and joined is None else []

    def _find_kept(self, rows: DataFrame) -> list[Any]:
        """Return the joins of the optimised plan."""
        optimizer = self._spark._jsparkSession.sessionState().optimizer()
        return list(_find_joins(read_tree(self._spark, optimizer.execute(get_plan(rows)))))

    def read(self) -> Iterator[OperatorFingerprint]:
        """Yield the fingerprints of all operators with state, from the sources to the sink."""
        return self._walk(self._plan, None)

    def _walk(self, plan: Any, view: str | None) -> Iterator[OperatorFingerprint]:
        name = view_of(plan)
        if name in self._views:
            view = name
        for child in children_of(plan):
            yield from self._walk(child, view)
        if is_streaming(plan):
            yield from self._read_operator(plan, view)

    def _read_all(self, expressions: Any) -> list[Any]:
        return [read_tree(self._spark, each) for each in items(expressions)]

    def _read_operator(self, plan: Any, view: str | None) -> Iterator[OperatorFingerprint]:
        match kind_of(plan):
            case "Aggregate":
                functions = dict.fromkeys(
                    text
                    for each in self._read_all(plan.aggregateExpressions())
                    for text in _find_functions(each)
                )
                keys = _define_all(self._read_all(plan.groupingExpressions()), plan)
                parts = {"keys": keys, "aggregates": tuple(functions)}
                yield OperatorFingerprint(view=view, operator="aggregation", parts=parts)
            case "Distinct":
                yield _keyed(view, "set of distinct rows", self._read_all(plan.output()), plan)
            case "Deduplicate" | "DeduplicateWithinWatermark":
                yield _keyed(view, "set of first rows", self._read_all(plan.keys()), plan)
            case "Join" if _has_state(plan):
                yield self._read_join(plan, view)
            case "TransformWithState" if view is not None and self._views[view].kind in _KEYED:
                yield _read_keyed(plan, self._read_all(plan.dataAttributes()), self._views[view])
            case kind if kind in _BY_DEFINITION:
                defined = () if view is None else (describe_view(self._views[view]),)
                yield OperatorFingerprint(
                    view=view, operator=_BY_DEFINITION[kind], parts={"definition": defined}
                )
            case _:
                return

    def _read_join(self, join: Any, view: str | None) -> OperatorFingerprint:
        condition = tuple(each.sql() for each in expressions_of(join))
        sides = dict(zip(("left side", "right side"), children_of(join), strict=True))
        reads = {name: tuple(find_views(side))[:1] for name, side in sides.items()}
        parts = {"type": (join.joinType().sql(),), "condition": condition, **reads}
        if self._joined is not None:
            parts |= self._read_step(self._joined)
            return OperatorFingerprint(view=view, operator=INTERVAL_JOIN, parts=parts)
        parts |= self._next_columns()
        return OperatorFingerprint(view=view, operator=JOIN, parts=parts)

    def _read_step(self, joined: Any) -> dict[str, tuple[str, ...]]:
        """Return what a step in place of a join stores: the key with its definition, and the columns of both sides."""
        [step] = _find(joined, "TransformWithState")
        _key, _time, right, left = self._read_all(step.dataAttributes())
        [sharded, *_] = children_of(step)
        [side, _] = children_of(children_of(sharded)[0])
        packed = _strip_alias(expressions_of(side)[0])
        return {
            "key": _define_all(children_of(packed)[1::2], side),
            "columns of the left side": (left.dataType().catalogString(),),
            "columns of the right side": (right.dataType().catalogString(),),
        }

    def _next_columns(self) -> dict[str, tuple[str, ...]]:
        """Return the columns in the state of the next join; empty if the optimiser changed the joins."""
        if len(self._kept) != self._joins:
            return {}
        join = self._kept[self._joins - self._left]
        self._left -= 1
        return {
            "columns of the left side": tuple(name_of(each) for each in items(join.left().output())),
            "columns of the right side": tuple(name_of(each) for each in items(join.right().output())),
        }


def _read_keyed(plan: Any, columns: list[Any], view: View) -> OperatorFingerprint:
    """Return the fingerprint of an operator that keeps the rows of keys in Java: what it keeps, and for how long."""
    key, time, *rows = columns
    defined = {
        "key": _define_all([key], plan),
        "event time": _define_all([time], plan),
        "columns": tuple(each.dataType().catalogString() for each in rows),
        **_define_extent(view),
    }
    return OperatorFingerprint(view=view.name, operator=_KEYED[view.kind], parts=defined)


def _define_extent(view: View) -> dict[str, tuple[str, ...]]:
    """Return for how long the rows of keys are kept, and what the definition of the view has to do with it."""
    if view.pattern is not None:
        return {"definition": (describe_view(view),)}
    kept = {"length": view.sliding.length} if view.sliding is not None else {}
    if view.as_of is not None and view.as_of.max_age is not None:
        kept = {"maximum age": view.as_of.max_age}
    return {name: (f"{parse_duration(value):g}s",) for name, value in kept.items()}


def _find(plan: Any, kind: str) -> list[Any]:
    """Return the nodes of a kind."""
    found = [each for child in children_of(plan) for each in _find(child, kind)]
    return [*found, plan] if kind_of(plan) == kind else found


def _find_joins(plan: Any) -> Iterator[Any]:
    """Yield the joins with state, from the sources to the sink."""
    for child in children_of(plan):
        yield from _find_joins(child)
    if kind_of(plan) == "Join" and _has_state(plan):
        yield plan


def _has_state(join: Any) -> bool:
    return all(map(is_streaming, children_of(join)))


def _keyed(view: str | None, operator: str, keys: list[Any], plan: Any) -> OperatorFingerprint:
    return OperatorFingerprint(view=view, operator=operator, parts={"keys": _define_all(keys, plan)})


def _define_all(expressions: Iterable[Any], plan: Any) -> tuple[str, ...]:
    """Return expressions of a node as text, with the definitions of columns that are computed below it."""
    computed: dict[str, Any] = {}
    for child in children_of(plan):
        _find_computed(child, computed)
    return tuple(_define(_strip_alias(each), computed) for each in expressions)


def _find_computed(plan: Any, computed: dict[str, Any]) -> None:
    if kind_of(plan) == "Project":
        for each in expressions_of(plan):
            if kind_of(each) == "Alias":
                computed[id_of(each)] = children_of(each)[0]
    for child in children_of(plan):
        _find_computed(child, computed)


def _define(expression: Any, computed: Mapping[str, Any]) -> str:
    """Return an expression's SQL, with the definitions of its columns."""
    text: str = expression.sql()
    found = [computed[id_of(each)] for each in _find_columns(expression) if id_of(each) in computed]
    parts = [find_expression(each) for each in found]
    if not parts:
        return text
    return f"{text} ({', '.join(_define(part, computed) for part in parts)})"


def _find_columns(expression: Any) -> Iterator[Any]:
    if kind_of(expression) == "AttributeReference":
        yield expression
    for child in children_of(expression):
        yield from _find_columns(child)


def _strip_alias(expression: Any) -> Any:
    return expression.child() if kind_of(expression) == "Alias" else expression


def _find_functions(expression: Any) -> Iterator[str]:
    """Yield the aggregate functions in an expression; functions of their results have no state."""
    if kind_of(expression) == "AggregateExpression":
        yield expression.sql()
        return
    for child in children_of(expression):
        yield from _find_functions(child)
