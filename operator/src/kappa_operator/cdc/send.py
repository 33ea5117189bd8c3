"""Writes signals into the signal table of a connector: on request only, by a pod of a source or by `kappa cdc reconcile --repair`.

A signal of a source is written once: its id was recorded before, and its row stays. Rows that Debezium wrote for earlier snapshots go:
it reads them in the log. What Debezium would pass over with no more than
a line in a log is refused before: a table that is not there or has no key, and a condition that the database cannot evaluate.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from kappa_crds.cdcsource_status import TableRange
from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.postgresql import (
    STATEMENT_SECONDS,
    TOTAL_SECONDS,
    build_options,
    connect,
    explain_refusal,
    name_address,
)
from kappa_operator.cdc.quoting import POSTGRESQL, quote_postgresql, quote_postgresql_table
from kappa_operator.cdc.signals import Signal
from kappa_operator.cdc.work import DatabaseResult, SignalRequest, SignalTable

_COUNTED = 100_000
"""Rows that are counted at most where the database has no estimate."""
_FIND = """
    SELECT c.reltuples::bigint, array_agg(a.attname::text), array_agg(format_type(a.atttypid, NULL))
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p') GROUP BY c.oid, c.reltuples
"""
_PUBLISHED = """
    SELECT FROM pg_catalog.pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s
"""
_POSITION = "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint"
_NUMBERS, _UUID = ("smallint", "integer", "bigint"), "uuid"
_Connection = psycopg.AsyncConnection[Any]


async def send_signal(address: Address, request: SignalRequest) -> DatabaseResult:
    """Write the signal, unless it is there already; return the tables and the position behind it. Raise DatabaseProblem."""
    where = name_address(address)
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            async with await connect(address) as connection:
                return await _send(connection, request, address.user)
    except TimeoutError:
        raise DatabaseProblem(f"{where}: no answer within {TOTAL_SECONDS} s") from None
    except psycopg.Error as error:
        raise DatabaseProblem(f"{where}: the signal was not written: SQLSTATE {error.sqlstate}") from None


async def _send(connection: _Connection, request: SignalRequest, user: str) -> DatabaseResult:
    await connection.execute("SELECT set_config('search_path', '', false)")
    await connection.execute(
        "SELECT set_config('statement_timeout', %s, false)", (str(STATEMENT_SECONDS * 1000),)
    )
    ranges: list[TableRange] = []
    refused = ""
    for table in request.tables:
        found = await _measure(connection, table, request.publication)
        ranges, refused = [*ranges, found[0]], refused or found[1]
    await connection.commit()
    if refused:
        return DatabaseResult(refused=refused)
    refused = await _write(connection, request, user)
    if refused:
        return DatabaseResult(refused=refused)
    row = await (await connection.execute(_POSITION)).fetchone()
    return DatabaseResult(ranges=tuple(ranges), position=row[0] if row else None)


async def _write(connection: _Connection, request: SignalRequest, user: str) -> str:
    """Write the signal, unless it is there; return why that cannot be."""
    target = TableName(*request.target)
    tidy = sql.SQL("DELETE FROM {} WHERE type IN ('snapshot-window-open', 'snapshot-window-close')")
    insert = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING").format(
        sql.Identifier(*request.target)
    )
    try:
        await connection.execute(tidy.format(sql.Identifier(*request.target)))
        await connection.execute(insert, (request.id, request.type, request.data))
        await connection.commit()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as error:
        await connection.rollback()
        name, role = quote_postgresql_table(target), quote_postgresql(user)
        if isinstance(error, psycopg.errors.UndefinedTable):
            return f"signal table {target} does not exist; the condition DatabaseReady has the statement that creates it"
        return (
            f"user {user} may not write to {target}; run: GRANT SELECT, INSERT, DELETE ON {name} TO {role};"
        )
    except psycopg.DataError as error:
        await connection.rollback()
        return f"signal table {target} has no room for the signal: SQLSTATE {error.sqlstate}; its columns need the type text"
    return ""


async def _measure(connection: _Connection, table: SignalTable, publication: str) -> tuple[TableRange, str]:
    """Return the size of a table, and why it cannot be read in parts."""
    name = TableName(table.schema_name, table.name)
    row = await (await connection.execute(_FIND, (table.schema_name, table.name))).fetchone()
    unknown = TableRange(table=str(name))
    if row is None:
        return unknown, f"table {name} does not exist"
    estimate, columns, types = row
    if columns == [None] and not table.is_keyed:
        return unknown, f"table {name} has no primary key; spec.keys may name other columns"
    if (
        await (await connection.execute(_PUBLISHED, (publication, table.schema_name, table.name))).fetchone()
    ) is None:
        return unknown, (
            f"table {name} is not in publication {publication}, so the connector does not know it; the connector adds it when its"
            " task starts: set spec.state to Stopped, and to Running again"
        )
    refused = await _explain(connection, table)
    if refused:
        return unknown, refused
    rows = estimate if estimate > 0 else await _count(connection, table)
    first = last = None
    if len(columns) == 1 and (types[0] in _NUMBERS or types[0] == _UUID):
        first = await _read_end(connection, table, columns[0], "ASC")
        last = await _read_end(connection, table, columns[0], "DESC")
    return unknown.replace(rows=rows, first=first, last=last), ""


async def _explain(connection: _Connection, table: SignalTable) -> str:
    """Return why the database cannot evaluate the condition of a table."""
    where = sql.SQL(table.condition) if table.condition else sql.SQL("true")
    query = sql.SQL("EXPLAIN SELECT * FROM {} WHERE {}").format(_identify(table), where)
    try:
        async with connection.transaction():
            await connection.execute(query)
    except psycopg.errors.InsufficientPrivilege:
        return f"the user of the connector lacks SELECT on {table.schema_name}.{table.name}"
    except (psycopg.DataError, psycopg.ProgrammingError) as error:
        return (
            f"the database cannot evaluate the condition on {table.schema_name}.{table.name}: SQLSTATE {error.sqlstate};"
            " compare the names of the columns, and the values with their types"
        )
    return ""


async def _count(connection: _Connection, table: SignalTable) -> int:
    query = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS counted").format(
        _identify(table), sql.Literal(_COUNTED)
    )
    row = await (await connection.execute(query)).fetchone()
    return int(row[0]) if row else 0


async def _read_end(
    connection: _Connection, table: SignalTable, column: str, order: LiteralString
) -> int | None:
    """Return the first or last key as a number. Of a UUID these are its first 63 bits, in whose order the database has it."""
    name = sql.Identifier(column)
    query = sql.SQL("SELECT {} FROM {} ORDER BY {} {} LIMIT 1").format(
        name, _identify(table), name, sql.SQL(order)
    )
    row = await (await connection.execute(query)).fetchone()
    if row is None:
        return None
    return row[0] if isinstance(row[0], int) else int(row[0].int >> 65)


def _identify(table: SignalTable) -> sql.Identifier:
    return sql.Identifier(table.schema_name, table.name)


def write_signals(address: Address, table: TableName, signals: Iterable[Signal]) -> None:
    """Write all signals in one transaction; raise DatabaseProblem."""
    try:
        connection = psycopg.connect(**build_options(address))
    except psycopg.Error as error:
        raise explain_refusal(address, str(error)) from None
    try:
        with connection:
            connection.execute(b"SELECT set_config('search_path', '', true)")
            for signal in signals:
                connection.execute(signal.build_statement(table, POSTGRESQL).encode())
    except psycopg.Error as error:
        raise DatabaseProblem(
            f"{name_address(address)}: the signal was not written to {table}: SQLSTATE {error.sqlstate}"
        ) from None
