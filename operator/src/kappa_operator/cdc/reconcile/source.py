"""What a proof needs of a database, whatever its kind: tables in snapshots, and evidence of how far a connector has come."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kappa_operator.cdc.reconcile.compare import Checksum
from kappa_operator.cdc.reconcile.model import Table
from kappa_operator.cdc.reconcile.snapshot import Snapshot


@dataclass(frozen=True)
class FoundRow:
    """A row: the fields of its columns, and with `show_values` their first characters."""

    fields: list[str]
    values: list[str | None]


class View(Protocol):
    """A table in one snapshot, inside of a transaction. `at` is its time by the clock of the database, in ISO 8601."""

    table: Table
    notes: tuple[str, ...]
    snapshot: Snapshot
    at: str

    def has_rows(self) -> bool:
        """Return whether the table has rows."""

    def read_checksums(self) -> dict[int, Checksum]:
        """Return the checksums of the buckets that have rows."""

    def read_hashes(self, buckets: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """Yield the key and the checksum of each row of some buckets."""

    def read_rows(self, keys: Sequence[str], parts: Sequence[tuple[str, ...]]) -> dict[str, FoundRow]:
        """Return the rows that exist, by key; `parts` are the texts of the columns of each key."""

    def cancel(self) -> None:
        """End the query that another thread waits for."""


class Source(Protocol):
    """A database. Everything raises DatabaseProblem."""

    def view(self) -> AbstractContextManager[View]:
        """Return the table in a snapshot of now."""


class Evidence(Protocol):
    """Shows how far the connector has come."""

    def find_passed(self, position: int, server: str) -> int:
        """Return the position up to which Kafka has all changes, as far as is known: it is asked whether that is `position`.

        `server` is the logical name of the connector, empty while it is unknown.
        """

    def describe(self, position: int, reached: int) -> str:
        """Return what is waited for, where Kafka has what is before `reached`."""

    def explain(self) -> str:
        """Return why the wait was in vain, and what to do."""
