"""New credentials of a Kafka cluster replace its client; calls that are under way end with the old one."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from kappa_operator.engine.actions import CreateTopic
from kappa_operator.engine.keys import Key
from kappa_operator.kafka import calls, client
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kafka.metadata import FoundTopic
from kappa_operator.kafka.model import KafkaAccess

CLUSTER = Key("KafkaCluster", "shop", "kafka")
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "client.id": "kappa", "security.protocol": "plaintext"}


class Broker:
    """Creates a topic when `go` is set, and shows it from then on."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self.looks = 0

    def create(self, *_: Any) -> list[bool]:
        self.asked.set()
        self.go.wait(30)
        return [True]

    async def look_at(self, _connection: object, topics: Iterable[str]) -> dict[str, FoundTopic]:
        self.looks += 1
        return {name: FoundTopic(0, "id", 1, 1) for name in topics}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(calls, "create_topics", broker.create)
    monkeypatch.setattr(client, "find_topics", broker.look_at)
    return broker


async def test_a_topic_that_is_being_created_while_credentials_change_is_created(broker: Broker) -> None:
    clients = AdminClients()
    clients.connect(CLUSTER, KafkaAccess.of(NOWHERE))
    creating = asyncio.create_task(clients.apply(CreateTopic(CLUSTER, "orders", 1, 1, {})))
    await asyncio.to_thread(broker.asked.wait, 30)
    clients.connect(CLUSTER, KafkaAccess.of({**NOWHERE, "client.id": "renewed"}))
    await asyncio.sleep(0)
    broker.go.set()
    await creating
    assert broker.looks == 1
    await clients.close()


async def test_the_old_client_is_closed_once_its_calls_have_ended(broker: Broker) -> None:
    clients = AdminClients()
    clients.connect(CLUSTER, KafkaAccess.of(NOWHERE))
    creating = asyncio.create_task(clients.apply(CreateTopic(CLUSTER, "orders", 1, 1, {})))
    await asyncio.to_thread(broker.asked.wait, 30)
    closing = asyncio.create_task(clients.close())
    await asyncio.sleep(0)
    assert not closing.done()
    broker.go.set()
    await asyncio.wait_for(asyncio.gather(creating, closing), 30)
