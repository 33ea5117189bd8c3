"""The deletion of CDCSources: what stays, what goes with them, and what holds them."""

from kappa_crds import API_VERSION
from kappa_operator.engine.keys import ObjectRef
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
    shop.connect.unreachable = False
    await shop.run(20)
    assert shop.operator.get(SOURCE) is None
