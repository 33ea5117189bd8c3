"""The position of a snapshot of MySQL: the end of the binary log while the table is locked.

MySQL writes a transaction into the log, commits it in InnoDB, and only then releases the metadata locks of the tables that it has changed
(source: MySQL, "Metadata Locking"). So while `LOCK TABLES … READ` holds, each change of this table that is in the log has been committed,
and none is added. A snapshot from within that time has exactly the changes of the table before the end of the log.

Writers of the table wait meanwhile: some milliseconds, and while the lock itself waits for transactions that have written to the table.
Therefore it waits a second at most, and is tried again later. Where this program or the network stops, the server ends the lock after some
seconds. Then the snapshot may be from after the lock, so it counts only if the lock was there until the end.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pymysql
from pymysql.cursors import Cursor

from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem, DatabaseUnreachable
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.mysql import connect, get_code, name_server
from kappa_operator.cdc.quoting import quote_mysql, quote_mysql_table

NO_LOG = "the server writes no binary log: a snapshot has no position"
_WAIT_SECONDS, _HELD_SECONDS, _PAUSES = 1, 10, (1.0, 2.0, 4.0, 4.0)
"""How long the lock waits, and is held without a word of this program, and the pauses between attempts, in seconds."""
_TIMED_OUT, _NO_LOG = 1205, 1381
LOST = frozenset({2003, 2006, 2013, 2055, 4031})
"""Errors of a connection that is not there any more."""
_MISSING = {
    1044: "LOCK TABLES ON {database}.*",
    1142: "LOCK TABLES, SELECT ON {database}.*",
    1227: "REPLICATION CLIENT ON *.*",
}


@contextmanager
def lock_table(address: Address, name: TableName) -> Iterator[tuple[str, int]]:
    """Return the file and the byte of the end of the log, while no one can write to the table; raise DatabaseProblem."""
    with closing(connect(address)) as connection, connection.cursor() as cursor:
        with _explaining(address, name):
            cursor.execute(
                "SET SESSION lock_wait_timeout = %s, wait_timeout = %s", (_WAIT_SECONDS, _HELD_SECONDS)
            )
            _lock(cursor, name)
            end = _read_end(cursor)
        yield end
        with _explaining(address, name):
            cursor.execute("UNLOCK TABLES")


def _lock(cursor: Cursor, name: TableName) -> None:
    statement = f"LOCK TABLES {quote_mysql_table(name)} READ"
    for pause in _PAUSES:
        try:
            cursor.execute(statement)
        except pymysql.MySQLError as error:
            if get_code(error) != _TIMED_OUT:
                raise
            time.sleep(pause)
        else:
            return
    cursor.execute(statement)


def _read_end(cursor: Cursor) -> tuple[str, int]:
    cursor.execute("SHOW BINARY LOGS")
    file, size = list(cursor.fetchall())[-1][:2]
    return str(file), int(size)


@contextmanager
def _explaining(address: Address, name: TableName) -> Iterator[None]:
    try:
        yield
    except pymysql.MySQLError as error:
        raise _explain(error, address, name) from None


def _explain(error: pymysql.MySQLError, address: Address, name: TableName) -> DatabaseProblem:
    """The text of the server is not repeated."""
    code, where = get_code(error), name_server(address)
    if code == _TIMED_OUT:
        return DatabaseUnreachable(
            f"{where}: {name} could not be locked for a moment, which finds the position of a snapshot: a transaction that has written to"
            " it stays open; end it, or run the command again"
        )
    if code == _NO_LOG:
        return DatabaseProblem(NO_LOG)
    if code in _MISSING:
        grant = _MISSING[code].format(database=quote_mysql(name.schema))
        return DatabaseProblem(f"{where}: the user lacks a privilege; run: GRANT {grant} TO its account")
    if code in LOST:
        return DatabaseUnreachable(f"{where}: the connection was lost: error {code}")
    return DatabaseProblem(f"{where}: a query failed: error {code}")
