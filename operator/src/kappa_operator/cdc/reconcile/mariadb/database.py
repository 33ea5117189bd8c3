"""Reads a table of MariaDB or MySQL in read-only transactions, each of one snapshot with its position in the binary log.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` of MariaDB has exactly the transactions of InnoDB that are in the log before the position that
the status `binlog_snapshot_position` has (source: MariaDB, "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT"). MySQL has no
such status, so `lock` finds the position. A table that was
truncated or changed since is not read as it is now: InnoDB refuses with error 1412. From the first query on, it cannot be changed.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, cast

import pymysql
from pymysql.cursors import Cursor, SSCursor

from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem, DatabaseUnreachable
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.mysql import connect, get_code, name_server
from kappa_operator.cdc.reconcile.compare import Checksum
from kappa_operator.cdc.reconcile.mariadb import queries
from kappa_operator.cdc.reconcile.mariadb.lock import LOST, NO_LOG, lock_table
from kappa_operator.cdc.reconcile.mariadb.position import encode_position, format_position
from kappa_operator.cdc.reconcile.mariadb.queries import TableQueries
from kappa_operator.cdc.reconcile.mariadb.shape import FoundColumn, build_table
from kappa_operator.cdc.reconcile.model import Request
from kappa_operator.cdc.reconcile.snapshot import Snapshot
from kappa_operator.cdc.reconcile.source import FoundRow

_CHANGED = 1412
_TIMED_OUT = 1205
_STORED = "BASE TABLE"


class MariaDBView:
    """A table in one snapshot, inside of a transaction."""

    def __init__(
        self,
        connection: "pymysql.Connection[Cursor]",
        address: Address,
        request: Request,
        *,
        is_mariadb: bool,
    ) -> None:
        self._connection, self._address, self._request = connection, address, request
        self._thread = int(self._execute("SELECT CONNECTION_ID()")[0][0])
        name = request.table
        self._has_rows, self.snapshot = self._begin(name, is_mariadb=is_mariadb)
        self.at = str(self._execute(queries.TIME)[0][0])
        columns = [
            FoundColumn(column, data_type, kind, bool(required), precision, scale, int(place), is_mariadb)
            for column, data_type, kind, required, precision, scale, place in self._execute(
                queries.COLUMNS, (name.schema, name.name)
            )
        ]
        self.table, self.notes = build_table(name, columns, request)
        self._queries = TableQueries(self.table)

    def _begin(self, name: TableName, *, is_mariadb: bool) -> tuple[bool, Snapshot]:
        """Begin the transaction; return whether the table has rows, and the position of the snapshot."""
        _check_table(name, self._execute(queries.TABLE, (name.schema, name.name)))
        if is_mariadb:
            found = self._read_table(name)
            return found, _parse_snapshot(dict(self._execute(queries.POSITION)))
        with lock_table(self._address, name) as (file, byte):
            return self._read_table(name), build_snapshot(file, byte)

    def _read_table(self, name: TableName) -> bool:
        """Take the snapshot and read from the table, which keeps its shape from then on; return whether it has rows."""
        self._execute(queries.BEGIN)
        return bool(self._execute(queries.find_any_row(name), ())[0][0])

    def has_rows(self) -> bool:
        """Return whether the table has rows."""
        return self._has_rows

    def read_checksums(self) -> dict[int, Checksum]:
        """Return the checksums of the buckets that have rows."""
        rows = self._execute(self._queries.read_checksums(), ())
        return {int(bucket): (int(count), int(total)) for bucket, count, total in rows}

    def read_hashes(self, buckets: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """Yield the key and the checksum of each row of some buckets."""
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(self._queries.read_hashes(len(buckets)), tuple(buckets))
            for key, checksum in cursor:
                yield key, bytes.fromhex(checksum)

    def read_rows(self, keys: Sequence[str], parts: Sequence[tuple[str, ...]]) -> dict[str, FoundRow]:
        """Return the rows that exist, by key; `parts` are the texts of the columns of each key."""
        query = self._queries.read_rows(len(keys), shown=self._request.show_values)
        rows = self._execute(query, tuple(self._queries.list_values(keys, parts)))
        count = len(self.table.columns)
        return {row[0]: FoundRow(list(row[1 : count + 1]), list(row[count + 1 :])) for row in rows}

    def cancel(self) -> None:
        """End the query that another thread waits for."""
        with closing(connect(self._address)) as other, other.cursor() as cursor:
            cursor.execute("KILL QUERY %s", (self._thread,))

    def _execute(self, query: str, values: Sequence[Any] | None = None) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())


def _parse_snapshot(status: dict[str, str]) -> Snapshot:
    found = {name.lower(): value for name, value in status.items()}
    file, byte = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "0")
    if not file:
        raise DatabaseProblem(NO_LOG)
    return build_snapshot(file, int(byte))


def build_snapshot(file: str, byte: int) -> Snapshot:
    """Return the snapshot of a position."""
    try:
        return Snapshot(encode_position(file, byte), 0, 0, text=format_position(file, byte))
    except ValueError as error:
        raise DatabaseProblem(str(error)) from None


def _check_table(name: TableName, found: list[Any]) -> None:
    if not found:
        raise DatabaseProblem(f"there is no table {name}, or the user may not see it")
    ((kind, engine, is_transactional),) = found
    if kind != _STORED:
        raise DatabaseProblem(f"{name} is not an ordinary table")
    if not is_transactional:
        raise DatabaseProblem(
            f"table {name} has the engine {engine}, which has no snapshots; convert it to InnoDB"
        )


class MariaDBDatabase:
    """A context manager with one connection."""

    def __init__(self, address: Address, request: Request) -> None:
        self._address, self._request = address, request
        self._connection = connect(address, seconds=None)
        with self._explain(), self._connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            self._is_mariadb = "mariadb" in cast(tuple[str], cursor.fetchone())[0].lower()
            cursor.execute(queries.SETTINGS)
            cursor.execute(queries.NO_LIMIT if self._is_mariadb else queries.NO_LIMIT_OF_MYSQL)
            cursor.execute(queries.ISOLATION)

    def __enter__(self) -> "MariaDBDatabase":
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection.open:
            self._connection.close()

    @contextmanager
    def view(self) -> Iterator[MariaDBView]:
        """Return the table in a snapshot of now; raise DatabaseProblem."""
        with self._explain():
            try:
                yield MariaDBView(self._connection, self._address, self._request, is_mariadb=self._is_mariadb)
            finally:
                if self._connection.open:
                    self._connection.rollback()

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """The text of the server is not repeated."""
        where = name_server(self._address)
        try:
            yield
        except pymysql.MySQLError as error:
            code = get_code(error)
            if code == _TIMED_OUT or code in LOST:
                raise DatabaseUnreachable(
                    f"{where}: the connection was lost, or a lock was not free in time: error {code}"
                ) from None
            if code == _CHANGED:
                raise DatabaseProblem(
                    f"{where}: {self._request.table} changed while it was compared; run the command again"
                ) from None
            raise DatabaseProblem(f"{where}: a query failed: error {code}") from None
