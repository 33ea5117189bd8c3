"""The reference pages of fields and reasons, from the models that the API server's schemas come from."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from generate.examples import EXAMPLES
from kappa_crds import API_VERSION, CATEGORY
from kappa_crds.kinds import KINDS
from kappa_crds.model import INT_OR_STRING, LIST_TYPE, VALIDATIONS
from kappa_crds.reasons import Reason
from kappa_crds.resource import Kind, PrinterColumn
from kappa_crds.schema import JsonSchema, build_structural_schema

GENERATED = "<!-- Generated from kappa_crds by `make generate`; do not edit. -->"

# What a limit of a JSON schema is called, for people.
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
}
_NOT_EMPTY = ("minLength", "minItems", "minProperties")


@dataclass(frozen=True)
class Row:
    """One field of a table."""

    path: str
    type: str
    default: str
    description: str
    rules: str

    @classmethod
    def build(cls, path: str, schema: JsonSchema, required: bool) -> "Row":
        """Read a field's row from its schema."""
        return cls(
            path=f"`{path}`",
            type=say_type(schema),
            default="required" if required else say_default(schema),
            description=str(schema.get("description", "")),
            rules="; ".join(list_rules(schema)),
        )


def list_rows(schema: JsonSchema, path: str) -> Iterator[Row]:
    """Yield a row for each field below an object's schema, parents before children."""
    required = schema.get("required", [])
    for name, child in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        yield Row.build(below, child, name in required)
        if "items" in child:
            yield from list_rows(child["items"], f"{below}[]")
        yield from list_rows(child, below)


def say_type(schema: JsonSchema) -> str:
    """Return a schema's type as people say it."""
    if "items" in schema:
        return f"list of {say_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {say_type(schema['additionalProperties'])}"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get(INT_OR_STRING):
        return "integer or string"
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def say_default(schema: JsonSchema) -> str:
    """Return the value that the API server fills in; an object's stands with its own fields."""
    default: Any = schema.get("default")
    if default is None or "properties" in schema:
        return ""
    return f"`{default}`" if isinstance(default, str) and default else f"`{json.dumps(default)}`"


def list_rules(schema: JsonSchema) -> Iterator[str]:
    """Yield what a value must be: the rules with a message, then limits, then those of list items."""
    yield from (rule["message"] for rule in schema.get(VALIDATIONS, []))
    yield from (_say_limit(key, schema[key]) for key in _LIMITS if key in schema)
    if schema.get(LIST_TYPE) == "set":
        yield "each one once"
    inner = schema.get("items", schema.get("additionalProperties"))
    if inner:
        yield from (f"each: {rule}" for rule in list_rules(inner))


def _say_limit(key: str, limit: int) -> str:
    return "not empty" if key in _NOT_EMPTY and limit == 1 else _LIMITS[key].format(limit)


def build_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    return "\n".join(_build_line(cells) for cells in (head, ("---",) * len(head), *rows))


def _build_line(cells: tuple[str, ...]) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def build_fields(schema: JsonSchema, path: str) -> str:
    """Return the table of the fields below an object's schema."""
    rows = list_rows(schema, path)
    cells = ((row.path, row.type, row.default, row.description, row.rules) for row in rows)
    return build_table(("Field", "Type", "Default", "Description", "Rules"), cells)


def build_columns(columns: Iterable[PrinterColumn]) -> str:
    """Return the table of what `kubectl get` shows."""
    rows = (
        (column.name, f"`{column.path}`", "with `-o wide`" if column.priority else "always")
        for column in columns
    )
    return build_table(("Column", "From", "Shown"), rows)


def build_kind(kind: Kind) -> str:
    """Return the section of a kind."""
    spec, status = build_structural_schema(kind.spec), build_structural_schema(kind.status)
    rules = [*(rule.message for rule in kind.name_rules), *list_rules(spec)]
    parts = [
        f"## {kind.name}",
        kind.description,
        f"`kubectl get {kind.plural}`, short `{', '.join(kind.short_names)}`. {_say_name(kind)}{_say_scale(kind)}",
        f"```yaml\n{EXAMPLES[kind.name]}```",
        "### Spec",
        build_fields(spec, "spec"),
        *(
            [
                "Messages of the API server for invalid combinations of fields:",
                "\n".join(f"- {rule}" for rule in rules),
            ]
            if rules
            else []
        ),
        "### Status",
        build_fields(status, "status"),
        "### Columns",
        build_columns(kind.columns),
    ]
    return "\n\n".join(parts)


def _say_name(kind: Kind) -> str:
    return f"The name has at most {kind.name_limit} characters."


def _say_scale(kind: Kind) -> str:
    if kind.scale is None:
        return ""
    return f" `kubectl scale` and autoscalers set `{kind.scale['specReplicasPath'].lstrip('.')}`."


def build_crds() -> str:
    """Return the page of all kinds."""
    intro = (
        f"The kinds of `{API_VERSION}`. They are namespaced, refer to each other by name within their namespace, and"
        f" `kubectl get {CATEGORY}` lists all of them. The API server fills in defaults and refuses what breaks a rule"
        " or is not in these tables; `kubectl explain` shows the same descriptions."
    )
    return "\n\n".join(["# Custom resources", GENERATED, intro, *map(build_kind, KINDS)]) + "\n"


def build_reasons() -> str:
    """Return the page of all reasons."""
    intro = (
        "The `reason` of a condition (`Ready`, `Reconciling`, `Stalled`) and of an Event. Reasons are part of the"
        " interface: alerts and scripts may compare them. The message beside a reason has the particulars."
    )
    ordered = sorted(Reason, key=_order_groups().__getitem__)
    sections = (
        f"## {group}\n\n"
        + build_table(("Reason", "Meaning, and what to do"), ((f"`{r}`", r.description) for r in some))
        for group, some in groupby(ordered, key=lambda reason: reason.group)
    )
    return "\n\n".join(["# Reasons", GENERATED, intro, *sections]) + "\n"


def _order_groups() -> dict[Reason, int]:
    """Groups in the order in which the list names them first."""
    groups = list(dict.fromkeys(reason.group for reason in Reason))
    return {reason: groups.index(reason.group) for reason in Reason}
