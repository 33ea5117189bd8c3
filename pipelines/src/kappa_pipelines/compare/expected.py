"""Expected differences: a condition in SQL over `key`, `old` and `new`, checked like the SQL of views.

The columns of `old` and `new` are those of the differing values, as Spark infers them from their JSON. A column that no such value has is
NULL. So is a side that lacks the row, and a value that is not JSON.
"""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.catalyst import children_of, items, kind_of
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_sql_failure
from kappa_pipelines.sandbox.check import Place, check_plan, parse_expression

PATH = "tolerance.expected"
_SIDES = ("old", "new")
_VIEW = "compared"
_RAW = "__kappa_"
_CORRUPT = "__kappa_corrupt"


def check_condition(spark: SparkSession, sql: str) -> None:
    """Raise SpecError if a condition is not SQL, or names what it may not use."""
    parse_expression(spark, PATH, sql)


def mark_expected(pairs: DataFrame, sql: str) -> DataFrame:
    """Return the pairs with the column `expected`; SpecError if the condition does not fit their columns.

    The pairs are read twice, so they should be cached.
    """
    schema = _add_missing(_infer_schema(pairs), parse_expression(pairs.sparkSession, PATH, sql))
    text = {side: f.col(f"{_RAW}{side}").cast("string") for side in ("key", *_SIDES)}
    raw = pairs.select(*(f.col(name).alias(f"{_RAW}{name}") for name in pairs.columns))
    rows = raw.select(
        "*",
        text["key"].alias("key"),
        *(f.from_json(text[side], schema, {"mode": "PERMISSIVE"}).alias(side) for side in _SIDES),
    )
    _check_fit(rows, sql)
    restored = [f.col(f"{_RAW}{name}").alias(name) for name in pairs.columns]
    return rows.select(*restored, f.expr(sql).alias("expected"))


def _check_fit(rows: DataFrame, sql: str) -> None:
    """Raise SpecError unless the condition can be evaluated over `key`, `old` and `new` alone."""
    rows.select("key", *_SIDES).createOrReplaceTempView(_VIEW)
    try:
        judged = rows.sparkSession.table(_VIEW).select(f.expr(sql).alias("expected"))
    except AnalysisException as error:
        message = first_lines(read_sql_failure(error).message)
        raise SpecError(Reason.INVALID_SQL, f"{PATH}: {message}") from error
    check_plan(Place(PATH), judged)
    found = judged.schema["expected"].dataType
    if not isinstance(found, BooleanType):
        kind = found.simpleString().upper()
        raise SpecError(Reason.INVALID_SQL, f"{PATH} is of type {kind}; it must be a condition")


def _infer_schema(pairs: DataFrame) -> StructType:
    """Return the columns of all values of the pairs, with types that fit both sides."""
    spark: Any = pairs.sparkSession
    values = pairs.select(f.explode(f.array(*(f.col(side).cast("string") for side in _SIDES))).alias("value"))
    texts = values.where("value IS NOT NULL")
    encoder = spark._jvm.org.apache.spark.sql.Encoders.STRING()
    strings = getattr(texts._jdf, "as")(encoder)
    found = spark._jsparkSession.read().option("columnNameOfCorruptRecord", _CORRUPT).json(strings).schema()
    schema = StructType.fromJson(json.loads(found.json()))
    return StructType([each for each in schema.fields if each.name != _CORRUPT])


def _add_missing(schema: StructType, tree: Any) -> StructType:
    """Return the schema with the columns of the condition that no value has."""
    known = set(schema.names)
    missing = dict.fromkeys(name for name in _find_columns(tree) if name not in known)
    more = [StructField(name, StringType()) for name in missing]
    return StructType(
        [*schema.fields, *more, *([] if known or more else [StructField(_CORRUPT, StringType())])]
    )


def _find_columns(tree: Any) -> Iterator[str]:
    """Yield the columns of `old` and `new` in an expression."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if kind_of(node) == "UnresolvedAttribute":
            parts = [str(part) for part in items(node.nameParts())]
            if len(parts) > 1 and parts[0].lower() in _SIDES:
                yield parts[1]
        pending.extend(children_of(node))
