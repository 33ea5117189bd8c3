"""Topics from manifest to Kafka and back, on fakes: creation, drift, adoption, conflicts, deletion."""

from typing import Any

import pytest

from fakes.context import Operator, build_resource, build_secret
from fakes.kafka import FakeBroker
from kappa_operator.engine.actions import AlterConfigs, CreateTopic, DeleteTopic, GrowPartitions
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import BrokerUnreachable
from kappa_operator.kinds import KIND_TABLE

CLUSTER = Key("KafkaCluster", "shop", "main")
ORDERS = Key("Topic", "shop", "orders")
API = "kappa-platform.io/v1alpha1"


def ref(key: Key) -> ObjectRef:
    return ObjectRef(API, key.kind, key.namespace, key.name)


async def start(**spec: Any) -> Operator:
    """Return an operator with a ready cluster and the Topic `orders`, not looked at yet."""
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    await operator.settle(CLUSTER)
    operator.cluster.put(build_resource("Topic", "orders", **spec))
    return operator


def change(operator: Operator, key: Key = ORDERS, **spec: Any) -> None:
    operator.cluster.put(build_resource(key.kind, key.name, key.namespace, **spec))


def broker(operator: Operator) -> FakeBroker:
    return operator.brokers["kafka:9092"]


async def test_a_topic_is_created_from_its_spec_and_its_status_shows_the_observed_one() -> None:
    operator = await start(partitions=4, retention={"time": "30d"}, config={"min.insync.replicas": "1"})
    await operator.settle(ORDERS)
    topic = broker(operator).topics["orders"]
    assert (topic.partitions, topic.configs["retention.ms"]) == (4, "2592000000")
    status = (operator.get(ORDERS) or {})["status"]
    assert status["summary"] == "4 partitions · 30d"
    assert status["topicId"] == topic.topic_id
    assert status["state"] == "Synced"
    assert status["managedConfigs"] == ["cleanup.policy", "min.insync.replicas", "retention.ms"]
    assert operator.get_condition(ORDERS)[:2] == ("True", "Synced")


async def test_a_topic_that_is_in_order_causes_no_write() -> None:
    operator = await start()
    await operator.settle(ORDERS)
    writes = operator.cluster.fuse.writes
    operator.clock.advance(600)
    await operator.reconcile(ORDERS)
    assert operator.cluster.fuse.writes == writes


async def test_creation_costs_one_kafka_call_and_one_status() -> None:
    operator = await start()
    before = operator.cluster.fuse.writes
    await operator.reconcile(ORDERS)
    assert operator.cluster.fuse.writes - before == 2


async def test_more_partitions_and_changed_configs_are_applied() -> None:
    operator = await start(partitions=1)
    await operator.settle(ORDERS)
    change(operator, partitions=3, retention={"size": "1Gi"})
    await operator.settle(ORDERS)
    topic = broker(operator).topics["orders"]
    assert (topic.partitions, topic.configs["retention.bytes"]) == (3, str(2**30))
    assert operator.list_events("Altered") == [
        "grow topic orders from 1 to 3 partitions; alter topic orders, retention.bytes=1073741824"
    ]


async def test_a_config_that_leaves_the_spec_returns_to_its_default() -> None:
    operator = await start(config={"segment.bytes": "1048576"})
    await operator.settle(ORDERS)
    change(operator)
    await operator.settle(ORDERS)
    assert "segment.bytes" not in broker(operator).topics["orders"].configs


async def test_a_config_that_a_user_set_by_hand_is_not_changed() -> None:
    operator = await start()
    await operator.settle(ORDERS)
    broker(operator).topics["orders"].configs["segment.bytes"] = "1048576"
    await operator.settle(ORDERS)
    assert broker(operator).topics["orders"].configs["segment.bytes"] == "1048576"


async def test_a_value_in_another_spelling_is_no_difference() -> None:
    operator = await start(
        config={"min.cleanable.dirty.ratio": "0.50", "preallocate": "TRUE", "max.message.bytes": "01000"}
    )
    await operator.settle(ORDERS)
    actions = list(operator.kafka.actions)
    await operator.reconcile(ORDERS)
    assert operator.kafka.actions == actions
    assert operator.get_condition(ORDERS)[0] == "True"


async def test_drift_is_repaired_and_reported() -> None:
    operator = await start(retention={"time": "1d"})
    await operator.settle(ORDERS)
    broker(operator).topics["orders"].configs["retention.ms"] = "1"
    await operator.settle(ORDERS)
    assert broker(operator).topics["orders"].configs["retention.ms"] == "86400000"
    assert "retention.ms=86400000" in operator.list_events("DriftRepaired")[0]


async def test_a_topic_deleted_from_outside_is_created_again_and_the_loss_is_reported() -> None:
    operator = await start()
    await operator.settle(ORDERS)
    del broker(operator).topics["orders"]
    await operator.settle(ORDERS)
    assert "orders" in broker(operator).topics
    (said,) = operator.list_events("TopicRecreated")
    assert "with its data" in said
    warnings = operator.cluster.find("events.k8s.io/v1", "Event")
    assert [event["type"] for event in warnings if event["reason"] == "TopicRecreated"] == ["Warning"]


async def test_an_existing_topic_is_adopted() -> None:
    operator = await start(partitions=2)
    broker(operator).add("orders", partitions=2, configs={"segment.bytes": "1048576"})
    await operator.settle(ORDERS)
    assert operator.kafka.actions == []
    assert operator.get_condition(ORDERS)[0] == "True"
    assert len(operator.list_events("Adopted")) == 1


async def test_a_created_topic_does_not_pass_for_adopted() -> None:
    operator = await start()
    await operator.settle(ORDERS)
    assert operator.list_events("Adopted") == []


async def test_fewer_partitions_are_refused_while_the_rest_is_applied() -> None:
    operator = await start(partitions=4)
    await operator.settle(ORDERS)
    change(operator, partitions=2, retention={"time": "2d"})
    await operator.settle(ORDERS)
    status, reason, message = operator.get_condition(ORDERS)
    assert (status, reason) == ("False", "PartitionsCannotShrink")
    assert "set spec.partitions to 4" in message
    assert operator.get_condition(ORDERS, "Stalled")[0] == "True"
    assert broker(operator).topics["orders"].configs["retention.ms"] == "172800000"


async def test_another_replication_is_refused_with_the_remediation() -> None:
    operator = await start(replication=1)
    await operator.settle(ORDERS)
    change(operator, replication=3)
    await operator.settle(ORDERS)
    assert operator.get_condition(ORDERS)[1] == "ReplicationCannotChange"
    assert "kafka-reassign-partitions" in operator.get_condition(ORDERS)[2]


async def test_a_change_to_compact_is_refused_until_it_is_allowed() -> None:
    operator = await start()
    await operator.settle(ORDERS)
    change(operator, cleanup="compact", config={"segment.bytes": "1048576"})
    await operator.settle(ORDERS)
    assert operator.get_condition(ORDERS)[1] == "CleanupChangeUnsafe"
    assert "cleanup.policy" not in [
        key for action in operator.kafka.actions if isinstance(action, AlterConfigs) for key in action.configs
    ]
    assert broker(operator).topics["orders"].configs["segment.bytes"] == "1048576"
    change(operator, cleanup="compact", config={"segment.bytes": "1048576"}, allowCleanupChange=True)
    await operator.settle(ORDERS)
    assert broker(operator).topics["orders"].configs["cleanup.policy"] == "compact"
    assert operator.get_condition(ORDERS)[0] == "True"


async def test_an_invalid_config_is_reported_with_the_broker_message_and_the_valid_ones_are_applied() -> None:
    operator = await start()
    await operator.settle(ORDERS)
    change(operator, config={"segment.bytes": "many", "max.message.bytes": "2000"})
    await operator.settle(ORDERS)
    status, reason, message = operator.get_condition(ORDERS)
    assert (status, reason) == ("False", "ConfigRefused")
    assert "Invalid value many for configuration segment.bytes" in message
    assert broker(operator).topics["orders"].configs["max.message.bytes"] == "2000"


async def test_a_topic_with_an_invalid_config_is_not_created() -> None:
    operator = await start(config={"no.such.config": "1"})
    await operator.settle(ORDERS)
    assert broker(operator).topics == {}
    assert operator.get_condition(ORDERS)[1] == "ConfigRefused"
    assert "Unknown topic config name: no.such.config" in operator.get_condition(ORDERS)[2]


async def test_a_suspended_topic_is_left_as_it_is() -> None:
    operator = await start(partitions=1)
    await operator.settle(ORDERS)
    change(operator, partitions=5, suspend=True)
    await operator.settle(ORDERS)
    assert broker(operator).topics["orders"].partitions == 1
    assert operator.get_condition(ORDERS)[:2] == ("True", "Suspended")
    change(operator, partitions=5)
    await operator.settle(ORDERS)
    assert broker(operator).topics["orders"].partitions == 5


async def test_a_suspended_topic_that_is_missing_is_not_created() -> None:
    operator = await start(suspend=True)
    await operator.settle(ORDERS)
    assert broker(operator).topics == {}
    assert operator.get_condition(ORDERS)[:2] == ("False", "Suspended")


async def test_the_oldest_of_two_resources_keeps_a_topic_in_the_same_kafka() -> None:
    operator = await start(partitions=1)
    await operator.settle(ORDERS)
    operator.clock.advance(60)
    rival, other = Key("Topic", "lab", "mine"), Key("KafkaCluster", "lab", "kafka")
    operator.cluster.put(build_resource("KafkaCluster", "kafka", "lab", bootstrapServers=["kafka:9092"]))
    operator.cluster.put(build_resource("Topic", "mine", "lab", topicName="orders", partitions=9))
    await operator.settle(other, rival, ORDERS)
    assert broker(operator).topics["orders"].partitions == 1
    assert operator.get_condition(rival)[1] == "TopicConflict"
    assert "Topic shop/orders" in operator.get_condition(rival)[2]
    assert operator.get_condition(ORDERS)[0] == "True"
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(ORDERS, rival)
    assert broker(operator).topics["orders"].partitions == 9
    assert operator.get_condition(rival)[0] == "True"


async def test_the_same_name_in_another_kafka_is_no_conflict() -> None:
    operator = await start()
    operator.brokers["elsewhere:9092"] = FakeBroker("kafka-2")
    rival, other = Key("Topic", "lab", "orders"), Key("KafkaCluster", "lab", "kafka")
    operator.cluster.put(build_resource("KafkaCluster", "kafka", "lab", bootstrapServers=["elsewhere:9092"]))
    operator.cluster.put(build_resource("Topic", "orders", "lab"))
    await operator.settle(other, rival, ORDERS)
    assert operator.get_condition(rival)[0] == operator.get_condition(ORDERS)[0] == "True"


async def test_retain_puts_no_finalizer_and_leaves_the_topic() -> None:
    operator = await start()
    await operator.settle(ORDERS)
    assert "finalizers" not in (operator.get(ORDERS) or {})["metadata"]
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(ORDERS)
    assert "orders" in broker(operator).topics


async def test_delete_takes_the_topic_along() -> None:
    operator = await start(deletionPolicy="Delete")
    await operator.settle(ORDERS)
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(ORDERS)
    assert operator.get(ORDERS) is None
    assert broker(operator).topics == {}


async def test_a_deletion_that_kafka_refuses_reports_the_fix() -> None:
    operator = await start(deletionPolicy="Delete")
    await operator.settle(ORDERS)
    broker(operator).trouble = BrokerUnreachable("kafka:9092: Connection refused")
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(ORDERS)
    status, reason, message = operator.get_condition(ORDERS)
    assert (status, reason) == ("False", "DeletionBlocked")
    assert "Connection refused" in message
    assert "set spec.deletionPolicy to Retain" in message
    change(operator, deletionPolicy="Retain")
    await operator.settle(ORDERS)
    assert operator.get(ORDERS) is None
    assert "orders" in broker(operator).topics


async def test_switching_to_retain_removes_the_finalizer() -> None:
    operator = await start(deletionPolicy="Delete")
    await operator.settle(ORDERS)
    assert (operator.get(ORDERS) or {})["metadata"]["finalizers"] == ["kappa-platform.io/topic"]
    change(operator, deletionPolicy="Retain")
    await operator.settle(ORDERS)
    assert (operator.get(ORDERS) or {})["metadata"]["finalizers"] == []


async def test_a_topic_of_another_resource_is_never_deleted() -> None:
    operator = await start(deletionPolicy="Delete")
    await operator.settle(ORDERS)
    operator.cluster.put(build_resource("Topic", "same", topicName="orders"))
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(ORDERS)
    assert operator.get(ORDERS) is None
    assert "orders" in broker(operator).topics
    assert "claimed by Topic shop/same" in operator.list_events("Retained")[0]


async def test_the_loser_of_a_conflict_never_deletes_the_topic() -> None:
    operator = await start()
    loser = Key("Topic", "shop", "zz")
    operator.clock.advance(60)
    operator.cluster.put(build_resource("Topic", "zz", topicName="orders", deletionPolicy="Delete"))
    await operator.settle(ORDERS, loser)
    operator.cluster.remove(ref(loser))
    await operator.settle(loser)
    assert operator.get(loser) is None
    assert "orders" in broker(operator).topics


async def test_suspend_holds_a_deletion_and_reports_it() -> None:
    operator = await start(deletionPolicy="Delete")
    await operator.settle(ORDERS)
    change(operator, deletionPolicy="Delete", suspend=True)
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(ORDERS)
    assert operator.get_condition(ORDERS)[1] == "DeletionBlocked"
    assert "orders" in broker(operator).topics


async def test_a_namespace_deletion_takes_the_topics_although_the_cluster_resource_goes_first() -> None:
    operator = await start(deletionPolicy="Delete")
    await operator.settle(ORDERS)
    operator.cluster.remove(ref(CLUSTER))
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(CLUSTER, ORDERS)
    assert operator.get(ORDERS) is None
    assert broker(operator).topics == {}


async def test_a_cluster_that_is_gone_and_forgotten_blocks_the_deletion_with_the_way_out() -> None:
    operator = await start(deletionPolicy="Delete")
    await operator.settle(ORDERS)
    operator.cluster.remove(ref(CLUSTER))
    operator.cluster.remove(ref(ORDERS))
    operator = await operator.restart().settle(ORDERS)
    assert operator.get_condition(ORDERS)[1] == "DeletionBlocked"
    assert "has no KafkaCluster" in operator.get_condition(ORDERS)[2]


@pytest.mark.parametrize(
    ("clusters", "spec", "reason", "words"),
    [
        ([], {}, "ClusterNotFound", "has no KafkaCluster"),
        (["a", "b"], {}, "ClusterAmbiguous", "(a, b); name one in spec.clusterRef"),
        (["a"], {"clusterRef": "c"}, "ClusterNotFound", 'KafkaCluster "c" not found'),
        (["a"], {}, "ClusterNotReady", "BrokerUnreachable: nowhere:1: Connection refused"),
    ],
)
async def test_an_error_of_the_reference_is_reported(
    clusters: list[str], spec: dict[str, str], reason: str, words: str
) -> None:
    operator = Operator(KIND_TABLE)
    for name in clusters:
        operator.cluster.put(build_resource("KafkaCluster", name, "lab", bootstrapServers=["nowhere:1"]))
        await operator.settle(Key("KafkaCluster", "lab", name))
    key = Key("Topic", "lab", "t")
    operator.cluster.put(build_resource("Topic", "t", "lab", **spec))
    await operator.settle(key)
    assert operator.get_condition(key)[:2] == ("False", reason)
    assert words in operator.get_condition(key)[2]


async def test_kafka_that_is_away_is_tried_again_ever_more_slowly() -> None:
    operator = await start()
    broker(operator).trouble = BrokerUnreachable("kafka:9092: Connection refused")
    delays = []
    for _ in range(6):
        outcome = await operator.reconcile(ORDERS)
        delays.append(outcome.requeue_after)
        operator.clock.advance(outcome.requeue_after or 0)
    assert delays == [pytest.approx(delay, rel=0.3) for delay in (2.0, 2.0, 4.0, 8.0, 16.0, 32.0)]
    assert operator.get_condition(ORDERS)[1] == "BrokerUnreachable"
    assert operator.get_condition(ORDERS, "Reconciling")[0] == "True"
    broker(operator).trouble = None
    await operator.settle(ORDERS)
    assert operator.get_condition(ORDERS)[0] == "True"


async def test_an_invalid_stored_resource_is_reported_and_affects_no_other() -> None:
    operator = await start(partitions=0)
    other = Key("Topic", "shop", "fine")
    operator.cluster.put(build_resource("Topic", "fine"))
    await operator.settle(ORDERS, other)
    assert operator.get_condition(ORDERS)[:2] == ("False", "InvalidSpec")
    assert "spec.partitions" in operator.get_condition(ORDERS)[2]
    assert operator.get_condition(other)[0] == "True"


async def test_kafka_actions_are_the_fewest_possible() -> None:
    operator = await start(partitions=1, deletionPolicy="Delete")
    await operator.settle(ORDERS)
    change(operator, partitions=2, retention={"time": "1h"}, deletionPolicy="Delete")
    await operator.settle(ORDERS)
    operator.cluster.remove(ref(ORDERS))
    await operator.settle(ORDERS)
    kinds = [type(action) for action in operator.kafka.actions]
    assert kinds == [CreateTopic, GrowPartitions, AlterConfigs, DeleteTopic]


async def test_a_secret_never_shows_anywhere() -> None:
    operator = Operator(KIND_TABLE, brokers={"kafka:9092": FakeBroker(passwords={"ann": "s3cret-word"})})
    operator.cluster.put(build_secret("login", username="ann", password="other-word"))
    sasl = {"credentialsSecretRef": {"name": "login"}}
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], sasl=sasl))
    await operator.settle(CLUSTER)
    assert operator.get_condition(CLUSTER)[1] == "AuthenticationFailed"
    everything = str(operator.get(CLUSTER)) + str(operator.cluster.find("events.k8s.io/v1", "Event"))
    assert "other-word" not in everything
