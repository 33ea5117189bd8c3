"""What a query's state depends on, read from Spark's analysed plan and written beside the checkpoint.

Spark compares the columns of state and their types when it starts, and no more: `sum` in the place of `max`, or a window of two
hours in the place of one, would go on with numbers that mean something else. So the runtime writes down what each operator keeps
state for, and compares it with what a new revision would.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field
from pyspark.sql import DataFrame

from kappa_crds.model import Status
from kappa_crds.revision import Revision
from kappa_crds.sink import OutputMode
from kappa_crds.view import View
from kappa_pipelines.analysis.catalyst import (
    children_of,
    find_views,
    get_plan,
    items,
    kind_of,
    name_of,
    view_of,
)
from kappa_pipelines.kafka.subscription import build_subscription
from kappa_pipelines.plan.compile import Compiled, CompiledSink

_IN_PYTHON = {"TransformWithStateInPySpark", "FlatMapGroupsInPandasWithState"}


class OperatorShape(Status):
    """What one operator keeps state for. `parts` are texts by what they are, such as the `keys` of an aggregation."""

    view: str | None
    operator: str
    parts: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class QueryShape(Status):
    """What a sink's query keeps state for, from the sources on, and between which topics it stands.

    `sources` are the topics by source, `views` the definitions of the views that it reads. It is `left` where the pipeline has no
    such sink any more.
    """

    sources: dict[str, str]
    topic: str
    mode: OutputMode
    operators: tuple[OperatorShape, ...] = ()
    views: dict[str, str] = Field(default_factory=dict)
    left: bool = False


def read_shapes(revision: Revision, compiled: Compiled) -> dict[str, QueryShape]:
    """Return the shapes of all queries of a revision, by sink."""
    return {each.sink.name: _read_shape(revision, each) for each in compiled.sinks}


def _read_shape(revision: Revision, compiled: CompiledSink) -> QueryShape:
    spec, sink, rows = revision.spec, compiled.sink, compiled.rows
    known = {view.name: view for view in spec.views}
    sources = [source for source in spec.sources if source.name in compiled.sources]
    return QueryShape(
        sources={source.name: str(build_subscription(revision, source)) for source in sources},
        topic=revision.topics.get(sink.topic, sink.topic),
        mode=sink.mode,
        operators=tuple(_Reader(rows, known).walk(get_plan(rows), None)),
        views={name: describe_view(known[name]) for name in sorted(compiled.views & known.keys())},
    )


def describe_view(view: View) -> str:
    """Return all that defines a view as one text, the same for the same definition."""
    return view.model_dump_json(by_alias=True, exclude_defaults=True)


class _Reader:
    """Reads the operators of one query, each with the columns that the optimised plan leaves it, and the views that it is in."""

    def __init__(self, rows: DataFrame, views: Mapping[str, View]) -> None:
        self._views = views
        optimizer = rows.sparkSession._jsparkSession.sessionState().optimizer()
        self._kept = list(_find_joins(optimizer.execute(get_plan(rows))))
        self._joins = self._left = len(list(_find_joins(get_plan(rows))))

    def walk(self, plan: Any, view: str | None) -> Iterator[OperatorShape]:
        """Yield the shapes of all operators with state, from the sources on."""
        name = view_of(plan)
        if name in self._views:
            view = name
        for child in children_of(plan):
            yield from self.walk(child, view)
        if plan.isStreaming():
            yield from self._read_operator(plan, view)

    def _read_operator(self, plan: Any, view: str | None) -> Iterator[OperatorShape]:
        match kind_of(plan):
            case "Aggregate":
                functions = dict.fromkeys(
                    text for each in items(plan.aggregateExpressions()) for text in _find_functions(each)
                )
                keys = _define_all(plan.groupingExpressions(), plan.child())
                parts = {"keys": keys, "aggregates": tuple(functions)}
                yield OperatorShape(view=view, operator="aggregation", parts=parts)
            case "Distinct":
                yield _keyed(view, "set of distinct rows", plan.output(), plan.child())
            case "Deduplicate" | "DeduplicateWithinWatermark":
                yield _keyed(view, "set of first rows", plan.keys(), plan.child())
            case "Join" if _has_state(plan):
                yield self._read_join(plan, view)
            case kind if kind in _IN_PYTHON:
                defined = () if view is None else (describe_view(self._views[view]),)
                yield OperatorShape(view=view, operator="state in Python", parts={"definition": defined})
            case _:
                return

    def _read_join(self, join: Any, view: str | None) -> OperatorShape:
        condition = (join.condition().get().sql(),) if join.condition().isDefined() else ()
        sides = {"left side": join.left(), "right side": join.right()}
        reads = {name: tuple(find_views(side))[:1] for name, side in sides.items()}
        parts = {"type": (join.joinType().sql(),), "condition": condition, **reads, **self._next_columns()}
        return OperatorShape(view=view, operator="join", parts=parts)

    def _next_columns(self) -> dict[str, tuple[str, ...]]:
        """Return the columns that each side of the next join keeps; nothing where the optimiser has made other joins of them."""
        if len(self._kept) != self._joins:
            return {}
        join = self._kept[self._joins - self._left]
        self._left -= 1
        return {
            "columns of the left side": tuple(name_of(each) for each in items(join.left().output())),
            "columns of the right side": tuple(name_of(each) for each in items(join.right().output())),
        }


def _find_joins(plan: Any) -> Iterator[Any]:
    """Yield the joins that keep state, from the sources on."""
    for child in children_of(plan):
        yield from _find_joins(child)
    if kind_of(plan) == "Join" and _has_state(plan):
        yield plan


def _has_state(join: Any) -> bool:
    return bool(join.left().isStreaming() and join.right().isStreaming())


def _keyed(view: str | None, operator: str, keys: Any, below: Any) -> OperatorShape:
    return OperatorShape(view=view, operator=operator, parts={"keys": _define_all(keys, below)})


def _define_all(expressions: Any, below: Any) -> tuple[str, ...]:
    """Return what expressions mean: those that are columns of a plan below are followed to what they are computed of."""
    computed: dict[int, Any] = {}
    _find_computed(below, computed)
    return tuple(_define(_strip_alias(each), computed) for each in items(expressions))


def _find_computed(plan: Any, computed: dict[int, Any]) -> None:
    if kind_of(plan) == "Project":
        for each in items(plan.projectList()):
            if kind_of(each) == "Alias":
                computed[each.exprId().id()] = each.child()
    for child in children_of(plan):
        _find_computed(child, computed)


def _define(expression: Any, computed: Mapping[int, Any]) -> str:
    """Return an expression's SQL, with what the columns in it are computed of."""
    text: str = expression.sql()
    parts = [
        computed[each.exprId().id()] for each in _find_columns(expression) if each.exprId().id() in computed
    ]
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
    """Yield the aggregate functions in an expression; what is computed of their results is not kept."""
    if kind_of(expression) == "AggregateExpression":
        yield expression.sql()
        return
    for child in children_of(expression):
        yield from _find_functions(child)
