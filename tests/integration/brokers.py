"""What the tests with a real Kafka share: an operator in process, in front of real brokers."""

import asyncio
from typing import Any, Self

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from fakes.world import FakeBuckets, FakeDrivers, Operator, build_resource
from kappa_operator.kafka import AdminClients
from kappa_operator.kafka_model import TopicView
from kappa_operator.keys import Key
from kappa_operator.logic import LOGICS
from kappa_operator.settings import Settings
from kappa_operator.world import World

_CONFIGS = frozenset({"retention.ms", "segment.bytes", "max.message.bytes"})
CLUSTER = Key("KafkaCluster", "shop", "main")


class RealKafkaOperator(Operator):
    """The operator on a fake API server and real brokers, by the wall clock.

    A topic that was just made is told as it was made; what the broker adds is told whenever it is looked at again.
    """

    is_strict = False

    def __init__(self, bootstrap: str, **spec: Any) -> None:
        super().__init__(LOGICS)
        self.clients = AdminClients()
        self.world = World(
            cluster=self.cluster, mirror=self.mirror, kafka=self.clients, drivers=FakeDrivers(),
            buckets=FakeBuckets(), settings=Settings(),
        )  # fmt: skip
        self.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=[bootstrap], **spec))

    async def look(self, key: Key) -> TopicView | None:
        """Return the topic of that Topic resource as Kafka shows it, with every config that these tests ask about."""
        return await self.clients.describe_topic(CLUSTER, key.name, _CONFIGS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.clients.close()


async def alter_by_hand(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Set a topic config as somebody with Kafka's own tools does."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    await asyncio.to_thread(admin.incremental_alter_configs([resource])[resource].result)
    await asyncio.sleep(0.3)


async def delete_by_hand(bootstrap: str, topic: str) -> None:
    """Delete a topic as somebody with Kafka's own tools does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    await asyncio.to_thread(admin.delete_topics([topic])[topic].result)
    await asyncio.sleep(0.3)
