"""Change events that the runtime's module in Java reads (ADR 88): one call in a plan in place of the expressions of `change_events`.

The call has the type of these expressions and contains them, for every event that it is not sure about and for all that are malformed.
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import DataFrame, SparkSession

from kappa_crds.envelope import DecimalEncoding
from kappa_pipelines.analysis.catalyst import java_of, kind_of
from kappa_pipelines.revision.settings import NATIVE_CHANGES
from kappa_pipelines.sources.change_events import ChangeEvents

_READER = "ChangeReader"


def read_natively(rows: DataFrame, column: str, values: ChangeEvents) -> DataFrame:
    """Return rows whose column of parsed events is read by the module, or as they are if it does not support a type."""
    if explain_python_changes(rows.sparkSession, values) is not None:
        return rows
    envelope, jvm = values.envelope, rows.sparkSession._jvm
    assert jvm is not None  # noqa: S101 - a used session has one
    changes: Any = jvm.kappa.json.Changes
    made = changes.replace(
        rows._jdf,
        column,
        list(values.described),
        {name: unit.value for name, unit in (envelope.timestamp_units or {}).items()},
        envelope.decimals is DecimalEncoding.TEXT,
        envelope.columns.truncated is not None,
    )
    return DataFrame(made, rows.sparkSession)


def explain_python_changes(spark: SparkSession, values: ChangeEvents) -> str | None:
    """Return why Spark's expressions read all events; None if the module reads them."""
    if str(spark.conf.get(NATIVE_CHANGES, "true")).lower() != "true":
        return f"{NATIVE_CHANGES} is false"
    jvm: Any = spark._jvm
    support = jvm.kappa.json.Support
    if not isinstance(support, JavaClass):
        return "its jar is missing"
    row = jvm.org.apache.spark.sql.types.DataType.fromJson(values.row.json())
    cause = support.explainChanges(row)
    return None if cause is None else str(cause)


def find_expression(expression: Any) -> Any:
    """Return the expression in whose place the module is called, or one that is no such call as it is."""
    if kind_of(expression) != "Invoke" or kind_of(expression.targetObject()) != "Literal":
        return expression
    target = expression.targetObject().value()
    is_reader = isinstance(target, JavaObject) and kind_of(target) == _READER
    return target.reference(java_of(expression)) if is_reader else expression
