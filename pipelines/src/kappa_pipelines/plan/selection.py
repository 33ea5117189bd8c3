"""Checks the condition of a run for some rows (`reprocessing.only`), and filters the rows of a sink by it (ADR 89).

The filter is above all that computes the rows, and Spark moves it down as far as the result stays the same: below an aggregation by its
keys, to both sides of a join. Where Spark's own rules are not enough for that, nothing is moved.
"""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from kappa_crds.reasons import Reason
from kappa_crds.sink import Sink
from kappa_pipelines.analysis.catalyst import children_of, get_plan, items, kind_of, name_of
from kappa_pipelines.compare.selection import PATH, RecordColumn, Selection
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_sql_failure
from kappa_pipelines.plan.origin import find_unstable
from kappa_pipelines.sandbox.check import Place, check_plan, parse_expression
from kappa_pipelines.sinks.kafka import find_value_columns
from kappa_pipelines.sources.event_time import any_row

_SUBQUERIES = ("ScalarSubquery", "Exists", "InSubquery", "ListQuery")


def build_selection(sink: Sink, rows: DataFrame, sql: str) -> Selection:
    """Return the condition for the rows of a sink; SpecError with the sink, the column and the remedy where it cannot be applied."""
    place = f"sink {sink.name!r}: {PATH}"
    _check_parts(place, parse_expression(rows.sparkSession, place, sql))
    try:
        filtered = rows.where(f.expr(sql))
    except AnalysisException as error:
        raise SpecError(
            Reason.INVALID_SQL, f"{place}: {first_lines(read_sql_failure(error).message)}"
        ) from error
    check_plan(Place(place), filtered)
    condition = get_plan(filtered).condition()
    unstable = next(find_unstable(condition), None)
    if unstable is not None:
        raise SpecError(
            Reason.SQL_REFUSED,
            f"{place}: the result of {unstable} may differ in both versions; write a value",
        )
    readable = _list_readable(sink, rows)
    names = dict.fromkeys(name_of(each) for each in items(condition.references().toSeq()))
    if not names:
        raise SpecError(Reason.SQL_REFUSED, f"{place}: it names no column; name one of {_list(readable)}")
    found = tuple(_find(sink, place, name, readable) for name in names)
    return Selection(sql, sink.from_, found)


def apply_selection(rows: DataFrame, selection: Selection) -> DataFrame:
    """Return the rows for which the condition is true."""
    filtered = rows.where(f.expr(selection.sql))
    is_held = _sets_watermark(get_plan(filtered).child())
    return rows.where(any_row()).where(f.expr(selection.sql)) if is_held else filtered


def _check_parts(place: str, tree: Any) -> None:
    """Raise SpecError for a subquery, which reads another table than the output."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if kind_of(node) in _SUBQUERIES:
            raise SpecError(
                Reason.SQL_REFUSED, f"{place}: a subquery is refused; write the values, as in `k IN (1, 2)`"
            )
        pending.extend(children_of(node))


def _list_readable(sink: Sink, rows: DataFrame) -> dict[str, RecordColumn]:
    """Return the columns that records have, by their names in lower case. Of a table only the key: a row may leave a condition on others."""
    target, found = sink.target, []
    kinds = {each.name.lower(): each.dataType for each in rows.schema.fields}
    if sink.is_table:
        pass
    elif target.raw is not None:
        found.append(RecordColumn(target.raw, "value", None, kinds[target.raw.lower()]))
    else:
        names = _name_fields(rows, find_value_columns(sink, rows))
        found += [RecordColumn(name, "value", name, kinds[name.lower()]) for name in names]
    key = _name_fields(rows, target.key) if target.key else []
    found += [RecordColumn(name, "key", name if len(key) > 1 else None, kinds[name.lower()]) for name in key]
    return {each.name.lower(): each for each in reversed(found)}


def _name_fields(rows: DataFrame, names: tuple[str, ...]) -> list[str]:
    """Return the names of columns as they are in a JSON object."""
    objects = rows.select(f.struct(*(f.col(f"`{name}`") for name in names)).alias("object"))
    kind = objects.schema["object"].dataType
    assert isinstance(kind, StructType)  # noqa: S101 - selected so
    return list(kind.names)


def _find(sink: Sink, place: str, name: str, readable: dict[str, RecordColumn]) -> RecordColumn:
    found = readable.get(name.lower())
    if found is None and sink.is_table:
        raise SpecError(
            Reason.UNSUPPORTED_QUERY,
            f"{place}: column {name!r} is not part of the key; rows of this output replace each other, and one that leaves"
            f" the condition would stay in the topic, so use columns of the key: {_list(readable)}",
        )
    if found is None:
        raise SpecError(
            Reason.UNKNOWN_COLUMN,
            f"{place}: column {name!r} is not written, so the records of the old version cannot be selected by it; use {_list(readable)}",
        )
    if not _is_exact(found.kind):
        kind = found.kind.simpleString().upper()
        raise SpecError(
            Reason.UNSUPPORTED_QUERY,
            f"{place}: column {name!r} is {kind}; use columns of type STRING, BOOLEAN, DATE, TIMESTAMP or a number",
        )
    return found


def _is_exact(kind: DataType) -> bool:
    """Return whether the text of a value in a record is exactly the value. Another collation than that of bytes is not in a record."""
    return kind == StringType() or isinstance(kind, BooleanType | DateType | NumericType | TimestampType)


def _list(readable: dict[str, RecordColumn]) -> str:
    return ", ".join(each.name for each in reversed(readable.values()))


def _sets_watermark(plan: Any) -> bool:
    """Return whether a Python view has set a watermark: it would follow the selected rows alone.

    The watermark of a source has a filter above it that no other one is moved across.
    """
    kind = kind_of(plan)
    if kind == "EventTimeWatermark":
        return True
    if kind == "Filter" and not plan.condition().deterministic():
        return any(map(_sets_watermark, children_of(plan.child())))
    return any(map(_sets_watermark, children_of(plan)))
