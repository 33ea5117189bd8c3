"""Compares the rows of a sink with the expected ones. Pure."""

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from kappa_crds.sink import OutputMode, Sink
from kappa_pipelines.laptop.endpoints import Output

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?")


def is_table(sink: Sink) -> bool:
    """Return whether a record replaces the previous one with the same key."""
    return sink.mode is not OutputMode.APPEND or sink.target.tombstones is not None


def read_rows(outputs: Iterable[Output], sink: Sink) -> list[dict[str, Any]]:
    """Return a sink's rows: all in mode append without tombstones, else the last of each key."""
    last = {output.key: output.value for output in outputs} if is_table(sink) else None
    values = [output.value for output in outputs] if last is None else list(last.values())
    raw = sink.target.raw
    return [json.loads(value) if raw is None else {raw: value} for value in values if value is not None]


def compare_rows(expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each row that is missing (`-`) or unexpected (`+`).

    Rows may be in any order. Times are compared as instants, and numbers to twelve digits. Only columns of expected rows are compared.
    """
    columns = list(dict.fromkeys(name for row in expected for name in row))
    if not columns and found:
        return [f"+ {json.dumps(row, ensure_ascii=False)}" for row in found]
    wanted = [{name: row.get(name) for name in columns} for row in expected]
    there = [{name: row.get(name) for name in columns} for row in found]
    missing = _subtract(wanted, there)
    excess = _subtract(there, wanted)
    return [f"- {_show(row)}" for row in missing] + [f"+ {_show(row)}" for row in excess]


def _subtract(
    rows: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    left = Counter(_canonical(row) for row in others)
    found = []
    for row in rows:
        key = _canonical(row)
        if left[key] > 0:
            left[key] -= 1
        else:
            found.append(row)
    return found


def _canonical(value: Any) -> Hashable:
    match value:
        case bool():
            return ("bool", value)  # True is not 1
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
        case date():
            return value.isoformat()
        case float():
            return float(f"{value:.12g}")
        case str() if _TIME.fullmatch(value):
            return _canonical(datetime.fromisoformat(value))
        case Mapping():
            return frozenset((name, _canonical(each)) for name, each in value.items())
        case list() | tuple():
            return tuple(_canonical(each) for each in value)
        case _:
            return value  # type: ignore[no-any-return]


def _show(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)
