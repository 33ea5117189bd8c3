"""Consumer groups on a real broker: their members and offsets are read, and offsets are committed only where there is no member."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from integration.brokers import USERS
from kappa_operator.errors import AuthorizationFailed, KafkaFailure
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.groups import GroupClient
from kappa_operator.kafka.model import GroupView, KafkaAccess
from lab.broker import Broker

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos]
Result = TypeVar("Result")
NOBODY = USERS["nobody"]


@pytest.fixture(scope="module")
def broker(acl_broker: Broker) -> Broker:
    admin = AdminClient({"bootstrap.servers": acl_broker.bootstrap})
    for name in ("prices", "prices.r1"):
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
    producer = Producer({"bootstrap.servers": acl_broker.bootstrap})
    for number in range(20):
        producer.produce("prices", str(number), partition=number % 2)
    assert producer.flush(20) == 0
    return acl_broker


def ask(access: KafkaAccess, call: Callable[[GroupClient], Awaitable[Result]]) -> Result:
    """Return the answer to one call over a connection of its own; that of a group whose coordinator is not there yet is awaited."""

    async def run() -> Result:
        connection = Connection(access)
        try:
            return await call(GroupClient(connection))
        finally:
            await connection.close()

    deadline = time.monotonic() + 30
    while True:
        try:
            return asyncio.run(run())
        except KafkaFailure as error:
            if isinstance(error, AuthorizationFailed) or "UnknownMember" in error.message:
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def build_access(broker: Broker) -> KafkaAccess:
    return KafkaAccess.of(
        {"bootstrap.servers": broker.bootstrap, "security.protocol": "plaintext", "client.id": "test"}
    )


def read(broker: Broker, group: str) -> GroupView:
    return ask(build_access(broker), lambda client: client.read(group))


def test_offsets_are_committed_for_a_group_that_its_consumers_have_left(broker: Broker) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["prices"])
    seen = 0
    while seen < 20:
        message = consumer.poll(1)
        seen += message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    found = read(broker, "billing")
    assert (found.members, found.committed) == (1, {"prices": {0: 10, 1: 10}})
    positions = {"prices.r1": {0: 3, 1: 4}}
    with pytest.raises(KafkaFailure, match="UnknownMember"):
        ask(build_access(broker), lambda client: client.commit("billing", positions))
    consumer.close()
    assert read(broker, "billing").members == 0
    for _ in range(2):
        ask(build_access(broker), lambda client: client.commit("billing", positions))
        assert read(broker, "billing").committed == {"prices": {0: 10, 1: 10}, **positions}


def test_a_group_that_kafka_does_not_know_has_nothing(broker: Broker) -> None:
    assert read(broker, "unknown") == GroupView("unknown")


def test_a_user_without_permission_is_told_which_one_is_missing(broker: Broker) -> None:
    access = KafkaAccess.of(
        {
            "bootstrap.servers": broker.sasl_bootstrap,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "nobody",
            "sasl.password": NOBODY,
            "client.id": "test",
        }
    )
    with pytest.raises(AuthorizationFailed, match="Read on the group"):
        ask(access, lambda client: client.read("billing"))
