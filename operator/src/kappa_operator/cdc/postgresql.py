"""Gathers the facts of a PostgreSQL server: catalog queries in one read-only transaction, within a time limit.

The user may be a superuser, so no function or operator of a tenant may run: the search path is empty.
"""

import asyncio
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from kappa_operator.cdc import postgresql_queries as queries
from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import ConnectDenied, DatabaseProblem, DatabaseUnreachable
from kappa_operator.cdc.facts import (
    MOST_TABLES,
    Connection,
    PostgresColumn,
    PostgresFacts,
    PostgresTable,
    Publication,
    Slot,
    TableName,
)
from kappa_operator.cdc.patterns import TablePattern

CONNECT_SECONDS, STATEMENT_SECONDS, TOTAL_SECONDS = 10, 15, 60
_OLDEST = 120000
"""Older servers lack functions that the queries use; the rules refuse them anyway."""
_Cursor = psycopg.AsyncCursor[Any]
_CAUSES = (
    ("no pg_hba.conf entry", "pg_hba.conf of the server has no entry for this user, database, address and TLS: add one"),
    ("authentication failed", "the server refused the user or the password"),
    ("no password supplied", "the server requests a password: set PGPASSWORD or use --password-file"),
    ("does not support ssl", "the server has no TLS: set ssl = on there, or use --plain-text in a trusted network"),
    ("certificate", "the certificate of the server cannot be verified: compare host name and CA file"),
    ("does not exist", "the server has no such database or user"),
    ("too many", "the server has no free connection"),
    ("could not translate host", "the host name cannot be resolved"),
    ("failed to resolve", "the host name cannot be resolved"),
    ("connection refused", "nothing listens at this address"),
)  # fmt: skip


async def gather_postgresql(
    address: Address, patterns: tuple[TablePattern, ...], publication: str
) -> PostgresFacts:
    """Return the facts; raise DatabaseProblem."""
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            async with await connect(address) as connection:
                return await _gather(connection, address, patterns, publication)
    except TimeoutError:
        raise DatabaseUnreachable(f"{name_address(address)}: no answer within {TOTAL_SECONDS} s") from None
    except psycopg.Error as error:
        raise DatabaseProblem(
            f"{name_address(address)}: a catalog query failed: SQLSTATE {error.sqlstate}"
        ) from None


def name_address(address: Address) -> str:
    """Return the address for messages."""
    return f"{address.host}:{address.port}/{address.database}"


async def connect(address: Address) -> psycopg.AsyncConnection[Any]:
    """Return a connection; raise DatabaseProblem."""
    try:
        return await psycopg.AsyncConnection.connect(**build_options(address))
    except psycopg.Error as error:
        raise explain_refusal(address, str(error)) from None


def build_options(address: Address) -> dict[str, Any]:
    """Return the options of a connection."""
    return {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "dbname": address.database,
        "password": address.password,
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "kappa",
        "sslmode": "verify-full" if address.ca_file else "require" if address.tls else "prefer",
        "sslrootcert": address.ca_file or None,
    }


def explain_refusal(address: Address, text: str) -> DatabaseProblem:
    """Return the error for a failed connection. The text of the server decides which, and is not repeated."""
    lowered = text.lower()
    if "permission denied for database" in lowered:
        return ConnectDenied(f"{name_address(address)}: user {address.user} lacks CONNECT")
    cause = next(
        (cause for part, cause in _CAUSES if part in lowered), "the server does not answer, or refused"
    )
    return DatabaseUnreachable(f"{name_address(address)}: {cause}")


async def _gather(
    connection: psycopg.AsyncConnection[Any],
    address: Address,
    patterns: tuple[TablePattern, ...],
    publication: str,
) -> PostgresFacts:
    await connection.set_read_only(True)
    encrypted = bool(connection.pgconn.ssl_in_use) or address.is_loopback
    verified = bool(address.ca_file) or address.is_loopback
    async with connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(queries.LIMITS, (str(STATEMENT_SECONDS * 1000),))
        settings = {row.name: row.setting for row in await _read(cursor, queries.SETTINGS)}
        version = int(settings["server_version_num"])
        known = {} if version < _OLDEST else await _read_details(cursor, version, patterns, publication)
        (server,) = await _read(cursor, queries.SERVER)
    return PostgresFacts(
        version=version,
        database=address.database,
        settings=settings,
        connection=Connection(encrypted, verified),
        **server._asdict(),
        **known,
    )


async def _read(cursor: _Cursor, query: Any, values: Any = None) -> list[Any]:
    await cursor.execute(query, values)
    return await cursor.fetchmany(queries.MOST_ROWS)


async def _read_details(
    cursor: _Cursor, version: int, patterns: tuple[TablePattern, ...], publication: str
) -> dict[str, Any]:
    slots = await _read(cursor, queries.SLOTS if version >= 130000 else queries.SLOTS_12)
    (may,) = await _read(cursor, queries.MAY_IDENTIFY)
    identity = [row._asdict() for row in await _read(cursor, queries.IDENTITY)] if may.allowed else []
    return {
        **(identity[0] if identity else {}),
        "slots": tuple(Slot(**row._asdict()) for row in slots),
        "publication": await _read_publication(cursor, version, publication),
        **await _read_tables(cursor, patterns),
    }


async def _read_publication(cursor: _Cursor, version: int, name: str) -> Publication | None:
    rows = await _read(cursor, queries.PUBLICATION, (name,))
    if not rows:
        return None
    (row,) = rows
    tables = await _read(cursor, queries.PUBLICATION_TABLES, (name,))
    filtered = await _read(cursor, queries.PUBLICATION_FILTERS, (name,)) if version >= 150000 else []
    more = row.properties
    return Publication(
        name=name,
        owned=row.owned,
        all_tables=more["puballtables"],
        via_root=more.get("pubviaroot", False),
        operations=frozenset(
            each for each in ("insert", "update", "delete", "truncate") if more[f"pub{each}"]
        ),
        generated_columns=more.get("pubgencols") == "s",
        tables=frozenset(TableName(*each) for each in tables),
        filtered=frozenset(TableName(*each) for each in filtered),
    )


async def _read_tables(cursor: _Cursor, patterns: tuple[TablePattern, ...]) -> dict[str, Any]:
    likes = [each.to_like() for each in patterns]
    values = [each[0] for each in likes], [each[1] for each in likes], MOST_TABLES
    rows = await _read(cursor, queries.TABLES, values)
    columns: dict[int, list[PostgresColumn]] = {}
    for row in await _read(cursor, queries.COLUMNS, ([row.oid for row in rows],)):
        column = PostgresColumn(
            row.name, row.type, row.type_kind, row.is_array, row.is_generated, row.dimensions
        )
        columns.setdefault(row.oid, []).append(column)
    shapes = await _read(cursor, queries.SHAPES, ([row.oid for row in rows],))
    return {
        "tables": tuple(_build_table(row, tuple(columns.get(row.oid, ()))) for row in rows),
        "shapes": {
            TableName(row.nspname, row.relname): tuple(zip(row.names, row.types, row.keys, strict=True))
            for row in shapes
        },
    }


def _build_table(row: Any, columns: tuple[PostgresColumn, ...]) -> PostgresTable:
    fields = row._asdict()
    name = TableName(fields.pop("schema"), fields.pop("name"))
    root = TableName(fields.pop("root_schema") or "", fields.pop("root_name") or "")
    del fields["oid"]
    return PostgresTable(name=name, root=root if root.name else None, columns=columns, **fields)
