"""Events that carry the rows of another system: what in a value is the row, and what describes its change."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import COLUMN_KEYS, ColumnName, Model, PositiveDuration, Rule, TopicName


class DecimalEncoding(StrEnum):
    """How a DECIMAL column is written."""

    BASE64 = "Base64"
    TEXT = "Text"


class TimestampUnit(StrEnum):
    """Unit of a number that is a TIMESTAMP column."""

    MILLISECONDS = "Milliseconds"
    MICROSECONDS = "Microseconds"
    NANOSECONDS = "Nanoseconds"


_FIELDS = (
    *("op", "deleted", "truncated", "version", "before", "time", "snapshot", "table", "position"),
    *("transaction", "transactionOrder"),
)
_NAMES = f"[{', '.join(f'self.?{name}' for name in _FIELDS)}]"


class ChangeColumns(Model):
    """Columns that describe a change; each is added under the name given here."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.op) || has(self.deleted)",
            "set op or deleted: without them a deletion looks like another change",
        ),
        Rule(
            f"{_NAMES}.filter(c, c.hasValue()).map(c, c.value()).all(c, {_NAMES}"
            ".exists_one(other, other.orValue('') == c))",
            "two of the columns have the same name; give each its own",
        ),
    )
    op: ColumnName | None = None
    """Column for the operation, as STRING: c (insert), u (update), d (delete), r (row of a snapshot) or t
    (truncation). NULL for a tombstone."""
    deleted: ColumnName | None = None
    """BOOLEAN column that is true where the change deletes the row, for `deleted` of a table. With it, tombstones
    are rows too, with the columns that their key has; without it they are skipped."""
    truncated: ColumnName | None = None
    """BOOLEAN column that is true where all rows of the table were deleted at once, for `truncated` of a table. With it,
    truncations are rows too, with op t and NULL in all columns of the table; without it they are dead letters."""
    version: ColumnName | None = None
    """Column for `order` of a table: the place of the change in the database's log. A change that is written
    again after a restart of the connector does not replace a later one."""
    before: ColumnName | None = None
    """Column for the row before the change, as STRUCT of the declared columns. What the database has not logged
    is NULL."""
    time: ColumnName | None = None
    """TIMESTAMP column for the time of the change in the database."""
    snapshot: ColumnName | None = None
    """Column for the kind of snapshot that a row is from, as STRING; `false` for other changes."""
    table: ColumnName | None = None
    """Column for the table, as STRING, with its schema where there are schemas."""
    position: ColumnName | None = None
    """BIGINT column for the position in the log of the database: the LSN, or the number of the binlog file
    times 2^32 plus the position in it."""
    transaction: ColumnName | None = None
    """Column for the id of the transaction in the database, as STRING: the GTID, or the transaction number."""
    transaction_order: ColumnName | None = None
    """BIGINT column for the number of the change in its transaction, over all tables. The connector needs
    `provide.transaction.metadata`."""


class Transactions(Model):
    """Where transactions of the database end."""

    topic: TopicName
    """Topic of the connector with the begin and end of each transaction, PREFIX.transaction. The topics of the
    source have the same prefix. The connector needs `provide.transaction.metadata` (`spec.transactions` of a
    CDCSource)."""
    max_wait: PositiveDuration = "1m"
    """How long to wait for the end of a transaction after its last change was read. Then its rows appear as they
    are, and those that come later in another batch."""


class DebeziumEnvelope(Model):
    """Change events of Debezium in JSON, with or without their schema."""

    columns: ChangeColumns
    """What describes a change, as columns."""
    decimals: DecimalEncoding = DecimalEncoding.BASE64
    """Base64: the connector's decimal.handling.mode is `precise`, its default. Text: it is `string` or `double`."""
    timestamp_units: Annotated[dict[ColumnName, TimestampUnit] | None, Field(max_length=256), COLUMN_KEYS] = (
        None
    )
    """Unit of TIMESTAMP columns that are numbers, by column. Default: Microseconds. A TIMESTAMP of up to three
    digits, or a DATETIME of MySQL, is in Milliseconds."""
    transactions: Transactions | None = None
    """Read the changes of a transaction of the database in one batch, over all sources with the same topic of
    transactions. Without this the tables of a transaction may be read in different batches."""


class Envelope(Model):
    """What in a value is the row. The schema of the format is that of the row."""

    debezium: DebeziumEnvelope
    """Change events of Debezium."""
