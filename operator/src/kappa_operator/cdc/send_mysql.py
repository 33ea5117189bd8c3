"""Writes signals into the signal table of a connector of MySQL or MariaDB, as `send` does in PostgreSQL."""

import asyncio
from collections.abc import Iterable
from contextlib import closing

import pymysql
from pymysql.cursors import Cursor

from kappa_crds.cdcsource_status import TableRange
from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.mysql import connect, get_code, name_server
from kappa_operator.cdc.quoting import MYSQL, quote_mysql, quote_mysql_table
from kappa_operator.cdc.reconcile.mariadb.position import encode_position
from kappa_operator.cdc.signals import Signal
from kappa_operator.cdc.work import DatabaseResult, SignalRequest, SignalTable

_COUNTED = 100_000
"""Rows that are counted at most where the database has no estimate."""
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_FIND = """
    SELECT t.table_rows, c.column_name, c.data_type FROM information_schema.tables t
    LEFT JOIN information_schema.statistics s ON s.table_schema = t.table_schema AND s.table_name = t.table_name
        AND s.index_name = 'PRIMARY'
    LEFT JOIN information_schema.columns c ON c.table_schema = s.table_schema AND c.table_name = s.table_name
        AND c.column_name = s.column_name
    WHERE t.table_schema = %s AND t.table_name = %s AND t.table_type = 'BASE TABLE'
"""
_NO_TABLE, _NO_ROOM, _THERE = (1146, 1051), (1406, 1265), 1062
_DENIED = (1142, 1143, 1044, 1370)


async def send_signal(address: Address, request: SignalRequest) -> DatabaseResult:
    """Write the signal, unless it is there already; return the tables and the position behind it. Raise DatabaseProblem."""
    return await asyncio.to_thread(_send, address, request)


def _send(address: Address, request: SignalRequest) -> DatabaseResult:
    try:
        with closing(connect(address)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
            measured = [_measure(cursor, each) for each in request.tables]
            refused = next((why for _, why in measured if why), "") or _write(
                connection, cursor, request, address.user
            )
            if refused:
                return DatabaseResult(refused=refused)
            return DatabaseResult(ranges=tuple(found for found, _ in measured), position=_read_end(cursor))
    except pymysql.MySQLError as error:
        raise DatabaseProblem(
            f"{name_server(address)}: the signal was not written: error {get_code(error)}"
        ) from None
    except ValueError as error:
        raise DatabaseProblem(f"{name_server(address)}: {error}") from None


def _read_end(cursor: Cursor) -> int:
    """Return the end of the binary log."""
    cursor.execute("SHOW BINARY LOGS")
    file, size = list(cursor.fetchall())[-1][:2]
    return encode_position(str(file), int(size))


def _write(
    connection: "pymysql.Connection[Cursor]", cursor: Cursor, request: SignalRequest, user: str
) -> str:
    """Write the signal, unless it is there; return why that cannot be."""
    target = TableName(*request.target)
    quoted = quote_mysql_table(target).replace("%", "%%")
    try:
        cursor.execute(
            f"DELETE FROM {quote_mysql_table(target)} WHERE type IN ('snapshot-window-open', 'snapshot-window-close')"  # noqa: S608 - the name is quoted
        )
        try:
            cursor.execute(
                f"INSERT INTO {quoted} VALUES (%s, %s, %s)",  # noqa: S608 - the name is quoted
                (request.id, request.type, request.data),
            )
        except pymysql.IntegrityError as error:
            if get_code(error) != _THERE:
                raise
        connection.commit()
    except pymysql.MySQLError as error:
        connection.rollback()
        return _explain_write(error, target, user)
    return ""


def _explain_write(error: pymysql.MySQLError, target: TableName, user: str) -> str:
    code = get_code(error)
    if code in _NO_TABLE:
        return f"signal table {target} does not exist; the condition DatabaseReady has the statement that creates it"
    if code in _DENIED:
        return f"user {user} may not write to {target}: it needs SELECT, INSERT and DELETE; the condition DatabaseReady has the statement"
    if code in _NO_ROOM:
        return f"signal table {target} has no room for the signal: error {code}; its column data needs the type text"
    raise error


def _measure(cursor: Cursor, table: SignalTable) -> tuple[TableRange, str]:
    """Return the size of a table, and why it cannot be read in parts."""
    name = TableName(table.schema_name, table.name)
    unknown = TableRange(table=str(name))
    cursor.execute(_FIND, (name.schema, name.name))
    found = list(cursor.fetchall())
    if not found:
        return unknown, f"table {name} does not exist"
    keys = [(column, kind) for _, column, kind in found if column is not None]
    if not keys and not table.is_keyed:
        return unknown, f"table {name} has no primary key; spec.keys may name other columns"
    refused = _explain(cursor, name, table.condition)
    if refused:
        return unknown, refused
    first = last = None
    if len(keys) == 1 and keys[0][1].lower() in _NUMBERS:
        column = quote_mysql(keys[0][0])
        cursor.execute(f"SELECT MIN({column}), MAX({column}) FROM {quote_mysql_table(name)}")  # noqa: S608 - names are quoted
        ((first, last),) = cursor.fetchall()
    return unknown.replace(rows=int(found[0][0] or 0) or _count(cursor, name), first=first, last=last), ""


def _explain(cursor: Cursor, name: TableName, condition: str) -> str:
    """Return why the database cannot evaluate the condition of a table."""
    try:
        cursor.execute(f"EXPLAIN SELECT * FROM {quote_mysql_table(name)} WHERE {condition or 'true'}")  # noqa: S608 - all parts are quoted
    except pymysql.MySQLError as error:
        code = get_code(error)
        if code in _DENIED:
            return f"the user of the connector lacks SELECT on {name}"
        return (
            f"the database cannot evaluate the condition on {name}: error {code}; compare the names of the columns, and the values"
            " with their types"
        )
    return ""


def _count(cursor: Cursor, name: TableName) -> int:
    query = f"SELECT count(*) FROM (SELECT 1 FROM {quote_mysql_table(name)} LIMIT {_COUNTED}) AS counted"  # noqa: S608 - the name is quoted
    cursor.execute(query)
    ((count,),) = cursor.fetchall()
    return int(count)


def write_signals(address: Address, table: TableName, signals: Iterable[Signal]) -> None:
    """Write all signals in one transaction; raise DatabaseProblem."""
    try:
        with closing(connect(address)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
            for signal in signals:
                cursor.execute(signal.build_statement(table, MYSQL))
            connection.commit()
    except pymysql.MySQLError as error:
        raise DatabaseProblem(
            f"{name_server(address)}: the signal was not written to {table}: error {get_code(error)}"
        ) from None
