"""Manifests are read as kubectl reads them, and what was misspelled is told with what was meant."""

from pathlib import Path
from typing import Any

import pytest

from kappa_crds import API_VERSION
from kappa_crds.manifests import ManifestError, read_documents, read_manifests

FILE = "manifest.yaml"
TOPIC = f"apiVersion: {API_VERSION}\nkind: Topic\nmetadata: {{name: flights}}\nspec: {{partitions: 3}}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str | bytes) -> list[dict[str, Any]]:
    Path(FILE).write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_manifests(FILE, "shop"))


def test_a_resource_without_a_namespace_gets_the_requested_one() -> None:
    (manifest,) = read(TOPIC)
    assert manifest["metadata"] == {"name": "flights", "namespace": "shop"}


def test_documents_of_other_groups_and_tests_are_not_manifests() -> None:
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    tekton = "apiVersion: tekton.dev/v1\nkind: Pipeline\nmetadata: {name: a}\n"
    case = f"apiVersion: {API_VERSION}\nkind: PipelineTest\nmetadata: {{name: a b}}\n"
    text = "---\n".join([other, tekton, case, TOPIC, ""])
    assert [each["kind"] for each in read(text)] == ["Topic"]
    assert [each["kind"] for each in read_documents(text)] == ["PipelineTest", "Topic"]


def test_a_time_stays_the_text_that_it_is() -> None:
    (manifest,) = read(TOPIC + "extra: 2013-01-01T00:00:00Z\n")
    assert manifest["extra"] == "2013-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "manifest.yaml: not YAML, line 1, column 8"),
        (b"kind: \xff", "manifest.yaml: not UTF-8 text"),
        ("just words", "a document has no apiVersion, no kind or no metadata.name"),
        (TOPIC.replace("kind: Topic\n", ""), "no kind"),
        (TOPIC.replace("Topic", "Topc"), "kind 'Topc' of 'flights' is unknown; did you mean 'Topic'?"),
        (TOPIC.replace("Topic", "topic"), "did you mean 'Topic'?"),
        (TOPIC.replace("v1alpha1", "v1"), "apiVersion 'kappa-platform.io/v1' of Topic 'flights' is unknown"),
        (TOPIC.replace("kappa-platform", "kapa-platform"), f"did you mean '{API_VERSION}'?"),
        (TOPIC + "spec: {}\n", "duplicate key 'spec'"),
        (TOPIC.replace("partitions: 3", "partitions: 3, partitions: 4"), "duplicate key 'partitions'"),
    ],
)
def test_a_misspelled_api_version_or_kind_is_reported(text: str | bytes, message: str) -> None:
    with pytest.raises(ManifestError, match="(?s)" + message.replace("?", r"\?")):
        read(text)


def test_a_merge_of_keys_is_not_taken_for_a_key_that_is_there_twice() -> None:
    text = "base: &base {a: 1}\nboth: {<<: *base, a: 2}\n"
    (manifest,) = read(TOPIC + text)
    assert manifest["both"] == {"a": 2}
