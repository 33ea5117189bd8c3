"""Event time of a source: the column as declared, or corrected for clocks that are wrong, and the watermark on it."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, TimestampType

from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.source import ClockCorrection, EventTime, Source
from kappa_pipelines.errors import SpecError
from kappa_pipelines.sources.idle import MARK

_MARKED = "__kappa_marked"


def add_corrected_time(rows: DataFrame, event_time: EventTime | None) -> DataFrame:
    """Return the rows with the event-time column, where that is not there already."""
    if event_time is None or event_time.clock_correction is None:
        return rows
    return rows.withColumn(event_time.column, _correct(event_time.clock_correction))


def add_watermark(rows: DataFrame, event_time: EventTime | None, marks: DataFrame | None = None) -> DataFrame:
    """Return the rows with their watermark. `marks` are watermarks that the rows are to have at least."""
    if event_time is None:
        return rows
    column = event_time.column
    delay = f"{_milliseconds(event_time.watermark)} milliseconds"
    if marks is not None:
        return (
            _add_marks(rows, marks, event_time)
            .withWatermark(column, delay)
            .where(_is_no_mark())
            .drop(_MARKED)
        )
    return rows.withWatermark(column, delay).where(_any_row())


def _add_marks(rows: DataFrame, marks: DataFrame, event_time: EventTime) -> DataFrame:
    """Return the rows, and for each mark one that moves the watermark to it."""
    time = f.timestamp_millis(f.unix_millis(MARK) + _milliseconds(event_time.watermark))
    times = marks.select(time.alias(event_time.column), f.lit(True).alias(_MARKED))
    return rows.withColumn(_MARKED, f.lit(False)).unionByName(times, allowMissingColumns=True)


def _is_no_mark() -> Column:
    """Return that a row is no mark, in words that Spark moves across no watermark; see `_any_row`."""
    return f.when(_any_row(), ~f.col(_MARKED))


def _any_row() -> Column:
    """Return a condition that always holds, and that Spark moves no filter across, for it does not see that.

    Without it a view's filter is evaluated before the watermark, which then follows the rows that this view keeps
    and no longer those of the source.
    """
    return f.spark_partition_id() >= 0


def correct_clock(
    occurred: datetime, sent: datetime | None, received: datetime | None, longest: timedelta
) -> datetime:
    """Return the event time of one record: what the plan computes, said in Python. Without two times nothing is corrected."""
    if sent is None or received is None:
        return occurred
    return occurred + max(-longest, min(longest, received - sent))


def _correct(correction: ClockCorrection) -> Column:
    occurred, sent, received = (
        f.unix_micros(f.col(f"`{name}`"))
        for name in (correction.occurred, correction.sent, correction.received)
    )
    longest = f.lit(_milliseconds(correction.max) * 1000)
    difference = f.least(longest, f.greatest(-longest, received - sent))
    return f.timestamp_micros(occurred + f.when(sent.isNull() | received.isNull(), 0).otherwise(difference))


def _milliseconds(duration: str) -> int:
    return int(parse_duration(duration) * 1000)


def check_event_time(source: Source, types: Mapping[str, DataType]) -> None:
    """Raise SpecError unless the source has the columns that its event time is made of, as timestamps."""
    event_time = source.event_time
    if event_time is None:
        return
    correction = event_time.clock_correction
    if correction is None:
        _check_timestamp(source.name, "eventTime.column", event_time.column, types)
        return
    for field in ("occurred", "sent", "received"):
        _check_timestamp(source.name, f"eventTime.clockCorrection.{field}", getattr(correction, field), types)
    if event_time.column.lower() in map(str.lower, types):
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source.name!r}: eventTime.column {event_time.column!r} is a column of the record already; with"
            " clockCorrection it is a new column, so give it a name of its own",
        )


def _check_timestamp(source: str, field: str, column: str, types: Mapping[str, DataType]) -> None:
    found = {name.lower(): kind for name, kind in types.items()}.get(column.lower())
    if found is None:
        raise SpecError(
            Reason.UNKNOWN_COLUMN,
            f"source {source!r}: {field} {column!r} is not in the schema; its columns are {', '.join(types)}",
        )
    if not isinstance(found, TimestampType):
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source!r}: {field} {column!r} is {found.simpleString().upper()};"
            " declare it as TIMESTAMP in the schema",
        )
