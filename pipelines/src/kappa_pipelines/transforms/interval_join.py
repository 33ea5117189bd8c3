"""The join of two streams within a time interval, by the runtime's module in Java (ADR 102).

It is no view of its own but a part of SQL: the module finds the join in the plan of a query, and puts a step in its place that keeps the
rows of a key in one entry of state.
"""

from collections.abc import Collection
from typing import Any

from pyspark.sql import DataFrame

from kappa_pipelines.revision.settings import NATIVE_JOINS
from kappa_pipelines.transforms.java_module import explain_absence

CHUNK_BYTES = 1 << 16
"""From this size on, rows of a key are stored in chunks that are not written again."""


def join_natively(rows: DataFrame, shared: Collection[str] = ()) -> DataFrame | None:
    """Return the rows of a query with its join as a step; None if it has no join that can be one.

    `shared` are the sources that the query reads several times.
    """
    if explain_absence(rows.sparkSession, NATIVE_JOINS) is not None:
        return None
    made = _get_joins(rows).replace(rows._jdf, CHUNK_BYTES, " ".join(shared))
    return None if made is None else DataFrame(made, rows.sparkSession)


def explain_spark_join(rows: DataFrame, shared: Collection[str] = ()) -> str | None:
    """Return why the join of a query is one of Spark; None if the module can replace it, or there is none."""
    cause = explain_absence(rows.sparkSession, NATIVE_JOINS) or _get_joins(rows).explain(
        rows._jdf, " ".join(shared)
    )
    return None if cause is None else str(cause)


def _get_joins(rows: DataFrame) -> Any:
    jvm: Any = rows.sparkSession._jvm
    return jvm.kappa.state.IntervalJoins
