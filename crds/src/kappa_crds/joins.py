"""Joins that SQL has no word for: with the version of a row at an event's time, with its present one, and of two tables."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import COLUMN_KEYS, UNIQUE, ColumnName, Model, PositiveDuration, Rule, SqlName


class Unmatched(StrEnum):
    """What becomes of an event for which there is no version."""

    KEEP = "keep"
    DROP = "drop"


class AsOfJoin(Model):
    """Each event with the version of a table's row that was valid at its event time: the newest that is not younger.

    A row comes out when the watermarks of both have passed the event, so a replay gives the same rows.
    """

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the events."""
    table: SqlName
    """Source or view with the versions: each row is valid from its event time on."""
    key: Annotated[dict[ColumnName, ColumnName], Field(min_length=1, max_length=16), COLUMN_KEYS]
    """Columns of the event and the columns of the table that they must equal: `{dest: faa}`."""
    columns: Annotated[dict[ColumnName, ColumnName], Field(min_length=1, max_length=256), COLUMN_KEYS]
    """New columns and the columns of the version that they are: `{wind: wind_speed}`."""
    max_age: PositiveDuration | None = None
    """A version older than this at the time of the event is ignored. Default: every version is kept
    without limit."""
    unmatched: Unmatched = Unmatched.KEEP
    """Keep events without a version, with NULLs, or drop them."""


class Table(Model):
    """A source or view whose rows are changes of a table: the last one of a key is its row."""

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the changes."""
    order: ColumnName
    """Column that grows with each change of a row: the source's recordColumns.offset, a number of its version, or
    the version column of change events. A change that is not greater than the one before it is ignored."""
    deleted: ColumnName | None = None
    """BOOLEAN column that is true where the change deletes the row: the source's `tombstones`, or any other."""
    truncated: ColumnName | None = None
    """BOOLEAN column that is true where all rows from before were deleted at once: the one of change events. Needs their
    version as `order`."""


_KEY = Field(
    min_length=1,
    max_length=16,
    description="Columns of the row and the columns of the table, its key, that they must equal: `{tailnum: tailnum}`."
    " A key that is in tombstones too is recordColumns.key.",
)
_COLUMNS = Field(
    min_length=1,
    max_length=256,
    description="New columns and the columns of the table that they are: `{seats: seats}`.",
)


class Lookup(Model):
    """Each event with the present row of a table, as soon as it comes.

    Present means: after all changes that came in the same batch or before. So a replay may give other rows, where
    `asOf` gives the same; what this gives is speed and a table without event time.
    """

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the events."""
    table: Table
    """The table."""
    key: Annotated[dict[ColumnName, ColumnName], _KEY, COLUMN_KEYS]
    columns: Annotated[dict[ColumnName, ColumnName], _COLUMNS, COLUMN_KEYS]
    unmatched: Unmatched = Unmatched.KEEP
    """Keep events for which the table has no row, with NULLs, or drop them."""


class TableJoin(Model):
    """The rows of one table with those of another that they refer to by a foreign key, kept current.

    A row comes out whenever either changes: the joined row, or a deletion. The last one of a key is its row. With `rightKey`
    each row is joined with all rows of the other table that have equal values.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.rightKey) || (has(self.unmatched) && self.unmatched == 'drop')",
            "rightKey needs unmatched: drop; a row that is joined with several rows has no place for none",
        ),
    )
    left: Table
    """The table whose rows refer to the other's."""
    key: Annotated[tuple[ColumnName, ...], Field(min_length=1, max_length=16), UNIQUE]
    """Columns of the left table that are its key, in tombstones too."""
    right: Table
    """The table that they refer to."""
    foreign_key: Annotated[dict[ColumnName, ColumnName], _KEY, COLUMN_KEYS]
    right_key: Annotated[tuple[ColumnName, ...] | None, Field(min_length=1, max_length=16), UNIQUE] = None
    """Columns of the right table that are its key, in tombstones too, where foreignKey names other columns of it: each row of the
    left table is joined with every row of the right one that has equal values. `columns` must have them, as both keys
    are the key of the result."""
    columns: Annotated[dict[ColumnName, ColumnName], _COLUMNS, COLUMN_KEYS]
    unmatched: Unmatched = Unmatched.KEEP
    """Keep rows that refer to none, with NULLs, or leave them out, which deletes what was there."""
    deleted: ColumnName = "deleted"
    """New BOOLEAN column that is true where the joined row is deleted; for a sink's `tombstones`."""
