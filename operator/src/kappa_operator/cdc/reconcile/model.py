"""What the proof knows: the shape of a table, the position that it is read at, differences, and the result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kappa_operator.cdc.facts import TableName


class Kind(StrEnum):
    """How the values of a column are compared."""

    PLAIN = "plain"
    """Text without the separator of fields, such as a whole number or a UUID."""
    TEXT = "text"
    DOCUMENT = "document"
    """Text that the database has to make first, such as JSON."""
    PADDED = "padded"
    """Text whose trailing blanks are padding."""
    BOOLEAN = "boolean"
    NUMERIC = "numeric"
    MONEY = "money"
    REAL = "real"
    DOUBLE = "double"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    INSTANT = "instant"
    """A timestamp with time zone."""
    INTERVAL = "interval"
    BYTES = "bytes"
    JSON = "json"
    """A document as MySQL writes it."""
    BITS = "bits"
    POINT = "point"
    DAYS = "days"
    """A date of MariaDB or MySQL, as days since 1970."""
    MICROS = "micros"
    """A time of MariaDB or MySQL: microseconds since 1970, or since midnight."""
    SINGLE_DIGITS = "single-digits"
    DOUBLE_DIGITS = "double-digits"
    """Numbers of MariaDB and MySQL, as the digits that are needed to read the same number back."""


SEARCHABLE = frozenset({Kind.PLAIN, Kind.TEXT, Kind.BOOLEAN})
"""Kinds whose text the database reads back, so that a row is found by the index of its key."""


@dataclass(frozen=True)
class Column:
    """A column. `type` is its type as the database writes it, quoted.

    `scale` is the number of digits after the point, None where each value has its own. `micros` are the microseconds in a unit of the
    event's number, for times, 0 for nanoseconds. `is_text` is a decimal that events have as digits. `is_generated` is a column that the
    log does not have. `is_zero_epoch` where events have the beginning of 1970 for a zero date.
    """

    name: str
    kind: Kind
    type: str
    is_array: bool = False
    is_generated: bool = False
    is_text: bool = False
    is_zero_epoch: bool = False
    scale: int | None = None
    micros: int = 1


@dataclass(frozen=True)
class Table:
    """A table as it is compared. `key` are the columns of the key of its events."""

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[Column, ...]

    @property
    def is_searchable(self) -> bool:
        """Return whether rows are found by the text of their key."""
        return all(each.kind in SEARCHABLE and not each.is_array for each in self.key)


@dataclass(frozen=True)
class Request:
    """What is to be proven. `wait` is in seconds.

    `key` and `ignored` name columns; without a key it is the primary key. `omitted` are patterns of columns, as SCHEMA.TABLE.COLUMN, that
    the connector leaves out or alters; other than `ignored`, they may match none. `units` and `decimals` are Debezium's `time.precision.mode` and
    `decimal.handling.mode`. `heartbeats` is the topic of
    the connector's heartbeats, if it has not the usual name, and `offsets` the one in which Kafka Connect stores positions, for MariaDB and MySQL. `listed` is how many differences are described at most.
    """

    table: TableName
    topic: str
    key: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    omitted: tuple[str, ...] = ()
    units: str = "adaptive"
    decimals: str = "precise"
    slot: str = ""
    heartbeats: str = ""
    offsets: str = ""
    wait: float = 300.0
    listed: int = 100
    show_values: bool = False


class DifferenceKind(StrEnum):
    """How a row differs."""

    ONLY_IN_DATABASE = "only-in-database"
    ONLY_IN_TOPIC = "only-in-topic"
    CHANGED = "changed"
    DUPLICATE = "duplicate"
    """Equal, but the key has a row in more than one partition: an older one reappears after a deletion."""


@dataclass(frozen=True)
class Difference:
    """A row that differs. `key` has texts of the database. `position` is where it was compared last.

    `columns` are those that differ. `values` has for each its value in the database and in the topic, where they are requested.
    """

    kind: DifferenceKind
    key: tuple[str, ...]
    position: str
    columns: tuple[str, ...] = ()
    values: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def to_manifest(self) -> dict[str, Any]:
        """Return it as plain data."""
        found: dict[str, Any] = {
            "kind": self.kind.value,
            "key": list(self.key),
            "position": self.position,
        }
        if self.columns:
            found["columns"] = list(self.columns)
        if self.values:
            found["values"] = {
                name: {"database": old, "topic": new} for name, (old, new) in self.values.items()
            }
        return found


class Verdict(StrEnum):
    """The result of a proof."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"
    """No difference was found, but some rows could not be compared; the notes have the cause."""


@dataclass(frozen=True)
class Proof:
    """A proof. `position` is that of the log, as the database writes it, at which all rows were compared but for `later` rows, which
    were compared at a later one.

    `at` is when, by the clock of the database, in ISO 8601. `undecided` and `differences` list keys, up to a limit; `counts` counts all.
    """

    table: TableName
    topic: str
    position: str
    at: str
    rows: int
    records: int
    seconds: float = 0.0
    later: int = 0
    differences: tuple[Difference, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    undecided: tuple[tuple[str, ...], ...] = ()
    undecided_count: int = 0
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the result."""
        if sum(self.counts.values()):
            return Verdict.DIFFERENT
        return Verdict.UNDECIDED if self.undecided_count else Verdict.EQUAL

    def to_manifest(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "verdict": self.verdict.value,
            "table": str(self.table),
            "topic": self.topic,
            "position": self.position,
            "at": self.at,
            "rows": self.rows,
            "records": self.records,
            "seconds": round(self.seconds, 1),
            "later": self.later,
            "counts": dict(self.counts),
            "differences": [each.to_manifest() for each in self.differences],
            "undecided": [list(each) for each in self.undecided],
            "undecidedCount": self.undecided_count,
            "notes": list(self.notes),
        }


def format_lsn(position: int) -> str:
    """Return a position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Return the number of a position."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
