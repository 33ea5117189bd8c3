"""The functions with their arguments, and the expansion of their calls in a view."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kappa_crds.view import View
from kappa_pipelines.transforms.sketches import bloom, frequency
from kappa_pipelines.transforms.sketches.calls import Call, replace_calls
from kappa_pipelines.transforms.spec_path import SpecPath


@dataclass(frozen=True)
class Function:
    """A function: the names of its arguments, its SQL, and, for an aggregate, a description of its state."""

    arguments: tuple[str, ...]
    write: Callable[..., str]
    describe: Callable[..., str] | None = None


def _read_slices(items: str, share: str) -> int:
    return bloom.count_slices(_read_number(items, int), _read_number(share, float))


def _read_size(error: str, confidence: str) -> tuple[int, int]:
    return frequency.find_size(_read_number(error, float), _read_number(confidence, float))


def _read_number(text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text.upper().removesuffix("D").removesuffix("B"))  # as in 0.01D and 0.01BD
    except ValueError:
        words = "a whole number" if kind is int else "a number"
        raise ValueError(
            f"{text!r} must be {words} as a literal: the size of a sketch must be known before it is built"
        ) from None


FUNCTIONS: Mapping[str, Function] = {
    "bloom_filter": Function(
        ("value", "expected values", "share of false positives"),
        lambda value, *numbers: bloom.write_build(value, _read_slices(*numbers)),
        lambda value, *numbers: bloom.describe(_read_slices(*numbers)),
    ),
    "bloom_filter_merge": Function(
        ("filter", "expected values", "share of false positives"),
        lambda kept, *numbers: bloom.write_merge(kept, _read_slices(*numbers)),
        lambda kept, *numbers: bloom.describe(_read_slices(*numbers)),
    ),
    "bloom_might_contain": Function(("filter", "value"), bloom.write_query),
    "frequency_sketch": Function(
        ("value", "error", "confidence"),
        lambda value, *numbers: frequency.write_build(value, *_read_size(*numbers)),
        lambda value, *numbers: frequency.describe(*_read_size(*numbers)),
    ),
    "frequency_sketch_merge": Function(
        ("sketch", "error", "confidence"),
        lambda kept, *numbers: frequency.write_merge(kept, *_read_size(*numbers)),
        lambda kept, *numbers: frequency.describe(*_read_size(*numbers)),
    ),
    "frequency_estimate": Function(("sketch", "value"), frequency.write_query),
}


def expand_calls(view: View) -> View:
    """Return the view with each call expanded to Spark's functions; SpecError for an invalid call."""
    changed: dict[str, Any] = {}
    if view.sql is not None:
        changed["sql"] = _expand_text(view.name, view.sql)
    for kind in ("window", "sliding"):
        operator = getattr(view, kind)
        if operator is not None:
            aggregates = {
                name: _expand_text(view.name, sql, f"{kind}.aggregates.{name}")
                for name, sql in operator.aggregates.items()
            }
            changed[kind] = operator.replace(aggregates=aggregates)
    return view.replace(**changed)


def _expand_text(view: str, sql: str, field: str | None = None) -> str:
    """Expand the calls in the SQL of a field; without `field`, an error names the position in the view's SQL."""

    def expand(call: Call) -> str:
        return _expand_call(call, SpecPath(view, field or _describe_position(sql, call.start)))

    return replace_calls(sql, FUNCTIONS, expand)


def _expand_call(call: Call, path: SpecPath) -> str:
    function = FUNCTIONS[call.function]
    usage = f"{call.function}({', '.join(function.arguments)})"
    if len(call.arguments) != len(function.arguments):
        raise path.fail(f"{call.function} has {len(call.arguments)} arguments; it is {usage}")
    if function.describe is not None and call.after in ("filter", "over"):
        raise path.fail(
            f"{call.function} takes no {call.after.upper()}; exclude values by making them NULL, as in"
            f" `{call.function}(CASE WHEN … THEN x END, …)`"
        )
    try:
        return function.write(*call.arguments)
    except ValueError as error:
        raise path.fail(f"{usage}: {error}") from None


def _describe_position(sql: str, start: int) -> str:
    before = sql[:start]
    return f"line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"


def describe_sketches(view: View) -> list[str]:
    """Return a line for each filter or sketch in the state of a view."""
    texts = [view.sql] if view.sql is not None else []
    for operator in (view.window, view.sliding):
        texts += operator.aggregates.values() if operator is not None else []
    found: list[Call] = []

    def note(call: Call) -> str:
        found.append(call)
        return call.text

    for text in texts:
        replace_calls(text, FUNCTIONS, note)
    described = ((call, FUNCTIONS[call.function].describe) for call in found)
    return [f"{call.text} is {describe(*call.arguments)}" for call, describe in described if describe]
