"""Quotas of producers on a real broker: one that obeys is really slowed down and let go again, and what it had before is put back."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient, NewTopic

from fakes.context import build_resource
from integration.brokers import CLUSTER, USERS, RealKafkaOperator, await_told
from kappa_crds import API_VERSION
from kappa_operator.engine.actions import SetQuota
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import AuthorizationFailed
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess, Producer, Rate
from kappa_operator.kafka.quotas import QuotaClient
from lab.broker import Broker

pytestmark = pytest.mark.clusterless

LOADER = Producer(client_id="loader")
POLICY = Key("LagPolicy", "shop", "gold")
SPEC: dict[str, Any] = {
    "selector": {"groups": ["billing"]},
    "warning": {"lag": "60s", "for": "0s"},
    "critical": {"lag": "5m", "for": "0s"},
    "clearAfter": "20s",
    "remediation": {
        "throttleProducers": {
            "producers": [{"clientId": "loader"}],
            "quietFor": "30s",
            "bytesPerSecond": 5000,
        }
    },
}
TOPIC = "loaded"


@pytest.fixture(scope="module")
def broker(acl_broker: Broker) -> Broker:
    admin = AdminClient({"bootstrap.servers": acl_broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(20)
    return acl_broker


def build_access(broker: Broker) -> KafkaAccess:
    return KafkaAccess.of(
        {"bootstrap.servers": broker.bootstrap, "security.protocol": "plaintext", "client.id": "test"}
    )


class Loader:
    """A producer, and what the broker makes it wait."""

    def __init__(self, broker: Broker, name: str = "loader") -> None:
        self.throttled, self.taken = 0.0, 0
        self.client = Client(
            {
                "bootstrap.servers": broker.bootstrap,
                "client.id": name,
                "throttle_cb": self._note,
                "linger.ms": 0,
            }
        )

    def _note(self, event: Any) -> None:
        self.throttled += event.throttle_time

    def _count(self, error: Any, _: Any) -> None:
        self.taken += error is None

    def send(self, seconds: float) -> int:
        """Send records of 2 KiB for a time, ten at once; return how many the broker took in it."""
        self.throttled, self.taken, until = 0.0, 0, time.monotonic() + seconds
        while time.monotonic() < until:
            if len(self.client) < 10:
                self.client.produce(TOPIC, b"x" * 2048, on_delivery=self._count)
            self.client.poll(0.01 if len(self.client) == 10 else 0)
        found = self.taken
        self.client.flush(60)
        return found

    def is_free(self, wanted: int) -> bool:
        """Return whether the broker takes so many records again in half a second, once what it makes the connection wait for has passed."""
        return any(self.send(0.5) > wanted for _ in range(20))


class Scene(RealKafkaOperator):
    """The operator with a policy, in front of a real broker; how far the group is behind is told by the test, and the clock is turned."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.bootstrap)
        self.context = replace(self.context, get_lag=self.lag.get, now=self.clock)
        self.cluster.put(build_resource("LagPolicy", "gold", **SPEC))
        self.end = 1000

    async def run(self, seconds: int, behind: float) -> None:
        for _ in range(seconds // 10):
            self.clock.time += timedelta(seconds=10)
            self.end += 100
            committed = self.end - (50 if behind else 0)
            self.lag.sample(CLUSTER, self.clock.time, billing=(committed, self.end, behind))
            await self.reconcile(POLICY)

    async def await_quota(self, wanted: float | None) -> None:
        await await_told(lambda: self.clients.read_quota(CLUSTER, LOADER), wanted)


async def test_a_quota_is_set_read_and_removed(broker: Broker) -> None:
    connection = Connection(build_access(broker))
    quotas = QuotaClient(connection)
    both, user = Producer("loader", "etl"), Producer(user="CN=etl,OU=a shop")

    async def read() -> list[float | None]:
        return [await quotas.read(each) for each in (both, user, LOADER)]

    try:
        await quotas.set(LOADER, 7000, Rate.CONSUMER)
        await await_told(lambda: quotas.read(LOADER, Rate.CONSUMER), 7000)
        for number, producer in enumerate((both, user, LOADER)):
            assert await quotas.read(producer) is None
            await quotas.set(producer, 1000 + number)
        await await_told(read, [1000, 1001, 1002])
        for producer in (both, user, LOADER):
            await quotas.set(producer, None)
            await quotas.set(producer, None)
        await await_told(read, [None] * 3)
        assert await quotas.read(LOADER, Rate.CONSUMER) == 7000, "another quota of the same client"
        await quotas.set(LOADER, None, Rate.CONSUMER)
        await await_told(lambda: quotas.read(LOADER, Rate.CONSUMER), None)
    finally:
        await connection.close()


async def test_a_user_without_permissions_gets_an_error_that_names_them(broker: Broker) -> None:
    settings = {
        "bootstrap.servers": broker.sasl_bootstrap, "security.protocol": "sasl_plaintext", "client.id": "test",
        "sasl.mechanism": "PLAIN", "sasl.username": "nobody", "sasl.password": USERS["nobody"],
    }  # fmt: skip
    connection = Connection(KafkaAccess.of(settings, (USERS["nobody"],)))
    quotas = QuotaClient(connection)
    try:
        with pytest.raises(
            AuthorizationFailed, match="needs DescribeConfigs and AlterConfigs on the cluster"
        ):
            await quotas.read(LOADER)
        with pytest.raises(
            AuthorizationFailed, match="needs DescribeConfigs and AlterConfigs on the cluster"
        ):
            await quotas.set(LOADER, 1.0)
    finally:
        await connection.close()


async def test_a_producer_is_slowed_down_while_it_is_critical_and_let_go_again(broker: Broker) -> None:
    loader, other = Loader(broker), Loader(broker, "other")
    async with Scene(broker) as scene:
        await scene.reconcile(CLUSTER)
        free = await asyncio.to_thread(loader.send, 1.0)
        assert loader.throttled == 0
        await scene.run(60, 900.0)
        assert scene.list_events("ProducerThrottled")
        slowed = await asyncio.to_thread(loader.send, 3.0)
        assert loader.throttled > 0
        assert slowed * 5 < free
        await asyncio.to_thread(other.send, 0.5)
        assert other.throttled == 0, "nobody else is"
        await scene.run(180, 0.0)
        assert scene.list_events("ProducerReleased")
        assert await asyncio.to_thread(loader.is_free, slowed * 5)
        await scene.await_quota(None)


async def test_what_it_had_before_is_put_back_when_the_policy_is_deleted(broker: Broker) -> None:
    async with Scene(broker) as scene:
        await scene.reconcile(CLUSTER)
        await scene.run(10, 0.0)
        await scene.clients.apply(SetQuota(CLUSTER, LOADER, 3_000_000.0))
        await scene.await_quota(3_000_000)
        await scene.run(60, 900.0)
        await scene.await_quota(5000)
        scene.cluster.remove(ObjectRef(API_VERSION, *POLICY))
        for _ in range(10):
            await scene.reconcile(POLICY)
            await asyncio.sleep(0.2)
        assert scene.get(POLICY) is None
        await scene.await_quota(3_000_000)
        await scene.clients.apply(SetQuota(CLUSTER, LOADER, None))
