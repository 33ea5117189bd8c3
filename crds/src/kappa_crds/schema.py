"""From models to CustomResourceDefinitions.

The API server wants *structural* schemas: no references, no unions with null, every object's fields spelled out.
`build_crd` makes them from the models' JSON schemas and carries descriptions, defaults, enums and CEL rules along.
"""

from typing import Any

import yaml

from kappa_crds import CATEGORY, GROUP, VERSION
from kappa_crds.conversion import RENAMED
from kappa_crds.model import (
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    VALIDATIONS,
    Model,
)
from kappa_crds.resource import Kind

JsonSchema = dict[str, Any]

_KEPT = (
    "type", "description", "format", "pattern", "enum", "default", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", INT_OR_STRING, LIST_TYPE,
    LIST_MAP_KEYS, VALIDATIONS,
)  # fmt: skip


def build_structural_schema(model: type[Model]) -> JsonSchema:
    """Return the model's structural schema: references resolved, nullable fields plain optional ones."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _flatten(schema, schema.get("$defs", {}))


def _flatten(node: JsonSchema, definitions: dict[str, JsonSchema]) -> JsonSchema:
    node = _resolve(node, definitions)
    flat = {key: node[key] for key in _KEPT if key in node}
    if flat.get("default", ...) is None:
        del flat["default"]
    if "default" in flat:
        flat["default"] = _drop_nulls(flat["default"])
    if "properties" in node:
        flat["properties"] = {
            name: _flatten(child, definitions) for name, child in node["properties"].items()
        }
    elif isinstance(node.get("additionalProperties"), dict):
        flat["additionalProperties"] = _flatten(node["additionalProperties"], definitions)
    if node.get("additionalProperties") is True:
        flat[PRESERVE] = True  # what another version wrote stays in the stored object
    if "items" in node:
        flat["items"] = _flatten(node["items"], definitions)
    return flat


def _drop_enums(schema: Any) -> Any:
    """Let a status hold what another version wrote: the API server checks the status with each change of the spec."""
    if isinstance(schema, dict):
        return {key: _drop_enums(child) for key, child in schema.items() if key != "enum"}
    return schema


def _own_as_wholes(status: JsonSchema) -> JsonSchema:
    """Let the objects in a status be applied as wholes, also in the items of a list with keys.

    The API server makes null of a granular object whose last field is taken away, and then refuses the status for it
    (kubernetes/kubernetes issue 135841).
    """
    return {
        **status,
        "properties": {name: _own_as_whole(child) for name, child in status["properties"].items()},
    }


def _own_as_whole(child: JsonSchema) -> JsonSchema:
    if child.get(LIST_TYPE) == "map":
        return {**child, "items": _own_as_wholes(child["items"])}
    return {**child, MAP_TYPE: "atomic"} if child.get("type") == "object" else child


def _drop_nulls(value: Any) -> Any:
    """Leave absent values out of a default: the API server refuses a CRD whose default holds null."""
    if isinstance(value, dict):
        return {key: _drop_nulls(child) for key, child in value.items() if child is not None}
    return value


def _resolve(node: JsonSchema, definitions: dict[str, JsonSchema]) -> JsonSchema:
    """Follow `$ref` and drop `| None`; fields next to a reference override those of its target."""
    while "$ref" in node or "anyOf" in node:
        beside = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
        if "$ref" in node:
            target = definitions[node["$ref"].rsplit("/", 1)[1]]
        else:
            choices = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
            if len(choices) != 1:
                raise ValueError(f"a union of {len(choices)} types has no structural schema: {node}")
            target = choices[0]
        rules = [*target.get(VALIDATIONS, []), *beside.get(VALIDATIONS, [])]
        node = {**target, **beside}
        if rules:
            node[VALIDATIONS] = rules
    return node


def build_crd(kind: Kind) -> JsonSchema:
    """Return the CustomResourceDefinition of a kind as the API server takes it."""
    version: JsonSchema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": build_root_schema(kind)},
        "subresources": {"status": {}} | ({"scale": kind.scale} if kind.scale else {}),
        "additionalPrinterColumns": [column.as_schema() for column in kind.columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": list(kind.short_names),
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def build_root_schema(kind: Kind) -> JsonSchema:
    """Return the schema of whole resources of a kind, with the fields that were renamed: stored ones stay, new ones are refused."""
    root: JsonSchema = {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": build_structural_schema(kind.spec),
            "status": _own_as_wholes(_drop_enums(build_structural_schema(kind.status))),
        },
        VALIDATIONS: [
            {
                "rule": f"self.metadata.name.size() <= {kind.name_limit}",
                "message": f"metadata.name of a {kind.name} must be at most {kind.name_limit} characters",
            },
            *(rule.as_schema() for rule in kind.name_rules),
        ],
    }
    for old, new in RENAMED.get(kind.name, {}).items():
        if old.startswith("spec."):
            _refuse_renamed(root, old, new)
    return root


def _refuse_renamed(root: JsonSchema, old: str, new: str) -> None:
    above, _, name = old.rpartition(".")
    parent, present = _find_schema(root, above), new.removeprefix(f"{above}.")
    target = _find_schema(root, new)
    kept: JsonSchema = {"type": target["type"], "description": f"Renamed to {present}."}
    if target["type"] == "array":
        kept["items"] = {"type": target["items"]["type"]}
    if target["type"] == "object":
        kept[PRESERVE] = True
    parent["properties"][name] = kept
    message = f"{name} was renamed to {present}; run `kappa convert FILE`, which converts a manifest"
    parent.setdefault(VALIDATIONS, []).append({"rule": f"!has(self.{name})", "message": message})


def _find_schema(schema: JsonSchema, path: str) -> JsonSchema:
    for step in path.split("."):
        schema = schema["properties"][step.removesuffix("[]")]
        schema = schema["items"] if step.endswith("[]") else schema
    return schema


def render_crd(kind: Kind) -> str:
    """Return the CRD as the YAML text that is committed."""
    text = yaml.safe_dump(build_crd(kind), sort_keys=False, width=110, allow_unicode=True)
    return f"# Generated from kappa_crds by `make generate`; do not edit.\n{text}"
