"""Gathers the facts of a server of MySQL or MariaDB: read-only queries over one connection, within time limits."""

import asyncio
import re
import ssl
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from kappa_operator.cdc.address import Address
from kappa_operator.cdc.binary_log import read_log
from kappa_operator.cdc.errors import DatabaseProblem, DatabaseUnreachable
from kappa_operator.cdc.facts import MOST_TABLES, Connection, MySQLColumn, MySQLFacts, MySQLTable, TableName
from kappa_operator.cdc.patterns import TablePattern
from kappa_operator.cdc.rules.grants import parse_grants

Marks = tuple[tuple[str, int], ...]
CONNECT_SECONDS, STATEMENT_SECONDS = 10, 15
_VARIABLES = (
    "binlog_expire_logs_seconds", "binlog_format", "binlog_row_image", "binlog_row_value_options", "expire_logs_days",
    "gtid_mode", "log_bin", "server_id", "sql_mode", "system_time_zone", "time_zone",
)  # fmt: skip
# A user with SELECT only sees no table_constraints, so the primary key is read from the statistics of indexes.
_TABLES = """
    SELECT t.table_schema, t.table_name, t.table_type, t.engine, COALESCE(e.transactions = 'YES', 1),
        EXISTS (SELECT 1 FROM information_schema.statistics s WHERE s.table_schema = t.table_schema
            AND s.table_name = t.table_name AND s.index_name = 'PRIMARY')
    FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine
    WHERE t.table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') AND ({patterns})
    ORDER BY 1, 2 LIMIT {most}
"""
# Debezium 3.5 for MariaDB cannot parse a statement with these types, and stops.
_UNPARSED = """
    SELECT c.table_schema, c.table_name, c.column_name, c.data_type FROM information_schema.columns c
    WHERE c.data_type IN ('inet4', 'inet6') AND ({patterns}) ORDER BY 1, 2, 3 LIMIT {most}
"""
# Lengths of texts and values of enums are left out: events do not depend on them. MySQL 8 has no width of integers any more.
_SHAPES = """
    SELECT t.table_schema, t.table_name, t.column_name,
        CASE WHEN t.data_type IN ('char', 'varchar', 'binary', 'varbinary', 'enum', 'set') THEN t.data_type ELSE t.column_type END, t.column_key = 'PRI'
    FROM information_schema.columns t WHERE {patterns} ORDER BY 1, 2, t.ordinal_position LIMIT {most}
"""
_MOST_COLUMNS = 50_000
_WIDTH = re.compile(r"(?<=int)\(\d+\)")
_ONE = "(t.table_schema LIKE %s ESCAPE '|' AND t.table_name LIKE %s ESCAPE '|')"
_TLS_FAILED = 2026
_CAUSES = {
    1045: "the server refused the user or the password: set MYSQL_PWD or use --password-file",
    1044: "the user may not use this database",
    1049: "the server has no such database, or the user may not use it",
    1040: "the server has no free connection",
    1130: "the server refuses connections from this address",
    _TLS_FAILED: "the server has no TLS, or its certificate cannot be verified: compare host name and CA file",
}  # fmt: skip


async def gather_mysql(address: Address, patterns: tuple[TablePattern, ...], marks: Marks = ()) -> MySQLFacts:
    """Return the facts, with the transactions at the marks; raise DatabaseProblem. The client is synchronous, so it runs in a thread."""
    return await asyncio.to_thread(_gather, address, patterns, marks)


def _gather(address: Address, patterns: tuple[TablePattern, ...], marks: Marks) -> MySQLFacts:
    try:
        with connect(address) as connection, connection.cursor() as cursor:
            facts = _read_facts(cursor, address, patterns)
            return replace(facts, log=read_log(cursor, facts.is_mariadb, marks))
    except pymysql.MySQLError as error:
        raise DatabaseProblem(f"{name_server(address)}: a query failed: error {get_code(error)}") from None


def name_server(address: Address) -> str:
    """Return the server for people."""
    return f"{address.host}:{address.port}"


def get_code(error: Exception) -> int:
    """Return the number of an error; 0 where it has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def connect(address: Address, seconds: int | None = STATEMENT_SECONDS) -> "pymysql.Connection[Cursor]":
    """Return a connection; raise DatabaseUnreachable. An answer may take so many seconds, or any time."""
    try:
        return pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database or None,
            charset="utf8mb4",
            connect_timeout=CONNECT_SECONDS,
            read_timeout=seconds,
            write_timeout=seconds,
            ssl=_build_tls(address),
            ssl_disabled=not address.tls,
            program_name="kappa",
        )
    except (pymysql.MySQLError, OSError) as error:
        original = getattr(error, "original_exception", error)
        code = _TLS_FAILED if isinstance(original, ssl.SSLError) else get_code(error)
        cause = _CAUSES.get(code, "the server does not answer, or refused")
        raise DatabaseUnreachable(f"{name_server(address)}: {cause}") from None


def _build_tls(address: Address) -> ssl.SSLContext | None:
    if not address.tls:
        return None
    context = ssl.create_default_context(cafile=address.ca_file or None)
    if not address.ca_file:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _read(cursor: Cursor, query: str, values: Iterable[str] = (), most: int = MOST_TABLES) -> list[Any]:
    cursor.execute(query, tuple(values) or None)
    return list(cursor.fetchmany(most))


def _read_facts(cursor: Cursor, address: Address, patterns: tuple[TablePattern, ...]) -> MySQLFacts:
    ((version, account),) = _read(cursor, "SELECT VERSION(), CURRENT_USER()")
    is_mariadb = "mariadb" in version.lower()
    if is_mariadb:
        cursor.execute(f"SET SESSION max_statement_time = {STATEMENT_SECONDS}")
    else:
        cursor.execute(f"SET SESSION max_execution_time = {STATEMENT_SECONDS * 1000}")
    cursor.execute("START TRANSACTION READ ONLY")
    user, _, host = account.rpartition("@")
    return MySQLFacts(
        version=tuple(map(int, re.findall(r"\d+", version)[:3])),
        is_mariadb=is_mariadb,
        account=(user, host),
        database=address.database,
        variables=_read_variables(cursor),
        grants=parse_grants(_read_grants(cursor, is_mariadb)),
        tables=_read_tables(cursor, patterns),
        unparsed=_read_unparsed(cursor, patterns),
        shapes=_read_shapes(cursor, patterns),
        connection=Connection(
            address.tls or address.is_loopback, bool(address.ca_file) or address.is_loopback
        ),
    )


def _read_variables(cursor: Cursor) -> dict[str, str]:
    places = ", ".join(["%s"] * len(_VARIABLES))
    return dict(_read(cursor, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({places})", _VARIABLES))


def _read_grants(cursor: Cursor, is_mariadb: bool) -> list[str]:
    """MariaDB lists the grants of active roles itself; MySQL needs their names."""
    query = "SHOW GRANTS"
    if not is_mariadb:
        ((roles,),) = _read(cursor, "SELECT CURRENT_ROLE()")
        if roles not in (None, "NONE"):
            query = f"SHOW GRANTS FOR CURRENT_USER() USING {roles}"
    return [row[0] for row in _read(cursor, query)]


def _read_tables(cursor: Cursor, patterns: tuple[TablePattern, ...]) -> tuple[MySQLTable, ...]:
    query = _TABLES.format(patterns=" OR ".join([_ONE] * len(patterns)), most=MOST_TABLES)
    rows = _read(cursor, query, _list_likes(patterns))
    return tuple(
        MySQLTable(TableName(schema, name), kind, engine, bool(transactional), bool(key))
        for schema, name, kind, engine, transactional, key in rows
    )


def _list_likes(patterns: tuple[TablePattern, ...]) -> list[str]:
    return [part for pattern in patterns for part in pattern.to_like()]


def _read_shapes(
    cursor: Cursor, patterns: tuple[TablePattern, ...]
) -> dict[TableName, tuple[tuple[str, str, bool], ...]]:
    query = _SHAPES.format(patterns=" OR ".join([_ONE] * len(patterns)), most=_MOST_COLUMNS)
    found: dict[TableName, tuple[tuple[str, str, bool], ...]] = {}
    for schema, table, name, kind, is_key in _read(cursor, query, _list_likes(patterns), _MOST_COLUMNS):
        text = kind.decode() if isinstance(kind, bytes) else kind
        column = (name, _WIDTH.sub("", text), bool(is_key))
        found[TableName(schema, table)] = (*found.get(TableName(schema, table), ()), column)
    return found


def _read_unparsed(cursor: Cursor, patterns: tuple[TablePattern, ...]) -> tuple[MySQLColumn, ...]:
    schemas = list(dict.fromkeys(pattern.to_like()[0] for pattern in patterns))
    where = " OR ".join(["c.table_schema LIKE %s ESCAPE '|'"] * len(schemas))
    rows = _read(cursor, _UNPARSED.format(patterns=where, most=MOST_TABLES), schemas)
    return tuple(MySQLColumn(TableName(schema, table), name, kind) for schema, table, name, kind in rows)
