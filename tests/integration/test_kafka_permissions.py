"""What the operator's user needs in a Kafka with ACLs: what `docs/how-to/kafka-permissions.md` names, and no more. What is missing is named."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from fakes.context import build_resource, build_secret
from integration.brokers import CLUSTER, RealKafkaOperator
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import Key, ObjectRef
from lab.acls import PROPERTIES, Right, grant
from lab.broker import Broker

PASSWORD = "s3cret-of-the-operator"
OPERATIONS = {
    "Create": Right(ResourceType.TOPIC, "*", AclOperation.CREATE),
    "Alter": Right(ResourceType.TOPIC, "*", AclOperation.ALTER),
    "AlterConfigs": Right(ResourceType.TOPIC, "*", AclOperation.ALTER_CONFIGS),
    "Delete": Right(ResourceType.TOPIC, "*", AclOperation.DELETE),
}
"""What Topic resources need. Kafka lets who may alter configs also read them, and who may alter or delete see the topic."""
READ_CONFIGS = Right(ResourceType.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS)
SASL = {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "login"}}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(users={"operator": PASSWORD}, properties=PROPERTIES) as running:
        yield running


def connect(broker: Broker, rights: dict[str, Right]) -> RealKafkaOperator:
    grant(broker.bootstrap, "operator", rights.values())
    operator = RealKafkaOperator(broker.sasl_bootstrap, sasl=SASL)
    operator.cluster.put(build_secret("login", username="operator", password=PASSWORD))
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
