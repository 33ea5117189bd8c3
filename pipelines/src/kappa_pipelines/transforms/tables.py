"""Changes of tables, as input of the steps that store tables."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, IntegralType, StructField, StructType

from kappa_crds.joins import Table
from kappa_pipelines.transforms.inputs import ColumnKind, Input, quote
from kappa_pipelines.transforms.key_groups import pack

_ORDER = ColumnKind("a whole number", (IntegralType,))
_FLAG = ColumnKind("BOOLEAN", (BooleanType,))


class Change(NamedTuple):
    """A change of a row: `body` is its new value, None for a deletion."""

    order: int
    body: str | None


def check_table(view: str, field: str, table: Table, rows: Input) -> None:
    """Raise SpecError if the table lacks a column or has one of another type."""
    rows.find_columns(view, f"{field}.order", [table.order], _ORDER)
    if table.deleted is not None:
        rows.find_columns(view, f"{field}.deleted", [table.deleted], _FLAG)


def select_changes(
    rows: DataFrame, table: Table, columns: Mapping[str, Column], body: Iterable[str]
) -> DataFrame:
    """Return the changes of a table with further columns, a key among them, and `order`, `body`; the body is NULL for a deletion."""
    alive = f.lit(True) if table.deleted is None else ~f.coalesce(f.col(quote(table.deleted)), f.lit(False))
    return rows.select(
        *(column.alias(name) for name, column in columns.items()),
        f.col(quote(table.order)).cast("bigint").alias("order"),
        f.when(alive, pack(list(body))).alias("body"),
    )


def fill_order() -> Column:
    """Return the order of changes, 0 for other rows: a NULL would make numbers inexact."""
    return f.coalesce(f.col("order"), f.lit(0).cast("bigint"))


def select_rows(
    spark: SparkSession, table: Table, key: Mapping[str, str], columns: Mapping[str, str]
) -> DataFrame:
    """Return the changes of a referenced table as `key`, `order` and `body`, without rows that have a NULL in their key."""
    own = list(key.values())
    known = reduce(and_, (f.col(quote(name)).isNotNull() for name in own))
    taken = list(dict.fromkeys(columns.values()))
    return select_changes(spark.table(table.from_).where(known), table, {"key": pack_key(own, own)}, taken)


def pick_types(table: Input, columns: Mapping[str, str]) -> StructType:
    """Return the type of the bodies of `select_rows`."""
    return StructType([StructField(name, table.find_type(name)) for name in dict.fromkeys(columns.values())])


def pack_key(columns: Sequence[str], names: Iterable[str]) -> Column:
    """Return the columns as one JSON text with the given names, so that both sides of a join have equal keys."""
    texts = [
        f.col(quote(column)).cast("string").alias(name) for column, name in zip(columns, names, strict=True)
    ]
    return f.to_json(f.struct(*texts), {"ignoreNullFields": "false"})


def find_last(changes: Iterable[tuple[str, Change]]) -> dict[str, Change]:
    """Return the last change of each key; of two with the same order the greater body, in any order of arrival."""
    last: dict[str, Change] = {}
    for key, change in changes:
        if key not in last or _rank(change) > _rank(last[key]):
            last[key] = change
    return last


def _rank(change: Change) -> tuple[int, Any]:
    return change.order, change.body or ""
