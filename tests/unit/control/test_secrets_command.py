"""`kappa secrets`: what it prints makes every Secret allow its uses, for each kind that names Secrets."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from fakes.cluster import FakeCluster
from fakes.context import build_resource, build_secret
from kappa_crds.kinds import find_kind
from kappa_operator.cli.secrets import Findings, find_missing
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import Refused
from kappa_operator.pipeline.pod_policy import list_secrets
from kappa_operator.uses import list_uses
from lab.paths import REPOSITORY

MANIFESTS = REPOSITORY / "tests" / "integration" / "good_manifests"
FULL = ("kafkacluster-full", "statestore-bucket", "pipeline-full", "lagpolicy-full")


def read(name: str) -> Body:
    """Return the document of a manifest file that names Secrets."""
    documents = yaml.load_all((MANIFESTS / f"{name}.yaml").read_text(), yaml.CSafeLoader)
    body: Body = next(each for each in documents if set(find_names(each)))
    body["metadata"]["namespace"] = "shop"
    return body


def find_names(node: Any) -> Iterator[str]:
    """Yield the name of each Secret that a manifest refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key.lower().endswith("secretref"):
                yield value["name"]
            yield from find_names(value)
    elif isinstance(node, list):
        for each in node:
            yield from find_names(each)


@pytest.mark.parametrize("manifest", FULL)
def test_every_secret_of_a_manifest_has_a_use(manifest: str) -> None:
    body = read(manifest)
    uses = {use.secret for use in list_uses(find_kind(body["kind"]).parse(body))}
    assert uses == set(find_names(body))


def prepare(*bodies: Body, annotations: dict[str, str] | None = None) -> FakeCluster:
    cluster = FakeCluster()
    for body in bodies:
        cluster.put(body)
        resource = find_kind(body["kind"]).parse(body)
        for name in {*find_names(body), *(list_secrets(resource) if body["kind"] == "Pipeline" else ())}:
            secret = build_secret(name)
            secret["metadata"]["annotations"] = annotations or {}
            cluster.put(secret)
    return cluster


def annotate(cluster: FakeCluster, command: str) -> None:
    """Execute a command as kubectl does."""
    verb, noun, kind, name, option, namespace, setting, *rest = shlex.split(command)
    assert (verb, noun, kind, option) == ("kubectl", "annotate", "secret", "-n")
    ref = ObjectRef("v1", "Secret", namespace, name)
    annotation, _, value = setting.partition("=")
    before = (cluster.read(ref) or {})["metadata"]["annotations"]
    assert rest == (["--overwrite"] if annotation in before else [])
    cluster.patch(ref, metadata={"annotations": {**before, annotation: value}})


async def test_the_commands_leave_nothing_to_allow() -> None:
    cluster = prepare(*map(read, FULL), annotations={"secrets.kappa-platform.io/kafka": "other.example.com"})
    commands = list((await find_missing(cluster, "shop")).list_commands())
    assert len(commands) >= 6
    for command in commands:
        annotate(cluster, command)
    left = await find_missing(cluster, None)
    assert not list(left.list_commands())
    (note,) = left.notes
    assert "s3.storage.svc:7070 without TLS" in note


async def test_credentials_of_the_operator_are_not_proposed_for_pipelines() -> None:
    found = await find_missing(prepare(read("kafkacluster-full")), "shop")
    uses = {place[1]: set(each) for place, each in found.missing.items()}
    assert uses["kafka-user"] == {"kafka-operator"}
    assert uses["pipelines-user"] == {"kafka-pipelines"}
    assert uses["kafka-ca"] == {"kafka"}


PLAIN: dict[str, Any] = {
    "bootstrapServers": ["kafka:9092"],
    "sasl": {"credentialsSecretRef": {"name": "login"}},
}


async def test_what_is_sent_in_clear_is_noted() -> None:
    found = await find_missing(prepare(build_resource("KafkaCluster", "main", **PLAIN)), "shop")
    (note,) = found.notes
    assert "kafka:9092" in note
    assert "secrets.allowClearText" in note


class BlindCluster(FakeCluster):
    """A cluster whose user may not read Secrets."""

    async def get(self, ref: ObjectRef) -> Body | None:
        """Refuse to return a Secret."""
        if ref.kind == "Secret":
            raise Refused("secrets is forbidden")
        return await super().get(ref)


async def test_without_permission_to_read_secrets_all_annotations_are_printed_and_that_is_noted() -> None:
    cluster = BlindCluster()
    cluster.put(build_resource("KafkaCluster", "main", **PLAIN))
    found = await find_missing(cluster, "shop")
    assert len(list(found.list_commands())) == 1
    assert any("cannot be read" in note for note in found.notes)


async def test_a_missing_secret_and_an_invalid_resource_are_noted() -> None:
    cluster = FakeCluster()
    cluster.put(build_resource("KafkaCluster", "main", **PLAIN))
    cluster.put(build_resource("KafkaCluster", "broken", bootstrapServers=5))
    found: Findings = await find_missing(cluster, None)
    assert not list(found.list_commands())
    assert sorted(note.split(" in ")[0] for note in found.notes) == ["KafkaCluster broken", "Secret login"]


async def test_pods_and_addresses_of_webhooks_in_secrets_are_uses_too() -> None:
    pipeline = read("pipeline-full")
    hook = {
        "urlSecretRef": {"name": "hook", "key": "url"},
        "tokenSecretRef": {"name": "hook-token", "key": "token"},
    }
    policy = read("lagpolicy-full")
    policy["spec"]["remediation"]["webhook"] = hook
    cluster = prepare(pipeline, policy)
    for name, data in (
        ("hook", {"url": "https://hooks.example.com/T0/secret"}),
        ("hook-token", {"token": "t"}),
    ):
        secret = build_secret(name, **data)
        secret["metadata"]["annotations"] = {}
        cluster.remove(ObjectRef("v1", "Secret", "shop", name))
        cluster.put(secret)
    commands = list((await find_missing(cluster, "shop")).list_commands())
    printed = " ".join(commands)
    assert f"secret api -n shop secrets.kappa-platform.io/pods={pipeline['metadata']['name']}" in printed
    for name in ("hook", "hook-token"):
        assert f"secret {name} -n shop secrets.kappa-platform.io/webhook=hooks.example.com:443" in printed
    assert "T0" not in printed
    for command in commands:
        annotate(cluster, command)
    assert not list((await find_missing(cluster, "shop")).list_commands())


async def test_users_of_pipelines_need_a_use_of_their_own_and_topics() -> None:
    found = await find_missing(prepare(read("kafkacluster-users")), "shop")
    uses = {place[1]: set(each) for place, each in found.missing.items()}
    assert uses == {"kafka-operator": {"kafka-operator", "kafka-users"}}
    assert any("kafka-users-topics" in note for note in found.notes)
