"""Steps that keep tables, by the runtime's module in Java (ADR 83): the same columns, rows and logic as the steps in Python.

A key is a group of Spark, so a change costs the state of its key. A truncation would have to reach all keys, so tables that declare
truncations have their state in Python.
"""

from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession

from kappa_crds.view import View
from kappa_pipelines.revision.settings import NATIVE_TABLES
from kappa_pipelines.transforms.java_module import explain_absence, get_plans
from kappa_pipelines.transforms.key_groups import Output, TableStep, run_step

_KEY, _ROW = "__kappa_key", "__kappa_row"


class RunTableStep(Protocol):
    """Returns a step's output over a stream; see `run_step`."""

    def __call__(  # noqa: D102 - see the class
        self,
        rows: DataFrame,
        key: str,
        columns: Mapping[str, Column],
        step: TableStep,
        output: Output,
        *,
        to_all: Column | None = None,
    ) -> DataFrame: ...


def choose_runner(spark: SparkSession, view: View, *, native: bool) -> RunTableStep:
    """Return what runs the steps of a view; with `native`, the module if it can."""
    return _run_native if native and explain_python_tables(spark, view) is None else run_step


def explain_python_tables(spark: SparkSession, view: View) -> str | None:
    """Return why the tables of a view are state in Python; None if the module keeps them."""
    absent = explain_absence(spark, NATIVE_TABLES)
    if absent is not None:
        return absent
    tables = [] if view.table_join is None else [view.table_join.left, view.table_join.right]
    tables += [] if view.lookup is None else [view.lookup.table]
    declared = [table.from_ for table in tables if table.truncated is not None]
    return f"{declared[0]} declares truncations, which concern all keys" if declared else None


def _run_native(
    rows: DataFrame,
    key: str,
    columns: Mapping[str, Column],
    step: TableStep,
    output: Output,
    *,
    to_all: Column | None = None,
) -> DataFrame:
    assert to_all is None  # noqa: S101 - tables with truncations have state in Python
    keyed = columns[key].cast("binary").alias(_KEY)
    given = rows.select(*(column.alias(name) for name, column in columns.items()), keyed)
    made = get_plans(rows.sparkSession).runTableStep(given._jdf, step.native, output.ddl)
    return DataFrame(made, rows.sparkSession).select(f"{_ROW}.*")
