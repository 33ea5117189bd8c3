"""Sliding windows: for each event, aggregates over the events of its key in the preceding length of time.

As a plan: a join of the events with themselves, bounded in time, and one group for each event. Both ends of the window
are included, and so are events at the same time, as in SQL's `RANGE BETWEEN INTERVAL … PRECEDING AND CURRENT ROW`. Events
without event time have no row. Keys that are NULL are one key.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.view import SlidingWindow
from kappa_pipelines.transforms.events import TIME, group_by_event, select_events, unpack_columns
from kappa_pipelines.transforms.inputs import Input, check_new_columns, quote, quote_interval


def build_sliding(spark: SparkSession, view: str, window: SlidingWindow, events: Input) -> str:
    """Return the statement; SpecError for unknown columns."""
    time = events.find_time(view, window.time)
    events.check_columns(view, "sliding.key", window.key)
    check_new_columns(view, "sliding.aggregates", window.aggregates, events.columns)
    keys = {f"__kappa_key_{number}": column for number, column in enumerate(window.key)}
    same_key = [f"{name} <=> {events.name}.{quote(column)}" for name, column in keys.items()]
    near = f"{events.name}.{quote(time)} BETWEEN {TIME} - {quote_interval(window.length)} AND {TIME}"
    aggregates = [f"{sql} AS {quote(name)}" for name, sql in window.aggregates.items()]
    return (
        f"SELECT {', '.join([*unpack_columns(events, time), *aggregates])}\n"
        f"FROM ({select_events(spark, events, time, keys)}) JOIN {events.name} ON {' AND '.join([*same_key, near])}\n"
        f"{group_by_event()}"
    )


def add_missed_span(
    rows: DataFrame, window: SlidingWindow, time: str, watermark: Column, name: str
) -> DataFrame:
    """Return the late events, with the window that each would have had as `name`, both ends included."""
    end = f.col(quote(time))
    span = f.struct((end - f.expr(quote_interval(window.length))).alias("start"), end.alias("end"))
    return rows.where(end <= watermark).withColumn(name, span)
