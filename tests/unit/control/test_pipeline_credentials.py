"""Pipelines log in to Kafka with their own credentials where a KafkaCluster has some, and never with those of the operator."""

import json
from typing import Any

import pytest

from fakes.context import build_resource, build_secret
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.objects import DRIVER_ROLE
from unit.control.lives import CLUSTER, PIPELINE, SPEC, Life, write

PREFIX = "secrets.kappa-platform.io/"
SERVER = "kafka:9092"
CONNECTION: dict[str, Any] = {
    "bootstrapServers": [SERVER],
    "tls": {"caSecretRef": {"name": "ca"}, "clientSecretRef": {"name": "admin-certificate"}},
    "sasl": {"credentialsSecretRef": {"name": "admin"}},
}
OWN = {"sasl": {"mechanism": "PLAIN", "credentialsSecretRef": {"name": "reader"}}}
PEM = {"tls_crt": "-----BEGIN CERTIFICATE-----", "tls_key": "-----BEGIN PRIVATE KEY-----"}


def put_secret(life: Life, name: str, use: str, **data: str) -> None:
    life.operator.cluster.remove(ObjectRef("v1", "Secret", "shop", name))
    secret = build_secret(name, **data)
    secret["metadata"]["annotations"] = {PREFIX + use: SERVER} if use else {}
    life.operator.cluster.put(secret)


async def start(own: dict[str, Any] | None, uses: dict[str, str]) -> Life:
    """Return a pipeline of a cluster with credentials, after as many reconciles as it takes; `uses` are those that the Secrets allow."""
    life = Life()
    put_secret(life, "ca", "kafka", ca_crt=PEM["tls_crt"])
    put_secret(life, "admin-certificate", uses.get("admin", ""), **PEM)
    put_secret(life, "admin", uses.get("admin", ""), username="admin", password="a")
    put_secret(life, "reader", uses.get("reader", ""), username="reader", password="r")
    await life.prepare()
    credentials: dict[str, Any] = {} if own is None else {"pipelineCredentials": own}
    life.operator.cluster.put(build_resource("KafkaCluster", "main", **CONNECTION, **credentials))
    await life.operator.reconcile(CLUSTER)
    write(SPEC)(life)
    await life.settle()
    return life


def find_secrets(life: Life) -> set[str]:
    pods = life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)
    volumes = [volume for pod in pods for volume in pod["spec"]["volumes"]]
    return {each["secret"]["secretName"] for each in volumes if "secret" in each}


async def test_a_driver_mounts_the_credentials_of_pipelines_and_no_others() -> None:
    life = await start(OWN, {"admin": "kafka-operator", "reader": "kafka-pipelines"})
    assert life.operator.get_condition(CLUSTER)[1] == "Connected"
    assert {"ca", "reader"} <= find_secrets(life)
    assert not {"admin", "admin-certificate"} & find_secrets(life)
    (config,) = life.operator.cluster.find("v1", "ConfigMap", "shop")
    kafka = json.loads(config["data"]["revision.json"])["kafka"]
    assert (kafka["saslMechanism"], kafka["securityProtocol"]) == ("PLAIN", "SASL_SSL")
    assert "clientCertificateDir" not in kafka
    assert "admin" not in config["data"]["executor-pod.yaml"]


async def test_pipelines_share_the_log_in_of_the_operator_by_default() -> None:
    life = await start(None, {"admin": "kafka"})
    assert {"ca", "admin", "admin-certificate"} <= find_secrets(life)


@pytest.mark.parametrize(
    ("own", "uses", "proposed"),
    [
        (None, {"admin": "kafka-operator"}, "kafka="),
        (OWN, {"admin": "kafka-operator", "reader": "kafka-operator"}, "kafka-pipelines="),
    ],
)
async def test_no_driver_gets_what_only_the_operator_may_use(
    own: dict[str, Any] | None, uses: dict[str, str], proposed: str
) -> None:
    life = await start(own, uses)
    assert life.operator.get_condition(CLUSTER)[1] == "Connected"
    _, reason, message = life.operator.get_condition(PIPELINE)
    assert reason == "SecretNotAllowed"
    assert f"{PREFIX}{proposed}" in message
    assert not life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)


async def test_the_operator_does_not_use_what_only_pipelines_may_use() -> None:
    life = await start(OWN, {"admin": "kafka-pipelines", "reader": "kafka-pipelines"})
    _, reason, message = life.operator.get_condition(CLUSTER)
    assert reason == "SecretNotAllowed"
    assert f"{PREFIX}kafka-operator=" in message
