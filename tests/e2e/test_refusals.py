"""Manifests that cannot work: refused at once, or a condition says what is wrong and where. No driver is started."""

import json
import textwrap
from collections.abc import Iterator

import pytest

from e2e.counting import PASSWORD, USER
from e2e.place import Place
from lab.broker import Broker, free_ports
from lab.errors import LabError
from lab.network import NODE_IP

_PIPELINE = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: counts}
spec:
  clusterRef: $cluster
  sources: [{name: events, topic: events, format: {json: {schema: "k STRING"}}}]
  sinks: [{name: log, from: events, kafka: {topic: copied}}]
"""


@pytest.fixture(scope="module")
def refused(platform: None) -> Place:
    return Place.create("refused")


@pytest.fixture
def place(refused: Place) -> Iterator[Place]:
    yield refused
    for kind in ("pipelines", "kafkaclusters"):
        refused.kubectl("delete", kind, "--all")


def build_pipeline(cluster: str) -> str:
    return _PIPELINE.replace("$cluster", cluster)


def build_cluster(name: str, bootstrap: str, secret: str = "") -> str:
    sasl = f"\n  sasl: {{credentialsSecretRef: {{name: {secret}}}}}" if secret else ""
    return (
        textwrap.dedent(f"""
        apiVersion: kappa-platform.io/v1alpha1
        kind: KafkaCluster
        metadata: {{name: {name}}}
        spec:
          bootstrapServers: ["{bootstrap}"]
          checkInterval: 5s""")
        + sasl
    )


def build_secret(name: str, password: str) -> str:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": {"secrets.kappa-platform.io/kafka": "*"}},
        "stringData": {"username": USER, "password": password},
    }
    return json.dumps(secret)


def refuse(place: Place, manifest: str) -> str:
    with pytest.raises(LabError) as refusal:
        place.kubectl("apply", "-f", "-", stdin=manifest)
    assert place.kubectl("get", "pipelines", "-o", "name") == ""
    return str(refusal.value)


def test_an_unknown_field_is_refused_by_name(place: Place) -> None:
    said = refuse(place, build_pipeline("main").replace("topic: copied", "topic: copied, topics: copied"))
    assert 'unknown field "spec.sinks[0].kafka.topics"' in said


def test_a_value_of_the_wrong_type_is_refused_with_the_type_that_is_wanted(place: Place) -> None:
    said = refuse(place, build_pipeline("main") + "  resources: {executors: {count: many}}\n")
    assert "spec.resources.executors.count" in said
    assert "integer" in said


def test_a_missing_cluster_is_named(place: Place) -> None:
    place.apply(build_pipeline("nowhere"))
    said = place.await_reason("Pipeline", "counts", "ClusterNotFound", 20)
    assert 'KafkaCluster "nowhere" not found' in said.message
    assert place.drivers() == []


def test_a_broker_that_cannot_be_reached_is_named_and_the_pipeline_waits(place: Place) -> None:
    address = f"{NODE_IP}:{free_ports(1)[0]}"
    place.apply(build_cluster("away", address))
    place.apply(build_pipeline("away"))
    said = place.await_reason("KafkaCluster", "away", "BrokerUnreachable", 60)
    assert address in said.message
    place.await_message("Pipeline", "counts", "ClusterNotReady", "BrokerUnreachable", 30)
    assert place.drivers() == []


def test_a_wrong_password_is_reported_and_the_correct_one_is_used_without_a_restart(
    place: Place, sasl_broker: Broker
) -> None:
    place.apply(build_secret("user", "battery-staple"))
    place.apply(build_cluster("guarded", sasl_broker.sasl_bootstrap, "user"))
    place.apply(build_pipeline("guarded"))
    said = place.await_reason("KafkaCluster", "guarded", "AuthenticationFailed", 60)
    assert "battery-staple" not in said.message
    place.await_message("Pipeline", "counts", "ClusterNotReady", "AuthenticationFailed", 30)
    place.apply(build_secret("user", PASSWORD))
    place.await_reason("KafkaCluster", "guarded", "Connected", 60)
    place.await_reason("Pipeline", "counts", "StateStoreNotFound", 30)
    assert place.drivers() == []
