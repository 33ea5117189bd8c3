"""The custom resources on a real API server: what it takes, what it refuses and how it says so, what kubectl shows."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from integration.apiserver import ApiServer
from integration.manifests import (
    BAD,
    HERE,
    Case,
    Manifest,
    read_bad,
    read_good,
    read_smallest,
    read_transitions,
)
from kappa_crds.kinds import KINDS
from kappa_crds.model import VALIDATIONS
from kappa_crds.schema import build_crd

GOOD_MANIFESTS = read_good()
BAD_MANIFESTS = read_bad()
BAD_TRANSITIONS = read_transitions(BAD / "transitions.yaml")
GOOD_TRANSITIONS = read_transitions(HERE / "good_transitions.yaml")
KIND_NAMES = [kind.name for kind in KINDS]


def name_case(case: Case) -> str:
    return f"{case.kind}: {case.name}"


@dataclass(frozen=True)
class Answers:
    """What the API server said to every case, by the case's name."""

    creates: dict[str, str]
    changes: dict[str, str]

    @property
    def everything(self) -> str:
        return "\n".join([*self.creates.values(), *self.changes.values()])


@pytest.fixture(scope="module")
def answers(server: ApiServer) -> Answers:
    return Answers(
        creates={name_case(case): server.refuse_create(case.second) for case in BAD_MANIFESTS},
        changes={
            name_case(case): try_change(server, number, case)
            for number, case in enumerate([*BAD_TRANSITIONS, *GOOD_TRANSITIONS])
        },
    )


def try_change(server: ApiServer, number: int, case: Case) -> str:
    """Create the object as it is before, and ask what the API server says to the change."""
    metadata = {"name": f"change-{number}"}
    server.create({**case.first, "metadata": metadata})
    return server.refuse_change({**case.second, "metadata": metadata})


def list_rules(schema: Manifest) -> Iterator[Manifest]:
    yield from schema.get(VALIDATIONS, [])
    for child in schema.get("properties", {}).values():
        yield from list_rules(child)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from list_rules(schema[key])


def find_words(rule: Manifest) -> str:
    """What a rule's refusal surely holds: its message, or how the expression that makes it ends."""
    if "messageExpression" not in rule:
        return str(rule["message"])
    return str(re.findall(r"'([^']*)'", rule["messageExpression"])[-1])


@pytest.mark.parametrize("name", GOOD_MANIFESTS)
def test_a_good_manifest_is_accepted(server: ApiServer, name: str) -> None:
    assert server.refuse_create(GOOD_MANIFESTS[name]) == ""


@pytest.mark.parametrize("case", BAD_MANIFESTS, ids=name_case)
def test_a_bad_manifest_is_refused_with_a_message_that_helps(answers: Answers, case: Case) -> None:
    said = answers.creates[name_case(case)]
    assert said, "the API server takes it"
    assert [part for part in case.expect if part not in said] == [], said


@pytest.mark.parametrize("case", BAD_TRANSITIONS, ids=name_case)
def test_a_change_that_would_lose_something_is_refused(answers: Answers, case: Case) -> None:
    said = answers.changes[name_case(case)]
    assert said, "the API server takes it"
    assert [part for part in case.expect if part not in said] == [], said


@pytest.mark.parametrize("case", GOOD_TRANSITIONS, ids=name_case)
def test_a_harmless_change_is_accepted(answers: Answers, case: Case) -> None:
    assert answers.changes[name_case(case)] == ""


@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
def test_every_rule_of_a_kind_refuses_some_bad_manifest(answers: Answers, kind: Any) -> None:
    schema = build_crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    words = {find_words(rule) for rule in list_rules(schema)}
    assert {word for word in words if word not in answers.everything} == set()


def test_no_refusal_comes_from_a_rule_that_could_not_be_evaluated(answers: Answers) -> None:
    broken = ("no such key", "no such overload", "index out of bounds", "rule evaluation error", "call cost")
    assert [word for word in broken if word in answers.everything] == []


@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
def test_the_server_fills_in_the_defaults_of_the_models(server: ApiServer, kind: Any) -> None:
    manifest = read_smallest(kind.name)
    created = server.create(manifest, dry_run=True)
    read, meant = kind.parse(created), kind.parse(manifest)
    has_defaults = meant.spec.to_manifest() != manifest["spec"]
    assert (created["spec"] != manifest["spec"]) == has_defaults
    assert read.spec == meant.spec


def test_a_default_is_filled_in_deep_inside_what_was_given(server: ApiServer) -> None:
    manifest = read_smallest("Pipeline")
    manifest["spec"]["resources"] = {"executors": {"count": 3}}
    created = server.create(manifest, dry_run=True)
    assert created["spec"]["resources"] == {
        "driver": {"cpu": "500m", "memory": "1536Mi"},
        "executors": {"count": 3, "cpu": "1", "memory": "2Gi"},
    }
    assert created["spec"]["sinks"][0]["mode"] == "append"


READY = {"type": "Ready", "status": "True", "reason": "Running", "message": "all is well"}
STATUS = {
    "conditions": [{**READY, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "state": "Running",
    "lag": "1.2s",
    "rate": "84k/s",
    "guarantee": "AtLeastOnce",
    "executors": 1,
    "selector": "kappa-platform.io/pipeline=delays",
}


@pytest.fixture(scope="module")
def pipeline(server: ApiServer) -> Manifest:
    return server.create(read_smallest("Pipeline") | {"metadata": {"name": "delays"}})


def patch(server: ApiServer, change: Manifest, *flags: str) -> Manifest:
    shown = server.kubectl(
        *("patch", "pipeline", "delays", "--type=merge", "--output=json"),
        *flags,
        f"--patch={json.dumps(change)}",
    )
    return dict(json.loads(shown))


def show_with_status(server: ApiServer, *arguments: str, until: str) -> str:
    """What kubectl shows of a pipeline with that status. An operator in the cluster writes it too: try again."""
    shown = ""
    for _ in range(20):
        patch(server, {"status": STATUS}, "--subresource=status")
        shown = server.kubectl(*arguments)
        if until in shown:
            break
    return shown


@pytest.mark.usefixtures("pipeline")
def test_a_write_to_the_status_does_not_change_the_spec(server: ApiServer) -> None:
    written = patch(server, {"status": {"rate": "7/s"}, "spec": {"suspend": True}}, "--subresource=status")
    assert written["status"]["rate"] == "7/s"
    assert written["spec"]["suspend"] is False


@pytest.mark.usefixtures("pipeline")
def test_a_write_to_the_spec_does_not_change_the_status(server: ApiServer) -> None:
    written = patch(server, {"status": {"state": "Invented"}, "metadata": {"labels": {"tier": "gold"}}})
    assert written["metadata"]["labels"] == {"tier": "gold"}
    assert written.get("status", {}).get("state") != "Invented"


@pytest.mark.usefixtures("pipeline")
def test_a_status_does_not_count_as_a_new_generation(server: ApiServer) -> None:
    written = patch(server, {"status": STATUS}, "--subresource=status")
    assert written["metadata"]["generation"] == 1


@pytest.mark.usefixtures("pipeline")
def test_kubectl_shows_what_matters_in_columns(server: ApiServer) -> None:
    shown = show_with_status(server, "get", "pipelines", "delays", until="84k/s")
    head, row = shown.splitlines()
    assert head.split() == ["NAME", "READY", "STATE", "LAG", "RATE", "GUARANTEE", "AGE"]
    assert row.split()[:6] == ["delays", "True", "Running", "1.2s", "84k/s", "AtLeastOnce"]


@pytest.mark.usefixtures("pipeline")
def test_kubectl_shows_why_in_wide_columns(server: ApiServer) -> None:
    shown = show_with_status(server, "get", "pipelines", "delays", "--output=wide", until="all is well")
    assert "REASON" in shown
    assert "all is well" in shown


@pytest.mark.usefixtures("pipeline")
def test_an_autoscaler_reads_replicas_and_selector(server: ApiServer) -> None:
    path = f"/apis/kappa-platform.io/v1alpha1/namespaces/{server.namespace}/pipelines/delays/scale"
    shown = show_with_status(server, "get", f"--raw={path}", until="pipeline=delays")
    assert json.loads(shown)["status"] == {"replicas": 1, "selector": "kappa-platform.io/pipeline=delays"}


@pytest.mark.usefixtures("answers", "pipeline")
def test_one_word_lists_every_kind(server: ApiServer) -> None:
    listed = server.kubectl("get", "kappa", "--output=name")
    kinds = {line.split(".")[0] for line in listed.splitlines()}
    assert {"topic", "statestore", "pipeline", "kafkacluster"} <= kinds


def test_every_kind_has_its_short_names(server: ApiServer) -> None:
    listed = server.kubectl("api-resources", "--api-group=kappa-platform.io", "--no-headers")
    short = {line.split()[1] for line in listed.splitlines()}
    assert short == {name for kind in KINDS for name in kind.short_names}


@pytest.mark.usefixtures("pipeline")
def test_a_short_name_is_its_kind(server: ApiServer) -> None:
    assert "pipeline.kappa-platform.io/delays" in server.kubectl("get", "kpp", "--output=name")


def test_a_pipeline_is_scaled_by_kubectl(server: ApiServer) -> None:
    manifest = read_smallest("Pipeline")
    server.create(manifest | {"metadata": {"name": "scaled"}})
    server.kubectl("scale", "pipeline", "scaled", "--replicas=3")
    assert server.read("Pipeline", "scaled")["spec"]["resources"]["executors"]["count"] == 3


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("pipeline", "A streaming job from topics through SQL views to topics."),
        ("pipeline.spec.sources", "Sources of the pipeline."),
        ("pipeline.spec.sources.eventTime.watermark", "How far out of order records may be"),
        ("topic.spec.retention.size", "for each partition"),
        ("statestore.spec.pvc.accessMode", "ReadWriteMany lets drivers and executors run on several nodes."),
        ("kafkacluster.status.conditions", "Ready, Reconciling and Stalled"),
    ],
)
def test_kubectl_explains_a_field(server: ApiServer, path: str, says: str) -> None:
    explained = " ".join(server.kubectl("explain", path).split())
    assert says in explained
