"""Reads a table of PostgreSQL in read-only transactions, each of one snapshot, and how far a connector has read the log.

Transactions are short: the first takes as long as one pass over the table, and those of later rounds read single rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem, DatabaseUnreachable
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.postgresql import build_options, explain_refusal, name_address
from kappa_operator.cdc.reconcile import queries
from kappa_operator.cdc.reconcile.compare import Checksum
from kappa_operator.cdc.reconcile.model import Request, parse_lsn
from kappa_operator.cdc.reconcile.queries import TableQueries
from kappa_operator.cdc.reconcile.shape import FoundColumn, build_table
from kappa_operator.cdc.reconcile.snapshot import Snapshot, parse_snapshot
from kappa_operator.cdc.reconcile.source import FoundRow

_OLDEST, _FIRST_PG_SNAPSHOT = 120000, 130000
_AT_ONCE = 10_000
"""Rows that are fetched at once."""
_CANCEL_SECONDS = 5.0
_STORED = ("r", "p")


@dataclass(frozen=True)
class Progress:
    """How far a connector has read the log.

    `confirmed` is the position up to which all changes are in Kafka; `received` that which the connector had received at a time of its own
    clock, `received_at`, in milliseconds since 1970.
    All are 0 unless there is one slot, or one was named. `slots` are their names. `is_hidden` where the user may not see what was received.
    """

    confirmed: int = 0
    received: int = 0
    received_at: int = 0
    slots: tuple[str, ...] = ()
    is_hidden: bool = False


class View:
    """A table in one snapshot, inside of a transaction."""

    def __init__(self, connection: "psycopg.Connection[Any]", request: Request) -> None:
        self._connection, self._request = connection, request
        server = self._begin()
        found = self._read_one(queries.TABLE, (request.table.schema, request.table.name))
        columns = [FoundColumn(*row) for row in self._execute(queries.COLUMNS, (found.oid,))]
        self.table, self.notes = build_table(request.table, columns, request)
        self.snapshot, self.at = self._take_snapshot(server)
        self._queries = TableQueries(self.table, server.version)

    def _begin(self) -> Any:
        """Lock the table before the snapshot is taken: after a truncation in between, the snapshot would have an empty table.

        The first query takes the snapshot of its transaction, so what decides whether the table may be locked has one of its own.
        """
        self._configure()
        server = self._read_one(queries.SERVER)
        _check_server(server)
        name = self._request.table
        _check_table(name, self._read_one(queries.TABLE, (name.schema, name.name)))
        self._connection.rollback()
        self._execute(queries.LOCK_TIMEOUT)
        self._execute(queries.lock_table(name))
        self._configure()
        return server

    def _configure(self) -> None:
        self._execute(queries.SETTINGS)

    def _take_snapshot(self, server: Any) -> tuple[Snapshot, str]:
        """Return the snapshot, and its time. What had ended by then was read before it was taken."""
        function = (
            "pg_current_snapshot()" if server.version >= _FIRST_PG_SNAPSHOT else "txid_current_snapshot()"
        )
        row = self._read_one(queries.SNAPSHOT.format(snapshot=function))
        settled = parse_lsn(server.settled) if server.settled else 0
        return parse_snapshot(row.snapshot, parse_lsn(row.lsn), settled), row.at

    def has_rows(self) -> bool:
        """Return whether the table has rows."""
        return bool(self._read_one(queries.find_any_row(self._request.table)).found)

    def read_checksums(self) -> dict[int, Checksum]:
        """Return the checksums of the buckets that have rows."""
        rows = self._execute(self._queries.read_checksums())
        return {bucket: (count, int(total)) for bucket, count, total in rows}

    def read_hashes(self, buckets: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """Yield the key and the checksum of each row of some buckets."""
        with self._connection.cursor("kappa") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(self._queries.read_hashes().encode(), (list(buckets),))
            for key, checksum in cursor:
                yield key, bytes.fromhex(checksum)

    def read_rows(self, keys: Sequence[str], parts: Sequence[tuple[str, ...]]) -> dict[str, FoundRow]:
        """Return the rows that exist, by key; `parts` are the texts of the columns of each key."""
        columns = [list(each) for each in zip(*parts, strict=True)]
        values = columns if self.table.is_searchable else [list(keys)]
        query = self._queries.read_rows(shown=self._request.show_values)
        return {key: FoundRow(fields, shown) for key, fields, shown in self._execute(query, values)}

    def cancel(self) -> None:
        """End the query that another thread waits for."""
        self._connection.cancel_safe(timeout=_CANCEL_SECONDS)

    def _read_one(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.cursor(row_factory=namedtuple_row).execute(query.encode(), values).fetchone()

    def _execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(query.encode(), values)


def _check_server(server: Any) -> None:
    if server.in_recovery:
        raise DatabaseProblem(
            "the server is a standby, whose snapshots lack running transactions; use the primary"
        )
    if server.version < _OLDEST:
        raise DatabaseProblem("PostgreSQL 12 or newer is required")


def _check_table(name: TableName, found: Any) -> None:
    if found is None:
        raise DatabaseProblem(f"there is no table {name}, or the user may not see it")
    if found.kind not in _STORED:
        raise DatabaseProblem(f"{name} is not a table")
    if not found.has_select:
        raise DatabaseProblem(f"the user lacks SELECT on {name}")
    if found.has_row_security:
        raise DatabaseProblem(
            f"row-level security hides rows of {name} from this user; use one with BYPASSRLS"
        )


class Database:
    """A context manager with two connections: for snapshots, and for the progress of connectors."""

    def __init__(self, address: Address, request: Request) -> None:
        self._address, self._request = address, request
        self._table = self._connect()
        self._progress = self._connect()
        self._progress.autocommit = True

    @property
    def user(self) -> str:
        """Return the user of the database."""
        return self._address.user

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self._table.close()
        self._progress.close()

    def _connect(self) -> "psycopg.Connection[Any]":
        try:
            connection = psycopg.connect(**build_options(self._address))
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
        except psycopg.Error as error:
            raise explain_refusal(self._address, str(error)) from None
        return connection

    @contextmanager
    def view(self) -> Iterator[View]:
        """Return the table in a snapshot of now; raise DatabaseProblem."""
        with self._explain():
            try:
                yield View(self._table, self._request)
            finally:
                if not self._table.closed:
                    self._table.rollback()

    def read_progress(self) -> Progress:
        """Return how far connectors have read; raise DatabaseProblem."""
        with self._explain():
            cursor: psycopg.Cursor[Any] = self._progress.cursor(row_factory=namedtuple_row)
            slots = cursor.execute(
                queries.SLOTS.encode(), (self._request.slot, self._request.slot)
            ).fetchall()
        names = tuple(each.name for each in slots)
        if len(slots) != 1:
            return Progress(slots=names)
        (slot,) = slots
        confirmed, received = (parse_lsn(each) if each else 0 for each in (slot.confirmed, slot.received))
        is_hidden = slot.active and slot.received is None
        return Progress(confirmed, received, slot.received_at or 0, names, is_hidden)

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """The text of the server is not repeated."""
        try:
            yield
        except psycopg.OperationalError as error:
            name = name_address(self._address)
            state = f": SQLSTATE {error.sqlstate}" if error.sqlstate else ""
            raise DatabaseUnreachable(
                f"{name}: the connection was lost, or a lock was not free in time{state}"
            ) from None
        except psycopg.Error as error:
            raise DatabaseProblem(
                f"{name_address(self._address)}: a query failed: SQLSTATE {error.sqlstate}"
            ) from None
