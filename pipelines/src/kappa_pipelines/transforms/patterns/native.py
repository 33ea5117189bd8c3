"""Patterns by the runtime's module in Java (ADR 101): the same order of events, conditions and matches as the step in Python.

Events, operands and values for measures are rows of Spark there, and Spark's own expressions evaluate the conditions.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.pattern import Pattern
from kappa_pipelines.analysis.catalyst import DELAY
from kappa_pipelines.revision.settings import NATIVE_PATTERNS
from kappa_pipelines.transforms.inputs import quote, read_input
from kappa_pipelines.transforms.java_module import explain_absence, explain_keys, get_plans
from kappa_pipelines.transforms.patterns.conditions import Navigation
from kappa_pipelines.transforms.patterns.define import Earlier
from kappa_pipelines.transforms.patterns.expressions import Operands
from kappa_pipelines.transforms.patterns.measures import ROWS
from kappa_pipelines.transforms.patterns.search import Search

KEY = "__kappa_key"
_TIME, _EVENT, _ROW = "__kappa_time", "__kappa_event", "__kappa_row"
_TIMES = ("match_start", "match_end", "match_time")
_NO_LIMIT, _ROWS = -1, -1


@dataclass(frozen=True)
class Given:
    """The events of a pattern, with what the search needs of each; see `Search`."""

    rows: DataFrame
    time: str
    key: tuple[str, ...]
    hash: Column
    bits: Column
    operands: Operands
    needed: Operands


def explain_python_pattern(spark: SparkSession, pattern: Pattern) -> str | None:
    """Return why a step in Python finds the matches; None if the module does."""
    events = read_input(spark, pattern.from_)
    kinds = map(events.find_type, pattern.key)
    return explain_absence(spark, NATIVE_PATTERNS) or explain_keys(spark, kinds)


def search_natively(given: Given, search: Search, earlier: Mapping[int, Earlier]) -> DataFrame:
    """Return the matches; `earlier` are the conditions that refer to earlier events, by the number of their step."""
    spark = given.rows.sparkSession
    keys = [f.col(quote(name)).alias(name) for name in given.key] or [f.lit(0).alias("all")]
    event = f.struct(
        given.hash.alias("hash"),
        given.bits.alias("bits"),
        _pack(given.operands).alias("operands"),
        _pack(given.needed).alias("needed"),
    )
    rows = given.rows.select(
        f.struct(*keys).alias(KEY), f.col(quote(given.time)).alias(_TIME), event.alias(_EVENT)
    )
    jvm: Any = spark._jvm
    conditions = [_select(spark, each) for each in earlier.values()]
    made = jvm.kappa.state.Patterns.search(rows._jdf, _describe(search, earlier), conditions)
    watermark = {DELAY: given.rows.schema[given.time].metadata[DELAY]}
    own = [f.col(_ROW)[name].alias(name) for name in _TIMES[:2]]
    at = f.col(_ROW)[_TIMES[2]].alias(_TIMES[2], metadata=watermark)
    found = DataFrame(made, spark)
    return found.select(f.col(_ROW)["key"].alias(KEY), f.col(_ROW)["rows"].alias(ROWS), *own, at)


def _pack(operands: Operands) -> Column:
    return f.struct(*(map(f.expr, operands.select()) if operands.texts else [f.lit(0).alias("none")]))


def _select(spark: SparkSession, condition: Earlier) -> Any:
    """Return a condition over a relation with its columns, to be compiled."""
    jvm: Any = spark._jvm
    columns = jvm.org.apache.spark.sql.types.DataType.fromJson(condition.columns.json())
    described = DataFrame(get_plans(spark).describe(spark._jsparkSession, columns), spark)
    return described.selectExpr(f"({condition.sql}) AS c")._jdf


def _describe(search: Search, earlier: Mapping[int, Earlier]) -> str:
    """Return a pattern as the module reads it."""
    conditions = [
        {"step": step, "inputs": list(map(_describe_input, each.inputs))} for step, each in earlier.items()
    ]
    return json.dumps(
        {
            "positions": list(map(asdict, search.automaton)),
            "within": _NO_LIMIT if search.within is None else search.within,
            "skip": search.skip.name,
            "skipStep": search.skip_step,
            "conditions": conditions,
        }
    )


def _describe_input(navigation: Navigation) -> dict[str, Any]:
    return {**asdict(navigation), "operand": _ROWS if navigation.operand is None else navigation.operand}
