"""The rules of `rules.toml`: which functions, relations and arguments are refused, and why. Pure."""

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

MOST_NODES = 10_000
"""Parts of a statement; Spark itself limits how deeply they are nested."""
MOST_SCANS = 1000
"""Relations that a view reads, with those of the views and common table expressions below it."""
MOST_TABLES = 200
"""Common table expressions of a statement."""
MOST_GROUPINGS = 4096
"""Grouping sets of all CUBE and ROLLUP of a statement."""
MOST_ROWS = 1_000_000
"""Values of a `sequence` or `range`."""
MOST_WINDOWS = 10_000
"""Windows that contain one event; Spark's analysis builds an expression for each."""
_LIMITS: Mapping[str, Callable[[float, float], bool]] = {
    "most": lambda value, bound: abs(value) > bound,
    "least": lambda value, bound: value < bound,
}
_WIDE_FORMAT = re.compile(r"%[^%a-zA-Z]*\d{5}")


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "rules.toml").read_text())


@cache
def list_names(section: str, key: str = "allowed") -> frozenset[str]:
    """Return the names of a list in a section."""
    return frozenset(_read()[section][key].split())


@cache
def list_functions() -> frozenset[str]:
    """Return the functions that may be called."""
    return frozenset(name for names in _read()["functions"].values() for name in names.split())


@cache
def list_refused() -> dict[str, str]:
    """Return the functions of Spark that are refused, each with the reason."""
    return {name: why for why, names in _read()["refused"].items() for name in names.split()}


def refuse_call(kind: str, parts: Sequence[str], arguments: Sequence[Any]) -> str | None:
    """Return why a function or hint is refused, by the parts of its name or by its literal arguments; None if it is allowed."""
    name = parts[-1].lower()
    if kind == "UnresolvedHint":
        is_known = name in list_names("plan", "hints")
        return refuse_arguments(name, arguments) if is_known else f"the hint {name} is refused"
    allowed = list_names("tables") if kind == "UnresolvedTableValuedFunction" else list_functions()
    return refuse_function(parts, allowed) or refuse_arguments(name, arguments)


def refuse_function(parts: Sequence[str], allowed: Collection[str]) -> str | None:
    """Return why a function is refused by the parts of its name; None if it is one of those that are allowed."""
    name = parts[-1].lower()
    if name in list_refused():
        return explain_refusal([name])
    if len(parts) > 1:
        return f"{'.'.join(parts)} is refused: a function is named without a catalog"
    if name in allowed:
        return None
    close = difflib.get_close_matches(name, sorted(allowed), n=2)
    return f"views have no function {name}" + (f"; did you mean {' or '.join(close)}?" if close else "")


def explain_refusal(names: Sequence[str]) -> str:
    """Return why a function with these names is refused."""
    return f"the function {' or '.join(names)} is refused: it {list_refused()[names[0]]}"


def refuse_arguments(function: str, arguments: Sequence[Any]) -> str | None:
    """Return why a call is refused by its literal arguments: it would fill all memory. Other arguments are None."""
    numbers = [_read_number(each) for each in arguments]
    for limit, is_beyond in _LIMITS.items():
        position, bound = _read()[limit].get(function, (len(numbers), 0))
        value = numbers[position] if position < len(numbers) else None
        if value is not None and is_beyond(value, bound):
            return f"argument {position + 1} of {function} is {value:g}, and {bound} is the {limit}"
    count, most = _count_values(function, numbers)
    if count > most:
        return f"{function} makes {count:g} values, and {most} is the most"
    if function in ("format_string", "printf") and arguments and _WIDE_FORMAT.search(str(arguments[0])):
        return f"the format of {function} has a width of 10000 or more"
    return None


def _read_number(literal: Any) -> float | None:
    try:
        return float(str(literal))
    except ValueError:
        return None


def _count_values(function: str, numbers: Sequence[float | None]) -> tuple[float, int]:
    """Return how many values a call with these literals makes at least, and how many it may: of `window`, the windows of an event."""
    known = [number for number in numbers if number is not None]
    match function, known:
        case "window", [length, slide, *_] if slide > 0:
            return length / slide, MOST_WINDOWS
        case (("sequence" | "range"), [start, stop, step, *_]) if step != 0 and len(known) == len(numbers):
            return abs(stop - start) / abs(step), MOST_ROWS
        case (("sequence" | "range"), [start, stop]) if len(numbers) == 2:
            return abs(stop - start), MOST_ROWS
        case "range", [stop]:
            return stop, MOST_ROWS
    return 0, MOST_ROWS
