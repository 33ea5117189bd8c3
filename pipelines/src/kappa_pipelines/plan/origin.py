"""Carries the topic, partition and offset of a record through stateless views to their rows.

Views select columns, so an additional column of the source is lost at the first SELECT. Here Spark's plan of the views is rebuilt
with that column in each projection. A step that combines several records into one row has no origin; it is refused.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_seq

from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.catalyst import children_of, get_plan, items, kind_of, name_of
from kappa_pipelines.errors import SpecError

ORIGIN = "__kappa_origin"
"""Column with the topic, partition and offset of a row's record, and the watermark that it was compared with."""
_NAMES = ("SubqueryAlias", "View")
_THROUGH = ("Filter", "Generate", "ResolvedHint")
_UNSTABLE = ("CurrentTime", "CurrentDate", "CurrentBatchTimestamp", "Now", "LocalTimestamp")


def carry_origin(rows: DataFrame, path: str) -> DataFrame:
    """Return the rows with the column ORIGIN of their sources; SpecError for `path` if a step of the plan cannot carry it."""
    jvm: Any = rows.sparkSession._jvm
    inlined = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(get_plan(rows))
    plan = _carry(rows.sparkSession, inlined, path)
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(rows.sparkSession._jsparkSession, plan)
    return DataFrame(dataset, rows.sparkSession)


def _carry(spark: SparkSession, plan: Any, path: str) -> Any:
    """Return the plan with ORIGIN among its columns."""
    if _find_origin(plan) is not None:
        return plan
    kind = kind_of(plan)
    if kind in _NAMES:
        return _carry(spark, plan.child(), path)
    if kind not in (*_THROUGH, "Project", "Union"):
        raise refuse_origin(
            path, f"one of their steps ({kind}) combines several records into a row, or keeps state"
        )
    _check_repeatable(plan, path)
    children = [_carry(spark, child, path) for child in children_of(plan)]
    if kind == "Project":
        columns = plan.projectList().appended(_find_origin(children[0]))
        return _project(spark, columns, children[0])
    if kind == "Union":  # columns are matched by position
        pairs = zip(children_of(plan), children, strict=True)
        children = [_project(spark, old.output().appended(_find_origin(new)), new) for old, new in pairs]
    return plan.withNewChildren(_to_seq(spark.sparkContext, children))


def _find_origin(plan: Any) -> Any:
    return next((column for column in items(plan.output()) if name_of(column) == ORIGIN), None)


def _project(spark: SparkSession, columns: Any, child: Any) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(columns, child)


def _check_repeatable(plan: Any, path: str) -> None:
    """Raise SpecError for an expression whose result may differ when a record is read again."""
    for expression in items(plan.expressions()):
        found = next(find_unstable(expression), None)
        if found is not None:
            raise refuse_origin(path, f"the result of {found} may differ when a record is read again")


def find_unstable(expression: Any) -> Iterator[str]:
    """Yield the parts of an expression whose result may differ when it is evaluated again."""
    if kind_of(expression).startswith(_UNSTABLE):
        yield f"{kind_of(expression)}"
    for child in children_of(expression):
        yield from find_unstable(child)
    if not expression.deterministic() and all(child.deterministic() for child in children_of(expression)):
        yield str(expression.sql())


def refuse_origin(path: str, why: str) -> SpecError:
    """Return the error for a side output whose late records cannot be read again."""
    return SpecError(
        Reason.UNSUPPORTED_QUERY,
        f"{path} reads the records again through the views before the window,"
        f" and {why}; use only views that filter, compute columns or unite (UNION ALL) there, or remove sideOutput",
    )
