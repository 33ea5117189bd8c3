"""The position of a snapshot of MySQL: the end of the binary log while the table is locked.

MySQL writes a transaction into the log, commits it in InnoDB, and only then releases the metadata locks of the tables that it has changed
(source: MySQL, "Metadata Locking"). So while a read lock of the table holds, each change of this table that is in the log has been
committed, and none is added. A snapshot from within that time has exactly the changes of the table before the end of the log.

While `LOCK TABLES … READ` waits, new writers go before it. That delays no one, but where transactions that write overlap all the time it is
never granted. `FLUSH TABLES … WITH READ LOCK` goes before new writers, which wait behind it; by the manual readers do, too. So it is the
second attempt, and waits a second at most. Neither locks the tables of triggers and foreign keys.

Where this program or the network stops, the server ends the lock after some seconds. Then the snapshot may be from after the lock, so it
counts only if the lock was there until the end.
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
_WAIT_SECONDS, _HELD_SECONDS, _PAUSES = 1, 5, (1.0, 2.0, 4.0)
"""How long a lock waits, and is held without a word of this program, and the pauses between attempts, in seconds."""
_TIMED_OUT, _DENIED, _NO_LOG = 1205, 1227, 1381
LOST = frozenset({2003, 2006, 2013, 2055, 4031})
"""Errors of a connection that is not there any more."""
_MISSING = {
    1044: "LOCK TABLES ON {database}.*",
    1142: "LOCK TABLES, SELECT ON {database}.*",
    _DENIED: "REPLICATION CLIENT ON *.*",
}


@contextmanager
def lock_table(address: Address, name: TableName) -> Iterator[tuple[str, int]]:
    """Return the file and the byte of the end of the log, while no one can write to the table; raise DatabaseProblem."""
    with closing(connect(address)) as connection, connection.cursor() as cursor:
        with _explaining(address, name):
            cursor.execute(
                "SET SESSION autocommit = 1, lock_wait_timeout = %s, wait_timeout = %s",
                (_WAIT_SECONDS, _HELD_SECONDS),
            )
            _lock(cursor, address, name)
            end = _read_end(cursor)
        yield end
        with _explaining(address, name):
            cursor.execute("UNLOCK TABLES")


def _lock(cursor: Cursor, address: Address, name: TableName) -> None:
    """Lock the table for reading; raise DatabaseUnreachable where it is not free in any attempt."""
    table = quote_mysql_table(name)
    may_flush = True
    for pause in (*_PAUSES, 0.0):
        if _try(cursor, f"LOCK TABLES {table} READ"):
            return
        try:
            if may_flush and _try(cursor, f"FLUSH TABLES {table} WITH READ LOCK"):
                return
        except pymysql.MySQLError as error:
            if get_code(error) != _DENIED:
                raise
            may_flush = False
        time.sleep(pause)
    why = "a transaction that uses it stays open; end it"
    if not may_flush:
        why = "transactions that write to it overlap, or one stays open; run: GRANT FLUSH_TABLES ON *.* TO its account"
    raise DatabaseUnreachable(
        f"{name_server(address)}: {name} could not be locked for a moment, which finds the position of a snapshot: {why}, or run the command"
        " again"
    )


def _try(cursor: Cursor, statement: str) -> bool:
    """Return whether a lock was granted in time."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if get_code(error) != _TIMED_OUT:
            raise
        return False
    return True


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
    if code == _NO_LOG:
        return DatabaseProblem(NO_LOG)
    if code in _MISSING:
        grant = _MISSING[code].format(database=quote_mysql(name.schema))
        return DatabaseProblem(f"{where}: the user lacks a privilege; run: GRANT {grant} TO its account")
    if code in LOST:
        return DatabaseUnreachable(f"{where}: the connection was lost: error {code}")
    return DatabaseProblem(f"{where}: a query failed: error {code}")
