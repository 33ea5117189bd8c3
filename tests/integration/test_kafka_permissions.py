"""What the operator's user needs in a Kafka with ACLs: what `docs/how-to/kafka-permissions.md` names, and no more. What is missing is named."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from fakes.context import build_resource, build_secret
from integration.brokers import CLUSTER, USERS, RealKafkaOperator
from kappa_crds import API_VERSION
from kappa_operator.engine import actions as act
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import AuthorizationFailed
from kappa_operator.kafka.client import KafkaClient
from kappa_operator.kafkacluster.connection import read_access, read_pipeline_access
from lab.acls import Right, grant
from lab.broker import Broker

pytestmark = pytest.mark.clusterless

OPERATIONS = {
    "Create": Right(ResourceType.TOPIC, "*", AclOperation.CREATE),
    "Alter": Right(ResourceType.TOPIC, "*", AclOperation.ALTER),
    "AlterConfigs": Right(ResourceType.TOPIC, "*", AclOperation.ALTER_CONFIGS),
    "Delete": Right(ResourceType.TOPIC, "*", AclOperation.DELETE),
}
"""What Topic resources need. Kafka lets who may alter configs also read them, and who may alter or delete see the topic."""
READ_CONFIGS = Right(ResourceType.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS)
SASL = {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "login"}}


@pytest.fixture
def broker(acl_broker: Broker) -> Broker:
    return acl_broker


def connect(broker: Broker, rights: dict[str, Right]) -> RealKafkaOperator:
    grant(broker.bootstrap, "operator", rights.values())
    operator = RealKafkaOperator(broker.sasl_bootstrap, sasl=SASL)
    operator.cluster.put(build_secret("login", username="operator", password=USERS["operator"]))
    return operator


async def declare(operator: RealKafkaOperator, name: str, **spec: Any) -> Key:
    operator.cluster.put(build_resource("Topic", name, deletionPolicy="Delete", **spec))
    key = Key("Topic", "shop", name)
    await operator.settle(key)
    return key


async def test_a_connection_needs_no_permission(broker: Broker) -> None:
    async with connect(broker, {}) as operator:
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[:2] == ("True", "Connected")


async def test_topics_need_what_the_guide_names_and_no_more(broker: Broker) -> None:
    async with connect(broker, OPERATIONS) as operator:
        await operator.reconcile(CLUSTER)
        await declare(operator, "whole", retention={"time": "1d"})
        key = await declare(operator, "whole", partitions=2, retention={"time": "2d"})
        assert operator.get_condition(key)[:2] == ("True", "Synced")
        view = await operator.look(key)
        assert view is not None
        assert (view.partitions, view.configs["retention.ms"]) == (2, "172800000")
        operator.cluster.remove(ObjectRef(API_VERSION, key.kind, key.namespace, key.name))
        await operator.settle(key)
        assert operator.get(key) is None


async def test_operator_and_pipelines_log_in_as_different_users(broker: Broker) -> None:
    """The operator's permissions contain none of the pipelines', and theirs none of the operator's."""
    name = "shared"
    reads = (
        Right(ResourceType.TOPIC, name, AclOperation.READ),
        Right(ResourceType.TOPIC, name, AclOperation.WRITE),
    )
    async with connect(broker, OPERATIONS) as operator:
        grant(broker.bootstrap, "pipelines", reads)
        operator.cluster.put(build_secret("reader", username="pipelines", password=USERS["pipelines"]))
        own = {"sasl": {**SASL, "credentialsSecretRef": {"name": "reader"}}}
        connection: dict[str, Any] = {"bootstrapServers": [broker.sasl_bootstrap], "sasl": SASL}
        operator.cluster.put(build_resource("KafkaCluster", "main", **connection, pipelineCredentials=own))
        await operator.reconcile(CLUSTER)
        key = await declare(operator, name, retention={"time": "1d"})
        assert operator.get_condition(key)[:2] == ("True", "Synced")
        resource = operator.cache.read(CLUSTER)
        assert resource is not None
        access = await read_pipeline_access(operator.context, resource)
        client = KafkaClient(access)
        view = await client.describe_topic(name, frozenset())
        assert view is not None
        for action in (
            act.CreateTopic(CLUSTER, "more", 1, None, {}),
            act.AlterConfigs(CLUSTER, name, {"retention.ms": "1"}),
            act.DeleteTopic(CLUSTER, name),
        ):
            with pytest.raises(AuthorizationFailed):
                await client.apply(action)
        await client.close()
        assert await asyncio.to_thread(_write, access.settings, name) is None
        operators = await read_access(operator.context, resource)
        assert await asyncio.to_thread(_write, operators.settings, name) == "TOPIC_AUTHORIZATION_FAILED"


def _write(settings: Mapping[str, str], topic: str) -> str | None:
    """Return the name of the error of writing a record, None where it is written."""
    failed: list[str | None] = []
    producer = Producer(dict(settings))
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error.name() if error else None))
    producer.flush(20)
    return failed[0]


@pytest.mark.parametrize("missing", OPERATIONS)
async def test_a_missing_permission_is_named(broker: Broker, missing: str) -> None:
    name = f"without-{missing.lower()}"
    if missing != "Create":
        async with connect(broker, OPERATIONS) as allowed:
            await allowed.reconcile(CLUSTER)
            await declare(allowed, name, retention={"time": "1d"})
    kept = {key: right for key, right in OPERATIONS.items() if key != missing} | {"read": READ_CONFIGS}
    async with connect(broker, kept) as operator:
        await operator.reconcile(CLUSTER)
        key = await declare(operator, name, partitions=2, retention={"time": "2d"})
        if missing == "Delete":
            operator.cluster.remove(ObjectRef(API_VERSION, key.kind, key.namespace, key.name))
            await operator.settle(key)
        status, reason, message = operator.get_condition(key)
        assert (status, reason) == (
            "False",
            "DeletionBlocked" if missing == "Delete" else "AuthorizationFailed",
        )
        assert f"The user needs {missing} on topic {name}." in message, message
