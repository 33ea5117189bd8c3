"""Outputs whose oldest records were deleted by retention: from where both versions can be compared.

A row that only one version has may have been deleted in the other one. So either the comparison starts at a window of event time that
both have completely, or such rows are undecided.

What was deleted is in no record. A deleted row comes before all rows that are left in its partition. So its time is at most that of the
earliest row left, plus the disorder of the stream: how far a row is behind an earlier row of its partition. The disorder is measured in
the rows that are left. If it was larger before, rows of the first windows are reported as differences, and never the other way round.

A new version that has read the log from a time on lacks the rows of earlier records. Its first window begins at that time or later, because
a record is not older than its event.
"""

import math
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kappa_crds.comparison import ComparisonSummary, DifferenceKind, OutputRange, StreamWindows
from kappa_crds.quantities import parse_duration
from kappa_pipelines.compare.records import Reader


def find_first_window(
    reader: Reader, output: OutputRange, deleted: dict[str, int], windows: StreamWindows
) -> int | None:
    """Return the start of the first whole window of a stream in seconds since 1970; None where no row left in a partition has a time."""
    parts = sorted(map(int, deleted))
    left = OutputRange(
        topic=output.topic,
        start={part: output.start[part] for part in parts},
        end={part: output.end[part] for part in parts},
    )
    if any(left.start[part] == left.end[part] for part in parts):
        return None
    bounds = _find_latest_deleted(reader.read(left), windows)
    if len(bounds) < len(parts):
        return None
    size = count_seconds(windows)
    return (max(bounds) // size + 1) * size


def _find_latest_deleted(records: DataFrame, windows: StreamWindows) -> list[int]:
    """Return for each partition the latest time that a deleted row may have, in seconds since 1970."""
    times = records.select("partition", "offset", read_time(windows).alias("time")).where("time IS NOT NULL")
    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
    behind = f.max("time").over(before) - f.col("time")
    measured = times.withColumn("behind", behind).groupBy("partition")
    rows = measured.agg(f.min("time").alias("first"), f.max("behind").alias("disorder")).collect()
    return [row["first"] + row["disorder"] for row in rows]


def read_time(windows: StreamWindows) -> Column:
    """Return the event time of a record in seconds since 1970; NULL where its value has none."""
    text = f.get_json_object(f.col("value").cast("string"), f"$.{windows.column}")
    return f.unix_seconds(f.try_to_timestamp(text))


def count_seconds(windows: StreamWindows) -> int:
    """Return the length of a window."""
    return max(1, int(parse_duration(windows.size)))


def find_window_after(moment: datetime, windows: StreamWindows) -> int:
    """Return the start of the first window that begins at a time or later, in seconds since 1970."""
    size = count_seconds(windows)
    return -(-math.ceil(moment.timestamp()) // size) * size


def doubt_missing(found: ComparisonSummary, *, begun: bool = False) -> ComparisonSummary:
    """Return a summary in which rows are undecided that the other version may have had before records of it were deleted.

    `begun`: the new version has begun at a time, and lacks earlier rows as well.
    """
    doubted = {
        kind
        for kind, is_missing in (
            (DifferenceKind.ONLY_NEW, found.old_start),
            (DifferenceKind.ONLY_OLD, begun or found.new_start),
        )
        if is_missing
    }
    only_new, only_old = DifferenceKind.ONLY_NEW in doubted, DifferenceKind.ONLY_OLD in doubted
    return found.replace(
        only_new=0 if only_new else found.only_new,
        only_old=0 if only_old else found.only_old,
        undecided=found.undecided + only_new * found.only_new + only_old * found.only_old,
        samples=tuple(each for each in found.samples if each.kind not in doubted),
    )
