"""Defines a pipeline's views in Spark, each after those that it reads.

Views may be declared in any order: one that reads a view that is not defined yet is defined after it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.view import View
from kappa_pipelines.analysis.catalyst import find_reads, items, read_plan
from kappa_pipelines.failures.exceptions import read_sql_failure
from kappa_pipelines.failures.sql import explain_sql_error, find_unknown_name
from kappa_pipelines.revision.names import explain_cycle
from kappa_pipelines.sandbox.check import Place, check_plan, check_query, parse_expression
from kappa_pipelines.transforms.frames import build_frame
from kappa_pipelines.transforms.one_sided import build_one_sided
from kappa_pipelines.transforms.sketches.functions import expand_calls
from kappa_pipelines.transforms.statements import build_statement
from kappa_pipelines.transforms.window import build_window


@dataclass(frozen=True)
class DefinedView:
    """A view and its SELECT, or None if it is not a single statement: a Python view, or one with state in Python."""

    name: str
    statement: str | None


def forget_views(spark: SparkSession) -> None:
    """Drop the views of the session's previous pipeline."""
    views = spark._jsparkSession.sessionState().catalog()
    for left in items(views.listLocalTempViews("*")):  # `SHOW VIEWS` is a query, and took 0.2 s of a start
        views.dropTempView(left.table())


def check_views(spark: SparkSession, spec: PipelineSpec) -> None:
    """Raise SpecError for a view whose SQL names what it may not use. Nothing is analysed."""
    for written in spec.views:
        view = expand_calls(written)
        for name, sql in _list_expressions(view):
            parse_expression(spark, f"view {view.name!r}, {name}", sql)
        if view.sql is not None:
            try:
                check_query(spark, _find_place(view, written), build_statement(spark, view), {})
            except (ParseException, Py4JJavaError) as error:
                failure = read_sql_failure(error)
                raise explain_sql_error(spec, view, failure, exact=view == written) from error


def _list_expressions(view: View) -> Iterator[tuple[str, str]]:
    """Yield each expression of an operator, by its field."""
    groups = {
        "sliding.aggregates": view.sliding and view.sliding.aggregates,
        "window.aggregates": view.window and view.window.aggregates,
        "pattern.define": view.pattern and view.pattern.define,
        "pattern.measures": view.pattern and view.pattern.measures,
    }
    for group, expressions in groups.items():
        yield from ((f"{group}.{name}", sql) for name, sql in (expressions or {}).items())


def _find_place(view: View, written: View) -> Place:
    """Return the place of a view's SQL. Expanded calls keep their lines, and generated statements have none."""
    if view.sql is None:
        return Place(f"view {view.name!r}, {view.kind}")
    return Place(f"view {view.name!r}", lines=True, columns=view == written)


def define_views(
    spark: SparkSession, spec: PipelineSpec, native: Collection[str] = ()
) -> tuple[DefinedView, ...]:
    """Define every view after those that it reads, and return them in that order.

    `native` are the views whose state the module in Java keeps if it can: sliding windows and as-of joins each row once, other than
    their statement, tables, and patterns.
    """
    check_views(spark, spec)
    ordered: list[DefinedView] = []
    scans: dict[str, int] = {}
    pending = {view.name: view for view in spec.views}
    while pending:
        before, waits = len(pending), {}
        for view in tuple(pending.values()):
            defined = _define_view(spark, spec, view, scans, native=view.name in native)
            if isinstance(defined, DefinedView):
                ordered.append(defined)
                del pending[view.name]
            else:
                waits[view.name] = defined
        if len(pending) == before:
            raise explain_cycle(waits)
    return tuple(ordered)


def _define_view(
    spark: SparkSession, spec: PipelineSpec, written: View, scans: dict[str, int], *, native: bool
) -> DefinedView | str:
    """Define the view, or return the name of a view that it reads and that is not defined yet.

    `scans` has the number of relations behind each view that is defined.
    """
    view = expand_calls(written)
    place = _find_place(view, written)
    try:
        frame, statement = build_frame(spark, view, native=native), None
        if frame is None:
            statement = build_statement(spark, view)
            count, frame = _query(spark, place, statement, scans)
            if native:
                frame = build_one_sided(spark, view) or frame
        else:
            count = sum(scans.get(read, 1) for read in find_reads(read_plan(frame)))
            if view.window is not None:  # its aggregates are checked in a plan without corrections
                _query(spark, place, build_window(spark, view.name, view.window), scans)
    except (AnalysisException, ParseException, Py4JJavaError) as error:
        failure = read_sql_failure(error)
        missing = find_unknown_name(failure)
        if missing in {each.name for each in spec.views}:
            return str(missing)
        raise explain_sql_error(spec, view, failure, exact=view == written) from error
    scans[view.name] = count
    frame.createOrReplaceTempView(view.name)
    return DefinedView(view.name, statement)


def _query(
    spark: SparkSession, place: Place, statement: str, scans: Mapping[str, int]
) -> tuple[int, DataFrame]:
    """Return how many relations a checked statement reads, and its rows."""
    count = check_query(spark, place, statement, scans)
    rows = spark.sql(statement)
    check_plan(place, rows)
    return count, rows
