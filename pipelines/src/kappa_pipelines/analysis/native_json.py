"""Whether JSON is read and written by the runtime's own module (ADR 79), as its rule for Spark's optimizer decides."""

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from kappa_pipelines.revision.settings import NATIVE_JSON

_OFF = f"{NATIVE_JSON} is false"
_LEGACY = "spark.sql.legacy.timeParserPolicy"


def explain_read(spark: SparkSession, schema: StructType, options: dict[str, str]) -> str | None:
    """Return why Spark's functions read values of a schema; None if the module reads them."""
    support = _find_support(spark)
    if isinstance(support, str):
        return support
    return _text(support.explainRead(_type(spark, schema), _map(spark, options), ""))


def explain_write(spark: SparkSession, schema: StructType, options: dict[str, str]) -> str | None:
    """Return why Spark's functions write rows of a schema; None if the module writes them."""
    support = _find_support(spark)
    if isinstance(support, str):
        return support
    return _text(support.explainWrite(_type(spark, schema), _map(spark, options)))


def _find_support(spark: SparkSession) -> Any:
    """Return the class that knows; a text if the module is not used at all."""
    if str(spark.conf.get(NATIVE_JSON, "true")).lower() != "true":
        return _OFF
    if str(spark.conf.get(_LEGACY, "CORRECTED")).upper() == "LEGACY":
        return f"{_LEGACY} is LEGACY"
    jvm: Any = spark._jvm
    support = jvm.kappa.json.Support
    return support if isinstance(support, JavaClass) else "its jar is missing"


def _text(found: Any) -> str | None:
    return None if found is None else str(found)


def _type(spark: SparkSession, schema: StructType) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())


def _map(spark: SparkSession, options: dict[str, str]) -> Any:
    jvm: Any = spark._jvm
    return jvm.PythonUtils.toScalaMap(options)
