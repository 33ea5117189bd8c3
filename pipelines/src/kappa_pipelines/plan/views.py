"""Defines a pipeline's views in Spark, each after those that it reads.

Views may be declared in any order: one that reads a view that is not defined yet is defined after it.
"""

from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.view import View
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_sql_failure
from kappa_pipelines.failures.sql import explain_sql_error, find_unknown_name
from kappa_pipelines.revision.names import explain_cycle
from kappa_pipelines.transforms.frames import build_frame
from kappa_pipelines.transforms.sketches.functions import expand_calls
from kappa_pipelines.transforms.statements import build_statement


@dataclass(frozen=True)
class DefinedView:
    """A view and its SELECT, or None if it is not a single statement: a Python view, or one with state in Python."""

    name: str
    statement: str | None


def forget_views(spark: SparkSession) -> None:
    """Drop the views of the session's previous pipeline."""
    for left in spark.catalog.listTables():
        spark.catalog.dropTempView(left.name)


def define_views(spark: SparkSession, spec: PipelineSpec) -> tuple[DefinedView, ...]:
    """Define every view after those that it reads, and return them in that order."""
    ordered: list[DefinedView] = []
    pending = {view.name: view for view in spec.views}
    while pending:
        before, waits = len(pending), {}
        for view in tuple(pending.values()):
            defined = _define_view(spark, spec, view)
            if isinstance(defined, DefinedView):
                ordered.append(defined)
                del pending[view.name]
            else:
                waits[view.name] = defined
        if len(pending) == before:
            raise explain_cycle(waits)
    return tuple(ordered)


def _define_view(spark: SparkSession, spec: PipelineSpec, view: View) -> DefinedView | str:
    """Define the view, or return the name of a view that it reads and that is not defined yet."""
    written = view
    view = expand_calls(view)
    _check_expressions(spark, view)
    try:
        frame = build_frame(spark, view)
        if frame is not None:
            frame.createOrReplaceTempView(view.name)
            return DefinedView(view.name, None)
        statement = build_statement(spark, view)
        _check_is_query(spark, statement)
        spark.sql(statement).createOrReplaceTempView(view.name)
    except (AnalysisException, ParseException, Py4JJavaError) as error:
        failure = read_sql_failure(error)
        missing = find_unknown_name(failure)
        if missing in {each.name for each in spec.views}:
            return str(missing)
        raise explain_sql_error(spec, view, failure, exact=view == written) from error
    return DefinedView(view.name, statement)


def _check_expressions(spark: SparkSession, view: View) -> None:
    """Parse each expression of an operator separately, so that an error names it."""
    for kind, operator in (("sliding", view.sliding), ("window", view.window)):
        for name, sql in (operator.aggregates if operator else {}).items():
            try:
                spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)
            except ParseException as error:
                message = first_lines(read_sql_failure(error).message)
                path = f"view {view.name!r}, {kind}.aggregates.{name}"
                raise SpecError(Reason.INVALID_SQL, f"{path}: {message}") from error


def _check_is_query(spark: SparkSession, statement: str) -> None:
    """Parse as a query: `spark.sql` would run a command such as DROP at once."""
    spark._jsparkSession.sessionState().sqlParser().parseQuery(statement)
