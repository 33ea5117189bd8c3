"""A comparison of two versions of an output, from a request to its summary."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, DifferenceKind, Semantics
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.compare.bounds import TopicBounds, count_records
from kappa_pipelines.compare.expected import check_condition, mark_expected
from kappa_pipelines.compare.fold import TOLERATED, UNDECIDED, Fold
from kappa_pipelines.compare.pairs import fold_here, fold_pairs, load_pairs
from kappa_pipelines.compare.records import Reader
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

NoteStep = Callable[[str], None]
"""Notes the present step of a comparison, for people."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Compares two versions of an output. `most_examined` is the number of differing rows whose values are examined."""

    kafka: KafkaConnection
    request: ComparisonRequest
    group: str
    most_examined: int = MOST_EXAMINED

    def run(self, spark: SparkSession, note: NoteStep = lambda step: None) -> ComparisonSummary:
        """Return what was found; DriverError if the request is invalid, or records were deleted."""
        began = time.monotonic()
        self._check(spark)
        old, new, windows = self.request.old, self.request.new, self.request.windows
        session = open_session(spark, count_records(old) + count_records(new))
        reader = Reader(session, self.kafka, self.request.committed, self.group)
        if self.request.semantics is Semantics.TABLE:
            found = self._compare_tables(Tables(reader, old, new), note)
        else:
            found = self._compare_streams(Streams(reader, old, new, windows), note)
        return found.replace(
            semantics=self.request.semantics,
            old_topic=self.request.old.topic,
            new_topic=self.request.new.topic,
            seconds=round(time.monotonic() - began, 1),
        )

    def _check(self, spark: SparkSession) -> None:
        if self.request.tolerance.expected is not None:
            check_condition(spark, self.request.tolerance.expected)
        bounds = TopicBounds(self.kafka, committed=self.request.committed)
        for output in (self.request.old, self.request.new):
            bounds.check(output)

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
