"""Whether two values of records are equal, and in which columns they differ. Pure.

Values are JSON where both can be read so, else bytes. A column that is absent equals one that is null, as sinks omit nulls. Numbers are
compared exactly, in any notation; a limit of the tolerance applies where they differ.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from kappa_crds.comparison import Tolerance

ROOT = "value"
"""The name of a value that is JSON but no object."""


@dataclass(frozen=True, slots=True)
class Change:
    """A column that differs beyond the tolerance; `difference` is the new minus the old number, where both are numbers."""

    column: str
    old: Any
    new: Any
    difference: float | None = None


@dataclass(frozen=True)
class Limits:
    """Limits for the numbers of a column."""

    absolute: Decimal
    relative: Decimal

    def permits(self, old: Decimal, new: Decimal) -> bool:
        """Return whether two numbers are near enough."""
        distance = abs(new - old)
        return distance <= self.absolute or distance <= self.relative * max(abs(old), abs(new))


@dataclass(frozen=True)
class Rule:
    """A tolerance, prepared for many comparisons."""

    tolerance: Tolerance

    @cached_property
    def ignored(self) -> frozenset[str]:
        """Return the columns that may differ in any way."""
        return frozenset(self.tolerance.ignored_columns)

    @cached_property
    def _columns(self) -> dict[str, Limits]:
        return {each.name: _build_limits(each.absolute, each.relative) for each in self.tolerance.columns}

    @cached_property
    def _all(self) -> Limits:
        return _build_limits(self.tolerance.absolute, self.tolerance.relative)

    def limits(self, column: str) -> Limits:
        """Return the limits of a column; a nested one has those of the outermost."""
        return self._columns.get(column.partition(".")[0], self._all)


def _build_limits(absolute: float, relative: float) -> Limits:
    return Limits(Decimal(str(absolute)), Decimal(str(relative)))


def parse_json(raw: bytes) -> Any:
    """Return a value from its JSON, with exact numbers; ValueError if it is not JSON."""
    try:
        return json.loads(raw, parse_float=Decimal, parse_constant=str)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def find_changes(old: bytes, new: bytes, rule: Rule) -> tuple[Change, ...] | None:
    """Return the columns that differ beyond the tolerance; None if the values differ and one of them is not JSON."""
    if old == new:
        return ()
    try:
        before, after = parse_json(old), parse_json(new)
        return tuple(_find(before, after, "", rule))
    except (ValueError, ArithmeticError, RecursionError):
        return None


def write_canonical(raw: bytes, rule: Rule) -> bytes:
    """Return a form that is the same for equal values, whatever their notation; other values than JSON as they are."""
    try:
        value = parse_json(raw)
        if isinstance(value, dict):
            value = {name: each for name, each in value.items() if name not in rule.ignored}
        return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, ArithmeticError, RecursionError):
        return raw


def _canonical(value: Any) -> Any:
    """Return a value without nulls, with numbers as marked text; names begin with a dot, so that none is the mark."""
    match value:
        case bool() | None | str():
            return value
        case int() | Decimal():
            return {"#": str(Decimal(value).normalize()) if value else "0"}
        case dict():
            return {f".{name}": _canonical(each) for name, each in value.items() if each is not None}
        case _:
            return [_canonical(each) for each in value]


def _find(old: Any, new: Any, path: str, rule: Rule) -> Iterator[Change]:
    """Yield the columns that differ below a path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if path or name not in rule.ignored:
                yield from _find(old.get(name), new.get(name), f"{path}.{name}" if path else name, rule)
        return
    if not _is_near(old, new, path, rule):
        yield Change(path or ROOT, old, new, _subtract(old, new))


def _is_near(old: Any, new: Any, path: str, rule: Rule) -> bool:
    if _is_number(old) and _is_number(new):
        return bool(old == new) or rule.limits(path).permits(Decimal(old), Decimal(new))
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(
            _is_near(before, after, path, rule) for before, after in zip(old, new, strict=True)
        )
    if isinstance(old, dict) and isinstance(new, dict):
        return all(_is_near(old.get(name), new.get(name), path, rule) for name in old.keys() | new.keys())
    return type(old) is type(new) and bool(old == new)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _subtract(old: Any, new: Any) -> float | None:
    if not (_is_number(old) and _is_number(new)):
        return None
    return float(Decimal(new) - Decimal(old))
