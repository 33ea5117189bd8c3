"""The operator creates a user of each pipeline on a broker with ACLs: it may do what the pipeline needs, and nothing else."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from fakes.context import build_resource, build_secret
from integration.brokers import USERS
from kappa_crds.reasons import Reason
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kafka.model import UserView
from kappa_operator.pipeline.objects import DRIVER_ROLE
from lab.acls import Right, grant
from lab.broker import Broker
from lab.shell import wait_until
from unit.control.lives import CLUSTER, PIPELINE, REF, SPEC, TOPICS, Life, write

pytestmark = pytest.mark.clusterless

PASSWORD = USERS["operator"]
TOPIC_RIGHTS = [
    Right(ResourceType.TOPIC, "*", operation)
    for operation in (AclOperation.CREATE, AclOperation.ALTER, AclOperation.ALTER_CONFIGS)
]
USER_RIGHTS = [
    Right(ResourceType.BROKER, "kafka-cluster", operation)
    for operation in (AclOperation.ALTER, AclOperation.DESCRIBE)
]
EXACTLY: dict[str, Any] = {"topic": "out", "delivery": "ExactlyOnce"}
FIRST = {**SPEC, "sinks": [{"name": "log", "from": "events", "kafka": EXACTLY}]}
SECOND = {**SPEC, "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "more"}}]}
USES = ("kafka-operator", "kafka-users", "kafka-users-topics")


@pytest.fixture
def broker(acl_broker: Broker) -> Broker:
    return acl_broker


@asynccontextmanager
async def prepare(broker: Broker, rights: list[Right] | None, rotation: str = "") -> AsyncIterator[Life]:
    """Give the operator these permissions, where the broker has an authorizer, and a KafkaCluster with users of pipelines."""
    if rights is not None:
        grant(broker.bootstrap, "operator", rights)
    life = Life()
    operator, clients = life.operator, AdminClients()
    await life.prepare()
    operator.context = replace(operator.context, kafka=clients)
    secret = build_secret("login", username="operator", password=PASSWORD)
    secret["metadata"]["annotations"] = {f"secrets.kappa-platform.io/{use}": "*" for use in USES}
    operator.cluster.put(secret)
    operator.cluster.put(build_resource("Topic", "more"))
    operator.cluster.put(
        build_resource(
            "KafkaCluster",
            "main",
            bootstrapServers=[broker.sasl_bootstrap],
            sasl={"credentialsSecretRef": {"name": "login"}},
            pipelineUsers={"rotation": rotation},
        )
    )
    operator.is_strict = False
    await operator.settle(CLUSTER, *TOPICS, TOPICS[0]._replace(name="more"))
    try:
        yield life
    finally:
        await clients.close()


def name_user(life: Life) -> str:
    body = life.operator.get(PIPELINE)
    assert body is not None
    return f"kappa.shop.delays.{body['metadata']['uid']}"


def read_log_in(life: Life, broker: Broker) -> dict[str, Any]:
    """Return how the pipeline of the Secret logs in."""
    bodies = life.operator.cluster.find("v1", "Secret", "shop")
    (found,) = (
        each["data"] for each in bodies if "username" in each["data"] and each["metadata"]["name"] != "login"
    )
    text = {key: base64.b64decode(value).decode() for key, value in found.items()}
    return {
        "bootstrap.servers": broker.sasl_bootstrap, "security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": text["username"], "sasl.password": text["password"], "log_level": 0,
    }  # fmt: skip


def try_to_write(log_in: dict[str, Any], topic: str) -> str | None:
    """Return the name of the error of writing a record, None where it is written."""
    failed: list[str | None] = []
    producer = Producer(log_in)
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error.name() if error else None))
    producer.flush(20)
    return failed[0]


def try_to_read(log_in: dict[str, Any], topic: str, group: str) -> str | None:
    """Return the name of the error of reading a record as a member of a group, None where one is read."""
    consumer = Consumer({**log_in, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        return None if error is None else error.name()
    except KafkaException as failure:
        name: str = failure.args[0].name()
        return name
    finally:
        consumer.close()


def try_to_begin(log_in: dict[str, Any], identity: str) -> str | None:
    """Return the name of the error of a transaction, None where it can begin."""
    try:
        Producer({**log_in, "transactional.id": identity}).init_transactions(20)
    except KafkaException as failure:
        name: str = failure.args[0].name()
        return name
    return None


async def read_user(life: Life, user: str) -> UserView:
    return await life.operator.context.kafka.read_user(CLUSTER, user)


async def test_a_user_may_do_what_its_pipeline_needs_and_follows_its_changes(broker: Broker) -> None:
    async with prepare(broker, TOPIC_RIGHTS + USER_RIGHTS) as life:
        write(FIRST)(life)
        await life.settle()
        assert life.operator.get_condition(PIPELINE)[1] == "Running"
        user, log_in = name_user(life), read_log_in(life, broker)
        await asyncio.to_thread(check_permitted, broker, log_in, user)
        write(SECOND)(life)
        await life.settle()
        wait_until(lambda: try_to_write(log_in, "more") is None, "permissions follow", every=0.2)
        wait_until(lambda: try_to_write(log_in, "out") == "TOPIC_AUTHORIZATION_FAILED", "and end", every=0.2)
        life.operator.cluster.remove(REF)
        await life.settle()
        assert life.operator.get(PIPELINE) is None
        assert not (await read_user(life, user)).exists


def check_permitted(broker: Broker, log_in: dict[str, Any], user: str) -> None:
    uid, group = user.rpartition(".")[2], "kappa.shop.delays"
    everyone = {"bootstrap.servers": broker.bootstrap}
    assert try_to_write(everyone, "in") is None
    assert try_to_write(everyone, "more") is None
    assert try_to_read(log_in, "in", group) is None
    assert try_to_write(log_in, "out") is None
    assert try_to_begin(log_in, f"{group}.{uid}.log.0") is None
    assert try_to_write(log_in, "in") == "TOPIC_AUTHORIZATION_FAILED"
    assert try_to_write(log_in, "more") == "TOPIC_AUTHORIZATION_FAILED"
    assert try_to_read(log_in, "more", group) == "TOPIC_AUTHORIZATION_FAILED"
    assert try_to_read(log_in, "in", f"{group}-2") == "GROUP_AUTHORIZATION_FAILED"
    assert try_to_begin(log_in, f"{group}.{uid}.other.0") == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


async def test_a_foreign_user_of_that_name_stays_as_it_is(broker: Broker) -> None:
    async with prepare(broker, TOPIC_RIGHTS + USER_RIGHTS) as life:
        write({**FIRST, "suspend": True})(life)
        await life.settle()
        user = name_user(life)
        mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        upsertion = UserScramCredentialUpsertion(user, mechanism, b"foreign")
        admin.alter_user_scram_credentials([upsertion])[user].result(20)
        grant(broker.bootstrap, user, [Right(ResourceType.TOPIC, "more", AclOperation.WRITE)])
        before = await read_user(life, user)
        assert before.exists
        write(FIRST)(life)
        await life.settle()
        assert life.operator.get_condition(PIPELINE)[1] == Reason.NAME_TAKEN
        life.operator.cluster.remove(REF)
        await life.settle()
        assert life.operator.get(PIPELINE) is None
        assert await read_user(life, user) == before
        described = admin.describe_user_scram_credentials([user])
        assert isinstance(described, dict)
        found = described[user].result(20)
        assert [each.iterations for each in found.scram_credential_infos] == [5000]


@pytest.mark.parametrize(("rights", "missing"), [(USER_RIGHTS[1:], "Alter"), ([], "Describe")])
async def test_a_missing_permission_of_the_operator_is_named(
    broker: Broker, rights: list[Right], missing: str
) -> None:
    async with prepare(broker, TOPIC_RIGHTS + rights, "again") as life:
        write(FIRST)(life)
        await life.settle()
        _, reason, message = life.operator.get_condition(PIPELINE)
        assert reason == Reason.AUTHORIZATION_FAILED
        assert f"needs {missing} on the cluster" in message
        assert not life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)


async def test_a_broker_without_authorizer_is_reported() -> None:
    with Broker(users={"operator": PASSWORD}) as open_broker:
        async with prepare(open_broker, None) as life:
            write(FIRST)(life)
            await life.settle()
            assert life.operator.get_condition(PIPELINE)[1] == Reason.KAFKA_WITHOUT_ACLS
            assert not life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)
