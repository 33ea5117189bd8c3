"""Views that are not a single statement: Python views, and operators that SQL cannot express."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kappa_crds.view import View
from kappa_crds.window import Window
from kappa_pipelines.analysis.state import State
from kappa_pipelines.transforms.lookup import build_lookup, describe_lookup
from kappa_pipelines.transforms.native_tables import RunTableStep, choose_runner
from kappa_pipelines.transforms.one_sided import describe_as_of, describe_sliding
from kappa_pipelines.transforms.patterns.frame import build_pattern, describe_pattern
from kappa_pipelines.transforms.projection import build_projection
from kappa_pipelines.transforms.python import call_function
from kappa_pipelines.transforms.search.frame import COST, build_search, describe_search
from kappa_pipelines.transforms.sketches.functions import describe_sketches
from kappa_pipelines.transforms.sourcing import build_sourcing, describe_aggregates
from kappa_pipelines.transforms.table_join import build_table_join, describe_table_join
from kappa_pipelines.transforms.window import build_corrected, is_corrected

_TABLES: Mapping[str, Callable[[SparkSession, str, Any, RunTableStep], DataFrame]] = {
    "lookup": build_lookup,
    "tableJoin": build_table_join,
}
_BUILDERS: Mapping[str, Callable[[SparkSession, str, Any], DataFrame]] = {
    "search": build_search,
    "eventSourced": build_sourcing,
    "projection": build_projection,
    "window": build_corrected,
    "python": lambda spark, view, python: call_function(
        view, python.function, [spark.table(read) for read in python.reads]
    ),
}
_STATES: Mapping[str, Callable[[str, Any], State]] = {
    "sliding": describe_sliding,
    "asOf": describe_as_of,
    "lookup": describe_lookup,
    "tableJoin": describe_table_join,
    "pattern": describe_pattern,
    "search": describe_search,
    "eventSourced": describe_aggregates,
    "projection": describe_aggregates,
}


def build_frame(spark: SparkSession, view: View, *, native: bool) -> DataFrame | None:
    """Return the view's rows, or None if it is a statement. With `native`, the module in Java keeps tables and patterns if it can.

    AnalysisException if what it reads is not defined, SpecError if the view is invalid.
    """
    operator = view.operator
    if view.kind in _TABLES:
        return _TABLES[view.kind](spark, view.name, operator, choose_runner(spark, view, native=native))
    if view.pattern is not None:
        return build_pattern(spark, view.name, view.pattern, native=native)
    if view.kind not in _BUILDERS or (isinstance(operator, Window) and not is_corrected(operator)):
        return None
    return _BUILDERS[view.kind](spark, view.name, operator)


def describe_state(view: View) -> State:
    """Return the state of a view in an operator of the runtime."""
    if view.kind in _STATES:
        return _STATES[view.kind](view.name, view.operator)
    return State(view.name, "state in Python", (), None)


def describe_cost(view: View) -> list[str]:
    """Return lines about a view's cost, beside its state."""
    return [COST] if view.kind == "search" else describe_sketches(view)
