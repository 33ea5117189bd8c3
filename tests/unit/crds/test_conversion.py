"""Manifests and statuses of release 0.1 are converted to the present names, once, and nothing else in them changes."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from integration.manifests import read_smallest
from kappa_crds.admission import find_problems
from kappa_crds.conversion import RENAMED, build_spec_patch, convert
from kappa_crds.kinds import KINDS, find_kind
from kappa_crds.manifests import TEST_KIND, read_documents

Json = dict[str, Any]
HERE = Path(__file__).parent
OLD = [*read_documents((HERE / "release_0_1_manifests.yaml").read_text())]
RESOURCES = [each for each in OLD if each["kind"] != TEST_KIND]


def name(manifest: Json) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


@pytest.mark.parametrize("manifest", RESOURCES, ids=name)
def test_a_manifest_of_release_0_1_is_valid_once_it_is_converted(manifest: Json) -> None:
    before = copy.deepcopy(manifest)
    converted = convert(manifest["kind"], manifest)
    assert find_problems(converted) == []
    assert convert(manifest["kind"], converted) is converted, "once is enough"
    assert manifest == before, "what is converted stays as it is"
    assert (
        find_kind(manifest["kind"]).parse(manifest).spec == find_kind(manifest["kind"]).parse(converted).spec
    )


def test_the_manifests_of_release_0_1_have_every_old_name() -> None:
    missing = [
        old for kind, renames in RENAMED.items() for old in renames
        if old.startswith("spec.") and not any(find(each, old) for each in OLD if each["kind"] == kind)
    ]  # fmt: skip
    assert missing == ["spec.remediation.pauseProducers"], (
        "which only exists halfway: it was in spec.remedies"
    )


def find(value: Any, path: str) -> list[Any]:
    head, _, rest = path.partition(".")
    found = value.get(head.removesuffix("[]")) if isinstance(value, dict) else None
    items = [] if found is None else found if head.endswith("[]") else [found]
    return [leaf for item in items for leaf in (find(item, rest) if rest else [item])]


def test_a_test_case_is_converted_too() -> None:
    (case,) = [each for each in OLD if each["kind"] == TEST_KIND and "stragglers" in each["spec"]["expect"]]
    converted = convert(TEST_KIND, case)
    assert converted["spec"]["expect"]["lateRecords"] == case["spec"]["expect"]["stragglers"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_object_with_the_present_names_stays_the_same_object(kind: Any) -> None:
    present = read_smallest(kind.name)
    assert convert(kind.name, present) is present


def test_where_both_names_are_set_the_old_one_counts_as_the_other_is_a_default() -> None:
    sink = {"name": "out", "topic": "old", "key": ["k"], "kafka": {"topic": "new"}}
    assert convert("Pipeline", {"spec": {"sinks": [sink]}})["spec"]["sinks"] == [
        {"name": "out", "kafka": {"topic": "old", "key": ["k"]}}
    ]


def test_the_status_of_a_policy_keeps_its_records_by_other_names() -> None:
    record = {"kind": "PauseProducers", "target": "client-id=loader", "original": "none"}
    converted = convert("LagPolicy", {"status": {"remedies": [record], "standings": {"g in 0": "{}"}}})[
        "status"
    ]
    assert converted["remediations"] == [{**record, "kind": "ThrottleProducers"}]
    assert converted["lagHistory"] == {"g in 0": "{}"}


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    base = target if isinstance(target, dict) else {}
    merged = {**base, **{key: merge(base.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in merged.items() if value is not None}


@pytest.mark.parametrize("manifest", RESOURCES, ids=name)
def test_the_patch_of_a_stored_object_brings_its_spec_to_the_present_names(manifest: Json) -> None:
    stored = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": "7"}}
    patch = build_spec_patch(stored)
    assert patch["metadata"] == {"resourceVersion": "7"}, (
        "an object that changed meanwhile is not overwritten"
    )
    assert merge(stored, patch)["spec"] == convert(manifest["kind"], manifest)["spec"]


_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(kind=st.sampled_from(sorted(RENAMED)), junk=_VALUES, data=st.data())
def test_unknown_fields_survive_wherever_they_are(kind: str, junk: Any, data: st.DataObject) -> None:
    manifest = copy.deepcopy(data.draw(st.sampled_from([each for each in OLD if each["kind"] == kind])))
    places = [place for place in walk(manifest) if isinstance(place, dict)]
    data.draw(st.sampled_from(places))["fromAnotherVersion"] = junk
    converted = convert(kind, manifest)
    assert json.dumps(converted).count('"fromAnotherVersion": ') == json.dumps(manifest).count(
        '"fromAnotherVersion": '
    )
    assert convert(kind, converted) == converted


@given(kind=st.sampled_from(sorted(RENAMED)), spec=_VALUES, status=_VALUES)
def test_what_is_no_object_of_that_kind_is_left_alone(kind: str, spec: Any, status: Any) -> None:
    stored = {"spec": spec, "status": status}
    assert convert(kind, stored) == stored


def walk(value: Any) -> list[Any]:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(place for child in below for place in walk(child))]


def test_the_copy_of_release_0_1_is_plain_yaml() -> None:
    assert len(
        list(yaml.load_all((HERE / "release_0_1_manifests.yaml").read_text(), yaml.CSafeLoader))
    ) == len(OLD)
