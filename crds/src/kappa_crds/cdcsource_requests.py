"""What may be requested of a `CDCSource` that runs: snapshots of some tables, and changes of its position."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.databases import KeyColumn
from kappa_crds.model import Model, Rule
from kappa_crds.outbox import ExactTable

RequestId = Annotated[str, Field(min_length=1, max_length=64)]


class Comparison(StrEnum):
    """How the value of a column is compared."""

    EQUAL = "Equal"
    UNEQUAL = "NotEqual"
    LESS = "Less"
    AT_MOST = "AtMost"
    GREATER = "Greater"
    AT_LEAST = "AtLeast"


class RowCondition(Model):
    """A comparison of a column with a value. It is no SQL: the operator quotes both."""

    column: KeyColumn
    """The column."""
    operator: Comparison
    """How it is compared."""
    value: Annotated[
        str,
        Field(max_length=200),
        Rule(r"!self.matches('[\\p{C}]')", "must not have control characters"),
    ]
    """The value as text, such as 100, open or 2026-01-01. The database reads it as the type of the column."""


class SnapshotTable(Model):
    """A table whose rows are read again."""

    table: ExactTable
    """The table, as SCHEMA.TABLE. spec.tables must have it."""
    where: Annotated[tuple[RowCondition, ...], Field(max_length=8)] = ()
    """Which rows; all conditions must hold. Default: all rows."""


class IncrementalSnapshot(Model):
    """Rows of some tables are read again, in parts, while changes are read. spec.signalTable is needed."""

    request: RequestId
    """Any text. One that was not carried out yet starts the snapshot, once."""
    tables: Annotated[tuple[SnapshotTable, ...], Field(min_length=1, max_length=16)]
    """The tables, read one after the other."""
    stop: bool = False
    """Stop it where it is. Rows that were read stay in the topics."""


class Position(Model):
    """A position in the log of a database."""

    lsn: Annotated[
        str,
        Field(max_length=17),
        Rule("self.matches('^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$')", "must be an LSN as PostgreSQL has it, such as 16/B374D848"),
    ]  # fmt: skip
    """LSN of PostgreSQL. Changes from there on are read."""


class OffsetsRequest(Model):
    """Report the position of the connector, or change it while the connector is stopped."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("!has(self.set) || !self.reset", "spec.offsets has set and reset; choose one"),
    )
    request: RequestId
    """Any text. One that was not carried out yet is carried out once; the answer is in status.offsets."""
    set: Position | None = None
    """The new position, of PostgreSQL only. What is between the old and the new one is not read."""
    reset: bool = False
    """Forget the position, of PostgreSQL only: the next start is the first one, with a snapshot according to spec.snapshot.mode."""


class SchemaPolicy(StrEnum):
    """What happens where the columns of a table change."""

    FOLLOW = "Follow"
    REFUSE = "Refuse"


class SchemaChanges(Model):
    """Columns or tables that were dropped, renamed or retyped. Columns and tables that are added are followed."""

    policy: SchemaPolicy = SchemaPolicy.FOLLOW
    """Follow: events have the new columns, and an Event names the change. Refuse: the connector is stopped until the change
    is accepted. Changes are noticed by the checks (spec.checkInterval), so events between have the new columns."""
    accept: Annotated[str, Field(max_length=64)] = ""
    """The fingerprint of the schema that is accepted; the condition Ready has it."""
