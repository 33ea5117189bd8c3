"""The shape of a table of MariaDB or MySQL: how each column is compared, and which cannot be."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.reconcile.model import Column, Kind, Request, Table
from kappa_operator.cdc.reconcile.shape import ColumnRules, build_any

_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "uuid"), Kind.PLAIN),
    **dict.fromkeys(("varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"), Kind.TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), Kind.BYTES),
    **dict.fromkeys(("time", "datetime", "timestamp"), Kind.MICROS),
    "char": Kind.PADDED,
    "json": Kind.JSON,
    "decimal": Kind.NUMERIC,
    "float": Kind.SINGLE_DIGITS,
    "double": Kind.DOUBLE_DIGITS,
    "bit": Kind.BITS,
    "date": Kind.DAYS,
}  # fmt: skip
_MOST_MILLIS = 3
_FIXED_UNITS = {"connect": 1000, "microseconds": 1, "nanoseconds": 0}


@dataclass(frozen=True)
class FoundColumn:
    """A column as the catalog has it. `type` is its whole type, and `precision` has the digits of a second.

    The catalog of MySQL has the type `json`; in MariaDB it is a name of `longtext`.
    """

    name: str
    data_type: str
    type: str
    is_required: bool
    precision: int | None
    scale: int | None
    key_position: int
    is_mariadb: bool = True

    @property
    def is_zero_epoch(self) -> bool:
        """Return whether Debezium writes the beginning of 1970 for a zero date, and not NULL: in MariaDB for every TIMESTAMP."""
        return self.is_required or (self.is_mariadb and self.data_type == "timestamp")


def build_table(
    name: TableName, found: Iterable[FoundColumn], request: Request
) -> tuple[Table, tuple[str, ...]]:
    """Return the table, and the notes about columns that are not compared; raise DatabaseProblem where it cannot be compared."""
    return build_any(name, found, request, ColumnRules(_find_obstacle, _build_column))


def _find_obstacle(column: FoundColumn) -> str:
    return "" if column.data_type in _KINDS else f"type {column.data_type}"


def _build_column(found: FoundColumn, request: Request) -> Column:
    column = Column(
        found.name,
        _KINDS[found.data_type],
        found.type,
        is_text=request.decimals != "precise",
        is_zero_epoch=found.is_zero_epoch,
    )
    if column.kind is Kind.NUMERIC:
        return replace(column, scale=found.scale or 0)
    if column.kind is Kind.MICROS:
        return replace(column, micros=_find_micros(found, request.units))
    return column


def _find_micros(column: FoundColumn, units: str) -> int:
    """Return the unit of a number. By default Debezium writes microseconds for TIME, and for DATETIME as it needs to."""
    if units in _FIXED_UNITS:
        return _FIXED_UNITS[units]
    return 1000 if column.data_type == "datetime" and (column.precision or 0) <= _MOST_MILLIS else 1
