"""The deletion of CDCSources: what stays, what goes with them, and what holds them."""

from kappa_crds import API_VERSION
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import BrokerUnreachable
from unit.control.sources import CLUSTER, REF, SOURCE, SPEC, Shop, start


def condition(shop: Shop, kind: str = "Ready") -> tuple[str, str, str]:
    return shop.operator.get_condition(SOURCE, kind)


async def test_a_deleted_source_keeps_slot_and_position_by_default() -> None:
    shop = await start()
    await shop.run(320)
    slot = shop.slot
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert shop.operator.get(SOURCE) is None
    assert shop.connect.connectors == {}
    assert list(shop.connect.database.slots) == [slot]
    (kept,) = shop.operator.list_events("Retained")
    assert f"SELECT pg_drop_replication_slot('{slot}');" in kept
    shop.write()
    await shop.run()
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 1, "a source of the same name continues"


async def test_a_deleted_source_takes_slot_publication_position_and_topics_along() -> None:
    shop = await start(deletionPolicy="Delete", topicDeletionPolicy="Delete")
    broker = shop.operator.brokers["kafka:9092"]
    for topic in ("orders.public.orders", "other.public.orders"):
        broker.add(topic, 1, 1, {})
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert shop.operator.get(SOURCE) is None
    assert (shop.connect.connectors, shop.connect.positions) == ({}, {})
    assert (shop.connect.database.slots, shop.connect.database.publications) == ({}, set())
    assert "orders.public.orders" not in broker.topics
    assert "other.public.orders" in broker.topics
    shop.write()
    await shop.run()
    assert shop.connect.snapshots == 2, "nothing is left to continue from"


async def test_a_publication_of_others_is_not_dropped() -> None:
    shop = await start(deletionPolicy="Delete", postgresql={**SPEC["postgresql"], "publication": "theirs"})
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert shop.requests[-1].drop_publication is False


async def test_a_slot_that_cannot_be_dropped_is_reported_and_tried_again() -> None:
    shop = await start(deletionPolicy="Delete")
    shop.drop_problem = "db.example:5432/shop: nothing listens at this address"
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert condition(shop)[1] == "DeletionBlocked"
    assert "spec.deletionPolicy to Retain" in condition(shop)[2]
    shop.drop_problem = ""
    await shop.run(60)
    assert shop.operator.get(SOURCE) is None


async def test_a_deletion_that_waits_is_released_by_retain() -> None:
    shop = await start(deletionPolicy="Delete")
    shop.drop_problem = "db.example:5432/shop: nothing listens at this address"
    shop.operator.cluster.remove(REF)
    await shop.run()
    shop.operator.cluster.patch(REF, spec={"deletionPolicy": "Retain"})
    await shop.run()
    assert shop.operator.get(SOURCE) is None


async def test_a_slot_whose_database_is_gone_stays_after_a_day_and_an_event_names_it() -> None:
    shop = await start(deletionPolicy="Delete", topicDeletionPolicy="Delete")
    broker, slot = shop.operator.brokers["kafka:9092"], shop.slot
    broker.add("orders.public.orders", 1, 1, {})
    shop.drop_problem = "db.example:5432/shop: nothing listens at this address"
    shop.operator.cluster.remove(REF)
    await shop.run(3600)
    assert "it is retried until 20" in condition(shop)[2]
    attempts = len(shop.requests)
    shop.operator.clock.advance(86400 * 2)
    await shop.run(20)
    assert len(shop.requests) == attempts + 1, "after an operator that was away, it is tried once more"
    assert shop.operator.get(SOURCE) is None
    assert "orders.public.orders" not in broker.topics
    (kept,) = shop.operator.list_events("Retained")
    assert "was not dropped: db.example:5432/shop: nothing listens at this address" in kept
    assert f"SELECT pg_drop_replication_slot('{slot}'); DROP PUBLICATION" in kept


async def test_attempts_to_drop_a_slot_become_rarer() -> None:
    shop = await start(deletionPolicy="Delete")
    shop.drop_problem = "db.example:5432/shop: nothing listens at this address"
    shop.operator.cluster.remove(REF)
    before = len(shop.requests)
    await shop.run(7200)
    assert 10 < len(shop.requests) - before < 30


async def test_a_pod_that_does_not_start_is_replaced_and_reported_with_the_cause() -> None:
    shop = await start(deletionPolicy="Delete")
    shop.is_slow = True
    shop.operator.cluster.remove(REF)
    await shop.run(120)
    (pod,) = shop.operator.cluster.find("v1", "Pod", "shop")
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    shop.operator.cluster.patch(ObjectRef.of(pod), status={"conditions": [waits]})
    await shop.run(60)
    assert condition(shop)[2].endswith("it waits: Unschedulable: no node")
    await shop.run(240)
    (blocked,) = shop.operator.list_events("DeletionBlocked")
    assert "its pod did not end within 5m: Unschedulable: no node" in blocked
    shop.is_slow = False
    await shop.run(400)
    assert shop.operator.get(SOURCE) is None


async def test_in_a_namespace_that_is_deleted_a_source_holds_nothing_up() -> None:
    shop = await start(deletionPolicy="Delete")
    words = "unable to create new content in namespace shop because it is being terminated"
    shop.operator.cluster.refusals.append(lambda before, _: words if before is None else None)
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert shop.operator.get(SOURCE) is None
    assert list(shop.connect.database.slots) == [shop.slot]


async def test_topics_that_cannot_be_deleted_stay_where_the_policy_becomes_retain() -> None:
    shop = await start(topicDeletionPolicy="Delete")
    broker = shop.operator.brokers["kafka:9092"]
    broker.add("orders.public.orders", 1, 1, {})
    broker.trouble = BrokerUnreachable("gone")
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert condition(shop)[1] == "DeletionBlocked"
    assert "set spec.topicDeletionPolicy and spec.deletionPolicy to Retain" in condition(shop)[2]
    shop.operator.cluster.patch(REF, spec={"topicDeletionPolicy": "Retain"})
    await shop.run(20)
    assert shop.operator.get(SOURCE) is None
    assert "orders.public.orders" in broker.topics


async def test_without_its_kafka_cluster_a_source_is_released() -> None:
    shop = await start()
    shop.operator.cluster.remove(ObjectRef(API_VERSION, *CLUSTER))
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert shop.operator.get(SOURCE) is None


async def test_while_kafka_connect_is_away_a_deletion_waits_with_a_condition() -> None:
    shop = await start()
    shop.connect.unreachable = True
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert condition(shop)[1] == "DeletionBlocked"
    assert "If Kafka Connect is gone for good, delete KafkaCluster main" in condition(shop)[2]
    shop.connect.unreachable = False
    await shop.run(20)
    assert shop.operator.get(SOURCE) is None
