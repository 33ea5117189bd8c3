"""Topics on a real broker: creation, drift, adoption, and what Kafka refuses in its own words."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fakes.context import build_resource
from integration.brokers import CLUSTER, RealKafkaOperator, alter_by_hand, create_by_hand, delete_by_hand
from kappa_operator.engine.keys import Key, ObjectRef
from lab.broker import Broker

pytestmark = pytest.mark.clusterless

API = "kappa-platform.io/v1alpha1"


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    return shared_broker


@pytest.fixture
async def operator(broker: Broker) -> AsyncIterator[RealKafkaOperator]:
    async with RealKafkaOperator(broker.bootstrap) as started:
        await started.reconcile(CLUSTER)
        yield started


async def declare(operator: RealKafkaOperator, name: str, **spec: Any) -> Key:
    operator.cluster.put(build_resource("Topic", name, **spec))
    key = Key("Topic", "shop", name)
    await operator.settle(key)
    return key


async def test_a_topic_is_created_and_what_was_seen_is_reported(operator: RealKafkaOperator) -> None:
    spec = {"partitions": 3, "retention": {"time": "30d", "size": "1Gi"}, "config": {"preallocate": "FALSE"}}
    key = await declare(operator, "created", **spec)
    view = await operator.look(key)
    assert view is not None
    assert (view.partitions, view.configs["retention.ms"]) == (3, "2592000000")
    status = (operator.get(key) or {})["status"]
    assert status["summary"] == "3 partitions · 30d · 1 GiB per partition"
    assert (status["topicId"], status["replication"]) == (view.topic_id, 1)
    assert operator.get_condition(key)[:2] == ("True", "Synced")
    assert operator.list_events("Adopted") == []


async def test_partitions_grow_and_configs_change_and_return_to_their_default(
    operator: RealKafkaOperator,
) -> None:
    key = await declare(operator, "changed", config={"max.message.bytes": "2000"})
    await declare(operator, "changed", partitions=4, config={"segment.bytes": "2097152"})
    view = await operator.look(key)
    assert view is not None
    assert (view.partitions, view.configs["segment.bytes"]) == (4, "2097152")
    assert "max.message.bytes" not in view.explicit


async def test_drift_is_repaired_and_foreign_configs_are_left_alone(
    operator: RealKafkaOperator, broker: Broker
) -> None:
    key = await declare(operator, "drifting", retention={"time": "1d"})
    await alter_by_hand(broker.bootstrap, "drifting", "retention.ms", "5")
    await alter_by_hand(broker.bootstrap, "drifting", "segment.bytes", "2097152")
    await operator.settle(key)
    view = await operator.look(key)
    assert view is not None
    assert (view.configs["retention.ms"], view.configs["segment.bytes"]) == ("86400000", "2097152")
    assert len(operator.list_events("DriftRepaired")) == 1


async def test_a_topic_deleted_by_hand_is_created_again_and_reported(
    operator: RealKafkaOperator, broker: Broker
) -> None:
    key = await declare(operator, "vanishing")
    await delete_by_hand(broker.bootstrap, "vanishing")
    await operator.settle(key)
    assert await operator.look(key) is not None
    assert len(operator.list_events("TopicRecreated")) == 1


async def test_an_existing_topic_is_adopted(operator: RealKafkaOperator, broker: Broker) -> None:
    await create_by_hand(broker.bootstrap, "older", 2)
    key = await declare(operator, "older", partitions=2)
    assert operator.get_condition(key)[0] == "True"
    assert len(operator.list_events("Adopted")) == 1


@pytest.mark.parametrize(
    ("name", "first", "second", "reason"),
    [
        ("shrinking", {"partitions": 3}, {"partitions": 1}, "PartitionsCannotShrink"),
        ("replicating", {"replication": 1}, {"replication": 3}, "ReplicationCannotChange"),
        ("compacting", {}, {"cleanup": "compact"}, "CleanupChangeUnsafe"),
    ],
)
async def test_what_kafka_cannot_do_is_refused_and_the_rest_is_done(
    operator: RealKafkaOperator, name: str, first: Any, second: Any, reason: str
) -> None:
    await declare(operator, name, **first)
    key = await declare(operator, name, **second, config={"max.message.bytes": "3000"})
    assert operator.get_condition(key)[:2] == ("False", reason)
    view = await operator.look(key)
    assert view is not None
    assert view.configs["max.message.bytes"] == "3000"


async def test_an_invalid_config_is_reported_with_the_broker_message_and_the_valid_one_is_set(
    operator: RealKafkaOperator,
) -> None:
    await declare(operator, "invalid")
    key = await declare(operator, "invalid", config={"flush.ms": "soon", "max.message.bytes": "4000"})
    assert operator.get_condition(key)[:2] == ("False", "ConfigRefused")
    assert "Invalid value soon for configuration flush.ms" in operator.get_condition(key)[2]
    view = await operator.look(key)
    assert view is not None
    assert view.configs["max.message.bytes"] == "4000"


@pytest.mark.parametrize(
    ("name", "spec", "reason", "words"),
    [
        ("unknown", {"config": {"no.such.config": "1"}}, "ConfigRefused", "Unknown topic config name"),
        ("wide", {"replication": 5}, "KafkaError", "only 1 broker(s) are registered"),
    ],
)
async def test_a_refused_creation_is_reported(
    operator: RealKafkaOperator, name: str, spec: Any, reason: str, words: str
) -> None:
    key = await declare(operator, name, **spec)
    assert operator.get_condition(key)[:2] == ("False", reason)
    assert operator.get_condition(key, "Stalled")[0] == "True"
    assert words in operator.get_condition(key)[2]


async def test_delete_removes_the_topic(operator: RealKafkaOperator) -> None:
    key = await declare(operator, "short-lived", deletionPolicy="Delete")
    operator.cluster.remove(ObjectRef(API, *key))
    await operator.settle(key)
    assert operator.get(key) is None
    assert await operator.look(key) is None


async def test_five_hundred_topics_take_a_few_calls(operator: RealKafkaOperator) -> None:
    keys = [Key("Topic", "shop", f"many-{number:03d}") for number in range(500)]
    for key in keys:
        operator.cluster.put(build_resource("Topic", key.name))
    await asyncio.gather(*(operator.reconcile(key) for key in keys))
    assert {operator.get_condition(key)[0] for key in keys} == {"True"}


@pytest.mark.chaos  # `make test` has it in test_kafka_connection.py
async def test_a_broker_failure_during_topic_creation_is_survived(broker: Broker) -> None:
    with Broker() as fragile:
        async with RealKafkaOperator(fragile.bootstrap) as operator:
            await operator.reconcile(CLUSTER)
            key = await declare(operator, "steady")
            fragile.kill()
            operator.cluster.put(build_resource("Topic", "steady", partitions=2))
            await operator.reconcile(key)
            assert operator.get_condition(key)[:2] == ("False", "BrokerUnreachable")
            fragile.start()
            await operator.settle(key)
            assert operator.get_condition(key)[:2] == ("True", "Synced")
            view = await operator.look(key)
            assert view is not None
            assert view.partitions == 2
