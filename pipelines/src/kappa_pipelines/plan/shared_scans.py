"""Queries that name a source several times and read it once (ADR 104).

Parts of a source in a union become one part, by the runtime's module in Java: each row comes once for every part. The join of two parts
within a time interval is a step over their union, so it reads the source once too.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame

from kappa_pipelines.analysis.catalyst import children_of, get_plan, kind_of, read_plan, read_tree
from kappa_pipelines.revision.settings import SHARED_SCANS
from kappa_pipelines.transforms.java_module import explain_absence


def find_repeated(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the sources that are in a list several times."""
    return tuple(name for name, count in Counter(sources).items() if count > 1)


def read_inlined(rows: DataFrame) -> Any:
    """Return the plan of rows, as `read_plan` does, with common table expressions in place of their names: Spark computes each for each name."""
    plan, spark = read_plan(rows), rows.sparkSession
    if not _has_expressions(plan):
        return plan
    jvm: Any = spark._jvm
    inline = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False)
    return read_tree(spark, inline.apply(get_plan(rows)))


def _has_expressions(plan: Any) -> bool:
    return kind_of(plan) == "WithCTE" or any(map(_has_expressions, children_of(plan)))


def share_scans(rows: DataFrame, sources: Collection[str]) -> DataFrame | None:
    """Return rows that read each of these sources once; None if that cannot be."""
    if not sources:
        return rows
    if explain_absence(rows.sparkSession, SHARED_SCANS) is not None:
        return None
    jvm: Any = rows.sparkSession._jvm
    made = jvm.kappa.plan.SharedScans.share(rows._jdf, " ".join(sources))
    return None if made is None else DataFrame(made, rows.sparkSession)
