"""Sliding windows and as-of joins that keep each row once, by the runtime's module in Java (ADR 81).

A plan of Spark alone joins the stream with itself, or with the versions, and aggregates by event: it keeps each row on two sides and
once more in a group. Here a key has one entry of state with its rows, and the aggregates are computed when an event is final.
"""

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.joins import AsOfJoin, Unmatched
from kappa_crds.quantities import parse_duration
from kappa_crds.view import SlidingWindow, View
from kappa_pipelines.analysis.catalyst import DELAY
from kappa_pipelines.analysis.state import State
from kappa_pipelines.revision.settings import ONE_SIDED
from kappa_pipelines.transforms.inputs import Input, quote, read_input
from kappa_pipelines.transforms.java_module import explain_absence, explain_keys, get_plans

_KEY, _TIME, _VERSION, _EVENT = "__kappa_key", "__kappa_time", "__kappa_version", "__kappa_event"
_ROW = "__kappa_row"


def build_one_sided(spark: SparkSession, view: View) -> DataFrame | None:
    """Return the rows of a view whose statement is valid; None if Spark's own plan computes them."""
    if explain_one_sided(spark, view) is not None:
        return None
    if view.sliding is not None:
        return _build_sliding(spark, view.name, view.sliding)
    return None if view.as_of is None else _build_as_of(spark, view.name, view.as_of)


def explain_one_sided(spark: SparkSession, view: View) -> str | None:
    """Return why Spark's own plan computes a view that could keep each row once; None if it does."""
    absent = explain_absence(spark, ONE_SIDED)
    if absent is not None:
        return absent
    if view.sliding is not None:
        return _explain_sliding(spark, view.name, view.sliding)
    return None if view.as_of is None else _explain_as_of(spark, view.as_of)


def describe_sliding(view: str, window: SlidingWindow) -> State:
    """Return the state of a sliding window."""
    until = f"the watermark has passed them by {window.length}"
    return State(view, "events of a sliding window", tuple(window.key), until)


def describe_as_of(view: str, join: AsOfJoin) -> State:
    """Return the state of an as-of join."""
    until = None if join.max_age is None else f"the watermark has passed them by {join.max_age}"
    operator = "versions of an as-of join"
    return State(view, operator, tuple(join.key.values()), until)


def _explain_sliding(spark: SparkSession, view: str, window: SlidingWindow) -> str | None:
    events = read_input(spark, window.from_)
    time = events.find_time(view, window.time)
    cause = explain_keys(spark, [events.find_type(name) for name in window.key])
    aggregated = _aggregate(spark, window, events, time)
    return cause or _text(get_plans(spark).explainAggregates(aggregated._jdf))


def _explain_as_of(spark: SparkSession, join: AsOfJoin) -> str | None:
    events, table = read_input(spark, join.from_), read_input(spark, join.table)
    own = [events.find_type(name) for name in join.key]
    if own != [table.find_type(name) for name in join.key.values()]:
        return "the key of the table has another type"
    return explain_keys(spark, own)


def _build_sliding(spark: SparkSession, view: str, window: SlidingWindow) -> DataFrame:
    events = read_input(spark, window.from_)
    time = events.find_time(view, window.time)
    rows = spark.table(events.name).where(f.col(quote(time)).isNotNull())
    keyed = rows.select(_pack_key(window.key), f.col(quote(time)).alias(_TIME), _pack(events.columns, _EVENT))
    length, aggregated = _micros(window.length), _aggregate(spark, window, events, time)
    made = get_plans(spark).slide(keyed._jdf, aggregated._jdf, length)
    return _unpack(spark, made, events, time, window.aggregates)


def _build_as_of(spark: SparkSession, view: str, join: AsOfJoin) -> DataFrame:
    events, table = read_input(spark, join.from_), read_input(spark, join.table)
    time, since = events.find_time(view), table.find_time(view)
    taken = f.struct(*(f.col(quote(column)).alias(name) for name, column in join.columns.items()))
    given = spark.table(events.name).where(f.col(quote(time)).isNotNull())
    given = given.select(_pack_key(join.key), f.col(quote(time)).alias(_TIME), _pack(events.columns, _EVENT))
    versions = spark.table(table.name).where(f.col(quote(since)).isNotNull())
    for name in join.key.values():
        versions = versions.where(f.col(quote(name)).isNotNull())
    versions = versions.select(
        _pack_key(join.key.values()), f.col(quote(since)).alias(_TIME), taken.alias(_VERSION)
    )
    watermark = {DELAY: events.schema[time].metadata[DELAY]}
    both = versions.unionByName(given, allowMissingColumns=True)
    both = both.select(_KEY, f.col(_TIME).alias(_TIME, metadata=watermark), _VERSION, _EVENT)
    max_age = -1 if join.max_age is None else _micros(join.max_age)
    made = get_plans(spark).joinAsOf(both._jdf, max_age, join.unmatched is Unmatched.KEEP)
    return _unpack(spark, made, events, time, join.columns)


def _aggregate(spark: SparkSession, window: SlidingWindow, events: Input, time: str) -> DataFrame:
    """Return the aggregates over a relation with the columns of the events, to be compiled."""
    jvm: Any = spark._jvm
    columns = jvm.org.apache.spark.sql.types.DataType.fromJson(events.schema.json())
    described = DataFrame(get_plans(spark).describe(spark._jsparkSession, columns), spark).alias(events.name)
    aggregates = [f.expr(sql).alias(name) for name, sql in window.aggregates.items()]
    return described.groupBy(quote(time)).agg(*aggregates)


def _unpack(spark: SparkSession, made: Any, events: Input, time: str, others: Any) -> DataFrame:
    """Return the columns of the events and the others; the event time has a watermark."""
    watermark = {DELAY: events.schema[time].metadata[DELAY]}
    columns = [f.col(_ROW).getField(name).alias(name) for name in (*events.columns, *others)]
    at = events.columns.index(time)
    columns[at] = f.col(_ROW).getField(time).alias(time, metadata=watermark)
    return DataFrame(made, spark).select(*columns)


def _pack_key(names: Any) -> Column:
    """Return a key as a struct whose fields have the same names for events and versions."""
    columns = [f.col(quote(name)).alias(f"key{number}") for number, name in enumerate(names)]
    return f.struct(*(columns or [f.lit(0).alias("all")])).alias(_KEY)


def _pack(names: list[str], name: str) -> Column:
    return f.struct(*map(f.col, map(quote, names))).alias(name)


def _micros(duration: str) -> int:
    return int(parse_duration(duration) * 1000) * 1000


def _text(found: Any) -> str | None:
    return None if found is None else str(found)
