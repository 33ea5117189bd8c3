"""Windows, and corrections of their results by late records.

As a plan of Spark operators: a row goes into its window once for the first result and once for each correction. Each of these
copies closes at its own time: the window's end, plus the delay of the correction. So rows that are late for the first result are in
time for a correction:

    rows ─ copies ─ aggregation by (key, window, copy, close) ─ pairs ─ aggregation by (key, window, pair, close) ─ rows

A pair is a result and the previous one, combined when the later one closes. If they differ, a retraction of the previous result and the
new result are emitted. All steps depend on event time alone, so a replay gives the same rows.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.window import Window
from kappa_pipelines.analysis.catalyst import DELAY
from kappa_pipelines.errors import SpecError
from kappa_pipelines.transforms.inputs import check_new_columns, quote, quote_interval, read_input

START, END, TIME = "window_start", "window_end", "window_time"
REVISION, RETRACTION = "revision", "retraction"
_WINDOW, _COPY, _CLOSES, _VALUES = "__kappa_window", "__kappa_copy", "__kappa_closes", "__kappa_values"


def is_corrected(window: Window) -> bool:
    """Return whether its results may be corrected; else it is a single statement."""
    return window.late_records is not None and window.late_records.correct is not None


def build_window(spark: SparkSession, view: str, window: Window) -> str:
    """Return the statement of a window that is not corrected; SpecError for unknown columns."""
    return _write_aggregation(window, _check(spark, view, window))


def build_corrected(spark: SparkSession, view: str, window: Window) -> DataFrame:
    """Return the rows of a window that is corrected; SpecError for unknown columns."""
    time = _check(spark, view, window)
    delays = [0, *_read_delays(view, window)]
    events = spark.table(window.from_)
    watermark = {DELAY: events.schema[time].metadata[DELAY]}
    copies = _copy(events, window, time, delays, watermark)
    results = _aggregate(copies, window)
    return _compare(_pair(results, window, delays, watermark), window, watermark)


def add_missed_window(rows: DataFrame, window: Window, time: str, watermark: Column, name: str) -> DataFrame:
    """Return the rows once for each of their windows that was finally closed at the watermark, with that window as `name`."""
    corrections = window.late_records.correct if window.late_records is not None else None
    last = 0 if corrections is None else max(map(parse_duration, corrections.after))
    windowed = rows.withColumn(name, f.expr(_write_own_window(window, time)))
    closes = f.unix_micros(f.col(name)["end"]) + int(last * 1000) * 1000
    return windowed.where(closes <= f.unix_micros(watermark))


def _write_own_window(window: Window, time: str) -> str:
    """Return the window of a single row; a session is then as long as its gap."""
    if window.session is None:
        return _write_window(window, time)
    end = f"{quote(time)} + {quote_interval(window.session)}"
    return f"if({quote(time)} IS NULL, NULL, named_struct('start', {quote(time)}, 'end', {end}))"


def _check(spark: SparkSession, view: str, window: Window) -> str:
    """Return the event-time column."""
    events = read_input(spark, window.from_)
    time = events.find_time(view, window.time)
    events.check_columns(view, "window.key", window.key)
    _check_names(view, window)
    return time


def _read_delays(view: str, window: Window) -> list[int]:
    """Return the delay of each correction after a window's result, in milliseconds."""
    assert window.late_records is not None  # noqa: S101 - is_corrected
    assert window.late_records.correct is not None  # noqa: S101 - is_corrected
    delays = [int(parse_duration(after) * 1000) for after in window.late_records.correct.after]
    if delays != sorted(set(delays)):
        raise SpecError(
            Reason.INVALID_SPEC,
            f"view {view!r}: window.lateRecords.correct.after must be in ascending order, each time once",
        )
    return delays


def _check_names(view: str, window: Window) -> None:
    """Raise SpecError for duplicate columns of the result."""
    own = (START, END, TIME, REVISION, RETRACTION)
    check_new_columns(view, "window.key", window.key, own)
    check_new_columns(view, "window.aggregates", window.aggregates, (*own, *window.key))


def _write_aggregation(window: Window, time: str) -> str:
    keys = [quote(name) for name in window.key]
    aggregates = [f"{sql} AS {quote(name)}" for name, sql in window.aggregates.items()]
    own = _write_window(window, time)
    names = map(quote, window.aggregates)
    columns = [
        *keys,
        f"{_WINDOW}.start AS {START}",
        f"{_WINDOW}.end AS {END}",
        f"window_time({_WINDOW}) AS {TIME}",
        *names,
    ]
    inner = (
        f"SELECT {', '.join([*keys, f'{own} AS {_WINDOW}', *aggregates])}\n"
        f"FROM {window.from_}\nGROUP BY {', '.join([*keys, own])}"
    )
    return f"SELECT {', '.join(columns)} FROM (\n{inner}\n)"  # noqa: S608 - checked names


def _write_window(window: Window, time: str) -> str:
    """Return the window of a row in SQL."""
    if window.session is not None:
        return f"session_window({quote(time)}, {_quote_length(window.session)})"
    if window.hopping is not None:
        length, every = _quote_length(window.hopping.length), _quote_length(window.hopping.slide)
        return f"window({quote(time)}, {length}, {every})"
    assert window.tumbling is not None  # noqa: S101 - the model has exactly one
    return f"window({quote(time)}, {_quote_length(window.tumbling)})"


def _quote_length(duration: str) -> str:
    """Return a duration as the text that windows take."""
    return f"'{parse_duration(duration) * 1000:.0f} milliseconds'"


def _copy(
    events: DataFrame, window: Window, time: str, delays: Sequence[int], watermark: dict[str, int]
) -> DataFrame:
    """Return each row once for each result of its window, with the time at which the result closes."""
    rows = events.withColumn(_WINDOW, f.expr(_write_window(window, time)))
    # A new struct has no watermark, so only the copy's own time closes it.
    rows = rows.withColumn(
        _WINDOW, f.struct(f.col(_WINDOW)["start"].alias("start"), f.col(_WINDOW)["end"].alias("end"))
    )
    copies = f.explode(f.array(*map(f.lit, range(len(delays)))))
    return _close(rows.withColumn(_COPY, copies), delays, watermark)


def _close(rows: DataFrame, delays: Sequence[int], watermark: dict[str, int]) -> DataFrame:
    """Return the rows with the time at which their result closes, which has a watermark."""
    delay = f.get(f.array(*(f.lit(each * 1000).cast("bigint") for each in delays)), f.col(_COPY))
    closes = f.timestamp_micros(f.unix_micros(f.col(_WINDOW)["end"]) + delay)
    return rows.withColumn(_CLOSES, closes.alias(_CLOSES, metadata=watermark))


def _aggregate(copies: DataFrame, window: Window) -> DataFrame:
    """Return the results of each window, each when it closes."""
    aggregates = [f.expr(sql).alias(name) for name, sql in window.aggregates.items()]
    results = copies.groupBy(*map(quote, window.key), _WINDOW, _COPY, _CLOSES).agg(*aggregates)
    values = f.struct(*map(quote, window.aggregates)).alias(_VALUES)
    return results.select(*map(quote, window.key), _WINDOW, _COPY, values)


def _pair(results: DataFrame, window: Window, delays: Sequence[int], watermark: dict[str, int]) -> DataFrame:
    """Return each result with the previous one, when the later of them closes."""
    own, last = f.col(_COPY), len(delays) - 1
    pairs = f.when(own < last, f.array(own, own + 1)).otherwise(f.array(own))
    both = results.withColumn("__kappa_own", own).withColumn(_COPY, f.explode(pairs))
    is_new = f.col("__kappa_own") == f.col(_COPY)
    grouped = _close(both, delays, watermark).groupBy(*map(quote, window.key), _WINDOW, _COPY, _CLOSES)
    return grouped.agg(
        f.first(f.when(~is_new, f.col(_VALUES)), ignorenulls=True).alias("old"),
        f.first(f.when(is_new, f.col(_VALUES)), ignorenulls=True).alias("new"),
    )


def _compare(pairs: DataFrame, window: Window, watermark: dict[str, int]) -> DataFrame:
    """Return first results and, where a result differs from the previous one, its retraction and the new result."""

    def emit(values: Column, *, retraction: bool) -> Column:
        return f.struct(f.lit(retraction).alias(RETRACTION), values.alias(_VALUES))

    old, new = f.col("old"), f.col("new")
    correction = f.array(emit(old, retraction=True), emit(new, retraction=False))
    first = f.array(emit(new, retraction=False))
    emitted = f.when(old.isNull(), first).otherwise(correction)
    rows = pairs.where(~old.eqNullSafe(new)).select("*", f.explode(emitted).alias("emitted"))
    time = f.timestamp_micros(f.unix_micros(f.col(_CLOSES)) - 1)
    return rows.select(
        *map(quote, window.key),
        f.col(_WINDOW)["start"].alias(START),
        f.col(_WINDOW)["end"].alias(END),
        time.alias(TIME, metadata=watermark),
        *(f.col("emitted")[_VALUES][name].alias(name) for name in window.aggregates),
        f.col(_COPY).alias(REVISION),
        f.col("emitted")[RETRACTION].alias(RETRACTION),
    )
