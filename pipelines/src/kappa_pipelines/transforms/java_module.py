"""The runtime's module in Java, as far as views use it: whether a session has it, and where it can keep state."""

from collections.abc import Iterable
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType


def get_plans(spark: SparkSession) -> Any:
    """Return the class that makes plans with state in the JVM."""
    jvm: Any = spark._jvm
    return jvm.kappa.state.Plans


def explain_absence(spark: SparkSession, setting: str) -> str | None:
    """Return why a session does not use the module for views that a setting is about; None if it does."""
    if str(spark.conf.get(setting, "true")).lower() != "true":
        return f"{setting} is false"
    return None if isinstance(get_plans(spark), JavaClass) else "its jar is missing"


def explain_keys(spark: SparkSession, types: Iterable[DataType]) -> str | None:
    """Return why the module cannot compare keys of these types; None if it can."""
    jvm: Any = spark._jvm
    rows, parse = (
        jvm.org.apache.spark.sql.catalyst.util.UnsafeRowUtils,
        jvm.org.apache.spark.sql.types.DataType,
    )
    stable = all(rows.isBinaryStable(parse.fromJson(each.json())) for each in types)
    return None if stable else "equal values of its key may have different bytes"
