"""Event time of a source: the declared column, or one corrected for wrong clocks, and its watermark."""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, IntegerType, LongType, TimestampType

from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.source import ClockCorrection, EpochUnit, EventTime, Source
from kappa_pipelines.errors import SpecError
from kappa_pipelines.sources.idle import MARK

_IS_IDLE = "__kappa_marked"


_UNITS = {EpochUnit.SECONDS: 1, EpochUnit.MILLISECONDS: 10**3, EpochUnit.MICROSECONDS: 10**6}
"""Units in a second."""
_CONVERT = {
    EpochUnit.SECONDS: f.timestamp_seconds,
    EpochUnit.MILLISECONDS: f.timestamp_millis,
    EpochUnit.MICROSECONDS: f.timestamp_micros,
}
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999 in seconds since 1970; Spark's functions fail on numbers and times that are far outside."""
_OLDEST_RECORD = 1_293_840_000
"""2011, the year of Kafka's first release, in seconds since 1970: no record is older."""


def build_time(event_time: EventTime, find: Callable[[str], Column]) -> Column:
    """Return the event time of a record. `find` returns a column by its name."""
    if event_time.clock_correction is not None:
        return _correct(event_time.clock_correction, find)
    column = find(event_time.column)
    if event_time.epoch_unit is None:
        return column
    return read_epoch(column, event_time.epoch_unit)


def read_epoch(number: Column, unit: EpochUnit) -> Column:
    """Return the time that a number since 1970 is; NULL outside of the years 1 to 9999."""
    return f.when(is_in_range(number, unit), _CONVERT[unit](number))


def is_wrong(event_time: EventTime, find: Callable[[str], Column], timestamp: Column) -> Column:
    """Return whether a record's event time is too far ahead of `timestamp`, Kafka's own, or not in the years 1 to 9999.

    The result does not depend on the wall clock, so a replay gives the same rows. A timestamp before Kafka existed (-1 for none, a
    device whose clock was reset, the default of a test case) is not the time of writing: then only the years are the limit.
    """
    time, written = f.unix_micros(build_time(event_time, find)), f.unix_micros(timestamp)
    ahead = (written > _OLDEST_RECORD * 10**6) & (time > written + _milliseconds(event_time.max_ahead) * 1000)
    return _is_out_of_range(event_time, find) | f.coalesce(ahead, f.lit(False))


def _is_out_of_range(event_time: EventTime, find: Callable[[str], Column]) -> Column:
    """Return whether a time that a record has is not in the years 1 to 9999: arithmetic with one can fail the query."""
    if event_time.epoch_unit is not None:
        is_plain = [is_in_range(find(event_time.column), event_time.epoch_unit)]
    else:
        correction = event_time.clock_correction
        names = _list_clocks(correction) if correction else [event_time.column]
        is_plain = [
            f.unix_micros(find(name)).between(_FIRST * 10**6, _LAST * 10**6 + 999_999) for name in names
        ]
    return reduce(or_, (f.coalesce(~each, f.lit(False)) for each in is_plain))


def _list_clocks(correction: ClockCorrection) -> list[str]:
    return [correction.occurred, correction.sent, correction.received]


def explain_wrong(event_time: EventTime, find: Callable[[str], Column], timestamp: Column) -> Column:
    """Return why an event time is invalid."""
    out_of_range = _is_out_of_range(event_time, find)
    correction = event_time.clock_correction
    declared = event_time.column if correction is None else correction.occurred
    found = f.when(out_of_range, find(declared).cast("string")).otherwise(
        build_time(event_time, find).cast("string")
    )
    parts = (
        f"event time {event_time.column} is ", found, ", the record was written at ", timestamp.cast("string"),
        f"; it may be {event_time.max_ahead} ahead (eventTime.maxAhead), and in the years 1 to 9999, as all times that it is computed from."
        " For a number of milliseconds declare the column as BIGINT and set eventTime.epochUnit",
    )  # fmt: skip
    return f.concat(
        *(f.lit(part) if isinstance(part, str) else f.coalesce(part, f.lit("NULL")) for part in parts)
    )


def is_in_range(number: Column, unit: EpochUnit) -> Column:
    """Return whether a number since 1970 is a time in the years 1 to 9999."""
    return number.between(_FIRST * _UNITS[unit], _LAST * _UNITS[unit])


def add_watermark(rows: DataFrame, event_time: EventTime | None, idle: DataFrame | None = None) -> DataFrame:
    """Return the rows with their watermark. `idle` are the source's idle watermarks, which the watermark is not below."""
    if event_time is None:
        return rows
    column = event_time.column
    delay = f"{_milliseconds(event_time.watermark)} milliseconds"
    if idle is not None:
        return (
            _add_idle_rows(rows, idle, event_time)
            .withWatermark(column, delay)
            .where(_is_record())
            .drop(_IS_IDLE)
        )
    return rows.withWatermark(column, delay).where(any_row())


def _add_idle_rows(rows: DataFrame, idle: DataFrame, event_time: EventTime) -> DataFrame:
    """Return the rows, and a row for each idle watermark, which moves the watermark to it."""
    time = f.timestamp_millis(f.unix_millis(MARK) + _milliseconds(event_time.watermark))
    times = idle.select(time.alias(event_time.column), f.lit(True).alias(_IS_IDLE))
    return rows.withColumn(_IS_IDLE, f.lit(False)).unionByName(times, allowMissingColumns=True)


def _is_record() -> Column:
    """Return whether a row is a record, as a filter that Spark does not move across a watermark; see `any_row`."""
    return f.when(any_row(), ~f.col(_IS_IDLE))


def any_row() -> Column:
    """Return a condition that is always true but that Spark does not optimize, so that it moves no filter across it.

    Without it a view's filter is evaluated before the watermark, which then follows the rows of this view instead of those of the source.
    """
    return f.spark_partition_id() >= 0


def _correct(correction: ClockCorrection, find: Callable[[str], Column]) -> Column:
    occurred, sent, received = (f.unix_micros(find(name)) for name in _list_clocks(correction))
    longest = f.lit(_milliseconds(correction.max) * 1000)
    difference = f.least(longest, f.greatest(-longest, received - sent))
    return f.timestamp_micros(occurred + f.when(sent.isNull() | received.isNull(), 0).otherwise(difference))


def _milliseconds(duration: str) -> int:
    return int(parse_duration(duration) * 1000)


def check_event_time(source: Source, types: Mapping[str, DataType]) -> None:
    """Raise SpecError unless the source has the columns of its event time, as timestamps."""
    event_time = source.event_time
    if event_time is None:
        return
    correction = event_time.clock_correction
    if correction is None:
        _check_time(source.name, event_time, types)
        return
    for field in ("occurred", "sent", "received"):
        _check_timestamp(source.name, f"eventTime.clockCorrection.{field}", getattr(correction, field), types)
    if event_time.column.lower() in map(str.lower, types):
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source.name!r}: eventTime.column {event_time.column!r} is already a column of the record; with"
            " clockCorrection it is a new column, so use another name",
        )


def _check_time(source: str, event_time: EventTime, types: Mapping[str, DataType]) -> None:
    found = _find_type(source, "eventTime.column", event_time.column, types)
    is_number, unit = isinstance(found, (LongType, IntegerType)), event_time.epoch_unit
    if is_number == (unit is not None) and (is_number or isinstance(found, TimestampType)):
        return
    is_wrong = f"source {source!r}: eventTime.column {event_time.column!r} is {found.simpleString().upper()}"
    if is_number:
        advice = "set eventTime.epochUnit to Milliseconds, Seconds or Microseconds"
    elif unit is not None:
        advice = "eventTime.epochUnit is for BIGINT and INT; take it out, or change the schema"
    else:
        advice = "declare it as TIMESTAMP for text such as 2026-01-01T00:00:00Z, or as BIGINT with eventTime.epochUnit for a number"
    raise SpecError(Reason.INVALID_SCHEMA, f"{is_wrong}; {advice}")


def _check_timestamp(source: str, field: str, column: str, types: Mapping[str, DataType]) -> None:
    found = _find_type(source, field, column, types)
    if not isinstance(found, TimestampType):
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source!r}: {field} {column!r} is {found.simpleString().upper()}; declare it as TIMESTAMP in the schema",
        )


def _find_type(source: str, field: str, column: str, types: Mapping[str, DataType]) -> DataType:
    found = {name.lower(): kind for name, kind in types.items()}.get(column.lower())
    if found is None:
        raise SpecError(
            Reason.UNKNOWN_COLUMN,
            f"source {source!r}: {field} {column!r} is not in the schema; its columns are {', '.join(types)}",
        )
    return found
