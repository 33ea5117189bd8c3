"""The CRDs: structural, described, and the same as the models."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from generate import reference
from integration.manifests import list_fields, read_good
from kappa_crds import schema
from kappa_crds.kinds import KINDS, find_kind
from kappa_crds.model import Model
from kappa_crds.resource import Kind

SPECS_AND_STATUSES = [
    pytest.param(schema.build_structural_schema(model), id=f"{kind.name} {part}")
    for kind in KINDS
    for part, model in (("spec", kind.spec), ("status", kind.status))
]
every_schema = pytest.mark.parametrize("root", SPECS_AND_STATUSES)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def list_nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each schema with its path, parents before children."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from list_nodes(child, f"{path}.{name}".lstrip("."))
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from list_nodes(node[key], f"{path}[]")


@every_schema
def test_every_field_has_a_description_that_is_a_sentence(root: dict[str, Any]) -> None:
    named = [(path, node) for path, node in list_nodes(root) if path and not path.endswith("[]")]
    bad = [path for path, node in named if not str(node.get("description", "")).endswith((".", "`."))]
    assert bad == []


@every_schema
def test_a_schema_is_structural(root: dict[str, Any]) -> None:
    forbidden = {"$ref", "anyOf", "oneOf", "allOf", "$defs", "title", "const", "nullable"}
    assert [path for path, node in list_nodes(root) if forbidden & set(node)] == []
    assert [
        path
        for path, node in list_nodes(root)
        if node.get("type") in (None, "null") and not node.get("x-kubernetes-int-or-string")
    ] == []


@every_schema
def test_no_default_holds_null_because_the_api_server_refuses_such_a_crd(root: dict[str, Any]) -> None:
    def holds_null(value: Any) -> bool:
        return value is None or (isinstance(value, dict) and any(map(holds_null, value.values())))

    bad = [path for path, node in list_nodes(root) if "default" in node and holds_null(node["default"])]
    assert bad == []


@every_schema
def test_every_field_of_a_spec_is_bounded_so_that_rules_can_be_costed(root: dict[str, Any]) -> None:
    limits = {"array": "maxItems", "string": "maxLength"}
    if "conditions" in root["properties"]:
        return  # a status is written by the operator alone
    unbounded = [
        path
        for path, node in list_nodes(root)
        if (kind := node.get("type", "string")) in limits and limits[kind] not in node and "enum" not in node
    ]
    assert unbounded == []


@every_schema
def test_every_rule_has_a_message(root: dict[str, Any]) -> None:
    rules = [rule for _, node in list_nodes(root) for rule in node.get("x-kubernetes-validations", [])]
    assert all(rule["message"] and rule["rule"] for rule in rules)


@every_kind
def test_the_reference_has_every_field_and_rule_of_a_kind(kind: Kind) -> None:
    page = reference.build_kind(kind)
    for part, model in (("spec", kind.spec), ("status", kind.status)):
        for path, node in list_nodes(schema.build_structural_schema(model)):
            assert f"`{part}.{path.removesuffix('[]')}`" in page or not path
            for rule in node.get("x-kubernetes-validations", []):
                assert rule["message"].replace("|", "\\|") in page


@every_kind
def test_every_column_and_scale_path_leads_to_a_field(kind: Kind) -> None:
    fields = {
        f".{part}.{path}"
        for part, model in (("spec", kind.spec), ("status", kind.status))
        for path, _ in list_nodes(schema.build_structural_schema(model))
    }
    paths = [column.path for column in kind.columns] + list((kind.scale or {}).values())
    plain = [re.sub(r'\[\?\(@\.\w+=="\w+"\)\]', "[]", path) for path in paths]
    assert [path for path in plain if path not in fields and not path.startswith(".metadata.")] == []


@every_kind
def test_the_good_manifests_use_every_field_of_a_spec(kind: Kind) -> None:
    used = {
        path.removeprefix("spec.")
        for manifest in read_good().values()
        if manifest["kind"] == kind.name
        for path in list_fields(manifest)
    }
    fields = {path for path, _ in list_nodes(schema.build_structural_schema(kind.spec)) if path}
    assert {path for path in fields if not path.endswith("[]")} - used == set()


def test_names_for_kubectl_are_unique_over_all_kinds() -> None:
    names = [name for kind in KINDS for name in (kind.plural, kind.name.lower(), *kind.short_names)]
    assert len(names) == len(set(names))


def test_a_crd_is_yaml_that_reads_back_as_it_was_built() -> None:
    for kind in KINDS:
        assert yaml.load(schema.render_crd(kind), yaml.CSafeLoader) == schema.build_crd(kind)


def test_a_union_of_types_is_refused_because_a_structural_schema_cannot_express_it() -> None:
    class Union(Model):
        value: int | str

    with pytest.raises(ValueError, match="a union of 2 types has no structural schema"):
        schema.build_structural_schema(Union)


def test_a_kind_is_found_by_its_name() -> None:
    assert find_kind("Topic").plural == "topics"
    with pytest.raises(
        KeyError, match="the kinds are KafkaCluster, Topic, StateStore, Pipeline, Savepoint, LagPolicy"
    ):
        find_kind("Topics")
