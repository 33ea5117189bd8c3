"""Models read what the API server has taken, and write it back unchanged."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from effort import examples
from integration.manifests import read_good
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.kinds import KINDS, find_kind
from kappa_crds.model import Model
from kappa_crds.pipeline import ExecutorResources, PipelineSpec
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.pod_placement import Affinity, SpreadConstraint, Toleration
from kappa_crds.pod_template import PodMetadata, TemplateContainer
from kappa_crds.pod_volumes import Volume
from kappa_crds.reasons import Reason
from kappa_crds.resource import Kind
from kappa_crds.schema import build_structural_schema
from kappa_crds.source import Source
from kappa_crds.topic import TopicSpec

GOOD = read_good()
SCHEMAS = {kind.name: build_structural_schema(kind.spec) for kind in KINDS}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])

# What the rules of the API server let through, by the rule's message; a value that no rule is about is free.
_WORDS = {
    "must be host:port": st.sampled_from(["a:1", "kafka.svc:9092"]),
    "must be a duration": st.from_regex(r"[1-9][0-9]{0,3}(ms|s|m|h|d|w)", fullmatch=True),
    "must be a size": st.from_regex(r"[1-9][0-9]{0,3}(\.[0-9])?(M|G|T|Mi|Gi|Ti)", fullmatch=True),
    "must be a number of cores": st.sampled_from(["500m", "1", "1.5"]),
    "must be the name of a resource": st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True),
    "must be a Kafka topic name": st.from_regex(r"[a-zA-Z0-9_-]{1,9}", fullmatch=True),
    "must start with a lower-case letter": st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    "must be a column name": st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    "must be a time": st.sampled_from(["2013-01-01T00:00:00Z", "2026-12-31T23:59:59.5+01:00"]),
    "must be earliest": st.sampled_from(["earliest", "latest", "2013-01-01T00:00:00Z"]),
}
TEMPLATES = ("podTemplate", "driver", "executors")
"""Fields of a Pipeline with a model of its own test: together with the rest, their values are too large to draw."""
_UNION = "set exactly one kind of sink"


def strings(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    messages = _rules_of(schema)
    for start, words in _WORDS.items():
        if any(message.startswith(start) for message in messages):
            return words
    least = schema.get("minLength", 0)
    return st.text(
        st.characters(codec="ascii"), min_size=least, max_size=min(schema.get("maxLength", 20), least + 8)
    )


def _rules_of(schema: dict[str, Any]) -> list[str]:
    return [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]


def objects(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "additionalProperties" in schema:
        least = schema.get("minProperties", 0)
        names = st.text("abc", min_size=1) if _rules_of(schema) else st.text(max_size=8)
        return st.dictionaries(
            names, values(schema["additionalProperties"]), min_size=least, max_size=least + 2
        )
    children = {name: values(child) for name, child in schema.get("properties", {}).items()}
    required = set(schema.get("required", []))
    kinds = next((m.rpartition(": ")[2].split(", ") for m in _rules_of(schema) if m.startswith(_UNION)), [])

    def build(kind: str) -> st.SearchStrategy[dict[str, Any]]:
        wanted = {name: child for name, child in children.items() if name in required or name == kind}
        others = {name: child for name, child in children.items() if name not in {*wanted, *kinds}}
        return st.fixed_dictionaries(wanted, optional=others)

    return st.sampled_from(kinds or [""]).flatmap(build)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a structural schema and its rules on single fields allow."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return strings(schema) | st.integers(min_value=1, max_value=64)
    if schema["type"] == "array":
        least = schema.get("minItems", 0)
        return st.lists(values(schema["items"]), min_size=least, max_size=least + 2)
    if schema["type"] == "number":
        return st.floats(schema.get("minimum", -1e9), schema.get("maximum", 1e9))
    if schema["type"] == "integer":
        return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))
    if schema["type"] == "boolean":
        return st.booleans()
    return strings(schema) if schema["type"] == "string" else objects(schema)


@every_kind
def test_a_schema_is_one(kind: Kind) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind.name])


def validate(value: Any, schema: dict[str, Any]) -> None:
    """Validate without checking the schema itself each time, which takes a hundred times longer."""
    Draft202012Validator(schema).validate(value)


@every_kind
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_model_takes_what_the_schema_takes(kind: Kind, data: st.DataObject) -> None:
    fields = {
        name: child for name, child in SCHEMAS[kind.name]["properties"].items() if name not in TEMPLATES
    }
    draw_and_read(data, kind.spec, {**SCHEMAS[kind.name], "properties": fields})


PARTS = [TemplateContainer, Volume, Affinity, Toleration, SpreadConstraint, PodMetadata]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_part_of_a_pod_template_takes_what_its_schema_takes(part: type[Model], data: st.DataObject) -> None:
    schema = build_structural_schema(part)
    Draft202012Validator.check_schema(schema)
    draw_and_read(data, part, schema)


def draw_and_read(data: st.DataObject, model: type[Model], schema: dict[str, Any]) -> None:
    drawn = data.draw(values(schema))
    validate(drawn, schema)
    read = model.model_validate(drawn)
    assert model.model_validate(read.to_manifest()) == read


@pytest.mark.parametrize("name", GOOD)
def test_a_model_takes_every_good_manifest(name: str) -> None:
    manifest = GOOD[name]
    validate(manifest["spec"], SCHEMAS[manifest["kind"]])
    resource = find_kind(manifest["kind"]).parse(manifest)
    assert resource.metadata.name == manifest["metadata"]["name"]


@pytest.mark.parametrize("name", GOOD)
def test_what_a_model_writes_holds_all_that_was_read(name: str) -> None:
    def missing(read: Any, written: Any) -> list[Any]:
        if isinstance(read, dict):
            return [gap for key, value in read.items() for gap in missing(value, written.get(key))]
        if isinstance(read, list) and len(read) == len(written):
            return [gap for pair in zip(read, written, strict=True) for gap in missing(*pair)]
        return [] if read == written else [(read, written)]

    manifest = GOOD[name]
    written = find_kind(manifest["kind"]).parse(manifest).spec.to_manifest()
    validate(written, SCHEMAS[manifest["kind"]])
    assert missing(manifest["spec"], written) == []


@every_kind
def test_a_model_and_the_schema_have_the_same_defaults(kind: Kind) -> None:
    def fill(schema: dict[str, Any], value: Any) -> Any:
        if isinstance(value, list):
            return [fill(schema["items"], item) for item in value]
        if not isinstance(value, dict) or "properties" not in schema:
            return value
        filled = {
            name: child["default"] for name, child in schema["properties"].items() if "default" in child
        }
        return {name: fill(schema["properties"][name], child) for name, child in (filled | value).items()}

    for manifest in (manifest for manifest in GOOD.values() if manifest["kind"] == kind.name):
        by_server = fill(SCHEMAS[kind.name], manifest["spec"])
        by_model = kind.spec.model_validate(manifest["spec"]).to_manifest()
        by_model = {name: value for name, value in by_model.items() if value != {} or name in by_server}
        assert by_model == by_server


@pytest.mark.parametrize(("written", "read"), [(2, "2"), ("1500m", "1500m")])
def test_cores_may_be_given_as_a_whole_number(written: object, read: str) -> None:
    assert ExecutorResources.model_validate({"cpu": written}).cpu == read


@pytest.mark.parametrize("wrong", [True, 1.5, -1, "two"])
def test_cores_are_nothing_else(wrong: object) -> None:
    with pytest.raises(ValidationError):
        ExecutorResources.model_validate({"cpu": wrong})


def test_replace_changes_a_field_and_leaves_the_original_alone() -> None:
    before = TopicSpec(partitions=1)
    assert before.replace(partitions=2) == TopicSpec(partitions=2)
    assert before.partitions == 1


def test_replace_refuses_a_field_that_there_is_not() -> None:
    with pytest.raises(TypeError, match="TopicSpec has no field cleanUp, partition"):
        TopicSpec().replace(partition=2, cleanUp="compact")


def test_a_model_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TopicSpec().partitions = 2  # type: ignore[misc]


def test_a_spec_refuses_an_unknown_field() -> None:
    with pytest.raises(ValidationError, match="bootstrapServer"):
        KafkaClusterSpec.model_validate({"bootstrapServers": ["a:1"], "bootstrapServer": "a:1"})


def test_a_start_on_a_day_that_no_calendar_has_is_refused() -> None:
    source = {"name": "a", "topic": "t", "format": {"raw": {}}}
    assert Source.model_validate({**source, "startingOffsets": "2024-02-29T00:00:00Z"})
    with pytest.raises(ValidationError, match="day is out of range"):
        Source.model_validate({**source, "startingOffsets": "2026-02-29T00:00:00Z"})


def test_a_status_of_another_version_keeps_what_is_unknown() -> None:
    stored = {"batch": 7, "invented": {"later": True}}
    status = PipelineStatus.model_validate(stored)
    assert status.batch == 7
    assert status.to_manifest()["invented"] == {"later": True}


def test_a_model_reads_camel_case_and_snake_case_and_writes_camel_case() -> None:
    spec = PipelineSpec.model_validate(GOOD["the reference's Pipeline"]["spec"])
    assert PipelineSpec.model_validate(spec.model_dump(by_alias=False)) == spec
    assert {"deadLetter", "stopTimeout", "sparkConf"} <= set(spec.to_manifest())
    assert "from" in spec.to_manifest()["sinks"][0]


def test_a_manifest_holds_nothing_absent() -> None:
    assert "null" not in json.dumps(PipelineStatus().to_manifest())


def test_a_resource_without_status_is_read_with_an_empty_one() -> None:
    manifest = GOOD["the reference's Topic"]
    assert (
        find_kind("Topic").parse(manifest).status
        == find_kind("Topic").parse({**manifest, "status": None}).status
    )


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_its_name_and_has_a_fix(reason: Reason) -> None:
    assert reason == reason.value == str(reason)
    assert Reason(reason.value) is reason
    assert reason.value == "".join(part.title() for part in reason.name.split("_"))
    assert reason.description.endswith(".")
    assert any(mark in reason.description for mark in (";", ". ")), "say what it means and what to do"
