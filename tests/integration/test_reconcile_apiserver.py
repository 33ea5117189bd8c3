"""The real API server, a real broker, real pods: resources reconciled in process, one look at a time."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fakes.world import FakeBuckets, FakeDrivers, build_resource
from kappa_crds import API_VERSION
from kappa_operator.cluster import ApiCluster
from kappa_operator.errors import Conflict, NotFound
from kappa_operator.kafka import AdminClients
from kappa_operator.keys import Key, ObjectRef
from kappa_operator.logic import LOGICS
from kappa_operator.mirror import Mirror
from kappa_operator.reconcile import reconcile
from kappa_operator.settings import Settings
from kappa_operator.world import World
from lab.broker import Broker
from lab.paths import KUBECONFIG

PATIENCE = 90.0


class Bench:
    """An operator in process that looks at what it is told to, in a namespace of its own."""

    def __init__(self, cluster: ApiCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kafka = AdminClients()
        self.world = World(
            cluster=cluster, mirror=Mirror(), kafka=self.kafka, drivers=FakeDrivers(),
            buckets=FakeBuckets(), settings=Settings(),
        )  # fmt: skip

    async def put(self, kind: str, name: str, **spec: Any) -> Key:
        """Create or change a resource as a user does."""
        body = build_resource(kind, name, self.namespace, **spec)
        before = await self.read(Key(kind, self.namespace, name))
        if before is None:
            await self.cluster.create(body)
        else:
            await self.cluster.replace({**before, "spec": spec})
        return Key(kind, self.namespace, name)

    async def read(self, key: Key) -> dict[str, Any] | None:
        """Return the resource as it is now."""
        return await self.cluster.get(ObjectRef(API_VERSION, *key))

    async def look(self, key: Key) -> None:
        """Reconcile once, on a fresh picture of the namespace."""
        for kind in LOGICS:
            for body in await self.cluster.list_objects(API_VERSION, kind, self.namespace):
                self.world.mirror.put(body)
        if await self.read(key) is None:
            self.world.mirror.forget(key)
        try:
            await reconcile(self.world, LOGICS, key)
        except (Conflict, NotFound):
            return

    async def await_reason(self, key: Key, reason: str) -> dict[str, Any]:
        """Look again and again until Ready has this reason; return the status."""
        deadline = time.monotonic() + PATIENCE
        while True:
            await self.look(key)
            status: dict[str, Any] = (await self.read(key) or {}).get("status", {})
            ready = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), None)
            if ready is not None and ready["reason"] == reason:
                return status
            assert time.monotonic() < deadline, f"{key} is {ready}"
            await asyncio.sleep(0.5)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    assert KUBECONFIG.exists(), f"{KUBECONFIG} is missing: bring the local cluster up first"
    os.environ["KUBECONFIG"] = str(KUBECONFIG)
    namespace = f"it-{secrets.token_hex(3)}"
    async with await ApiCluster.connect("kappa-lab") as cluster:
        name = {"name": namespace, "namespace": ""}
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": name})
        bench = Bench(cluster, namespace)
        try:
            yield bench
        finally:
            await bench.kafka.close()
            await cluster.delete(ObjectRef("v1", "Namespace", "", namespace))


async def test_a_topic_lives_and_dies_with_its_resource(bench: Bench, broker: Broker) -> None:
    cluster = await bench.put("KafkaCluster", "main", bootstrapServers=[broker.bootstrap])
    await bench.await_reason(cluster, "Connected")
    topic = await bench.put(
        "Topic", "orders", partitions=2, retention={"time": "1d"}, deletionPolicy="Delete"
    )
    status = await bench.await_reason(topic, "Synced")
    assert (status["summary"], status["partitions"]) == ("2 partitions · 1d", 2)
    assert status["managedConfigs"] == ["cleanup.policy", "retention.ms"]
    await bench.put("Topic", "orders", partitions=1, deletionPolicy="Delete")
    await bench.await_reason(topic, "PartitionsCannotShrink")
    await bench.cluster.delete(ObjectRef(API_VERSION, *topic))
    await bench.look(topic)
    assert await bench.read(topic) is None
    assert await bench.kafka.describe_topic(cluster, "orders") is None


async def test_a_secret_that_is_missing_is_named(bench: Bench, broker: Broker) -> None:
    sasl = {"credentialsSecretRef": {"name": "login"}}
    cluster = await bench.put("KafkaCluster", "main", bootstrapServers=[broker.bootstrap], sasl=sasl)
    status = await bench.await_reason(cluster, "SecretNotFound")
    assert "there is no Secret login" in status["conditions"][0]["message"]


async def test_a_claim_is_made_bound_and_checked_by_a_pod(bench: Bench) -> None:
    store = await bench.put("StateStore", "main", pvc={"size": "64Mi"})
    status = await bench.await_reason(store, "StoreVerified")
    assert status["claimName"] == "main-state"
    assert status["freeBytes"] > 2**20
    claim = await bench.cluster.get(ObjectRef("v1", "PersistentVolumeClaim", bench.namespace, "main-state"))
    assert claim is not None
    assert claim["status"]["phase"] == "Bound"


async def test_a_class_that_does_not_exist_is_told_rather_than_waited_for(bench: Bench) -> None:
    pvc = {"size": "64Mi", "storageClassName": "no-such-class"}
    store = await bench.put("StateStore", "main", pvc=pvc)
    deadline = time.monotonic() + PATIENCE
    message = ""
    while "no-such-class" not in message:
        status = await bench.await_reason(store, "StoreProvisioning")
        message = status["conditions"][0]["message"]
        assert time.monotonic() < deadline, message
        await asyncio.sleep(1)


async def test_shrinking_a_claim_is_refused_in_the_api_servers_words(bench: Bench) -> None:
    store = await bench.put("StateStore", "main", pvc={"size": "64Mi"})
    await bench.await_reason(store, "StoreVerified")
    await bench.put("StateStore", "main", pvc={"size": "32Mi"})
    status = await bench.await_reason(store, "StoreSizeRefused")
    assert "orbidden" in status["conditions"][0]["message"]
