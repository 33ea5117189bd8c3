"""A comparison of two versions of an output, from a request to its summary."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, DifferenceKind, OutputRange, Semantics
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.compare.bounds import TopicBounds, count_records, find_deleted
from kappa_pipelines.compare.expected import check_condition, mark_expected
from kappa_pipelines.compare.fold import TOLERATED, UNDECIDED, Fold
from kappa_pipelines.compare.heads import doubt_missing, find_first_window, find_window_after
from kappa_pipelines.compare.pairs import fold_here, fold_pairs, load_pairs
from kappa_pipelines.compare.records import Reader
from kappa_pipelines.compare.selection import Selection
from kappa_pipelines.compare.session import open_session
from kappa_pipelines.compare.stream import (
    Streams,
    count_rows,
    describe_windows,
    hash_leaves,
    pair_rows,
    select_leaves,
)
from kappa_pipelines.compare.table import (
    MOST_EXAMINED,
    Tables,
    fetch_pairs,
    find_differing,
    hash_last_records,
    join_pairs,
    select_keys,
)
from kappa_pipelines.compare.worker import NoteStep
from kappa_pipelines.kafka.native import find_table_format


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Compares two versions of an output. `most_examined` is the number of differing rows whose values are examined.

    With a `selection` only its rows are compared. `source` is the format of Spark by which topics are read.
    """

    kafka: KafkaConnection
    request: ComparisonRequest
    group: str
    most_examined: int = MOST_EXAMINED
    selection: Selection | None = None
    source: str = find_table_format({})

    def run(self, spark: SparkSession, note: NoteStep = lambda step: None) -> ComparisonSummary:
        """Return what was found; DriverError if the request is invalid, or records were deleted."""
        began = time.monotonic()
        if self.request.tolerance.expected is not None:
            check_condition(spark, self.request.tolerance.expected)
        old, new = self._find_range(self.request.old), self._find_range(self.request.new)
        session = open_session(spark, count_records(old) + count_records(new))
        request = self.request
        reader = Reader(session, self.kafka, request.committed, self.group, self.selection, self.source)
        if self.request.semantics is Semantics.TABLE:
            found, since = self._compare_tables(Tables(reader, old, new), note), None
        else:
            since = self._find_first_window(reader, old, new, note)
            found = self._compare_streams(Streams(reader, old, new, self.request.windows, since), note)
        found = found.replace(
            semantics=self.request.semantics,
            old_topic=self.request.old.topic,
            new_topic=self.request.new.topic,
            old_start=find_deleted(self.request.old, old),
            new_start=find_deleted(self.request.new, new),
            since=None if since is None else datetime.fromtimestamp(since, UTC),
            seconds=round(time.monotonic() - began, 1),
        )
        return doubt_missing(found, begun=self.request.since is not None) if since is None else found

    def _find_range(self, output: OutputRange) -> OutputRange:
        """Return the range to read; LostDataError where records of it were deleted that the request does not leave out."""
        bounds = TopicBounds(self.kafka, committed=self.request.committed)
        if self.request.available:
            return bounds.clip(output)
        bounds.check(output)
        return output

    def _find_first_window(
        self, reader: Reader, old: OutputRange, new: OutputRange, note: NoteStep
    ) -> int | None:
        """Return the start of the first window that both versions have completely; None where none lacks a row, or it is not known."""
        sides = ((old, find_deleted(self.request.old, old)), (new, find_deleted(self.request.new, new)))
        windows, since = self.request.windows, self.request.since
        if windows is None or (since is None and not any(deleted for _, deleted in sides)):
            return None
        note("finding the first window that both versions have")
        found = [find_first_window(reader, output, deleted, windows) for output, deleted in sides if deleted]
        if since is not None:
            found.append(find_window_after(since, windows))
        known = [each for each in found if each is not None]
        return max(known) if len(known) == len(found) else None

    def _compare_tables(self, tables: Tables, note: NoteStep) -> ComparisonSummary:
        note("reading both topics")
        differing, counts = find_differing(hash_last_records(tables))
        try:
            keys, examined = select_keys(differing, counts.differing, self.most_examined)
            note(f"examining {examined} of {counts.differing} differing keys")
            fold = self._fold_keys(tables, keys, examined)
        finally:
            differing.unpersist()
        fold.counts[UNDECIDED] += counts.differing - examined
        return _summarize(fold).replace(
            old_rows=counts.old_rows, new_rows=counts.new_rows, equal=counts.equal + fold.counts[TOLERATED]
        )

    def _fold_keys(self, tables: Tables, keys: DataFrame, count: int) -> Fold:
        few = fetch_pairs(tables, keys, count)
        if few is None:
            return self._fold(join_pairs(tables, keys))
        if self.request.tolerance.expected is None:
            return fold_here(few, self.request.tolerance, self.request.samples)
        return self._fold(load_pairs(tables.reader.spark, few))

    def _compare_streams(self, streams: Streams, note: NoteStep) -> ComparisonSummary:
        note("reading both topics")
        leaves = hash_leaves(streams).persist()
        try:
            every, differing = count_rows(leaves), leaves.where("differs")
            unequal = count_rows(differing)
            kept = select_leaves(differing, unequal.rows, self.most_examined)
            examined = count_rows(kept)
            note(f"examining the leaves that differ: {examined.rows} of {every.rows} rows")
            tolerance = self.request.tolerance
            fold = self._fold(pair_rows(streams, kept, tolerance)) if examined.rows else Fold(0)
            windows = describe_windows(leaves, fold.windows) if streams.windows is not None else ()
        finally:
            leaves.unpersist()
        fold.counts[UNDECIDED] += unequal.rows - examined.rows
        found = _summarize(fold)
        unexamined = unequal.old_rows - examined.old_rows
        return found.replace(
            old_rows=every.old_rows,
            new_rows=every.new_rows,
            equal=every.old_rows - unexamined - found.changed - found.only_old - fold.expected_old,
            windows=windows,
        )

    def _fold(self, pairs: DataFrame) -> Fold:
        """Return the fold of pairs, with the expected ones marked."""
        tolerance, samples = self.request.tolerance, self.request.samples
        if tolerance.expected is None:
            return fold_pairs(pairs, tolerance, samples)
        kept = pairs.persist(StorageLevel.DISK_ONLY)
        try:
            return fold_pairs(mark_expected(kept, tolerance.expected), tolerance, samples)
        finally:
            kept.unpersist()


def _summarize(fold: Fold) -> ComparisonSummary:
    """Return the summary of the rows that differ."""
    return ComparisonSummary(
        tolerated=fold.counts[TOLERATED],
        changed=fold.counts[DifferenceKind.CHANGED],
        only_old=fold.counts[DifferenceKind.ONLY_OLD],
        only_new=fold.counts[DifferenceKind.ONLY_NEW],
        expected=fold.counts[DifferenceKind.EXPECTED],
        undecided=fold.counts[UNDECIDED],
        samples=fold.list_samples(),
        columns=fold.list_columns(),
    )
