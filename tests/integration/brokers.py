"""What the tests with a real Kafka share: an operator in process, in front of real brokers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from fakes.context import FakeDrivers, Operator, build_resource
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kafka.model import TopicView
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings

_CONFIGS = frozenset({"retention.ms", "segment.bytes", "max.message.bytes"})
CLUSTER = Key("KafkaCluster", "shop", "main")
USERS = {"operator": "s3cret-of-the-operator", "pipelines": "s3cret-of-pipelines", "nobody": "nobody's"}
"""Log-ins of the broker with ACLs that files share."""
TLS_USERS = {"reader": "s3cret-of-the-reader", "connect": "s3cret-${user.home}-of-workers"}
"""The same of the one with TLS."""


class RealKafkaOperator(Operator):
    """The operator on a fake API server and real brokers, by the wall clock.

    A topic that was just made is told as it was made; what the broker adds is told whenever it is looked at again.
    """

    is_strict = False

    def __init__(self, bootstrap: str, **spec: Any) -> None:
        super().__init__(KIND_TABLE)
        self.clients = AdminClients()
        self.context = OperatorContext(
            cluster=self.cluster, cache=self.cache, kafka=self.clients, drivers=FakeDrivers(),
            settings=Settings(),
        )  # fmt: skip
        self.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=[bootstrap], **spec))

    async def look(self, key: Key) -> TopicView | None:
        """Return the topic of that Topic resource as Kafka shows it, with every config that these tests ask about."""
        return await self.clients.describe_topic(CLUSTER, key.name, _CONFIGS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.clients.close()


async def await_told(read: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Wait until a broker tells what was set: the controller answers before the broker has its own copy of the change."""
    for _ in range(100):
        found = await read()
        if found == wanted:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"the broker tells of {found}, and not of {wanted}")


async def alter_by_hand(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Set a topic config as somebody with Kafka's own tools does."""
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)],
    )
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    async def read() -> object:
        return (await asyncio.to_thread(admin.describe_configs([asked])[asked].result))[name].value

    await asyncio.to_thread(admin.incremental_alter_configs([resource])[resource].result)
    await await_told(read, value)


async def create_by_hand(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic as somebody with Kafka's own tools does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    await asyncio.to_thread(admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result)
    await await_told(lambda: _is_there(admin, topic), True)


async def delete_by_hand(bootstrap: str, topic: str) -> None:
    """Delete a topic as somebody with Kafka's own tools does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    await asyncio.to_thread(admin.delete_topics([topic])[topic].result)
    await await_told(lambda: _is_there(admin, topic), False)


async def _is_there(admin: AdminClient, topic: str) -> bool:
    found = await asyncio.to_thread(admin.list_topics, timeout=20)
    return topic in found.topics
