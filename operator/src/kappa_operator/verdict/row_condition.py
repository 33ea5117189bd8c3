"""What is wrong with the condition of a run for some rows (`reprocessing.only`), as far as the text of the spec shows: pure, without Spark.

A driver checks all of it, with the types of the columns (ADR 89). None of this decides anything.
"""

from collections.abc import Iterator

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.sink import Sink
from kappa_operator.verdict.view_text import find_output_columns

_PATH = "spec.upgrade.reprocessing.only"


def find_condition_problems(spec: PipelineSpec) -> Iterator[str]:
    """Yield why no driver of a new version can select rows by the condition; nothing without a condition."""
    sql = spec.upgrade.reprocessing.only
    if sql is None:
        return
    try:
        tree = parse_one(sql, dialect="spark", into=exp.Condition)
    except (SqlglotError, RecursionError):
        yield f"{_PATH} cannot be read as a condition, such as k IN ('a', 'b')"
        return
    names = tuple(dict.fromkeys(column.parts[0].name for column in tree.find_all(exp.Column)))
    if tree.find(exp.Query) is not None:
        yield f"{_PATH} has a subquery, which is refused; write the values, as in k IN (1, 2)"
    elif tree.find(exp.AggFunc) is not None:
        yield f"{_PATH} has an aggregate, but is computed for each row; use a column of the output"
    elif not names:
        yield f"{_PATH} names no column"
    for sink in spec.sinks:
        yield from _check_columns(sink, names, _find_columns(spec, sink))


def _check_columns(sink: Sink, names: tuple[str, ...], known: tuple[str, ...] | None) -> Iterator[str]:
    """Yield the columns that records of a sink do not have, or that are not part of the key of a table."""
    there = {name.lower() for name in known or ()}
    missing = [] if known is None else [name for name in names if name.lower() not in there]
    if missing:
        why = "not part of the key, and rows replace each other" if sink.is_table else "not written"
        allowed = ", ".join(known or ()) or "none"
        yield f"{_PATH}: column {', '.join(missing)} of sink {sink.name!r} is {why}; its columns for it: {allowed}"


def _find_columns(spec: PipelineSpec, sink: Sink) -> tuple[str, ...] | None:
    """Return the columns by which rows of a sink can be selected; None where only Spark knows them."""
    target = sink.target
    key = target.key or ()
    if sink.is_table:
        return key
    if target.raw is not None:
        return (target.raw, *key)
    if target.value is not None:
        return tuple(dict.fromkeys((*target.value, *key)))
    view = next((each for each in spec.views if each.name.lower() == sink.from_.lower()), None)
    return None if view is None else find_output_columns(view)
