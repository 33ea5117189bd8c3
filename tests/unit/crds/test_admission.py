"""What a laptop refuses is what the API server refuses: the cases that a real one is asked about, in the same words."""

import pytest

from integration.manifests import Case, read_bad, read_good, read_smallest
from kappa_crds.admission import find_problems

GOOD = read_good()
BAD = read_bad()
# The API server drops what is below a value of the wrong type, and names that; here the type is named.
OF_ANOTHER_TYPE = {
    'unknown field "spec.clusterRef.name"': "spec.clusterRef: must be of type string, not object",
    'unknown field "spec.views.v"': "spec.views: must be of type array, not object",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_manifest_is_accepted(name: str) -> None:
    assert find_problems(GOOD[name]) == []


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case.kind}: {case.name}")
def test_a_bad_manifest_is_refused_as_the_api_server_refuses_it(case: Case) -> None:
    message = "\n".join(map(str, find_problems(case.second)))
    expected = [OF_ANOTHER_TYPE.get(part, part) for part in case.expect]
    assert message, "it is accepted"
    assert [part for part in expected if part not in message] == [], message


def test_a_misspelled_field_is_reported_with_a_suggestion() -> None:
    manifest = read_smallest("Pipeline")
    manifest["spec"]["sources"][0]["topc"] = manifest["spec"]["sources"][0].pop("topic")
    assert [(each.field, str(each)) for each in find_problems(manifest)] == [
        ("spec.sources[0].topc", "unknown field \"spec.sources[0].topc\"; did you mean 'topic' or 'topics'?")
    ]


def test_a_value_cut_by_a_comma_is_reported_with_quotes_as_the_fix() -> None:
    manifest = read_smallest("Pipeline")
    manifest["spec"]["views"] = [{"name": "v", "sql": "SELECT a", "b FROM c": None}]
    (problem,) = find_problems(manifest)
    assert problem.field == "spec.views[0].b FROM c"
    assert "put that value in quotes" in problem.message


def test_what_is_null_counts_as_left_out() -> None:
    manifest = read_smallest("Pipeline")
    assert find_problems({**manifest, "spec": {**manifest["spec"], "deadLetter": None}}) == []
    assert [each.field for each in find_problems({**manifest, "spec": None})] == ["spec"]


def test_a_status_in_a_manifest_is_ignored() -> None:
    assert find_problems({**read_smallest("Topic"), "status": {"conditions": "none"}}) == []
