"""The real API server, a real broker, real pods: resources reconciled in process, one look at a time."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from integration.bench import PATIENCE, Bench
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import ObjectRef
from lab.broker import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


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
    assert 'Secret "login" not found' in status["conditions"][0]["message"]


async def test_a_pvc_is_created_bound_and_checked_by_a_pod(bench: Bench) -> None:
    store = await bench.put("StateStore", "main", pvc={"size": "64Mi"})
    status = await bench.await_reason(store, "StoreVerified")
    assert status["claimName"] == "main-state"
    assert status["freeBytes"] > 2**20
    claim = await bench.cluster.get(ObjectRef("v1", "PersistentVolumeClaim", bench.namespace, "main-state"))
    assert claim is not None
    assert claim["status"]["phase"] == "Bound"


async def test_a_missing_storage_class_is_reported_at_once(bench: Bench) -> None:
    pvc = {"size": "64Mi", "storageClassName": "no-such-class"}
    store = await bench.put("StateStore", "main", pvc=pvc)
    deadline = time.monotonic() + PATIENCE
    message = ""
    while "no-such-class" not in message:
        status = await bench.await_reason(store, "StoreProvisioning")
        message = status["conditions"][0]["message"]
        assert time.monotonic() < deadline, message
        await asyncio.sleep(1)


async def test_shrinking_a_pvc_is_refused_with_the_api_server_message(bench: Bench) -> None:
    store = await bench.put("StateStore", "main", pvc={"size": "64Mi"})
    await bench.await_reason(store, "StoreVerified")
    await bench.put("StateStore", "main", pvc={"size": "32Mi"})
    status = await bench.await_reason(store, "StoreSizeRefused")
    assert "orbidden" in status["conditions"][0]["message"]
