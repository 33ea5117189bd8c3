"""The SQL of MariaDB and MySQL that gives the canonical text of rows, and checksums of it; `canonical` and `values` have the same texts in Python."""

from collections.abc import Callable, Iterable, Sequence

from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.quoting import quote_mysql, quote_mysql_table
from kappa_operator.cdc.reconcile.canonical import DIGEST_BYTES, LONG, SEPARATOR
from kappa_operator.cdc.reconcile.model import Column, Kind, Table

_SHOWN = 200
"""Characters of a value that is shown."""

SETTINGS = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 10, net_write_timeout = 600, wait_timeout = 28800"
NO_LIMIT, NO_LIMIT_OF_MYSQL = "SET SESSION max_statement_time = 0", "SET SESSION max_execution_time = 0"
ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
POSITION = "SHOW STATUS LIKE 'binlog_snapshot_%'"
TIME = "SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%sZ')"
TABLE = """
    SELECT t.table_type, t.engine, COALESCE(e.transactions = 'YES', 0) FROM information_schema.tables t
    LEFT JOIN information_schema.engines e ON e.engine = t.engine WHERE t.table_schema = %s AND t.table_name = %s
"""
COLUMNS = """
    SELECT c.column_name, c.data_type, c.column_type, c.is_nullable = 'NO', c.datetime_precision, c.numeric_scale,
        COALESCE((SELECT MAX(s.seq_in_index) FROM information_schema.statistics s WHERE s.table_schema = c.table_schema
            AND s.table_name = c.table_name AND s.index_name = 'PRIMARY' AND s.column_name = c.column_name), -1)
    FROM information_schema.columns c WHERE c.table_schema = %s AND c.table_name = %s ORDER BY c.ordinal_position
"""


def find_any_row(table: TableName) -> str:
    """Return the query that finds whether a table has rows."""
    return f"SELECT EXISTS (SELECT 1 FROM {_escape(quote_mysql_table(table))})"  # noqa: S608 - the name is quoted


class TableQueries:
    """The statements about one table, with places for values: `%` in a name is doubled."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._from = f"FROM {_escape(quote_mysql_table(table.name))} AS t"
        self._key = _join(express(each, is_key=True) for each in table.key)
        self._row = _join(map(express, table.columns))

    def read_checksums(self) -> str:
        """Return the query for bucket, number of rows, and sum of their checksums."""
        number = "CAST(CONV(LEFT(h.checksum, 16), 16, -10) AS SIGNED)"
        return f"SELECT h.bucket, COUNT(*), SUM({number}) FROM ({self._hash()}) AS h GROUP BY h.bucket"  # noqa: S608 - names are quoted

    def read_hashes(self, buckets: int) -> str:
        """Return the query for the key and checksum of each row of some buckets."""
        places = ", ".join(["%s"] * buckets)
        return f"SELECT h.found, h.checksum FROM ({self._hash()}) AS h WHERE h.bucket IN ({places})"  # noqa: S608 - names are quoted

    def _hash(self) -> str:
        bucket = f"CAST(CONV(LEFT({_digest(self._key)}, 3), 16, 10) AS SIGNED)"
        return (
            f"SELECT {self._key} AS found, {bucket} AS bucket, {_digest(self._row)} AS checksum {self._from}"
        )

    def read_rows(self, keys: int, *, shown: bool) -> str:
        """Return the query for the key, the fields of rows by key, and with `shown` for their values."""
        fields = [f"COALESCE({express(each)}, '')" for each in self._table.columns]
        values = (
            [f"LEFT(CONVERT({_name(each)} USING utf8mb4), {_SHOWN})" for each in self._table.columns]
            if shown
            else []
        )
        return f"SELECT {', '.join([self._key, *fields, *values])} {self._from} WHERE {self._find(keys)}"

    def _find(self, keys: int) -> str:
        if not self._table.is_searchable:
            return f"{self._key} IN ({', '.join(['%s'] * keys)})"
        one = " AND ".join(f"{_name(each)} = %s" for each in self._table.key)
        return " OR ".join([f"({one})"] * keys)

    def list_values(self, keys: Sequence[str], parts: Iterable[tuple[str, ...]]) -> list[str | int]:
        """Return the values of the places: numbers as numbers, which the index of a key needs."""
        if not self._table.is_searchable:
            return list(keys)
        return [
            int(text) if column.kind is Kind.PLAIN and column.type != "uuid" else text
            for part in parts
            for column, text in zip(self._table.key, part, strict=True)
        ]


def express(column: Column, *, is_key: bool = False) -> str:
    """Return the SQL of a column's text; NULL where the column is."""
    name = _name(column)
    if column.kind in (Kind.TEXT, Kind.PADDED, Kind.JSON):
        text = f"CONVERT({name} USING utf8mb4)"
        text = f"TRIM(TRAILING ' ' FROM {text})" if column.kind is Kind.PADDED else text
        whole = f"CONCAT(CHAR_LENGTH({text}), ':', {text})"
        return whole if is_key else f"IF(CHAR_LENGTH({text}) < {LONG}, {whole}, CONCAT('#', {_digest(text)}))"
    return _EXPRESSIONS[column.kind](column, name)


def _express_plain(column: Column, name: str) -> str:
    return f"CAST({name} AS CHAR)" if column.type == "uuid" else f"CAST({name} + 0 AS CHAR)"


def _express_decimal(column: Column, name: str) -> str:
    text = f"CAST({name} + 0 AS CHAR)" if "zerofill" in column.type else f"CAST({name} AS CHAR)"
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))" if column.scale else text


def _express_bytes(_column: Column, name: str) -> str:
    return f"IF(OCTET_LENGTH({name}) < {LONG}, LOWER(HEX({name})), CONCAT('#', {_digest(name)}))"


def _express_micros(column: Column, name: str) -> str:
    if column.type.startswith("time") and not column.type.startswith("timestamp"):
        seconds = f"TRUNCATE(TIME_TO_SEC({name}), 0)"  # with a fraction in MariaDB only
        return f"CAST(CAST({seconds} * 1000000 + IF({name} + 0 < 0, -1, 1) * MICROSECOND({name}) AS SIGNED) AS CHAR)"
    return _default(column, name, f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {name})")


def _express_days(column: Column, name: str) -> str:
    return _default(column, name, f"DATEDIFF({name}, '1970-01-01')")


def _default(column: Column, name: str, number: str) -> str:
    return f"CAST({f'IF({name} IS NULL, NULL, COALESCE({number}, 0))' if column.is_zero_epoch else number} AS CHAR)"


def _express_digits(name: str) -> str:
    """Return the SQL of all digits of a number. As text, MySQL limits them to what 22 characters hold; in JSON it does not."""
    text = f"TRIM(LEADING '[' FROM TRIM(TRAILING ']' FROM CAST(JSON_ARRAY({name}) AS CHAR)))"
    return f"IF({name} IS NULL, NULL, TRIM(TRAILING '.0' FROM {text}))"


_EXPRESSIONS: dict[Kind, Callable[[Column, str], str]] = {
    Kind.PLAIN: _express_plain,
    Kind.NUMERIC: _express_decimal,
    Kind.BYTES: _express_bytes,
    Kind.MICROS: _express_micros,
    Kind.DAYS: _express_days,
    Kind.BITS: lambda _column, name: f"TRIM(LEADING '0' FROM BIN({name} + 0))",
    Kind.SINGLE_DIGITS: lambda _column, name: _express_digits(f"CAST({name} + 0 AS DOUBLE)"),
    Kind.DOUBLE_DIGITS: lambda _column, name: _express_digits(f"({name} + 0)"),
}


def _digest(text: str) -> str:
    """Return the SQL of the checksum of a text or bytes, as `canonical.digest` computes it."""
    return f"LEFT(SHA2({text}, 256), {2 * DIGEST_BYTES})"


def _name(column: Column) -> str:
    return f"t.{_escape(quote_mysql(column.name))}"


def _escape(quoted: str) -> str:
    return quoted.replace("%", "%%")


def _join(fields: Iterable[str]) -> str:
    """Return the fields with separators in between; NULL is an empty field."""
    return f"CONCAT({f', {chr(39)}{SEPARATOR}{chr(39)}, '.join(f'COALESCE({each}, {chr(39)}{chr(39)})' for each in fields)})"
