"""Windows, and corrections of their results where rows came too late for them.

As a plan, all Spark's own: a row goes into its window once for the first result and once for each correction. Each of these
copies has a time of its own at which it closes: the window's end, and so much later as the correction is after the result.
So rows that are too late for the first are in time for the second:

    rows ─ copies ─ aggregation by (key, window, copy, close) ─ pairs ─ aggregation by (key, window, pair, close) ─ rows

A pair is a result and the one before it, brought together when the later one closes. Where they differ, a retraction of
the one before and the new one come out. All of it moves by event time alone, so a replay gives the same rows.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.window import Window
from kappa_pipelines.analysis.catalyst import DELAY
from kappa_pipelines.errors import SpecError
from kappa_pipelines.transforms.inputs import quote, quote_interval, read_input

START, END, TIME = "window_start", "window_end", "window_time"
REVISION, RETRACTION = "revision", "retraction"
_WINDOW, _COPY, _CLOSES, _VALUES = "__kappa_window", "__kappa_copy", "__kappa_closes", "__kappa_values"


def is_corrected(window: Window) -> bool:
    """Return whether its results may be corrected; else it is a single statement."""
    return window.stragglers is not None and window.stragglers.correct is not None


def build_window(spark: SparkSession, view: str, window: Window) -> str:
    """Return the statement of a window that is not corrected; SpecError where it names what is not there."""
    return _say_aggregation(window, _check(spark, view, window))


def build_corrected(spark: SparkSession, view: str, window: Window) -> DataFrame:
    """Return the rows of a window that is corrected; SpecError where it names what is not there."""
    time = _check(spark, view, window)
    delays = [0, *_read_delays(view, window)]
    events = spark.table(window.from_)
    watermark = {DELAY: events.schema[time].metadata[DELAY]}
    copies = _copy(events, window, time, delays, watermark)
    results = _aggregate(copies, window)
    return _compare(_pair(results, window, delays, watermark), window, watermark)


def add_missed_window(rows: DataFrame, window: Window, time: str, watermark: Column, name: str) -> DataFrame:
    """Return the rows once for each of their windows that had closed for good at the watermark, with that window as `name`."""
    corrections = window.stragglers.correct if window.stragglers is not None else None
    last = 0 if corrections is None else max(map(parse_duration, corrections.after))
    windowed = rows.withColumn(name, f.expr(_say_own_window(window, time)))
    closes = f.unix_micros(f.col(name)["end"]) + int(last * 1000) * 1000
    return windowed.where(closes <= f.unix_micros(watermark))


def _say_own_window(window: Window, time: str) -> str:
    """Return the window of a row by itself; a session's is then as long as its gap."""
    if window.session is None:
        return _say_window(window, time)
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
    """Return how long after a window's result each correction comes, in milliseconds."""
    assert window.stragglers is not None  # noqa: S101 - is_corrected
    assert window.stragglers.correct is not None  # noqa: S101 - is_corrected
    delays = [int(parse_duration(after) * 1000) for after in window.stragglers.correct.after]
    if delays != sorted(set(delays)):
        raise SpecError(
            Reason.INVALID_SPEC,
            f"view {view!r}: window.stragglers.correct.after must be in ascending order, each time once",
        )
    return delays


def _check_names(view: str, window: Window) -> None:
    """Raise SpecError for a column of the result that has the name of another."""
    taken = {START, END, TIME, REVISION, RETRACTION}
    for field, names in (("key", window.key), ("aggregates", window.aggregates)):
        for name in names:
            if name.lower() in taken:
                raise SpecError(
                    Reason.INVALID_SPEC,
                    f"view {view!r}: window.{field} has {name!r}, a column that the rows have already; take another name",
                )
            taken.add(name.lower())


def _say_aggregation(window: Window, time: str) -> str:
    keys = [quote(name) for name in window.key]
    aggregates = [f"{sql} AS {quote(name)}" for name, sql in window.aggregates.items()]
    own = _say_window(window, time)
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


def _say_window(window: Window, time: str) -> str:
    """Return the window of a row in SQL."""
    if window.session is not None:
        return f"session_window({quote(time)}, {_quote_length(window.session)})"
    if window.hopping is not None:
        length, every = _quote_length(window.hopping.length), _quote_length(window.hopping.every)
        return f"window({quote(time)}, {length}, {every})"
    assert window.tumbling is not None  # noqa: S101 - the API server and the model take exactly one
    return f"window({quote(time)}, {_quote_length(window.tumbling)})"


def _quote_length(duration: str) -> str:
    """Return a duration as windows take it, a text."""
    return f"'{parse_duration(duration) * 1000:.0f} milliseconds'"


def _copy(
    events: DataFrame, window: Window, time: str, delays: Sequence[int], watermark: dict[str, int]
) -> DataFrame:
    """Return each row once for each result of its window, with the time at which that closes."""
    rows = events.withColumn(_WINDOW, f.expr(_say_window(window, time)))
    # Made anew it has no watermark, so that only the copy's own time closes it.
    rows = rows.withColumn(
        _WINDOW, f.struct(f.col(_WINDOW)["start"].alias("start"), f.col(_WINDOW)["end"].alias("end"))
    )
    copies = f.explode(f.array(*map(f.lit, range(len(delays)))))
    return _close(rows.withColumn(_COPY, copies), delays, watermark)


def _close(rows: DataFrame, delays: Sequence[int], watermark: dict[str, int]) -> DataFrame:
    """Return the rows with the time at which the result of their number closes, which has a watermark."""
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
    """Return each result beside the one before it, when the later of them closes."""
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
    """Return first results, and where a result differs from the one before, the retraction of that and the new one."""

    def say(values: Column, *, retraction: bool) -> Column:
        return f.struct(f.lit(retraction).alias(RETRACTION), values.alias(_VALUES))

    old, new = f.col("old"), f.col("new")
    correction = f.array(say(old, retraction=True), say(new, retraction=False))
    first = f.array(say(new, retraction=False))
    said = f.when(old.isNull(), first).otherwise(correction)
    rows = pairs.where(~old.eqNullSafe(new)).select("*", f.explode(said).alias("said"))
    time = f.timestamp_micros(f.unix_micros(f.col(_CLOSES)) - 1)
    return rows.select(
        *map(quote, window.key),
        f.col(_WINDOW)["start"].alias(START),
        f.col(_WINDOW)["end"].alias(END),
        time.alias(TIME, metadata=watermark),
        *(f.col("said")[_VALUES][name].alias(name) for name in window.aggregates),
        f.col(_COPY).alias(REVISION),
        f.col("said")[RETRACTION].alias(RETRACTION),
    )
