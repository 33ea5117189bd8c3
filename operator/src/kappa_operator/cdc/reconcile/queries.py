"""The SQL that gives the canonical text of rows, and checksums of it. The search path is empty, so all functions are PostgreSQL's own.

`canonical` has the same texts in Python. The checksum of a bucket is the number of its rows and the sum of 64 bits of their checksums.
"""

from collections.abc import Iterable, Sequence

from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.quoting import quote_postgresql, quote_postgresql_table
from kappa_operator.cdc.reconcile.canonical import DIGEST_BYTES, LONG, SEPARATOR
from kappa_operator.cdc.reconcile.model import Column, Kind, Table

_MOST_ARGUMENTS = 45
"""Fields in one call of concat, which takes a hundred arguments."""
_FIRST_TRIM_SCALE = 130000
_SHOWN = 200
"""Characters of a value that is shown."""

SETTINGS = """
    SELECT set_config('search_path', '', true), set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true),
        set_config('bytea_output', 'hex', true), set_config('lock_timeout', '10000', true), set_config('row_security', 'off', true),
        set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)
"""
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '10s'"
SERVER = """
    SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS in_recovery,
        current_setting('server_encoding') AS encoding,
        (SELECT min(restart_lsn)::text FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database()) AS settled
"""
SNAPSHOT = """
    SELECT {snapshot}::text AS snapshot, pg_current_wal_insert_lsn()::text AS lsn, to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at
"""
SLOTS = """
    SELECT s.slot_name AS name, s.active, s.confirmed_flush_lsn::text AS confirmed, r.write_lsn::text AS received,
        (extract(epoch FROM r.reply_time) * 1000)::bigint AS received_at
    FROM pg_replication_slots s LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid
    WHERE s.slot_type = 'logical' AND s.database = current_database() AND (%s = '' OR s.slot_name = %s) ORDER BY 1 LIMIT 100
"""
TABLE = """
    SELECT c.oid, c.relkind AS kind, row_security_active(c.oid) AS has_row_security, has_table_privilege(c.oid, 'SELECT') AS has_select
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
COLUMNS = """
    SELECT a.attname AS name, format_type(COALESCE(element.oid, base.oid, t.oid), NULL) AS type,
        COALESCE(element.typname, base.typname, t.typname) AS type_name, COALESCE(element.typtype, base.typtype, t.typtype) AS type_kind,
        element.oid IS NOT NULL AS is_array, a.attgenerated <> '' AS is_generated,
        CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS modifier,
        COALESCE(array_position(i.indkey::int2[], a.attnum), -1) AS key_position
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_type base ON t.typtype = 'd' AND base.oid = t.typbasetype
    LEFT JOIN pg_type element ON element.oid = COALESCE(base.typelem, t.typelem) AND element.typarray = COALESCE(base.oid, t.oid)
    LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def find_any_row(table: TableName) -> str:
    """Return the query that finds whether a table has rows."""
    return f"SELECT EXISTS (SELECT FROM {_escape(quote_postgresql_table(table))}) AS found"  # noqa: S608 - the name is quoted


def lock_table(table: TableName) -> str:
    """Return the statement that keeps a table from being truncated, or changed in its shape."""
    return f"LOCK TABLE {_escape(quote_postgresql_table(table))} IN ACCESS SHARE MODE"


class TableQueries:
    """The statements about one table of a server, with places for values: `%` in a name is doubled."""

    def __init__(self, table: Table, version: int) -> None:
        self._table, self._version = table, version
        self._from = f"FROM {_escape(quote_postgresql_table(table.name))} AS t"
        self._key = _join(self._express(each, is_key=True) for each in table.key)
        self._row = _join(map(self._express, table.columns))
        self._bucket = f"('x' || substr({self._hash(self._key)}, 1, 3))::bit(12)::int"

    def read_checksums(self) -> str:
        """Return the query for bucket, number of rows, and sum of their checksums."""
        number = f"('x' || substr({self._hash(self._row)}, 1, 16))::bit(64)::bigint"
        return f"SELECT {self._bucket} AS bucket, count(*), sum({number})::text {self._from} GROUP BY 1"

    def read_hashes(self) -> str:
        """Return the query for the key and checksum of each row of some buckets."""
        return (
            f"SELECT {self._key}, {self._hash(self._row)} {self._from} WHERE {self._bucket} = ANY (%s::int[])"
        )

    def read_rows(self, *, shown: bool) -> str:
        """Return the query for the fields of rows by key, and with `shown` for their values."""
        fields = [f"concat({self._express(each)})" for each in self._table.columns]
        values = (
            [f"left({_name(each)}::text, {_SHOWN})" for each in self._table.columns] if shown else ["NULL"]
        )
        listed = f"SELECT {self._key}, ARRAY[{', '.join(fields)}], ARRAY[{', '.join(values)}] {self._from}"
        return f"{listed} WHERE {self._find_by_key()}"

    def _find_by_key(self) -> str:
        if not self._table.is_searchable:
            return f"{self._key} = ANY (%s::text[])"
        names = [f"k{number}" for number in range(len(self._table.key))]
        parts = ", ".join(f"{name}::{each.type}" for name, each in zip(names, self._table.key, strict=True))
        places = ", ".join("%s::text[]" for _ in names)
        key = ", ".join(map(_name, self._table.key))
        return f"({key}) IN (SELECT {parts} FROM unnest({places}) AS wanted ({', '.join(names)}))"  # noqa: S608

    def _hash(self, text: str) -> str:
        return _digest(f"convert_to({text}, 'UTF8')")

    def _express(self, column: Column, *, is_key: bool = False) -> str:
        name = _name(column)
        if not column.is_array:
            return self._express_value(column, name, is_key=is_key)
        element = self._express_value(column, "x", is_key=True)
        elements = f"ARRAY(SELECT CASE WHEN x IS NOT NULL THEN concat({element}) END FROM unnest({name}) WITH ORDINALITY AS e (x, n) ORDER BY n)"  # noqa: S608 - names are quoted
        return f"CASE WHEN {name} IS NOT NULL THEN {self._shorten_computed(f'array_to_json({elements})::text')} END"

    def _express_value(self, column: Column, value: str, *, is_key: bool) -> str:
        match column.kind:
            case Kind.TEXT | Kind.PADDED:
                text = f"{value}::text"
                return f"length({text}) || ':' || {text}" if is_key else self._shorten(text)
            case Kind.DOCUMENT:
                return (
                    f"length({value}::text) || ':' || {value}::text"
                    if is_key
                    else self._shorten_computed(f"{value}::text")
                )
            case Kind.NUMERIC:
                return self._trim(value)
            case Kind.MONEY:
                return self._trim(f"{value}::numeric")
            case Kind.BYTES:
                return f"CASE WHEN octet_length({value}) < {LONG} THEN encode({value}, 'hex') ELSE '#' || {_digest(value)} END"
        return _EXPRESSIONS[column.kind].format(value)

    def _shorten(self, text: str) -> str:
        return f"CASE WHEN length({text}) < {LONG} THEN length({text}) || ':' || {text} ELSE '#' || {self._hash(text)} END"

    def _shorten_computed(self, text: str) -> str:
        """Return the same of a text that is computed once."""
        return f"(SELECT {self._shorten('d.text')} FROM (SELECT {text} AS text OFFSET 0) AS d)"  # noqa: S608

    def _trim(self, number: str) -> str:
        if self._version >= _FIRST_TRIM_SCALE:
            return f"trim_scale({number})"
        return f"CASE WHEN {number}::text LIKE '%%.%%' THEN rtrim(rtrim({number}::text, '0'), '.') ELSE {number}::text END"


_EXPRESSIONS = {
    Kind.PLAIN: "{0}",
    Kind.BOOLEAN: "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END",
    Kind.REAL: "encode(float4send({0}), 'hex')",
    Kind.DOUBLE: "encode(float8send({0}), 'hex')",
    Kind.DATE: "encode(date_send({0}), 'hex')",
    Kind.TIME: "encode(time_send({0}), 'hex')",
    Kind.TIMESTAMP: "encode(timestamp_send({0}), 'hex')",
    Kind.INSTANT: "encode(timestamptz_send({0}), 'hex')",
    Kind.POINT: "encode(point_send({0}), 'hex')",
    Kind.BITS: "ltrim({0}::text, '0')",
    # Debezium counts a month as a twelfth of 365.25 days.
    Kind.INTERVAL: "((extract(year from {0}) * 12 + extract(month from {0}))::bigint * 2629800000000 + extract(day from {0})::bigint * 86400000000"
    " + extract(hour from {0})::bigint * 3600000000 + extract(minute from {0})::bigint * 60000000 + extract(microseconds from {0})::bigint)",
}


def _digest(content: str) -> str:
    """Return the SQL of the checksum of bytes, as `canonical.digest` computes it."""
    return f"left(encode(sha256({content}), 'hex'), {2 * DIGEST_BYTES})"


def _name(column: Column) -> str:
    return f"t.{_escape(quote_postgresql(column.name))}"


def _escape(quoted: str) -> str:
    return quoted.replace("%", "%%")


def _join(fields: Iterable[str]) -> str:
    """Return the fields with separators in between; NULL is an empty field."""
    return _concat(list(fields))


def _concat(fields: Sequence[str]) -> str:
    separator = f", '{SEPARATOR}', "
    if len(fields) <= _MOST_ARGUMENTS:
        return f"concat({separator.join(fields)})"
    parts = [fields[at : at + _MOST_ARGUMENTS] for at in range(0, len(fields), _MOST_ARGUMENTS)]
    return _concat([_concat(each) for each in parts])
