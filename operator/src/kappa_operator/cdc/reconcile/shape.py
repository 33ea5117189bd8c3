"""The shape of a table of PostgreSQL: how each column is compared, and which cannot be."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from kappa_operator.cdc.connector.expressions import to_expression
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.reconcile.model import Column, Kind, Request, Table

_KINDS = {
    **dict.fromkeys(
        ("int2", "int4", "int8", "oid", "uuid", "inet", "cidr", "macaddr", "macaddr8"), Kind.PLAIN
    ),
    **dict.fromkeys(("text", "varchar", "name", "citext"), Kind.TEXT),
    **dict.fromkeys(("bit", "varbit"), Kind.BITS),
    "bpchar": Kind.PADDED,
    "bool": Kind.BOOLEAN,
    "numeric": Kind.NUMERIC,
    "money": Kind.MONEY,
    "float4": Kind.REAL,
    "float8": Kind.DOUBLE,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "timestamp": Kind.TIMESTAMP,
    "timestamptz": Kind.INSTANT,
    "interval": Kind.INTERVAL,
    "bytea": Kind.BYTES,
    "point": Kind.POINT,
}
_INCOMPARABLE = frozenset(
    {
        "hstore",
        "timetz",
        "geometry",
        "geography",
        "vector",
        "halfvec",
        "sparsevec",
        "pg_lsn",
        "tid",
        "xid",
        "xid8",
        "cid",
    }
)
_INCOMPARABLE_KINDS = frozenset("cmp")
_MONEY_SCALE, _MOST_MILLIS = 2, 3
_HEADER = 4  # bytes that the modifier of a numeric or text has before its number
_MICROS = {
    "connect": 1000,
    "microseconds": 1,
    "nanoseconds": 0,
    "adaptive_time_microseconds": None,
    "adaptive": None,
}
UNITS = tuple(_MICROS)
DECIMALS = ("precise", "string", "double")


@dataclass(frozen=True)
class FoundColumn:
    """A column as the catalog has it. `modifier` is `atttypmod`; `key_position` is its place in the primary key, or -1."""

    name: str
    type: str
    type_name: str
    type_kind: str
    is_array: bool
    is_generated: bool
    modifier: int
    key_position: int


class KeyedColumn(Protocol):
    """A column as a catalog has it. `key_position` is its place in the primary key, or -1."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def key_position(self) -> int: ...  # noqa: D102


Found = TypeVar("Found", bound=KeyedColumn)


@dataclass(frozen=True)
class ColumnRules(Generic[Found]):
    """How columns of a database are compared: why one is not, empty for none, and how else."""

    find_obstacle: Callable[[Found], str]
    build: Callable[[Found, Request], Column]


def build_table(
    name: TableName, found: Iterable[FoundColumn], request: Request
) -> tuple[Table, tuple[str, ...]]:
    """Return a table of PostgreSQL, and notes; see `build_any`."""
    return build_any(name, found, request, ColumnRules(_find_obstacle, build_column))


def build_any(
    name: TableName, found: Iterable[Found], request: Request, rules: ColumnRules[Found]
) -> tuple[Table, tuple[str, ...]]:
    """Return the table and the notes about columns that are not compared; raise DatabaseProblem where it cannot be compared."""
    all_of_them = list(found)
    key = _choose_key(name, all_of_them, request.key)
    unknown = sorted(request.ignored - {each.name for each in all_of_them})
    if unknown:
        raise DatabaseProblem(f"table {name} has no column {', '.join(unknown)}")
    is_left_out = _build_filter(name, request)
    compared, notes = [], []
    for each in all_of_them:
        cause = "ignored" if is_left_out(each.name) else rules.find_obstacle(each)
        if each in key and cause:
            raise DatabaseProblem(f"column {each.name} of the key of {name} cannot be compared: {cause}")
        if cause:
            notes.append(f"column {each.name} is not compared: {cause}")
        else:
            compared.append(rules.build(each, request))
    return Table(name, tuple(compared), tuple(rules.build(each, request) for each in key)), tuple(notes)


def _build_filter(table: TableName, request: Request) -> Callable[[str], bool]:
    """Return whether a column is not to be compared. Debezium compares names without regard to case, so patterns do."""
    patterns = [re.compile(to_expression(each), re.IGNORECASE) for each in request.omitted]

    def is_left_out(column: str) -> bool:
        full = f"{table}.{column}"
        return column in request.ignored or any(each.fullmatch(full) for each in patterns)

    return is_left_out


def _choose_key(name: TableName, found: list[Found], wanted: tuple[str, ...]) -> list[Found]:
    by_name = {each.name: each for each in found}
    missing = [each for each in wanted if each not in by_name]
    if missing:
        raise DatabaseProblem(f"table {name} has no column {', '.join(missing)}")
    primary = sorted((each for each in found if each.key_position >= 0), key=lambda each: each.key_position)
    key = [by_name[each] for each in wanted] or primary
    if not key:
        raise DatabaseProblem(
            f"table {name} has no primary key; name the columns of the key of its events with --key"
        )
    return key


def _find_obstacle(column: FoundColumn) -> str:
    if column.is_generated:
        return "generated, so that the log does not have it"
    if column.type_kind in _INCOMPARABLE_KINDS or column.type_name in _INCOMPARABLE:
        return f"type {column.type}"
    return ""


def build_column(found: FoundColumn, request: Request) -> Column:
    """Return how a column is compared."""
    kind = Kind.TEXT if found.type_kind == "e" else _KINDS.get(found.type_name, Kind.DOCUMENT)
    column = Column(found.name, kind, found.type, found.is_array, is_text=request.decimals != "precise")
    match kind:
        case Kind.NUMERIC:
            return replace(column, scale=_find_scale(found.modifier))
        case Kind.MONEY:
            return replace(column, scale=_MONEY_SCALE)
        case Kind.TIME | Kind.TIMESTAMP:
            return replace(column, micros=_find_micros(kind, found.modifier, request.units))
    return column


def _find_scale(modifier: int) -> int | None:
    """Return the scale that a modifier of NUMERIC has in its lower eleven bits, as a signed number."""
    if modifier < _HEADER:
        return None
    return (((modifier - _HEADER) & 0x7FF) ^ 1024) - 1024


def _find_micros(kind: Kind, modifier: int, units: str) -> int:
    fixed = _MICROS[units]
    if fixed is not None:
        return fixed
    if units == "adaptive_time_microseconds" and kind is Kind.TIME:
        return 1
    return 1000 if 0 <= modifier <= _MOST_MILLIS else 1
