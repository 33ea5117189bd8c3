"""Changes of tables, as input of the steps that store tables."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, IntegralType, LongType, StructField, StructType

from kappa_crds.joins import Table
from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.change_version import is_version
from kappa_pipelines.errors import SpecError
from kappa_pipelines.transforms.inputs import ColumnKind, Input, quote
from kappa_pipelines.transforms.key_groups import pack
from kappa_pipelines.transforms.stored import Kept
from kappa_pipelines.transforms.truncations import TRUNCATED, Place, keep_truncations
from kappa_pipelines.transforms.versions import Change, find_place, replay

_ORDER = ColumnKind("a whole number", (IntegralType,))
_FLAG = ColumnKind("BOOLEAN", (BooleanType,))


def check_table(view: str, field: str, table: Table, rows: Input) -> None:
    """Raise SpecError if the table lacks a column or has one of another type."""
    rows.check_columns(view, f"{field}.order", [table.order])
    if not is_version(rows.find_type(table.order)):
        rows.find_columns(view, f"{field}.order", [table.order], _ORDER)
    if table.deleted is not None:
        rows.find_columns(view, f"{field}.deleted", [table.deleted], _FLAG)
    if table.truncated is not None:
        rows.find_columns(view, f"{field}.truncated", [table.truncated], _FLAG)
        if not is_version(rows.find_type(table.order)):
            raise SpecError(
                Reason.INVALID_SPEC,
                f"view {view!r}: {field}.truncated needs a version of change events as {field}.order: a number does not show which rows"
                " are from before a truncation",
            )


def select_changes(
    rows: DataFrame, table: Table, columns: Mapping[str, Column], body: Iterable[str]
) -> DataFrame:
    """Return the changes of a table with further columns, a key among them, and `order`, `body`; the body is NULL for a deletion.

    A truncation has NULL in the further columns too.
    """
    order = f.col(quote(table.order))
    has_version = is_version(rows.select(order).schema[0].dataType)
    alive = ~_read_flag(table.deleted)
    if table.truncated is not None:
        keyed = ~_read_flag(table.truncated)
        alive &= keyed
        columns = {name: f.when(keyed, column) for name, column in columns.items()}
    return rows.select(
        *(column.alias(name) for name, column in columns.items()),
        (f.to_json(order) if has_version else order.cast("bigint")).alias("order"),
        f.when(alive, pack(list(body))).alias("body"),
    )


def _read_flag(column: str | None) -> Column:
    return f.lit(False) if column is None else f.coalesce(f.col(quote(column)), f.lit(False))


def fill_order(rows: DataFrame) -> Column:
    """Return the order of changes, 0 or an empty version where it is NULL: a NULL would make numbers inexact."""
    is_number = isinstance(rows.schema["order"].dataType, LongType)
    return f.coalesce(f.col("order"), f.lit(0).cast("bigint") if is_number else f.lit("{}"))


def select_rows(
    spark: SparkSession, table: Table, key: Mapping[str, str], columns: Mapping[str, str]
) -> DataFrame:
    """Return the changes of a referenced table as `key`, `order` and `body`, without rows that have a NULL in their key.

    A truncation has NULL as its key.
    """
    own = list(key.values())
    known = reduce(and_, (f.col(quote(name)).isNotNull() for name in own)) | _read_flag(table.truncated)
    taken = list(dict.fromkeys(columns.values()))
    return select_changes(spark.table(table.from_).where(known), table, {"key": pack_key(own, own)}, taken)


def find_truncations(key: str, table: Table) -> Column | None:
    """Return which changes are truncations, by their `key`; None for a table that declares none."""
    return None if table.truncated is None else f.col(key).isNull()


def pick_types(table: Input, columns: Mapping[str, str]) -> StructType:
    """Return the type of the bodies of `select_rows`."""
    return StructType([StructField(name, table.find_type(name)) for name in dict.fromkeys(columns.values())])


def pack_key(columns: Sequence[str], names: Iterable[str]) -> Column:
    """Return the columns as one JSON text with the given names, so that both sides of a join have equal keys."""
    texts = [
        f.col(quote(column)).cast("string").alias(name) for column, name in zip(columns, names, strict=True)
    ]
    return f.to_json(f.struct(*texts), {"ignoreNullFields": "false"})


def find_news(
    kept: Kept, changes: Iterable[tuple[str | None, Change]], find_row: Callable[[str], Change | None]
) -> dict[str, Change]:
    """Return the last change of each key that is newer than its row, in any order of arrival. `find_row` returns what is stored.

    A change without a key is a truncation, which is kept: it deletes the rows from before it, and those that are read later.
    """
    by_key: dict[str, list[Change]] = {}
    new: list[Place] = []
    for key, change in changes:
        if key is None:
            new.append(find_place(json.loads(change.order)))
        else:
            by_key.setdefault(key, []).append(change)
    truncations = keep_truncations(kept, new)
    for key in kept if new else ():
        if key != TRUNCATED:
            by_key.setdefault(key, [])
    news = {key: _find_newest(find_row(key), each, truncations) for key, each in by_key.items()}
    return {key: change for key, change in news.items() if change is not None}


def _find_newest(row: Change | None, changes: list[Change], truncations: Collection[Place]) -> Change | None:
    if not changes or not isinstance(changes[0].order, int):
        return replay(row, changes, truncations)
    last = max(changes, key=_rank)
    return last if row is None or not isinstance(row.order, int) or row.order < last.order else None


def _rank(change: Change) -> tuple[int, str]:
    """Return the rank of a change: of two with the same order the greater body wins."""
    return change.order, change.body or ""
