"""Streams compared by a tree of hashes: rows are counted and their hashes summed by leaves, and only leaves that differ are read again.

A leaf is a window of event time and a bucket of keys, so a row that changed is in the same leaf on both sides. Sums of hashes do not
depend on the order of rows, and count repeated ones. In leaves that differ, rows of equal content cancel out, whatever their notation.
The rest is paired by key, in the order of its content; rows without key are not paired.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kappa_crds.comparison import OutputRange, StreamWindows, Tolerance, WindowDifference
from kappa_pipelines.compare.heads import count_seconds, read_time
from kappa_pipelines.compare.records import NEW, OLD, Reader, pack_position, write_position
from kappa_pipelines.compare.values import Rule, write_canonical

_BUCKETS = 4096
_HALF = 2**32
_MOST_WINDOWS = 1000
_LEAF = ("window", "bucket")


@dataclass(frozen=True)
class Streams:
    """Both sides of a stream, the reader of their records, and the windows to localize differences in.

    Rows with a time before `since`, in seconds since 1970, are left out.
    """

    reader: Reader
    old: OutputRange
    new: OutputRange
    windows: StreamWindows | None
    since: int | None = None


@dataclass(frozen=True)
class LeafCounts:
    """Counts of rows in leaves; `rows` is the larger count of both sides in each."""

    old_rows: int
    new_rows: int
    rows: int


def hash_leaves(streams: Streams) -> DataFrame:
    """Return the leaves with rows: `window`, `bucket`, the rows of each side, and whether the sides differ."""
    rows = _read(streams)
    digest = f.xxhash64("key", "value")
    parts = (f.count(f.lit(1)), f.sum(f.pmod(digest, f.lit(_HALF))), f.sum(f.shiftrightunsigned(digest, 32)))
    sums = rows.groupBy(*_LEAF, "side").agg(*(part.alias(f"s{index}") for index, part in enumerate(parts)))

    def of(side: int, index: int) -> Column:
        return f.coalesce(f.sum(f.when(f.col("side") == side, f.col(f"s{index}"))), f.lit(0))

    differs = f.lit(False)
    for index in range(len(parts)):
        differs = differs | (of(OLD, index) != of(NEW, index))
    counts = of(OLD, 0).alias("old_rows"), of(NEW, 0).alias("new_rows")
    return sums.groupBy(*_LEAF).agg(*counts, differs.alias("differs"))


def count_rows(leaves: DataFrame) -> LeafCounts:
    """Return the rows in leaves, which should be cached."""
    most = f.greatest("old_rows", "new_rows")
    row = leaves.agg(f.sum("old_rows"), f.sum("new_rows"), f.sum(most)).collect()[0]
    return LeafCounts(*(count or 0 for count in row))


def select_leaves(differing: DataFrame, count: int, most: int) -> DataFrame:
    """Return the differing leaves to examine: all, or a sample of buckets with about `most` rows of `count`."""
    if count <= most:
        return differing
    place = f.pmod(f.xxhash64("window", "bucket"), f.lit(_BUCKETS))
    return differing.where(place < max(1, _BUCKETS * most // count))


def describe_windows(leaves: DataFrame, differing: Mapping[int | None, int]) -> tuple[WindowDifference, ...]:
    """Return the windows with differing rows, those with most first."""
    top = sorted(differing, key=lambda window: -differing[window])[:_MOST_WINDOWS]
    numbers = [window for window in top if window is not None]
    is_shown = f.col("window").isin(numbers) | f.col("window").isNull()
    rows = leaves.where(is_shown).groupBy("window").agg(f.sum("old_rows"), f.sum("new_rows")).collect()
    counts = {window: (old, new) for window, old, new in rows}
    return tuple(
        WindowDifference(
            start=None if window is None else datetime.fromtimestamp(window, UTC),
            old_rows=counts[window][0],
            new_rows=counts[window][1],
            differing=differing[window],
        )
        for window in top
    )


def pair_rows(streams: Streams, leaves: DataFrame, tolerance: Tolerance) -> DataFrame:
    """Return the pairs of the rows in leaves that differ, by a second pass."""
    wanted = leaves.select(*(f.col(name).alias(f"leaf_{name}") for name in _LEAF))
    same = [f.col(name).eqNullSafe(f.col(f"leaf_{name}")) for name in _LEAF]
    rows = _read(streams).join(f.broadcast(wanted), same, "left_semi")
    bytes_differ = _cancel(rows, ("window", "key", "value"))
    canonical = bytes_differ.mapInArrow(
        partial(_add_canonical, tolerance.model_dump_json(by_alias=True)),
        "side INT, window BIGINT, key BINARY, value BINARY, position BIGINT, content BINARY",
    )
    return _pair(_cancel(canonical, ("window", "key", "content")))


def _read(streams: Streams) -> DataFrame:
    """Return the rows of both sides with their leaves. A record without value counts as one with an empty value."""
    sides = ((OLD, streams.old), (NEW, streams.new))
    old, new = (
        streams.reader.read_rows(output).select(
            f.lit(side).alias("side"),
            _find_window(streams.windows).alias("window"),
            f.pmod(f.xxhash64("key"), f.lit(_BUCKETS)).alias("bucket"),
            "key",
            f.coalesce("value", f.lit(b"")).alias("value"),
            pack_position(side).alias("position"),
        )
        for side, output in sides
    )
    rows = old.unionAll(new)
    return (
        rows
        if streams.since is None
        else rows.where(f.coalesce(f.col("window") >= streams.since, f.lit(True)))
    )


def _find_window(windows: StreamWindows | None) -> Column:
    """Return the start of a row's window in seconds since 1970; NULL for a row without event time."""
    if windows is None:
        return f.lit(None).cast("bigint")
    time = read_time(windows)
    return time - f.pmod(time, f.lit(count_seconds(windows)))


def _cancel(rows: DataFrame, content: tuple[str, ...]) -> DataFrame:
    """Return the rows without those that both sides have, as often as both have them."""
    number = f.row_number().over(Window.partitionBy(*content, "side").orderBy("position"))
    numbered = rows.withColumn("number", number)
    sides = f.count(f.lit(1)).over(Window.partitionBy(*content, "number"))
    return numbered.withColumn("sides", sides).where("sides = 1").drop("number", "sides")


def _add_canonical(tolerance: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rule = Rule(Tolerance.model_validate_json(tolerance))
    names = ("side", "window", "key", "value", "position")
    for batch in batches:
        content = [write_canonical(value, rule) for value in batch.column("value").to_pylist()]
        columns = [batch.column(name) for name in names]
        yield pa.RecordBatch.from_arrays(
            [*columns, pa.array(content, pa.binary())], names=[*names, "content"]
        )


def _pair(rows: DataFrame) -> DataFrame:
    """Return rows of both sides side by side: those of a window and a key by their order."""
    rank = f.row_number().over(Window.partitionBy("side", "window", "key").orderBy("content", "position"))
    ranked = rows.withColumn("rank", f.when(f.col("key").isNotNull(), rank))
    # A row without key has a place of its own.
    place = ("window", "key", "rank", f.when(f.col("key").isNull(), f.col("position")).alias("alone"))

    def of(side: int, column: str) -> Column:
        return f.first(f.when(f.col("side") == side, f.col(column)), ignorenulls=True)

    pairs = ranked.select("side", "value", "position", *place).groupBy("window", "key", "rank", "alone")
    return pairs.agg(
        of(OLD, "value").alias("old"),
        of(NEW, "value").alias("new"),
        of(OLD, "position").alias("before"),
        of(NEW, "position").alias("after"),
    ).select(
        "key",
        "old",
        "new",
        write_position(f.col("before")).alias("old_position"),
        write_position(f.col("after")).alias("new_position"),
        f.lit(False).alias("lost"),
        "window",
    )
