"""What the API server refuses, where there is none: the schema and the rules of a kind's own CRD, evaluated on this machine.

Nothing is written twice: what is evaluated is what `kappa_crds.schema` generates. As there, unknown fields are refused (as kubectl has the
server do), absent ones get their defaults, and rules are evaluated where the schema holds. Rules about a change of what is stored
are left out: a manifest alone changes nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kappa_crds.kinds import find_kind
from kappa_crds.model import INT_OR_STRING, LIST_TYPE, VALIDATIONS
from kappa_crds.names import suggest
from kappa_crds.schema import JsonSchema, build_root_schema

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMES: Mapping[str, tuple[str, int, str]] = {
    "name": (rf"{_LABEL}(\.{_LABEL})*", 253, "lower-case letters, digits, '-' and '.'"),
    "namespace": (_LABEL, 63, "lower-case letters, digits and '-'"),
}
"""What the API server accepts as names: their pattern, their length, and the signs in them."""
_TYPES: Mapping[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}  # fmt: skip
_LIMITS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "enum": (lambda value, some: value in some, "Unsupported value: {value}: supported values: {limit}"),
    "minimum": (lambda value, least: value >= least, "{value} should be greater than or equal to {limit}"),
    "maximum": (lambda value, most: value <= most, "{value} should be less than or equal to {limit}"),
    "minLength": (lambda value, least: len(value) >= least, "{value} should be at least {limit} chars long"),
    "maxLength": (
        lambda value, most: len(value) <= most,
        "Too long: may not be more than {limit} characters",
    ),
    "minItems": (lambda value, least: len(value) >= least, "should have at least {limit} items"),
    "maxItems": (lambda value, most: len(value) <= most, "must have at most {limit} items"),
    "minProperties": (lambda value, least: len(value) >= least, "should have at least {limit} properties"),
    "maxProperties": (lambda value, most: len(value) <= most, "must have at most {limit} properties"),
}
"""How a limit of a schema is kept, and the API server's words where it is not."""


@dataclass(frozen=True)
class Problem:
    """What is wrong, and with which field, such as `spec.sinks[0].key`."""

    field: str
    message: str

    def __str__(self) -> str:
        return self.message if self.field in self.message else f"{self.field}: {self.message}"


def find_problems(manifest: dict[str, Any]) -> list[Problem]:
    """Return what the API server would refuse a new resource of ours for, in its words; nothing where it takes it."""
    schema = _find_schema(manifest["kind"])
    given = {name: value for name, value in manifest.items() if name != "status"}
    found = [*_check_names(manifest.get("metadata") or {}), *check(given, schema)]
    return found or list(_apply_rules(fill_in(given, schema), schema, ""))


@cache
def _find_schema(kind: str) -> JsonSchema:
    return build_root_schema(find_kind(kind))


def _check_names(metadata: dict[str, Any]) -> Iterator[Problem]:
    for field, (pattern, limit, signs) in _NAMES.items():
        value = str(metadata.get(field, "default"))
        if len(value) > limit or not re.fullmatch(pattern, value):
            message = f"must hold only {signs}, start and end with a letter or digit, and have at most {limit} characters"
            yield Problem(f"metadata.{field}", f'Invalid value: "{value}": {message}')


def check(value: Any, schema: JsonSchema, path: str = "") -> Iterator[Problem]:
    """Yield what in a value does not fit a structural schema."""
    wanted = ("integer", "string") if INT_OR_STRING in schema else (schema.get("type"),)
    found = _TYPES.get(type(value), "null")
    if None not in wanted and found not in wanted and not (found == "integer" and "number" in wanted):
        yield Problem(path, f"must be of type {' or '.join(map(str, wanted))}, not {found}")
        return
    yield from (Problem(path, message) for message in _check_limits(value, schema))
    if isinstance(value, dict):
        yield from _check_fields(value, schema, path)
    elif isinstance(value, list):
        yield from _check_items(value, schema, path)


def _check_limits(value: Any, schema: JsonSchema) -> Iterator[str]:
    for name, (holds, message) in _LIMITS.items():
        limit = schema.get(name)
        is_about = not name.endswith("Length") or isinstance(value, str)  # a number may stand for a text
        if limit is not None and is_about and not holds(value, limit):
            shown = ", ".join(f'"{each}"' for each in limit) if isinstance(limit, list) else limit
            yield message.format(value=f'"{value}"' if isinstance(value, str) else value, limit=shown)


def _check_fields(value: dict[str, Any], schema: JsonSchema, path: str) -> Iterator[Problem]:
    known, any_name = schema.get("properties"), schema.get("additionalProperties", {})
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield Problem(_join(path, name), "Required value")
    for name, child in value.items():
        if known is not None and name not in known:
            yield Problem(_join(path, name), f'unknown field "{_join(path, name)}"; {_explain(name, known)}')
        elif child is not None:
            yield from check(child, any_name if known is None else known[name], _join(path, name))


def _explain(name: str, known: JsonSchema) -> str:
    if " " in str(name):
        return "a comma within {…} ends the value before it, so put that value in quotes"
    return suggest(str(name), list(known))


def _check_items(value: list[Any], schema: JsonSchema, path: str) -> Iterator[Problem]:
    for index, item in enumerate(value):
        yield from check(item, schema.get("items", {}), f"{path}[{index}]")
        if schema.get(LIST_TYPE) == "set" and item in value[:index]:
            yield Problem(f"{path}[{index}]", f'Duplicate value: "{item}"')


def fill_in(value: Any, schema: JsonSchema) -> Any:
    """Return a value with the defaults of its schema, and without nulls."""
    if isinstance(value, list):
        return [fill_in(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    there = {name: child for name, child in value.items() if child is not None}
    defaults = {name: child["default"] for name, child in known.items() if "default" in child}
    any_name = schema.get("additionalProperties", {})
    return {name: fill_in(child, known.get(name, any_name)) for name, child in {**defaults, **there}.items()}


def _apply_rules(value: Any, schema: JsonSchema, path: str) -> Iterator[Problem]:
    from kappa_crds.cel import evaluate  # noqa: PLC0415 - an extra: only where rules are evaluated

    for rule in schema.get(VALIDATIONS, ()):
        if "oldSelf" not in rule["rule"] and not evaluate(rule["rule"], value):
            detail = rule.get("messageExpression")
            yield Problem(path, str(evaluate(detail, value)) if detail else rule["message"])
    if isinstance(value, dict):
        known, any_name = schema.get("properties"), schema.get("additionalProperties", {})
        for name, child in value.items():
            yield from _apply_rules(child, any_name if known is None else known[name], _join(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _apply_rules(item, schema.get("items", {}), f"{path}[{index}]")


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
