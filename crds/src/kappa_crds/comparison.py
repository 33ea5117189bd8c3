"""A comparison of two versions of an output: what is requested, which differences are accepted, and what was found.

Both versions are ranges of a topic whose ends stand for the same input, so that every difference comes from the change of the pipeline.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.model import UNIQUE, ColumnName, Model, PositiveDuration, Status, TopicName

MOST_SAMPLES = 5
"""Samples of each kind of difference in a summary."""
MOST_COLUMNS = 100
"""Columns in a summary; the report has more."""
MOST_WINDOWS = 20
"""Windows in a summary."""

_Epsilon = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Semantics(StrEnum):
    """What the records of a topic mean.

    Table: the last record of a key is its row, and a tombstone deletes it. Stream: each record is a row of its own.
    """

    TABLE = "Table"
    STREAM = "Stream"


class ColumnTolerance(Model):
    """How far the numbers of a column may differ."""

    name: ColumnName
    """Column of the value."""
    absolute: _Epsilon = 0.0
    """Largest difference."""
    relative: _Epsilon = 0.0
    """Largest difference, as a part of the larger of the two numbers."""


class Tolerance(Model):
    """Which differences are accepted. The order of columns and the notation of numbers (1.0 and 1) never count."""

    ignored_columns: Annotated[tuple[ColumnName, ...], Field(max_length=256), UNIQUE] = ()
    """Columns of the value that may differ in any way, such as the time of processing."""
    absolute: _Epsilon = 0.0
    """Largest difference of two numbers of a column. Numbers are equal if either limit permits it."""
    relative: _Epsilon = 0.0
    """The same as a part of the larger of the two numbers."""
    columns: Annotated[tuple[ColumnTolerance, ...], Field(max_length=256)] = ()
    """Limits of single columns, instead of those for all."""
    expected: Annotated[str | None, Field(min_length=1, max_length=10_000)] = None
    """Condition in SQL that is true for an expected difference, over `key`, `old` and `new`, such as
    `new.delay = old.delay + 60`. A row that is missing on one side is NULL there."""


class OutputRange(Model):
    """The records of a topic that are compared, by partition: from `start` to `end`, which is not part of it."""

    topic: TopicName
    """Name of the topic in Kafka."""
    start: dict[int, int]
    """First offset of each partition."""
    end: dict[int, int]
    """End of each partition; the same partitions as `start`."""


class StreamWindows(Model):
    """Windows of event time in which the rows of a stream are compared, so that differences are localized."""

    column: ColumnName
    """Column of the value with the event time, as a timestamp in text."""
    size: PositiveDuration = "1h"
    """Length of a window."""


class ComparisonRequest(Model):
    """A comparison that a driver shall carry out. The same name is carried out once."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]
    """Name of the comparison, unique for its sink and its cut."""
    semantics: Semantics = Semantics.TABLE
    """What the records mean."""
    old: OutputRange
    """Present version of the output."""
    new: OutputRange
    """New version of the output."""
    available: bool = False
    """Whether deleted records at the start of a range are left out, so that only what both versions still have
    is compared. Without it the comparison fails where records were deleted."""
    committed: bool = True
    """Whether only committed records count."""
    windows: StreamWindows | None = None
    """Windows of a stream. Without them it is compared as a whole."""
    since: datetime | None = None
    """Time from which the new version has all results; absent where it has read the whole log. A stream with
    windows is compared from the first window after it; elsewhere rows that only the present version has are
    undecided."""
    tolerance: Tolerance = Tolerance()
    """Which differences are accepted."""
    samples: Annotated[int, Field(ge=0, le=1000)] = MOST_SAMPLES
    """Samples of each kind of difference in the report."""


class DifferenceKind(StrEnum):
    """How a row differs."""

    CHANGED = "Changed"
    ONLY_OLD = "OnlyOld"
    ONLY_NEW = "OnlyNew"
    EXPECTED = "Expected"


class DifferenceSample(Status):
    """A row that differs. Keys and values are cut."""

    kind: DifferenceKind
    """How it differs."""
    key: str | None = None
    """Key of the record; one that is not text is in hexadecimal digits."""
    old: str | None = None
    """Value of the present version; absent where there is none."""
    new: str | None = None
    """Value of the new version; absent where there is none."""
    columns: tuple[str, ...] = ()
    """Columns that differ, nested ones with dots; empty for values that are not JSON objects."""
    old_position: str | None = None
    """Partition and offset of the record of the present version, as `3/1042`."""
    new_position: str | None = None
    """Partition and offset of the record of the new version."""


class ColumnDifference(Status):
    """Differences of a column over the changed and the expected rows that both versions have."""

    name: str
    """The column; nested ones with dots."""
    rows: int = 0
    """Rows in which it differs, beyond the tolerance."""
    null_old: int = 0
    """Rows of these in which it is absent or null in the present version."""
    null_new: int = 0
    """Rows of these in which it is absent or null in the new version."""
    numbers: int = 0
    """Rows of these in which it is a number in both; the next three are of the new minus the present number."""
    smallest: float | None = None
    """Smallest difference."""
    largest: float | None = None
    """Largest difference."""
    mean: float | None = None
    """Mean difference."""


class WindowDifference(Status):
    """A window of event time with differences."""

    start: datetime | None = None
    """Start of the window; absent for rows without event time."""
    old_rows: int = 0
    """Rows of the present version in it."""
    new_rows: int = 0
    """Rows of the new version in it."""
    differing: int = 0
    """Rows in it that differ, and that are not expected."""


class ComparisonSummary(Status):
    """What a comparison found: counts of keys of a table, or of records of a stream.

    equal + changed + only_old + only_new + expected + undecided is the number of all.
    """

    semantics: Semantics = Semantics.TABLE
    """What the records mean."""
    old_topic: str = ""
    """Topic of the present version."""
    new_topic: str = ""
    """Topic of the new version."""
    old_rows: int = 0
    """Rows of the present version."""
    new_rows: int = 0
    """Rows of the new version."""
    equal: int = 0
    """Rows that are equal, within the tolerance."""
    tolerated: int = 0
    """Equal rows whose bytes differ. Of a stream only those within a limit are counted."""
    changed: int = 0
    """Rows with another value."""
    only_old: int = 0
    """Rows that the new version lacks."""
    only_new: int = 0
    """Rows that the present version lacks."""
    expected: int = 0
    """Rows that differ as `tolerance.expected` has it."""
    undecided: int = 0
    """Rows whose bytes differ and that were not examined: there were too many, or compaction removed them meanwhile.
    The counts above have a sample of the differences then."""
    samples: tuple[DifferenceSample, ...] = ()
    """The first differences of each kind."""
    columns: tuple[ColumnDifference, ...] = ()
    """Columns that differ, the most frequent first."""
    windows: tuple[WindowDifference, ...] = ()
    """Windows of a stream that differ, those with most differences first."""
    old_start: dict[str, int] = Field(default_factory=dict)
    """First offset that was compared in each partition of the present version whose earlier records were deleted."""
    new_start: dict[str, int] = Field(default_factory=dict)
    """The same of the new version."""
    since: datetime | None = None
    """Start of the first window of event time that was compared, where a version lacks rows of earlier ones."""
    seconds: float = 0.0
    """How long it took, in seconds."""

    @property
    def differing(self) -> int:
        """Return the rows that differ, and that are not expected."""
        return self.changed + self.only_old + self.only_new

    @property
    def is_equal(self) -> bool:
        """Return whether all rows were compared and are equal, or differ as expected."""
        return self.differing == 0 and self.undecided == 0

    def shorten(self) -> "ComparisonSummary":
        """Return what fits into a status."""
        kept: dict[DifferenceKind, int] = dict.fromkeys(DifferenceKind, 0)
        samples = []
        for sample in self.samples:
            kept[sample.kind] += 1
            samples += [sample] if kept[sample.kind] <= MOST_SAMPLES else []
        return self.replace(
            samples=tuple(samples), columns=self.columns[:MOST_COLUMNS], windows=self.windows[:MOST_WINDOWS]
        )
