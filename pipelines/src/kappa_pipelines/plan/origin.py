"""Carries the place of a record through views that keep no state, to the rows that they make of it.

Views name the columns that they want, so a further column of the source ends at the first SELECT. Here the plan that Spark
made of the views is built again, with that column in each of its projections. A step that makes one row of several records
has no place to carry; it is refused.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_seq

from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.catalyst import children_of, get_plan, items, kind_of, name_of
from kappa_pipelines.errors import SpecError

ORIGIN = "__kappa_origin"
"""Column with the place of the record that a row was made of, and the watermark that it was compared with."""
_NAMES = ("SubqueryAlias", "View")
_THROUGH = ("Filter", "Generate", "ResolvedHint")
_CHANGING = ("CurrentTime", "CurrentDate", "CurrentBatchTimestamp", "Now", "LocalTimestamp")


def carry_origin(rows: DataFrame, place: str) -> DataFrame:
    """Return the rows with the column ORIGIN, which their sources have; SpecError, said of `place`, where a step of the plan cannot carry it."""
    jvm: Any = rows.sparkSession._jvm
    inlined = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(get_plan(rows))
    plan = _carry(rows.sparkSession, inlined, place)
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(rows.sparkSession._jsparkSession, plan)
    return DataFrame(dataset, rows.sparkSession)


def _carry(spark: SparkSession, plan: Any, place: str) -> Any:
    """Return the plan with ORIGIN among its columns."""
    if _find_origin(plan) is not None:
        return plan
    kind = kind_of(plan)
    if kind in _NAMES:
        return _carry(spark, plan.child(), place)
    if kind not in (*_THROUGH, "Project", "Union"):
        raise refuse_origin(place, f"a step of them ({kind}) makes a row of several records, or keeps state")
    _check_repeatable(plan, place)
    children = [_carry(spark, child, place) for child in children_of(plan)]
    if kind == "Project":
        columns = plan.projectList().appended(_find_origin(children[0]))
        return _project(spark, columns, children[0])
    if kind == "Union":  # goes by position
        children = [_put_last(spark, old, new) for old, new in zip(children_of(plan), children, strict=True)]
    return plan.withNewChildren(_to_seq(spark.sparkContext, children))


def _find_origin(plan: Any) -> Any:
    return next((column for column in items(plan.output()) if name_of(column) == ORIGIN), None)


def _put_last(spark: SparkSession, before: Any, after: Any) -> Any:
    return _project(spark, before.output().appended(_find_origin(after)), after)


def _project(spark: SparkSession, columns: Any, child: Any) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(columns, child)


def _check_repeatable(plan: Any, place: str) -> None:
    """Raise SpecError for an expression that may give something else when a record is read again."""
    for expression in items(plan.expressions()):
        found = next(_find_changing(expression), None)
        if found is not None:
            raise refuse_origin(place, f"{found} may give something else when a record is read again")


def _find_changing(expression: Any) -> Any:
    if kind_of(expression).startswith(_CHANGING):
        yield f"{kind_of(expression)}"
    for child in children_of(expression):
        yield from _find_changing(child)
    if not expression.deterministic() and all(child.deterministic() for child in children_of(expression)):
        yield str(expression.sql())


def refuse_origin(place: str, why: str) -> SpecError:
    """Return the error for a side output whose stragglers cannot be found again."""
    return SpecError(
        Reason.UNSUPPORTED_QUERY,
        f"{place} finds rows again in the topics, through the views before the window,"
        f" and {why}; put only views between that filter, compute columns or unite (UNION ALL), or leave sideOutput out",
    )
