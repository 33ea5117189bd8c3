"""CDCSources of MariaDB: the topic with the history of the schemas, and a binary log that lost changes."""

from typing import Any

import pytest

from fakes.kafka import FakeBroker
from kappa_operator.cdc.facts import BinaryLog
from unit.control.sources import MARIADB, REF, SOURCE, Shop

HISTORY = "connect.shop.main.orders.schemas"


def condition(shop: Shop) -> tuple[str, str, str]:
    return shop.operator.get_condition(SOURCE, "Ready")


def get_broker(shop: Shop) -> FakeBroker:
    return shop.operator.brokers["kafka:9092"]


async def start(**spec: Any) -> Shop:
    shop = Shop()
    await shop.prepare(**{**MARIADB, **spec})
    await shop.run()
    return shop


async def test_the_topic_with_the_schemas_is_there_before_the_connector() -> None:
    shop = await start()
    assert condition(shop)[:2] == ("True", "ConnectorRunning")
    topic = get_broker(shop).topics[HISTORY]
    assert (topic.partitions, topic.configs["retention.ms"]) == (1, "-1")
    assert shop.get_status()["schemaTopic"] == {"name": HISTORY, "topicId": topic.topic_id}
    config = shop.connect.connectors["orders"].config
    assert config["schema.history.internal.kafka.topic"] == HISTORY


@pytest.mark.parametrize(
    ("partitions", "configs", "text"),
    [
        (2, {}, "has 2 partitions and must have 1"),
        (1, {"retention.ms": "1000"}, "set cleanup.policy=delete, retention.ms=-1"),
    ],
)
async def test_a_topic_that_would_lose_schemas_is_reported(
    partitions: int, configs: dict[str, str], text: str
) -> None:
    shop = Shop()
    await shop.prepare(**{**MARIADB})
    get_broker(shop).add(HISTORY, partitions, 1, {"cleanup.policy": "compact", **configs})
    await shop.run()
    assert condition(shop)[1] == "ConnectTopicUnsuitable"
    assert text in condition(shop)[2]
    assert shop.connect.connectors == {}


async def test_a_deleted_topic_stops_the_connector_until_a_new_snapshot_is_requested() -> None:
    shop = await start()
    before = get_broker(shop).topics.pop(HISTORY)
    await shop.run(20)
    assert condition(shop)[1] == "ChangesLost"
    assert "with the history of the schemas was deleted" in condition(shop)[2]
    assert shop.connect.connectors["orders"].state == "STOPPED"
    assert HISTORY not in get_broker(shop).topics
    shop.write(**MARIADB, snapshot={"request": "again"})
    await shop.run(20)
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 2
    assert get_broker(shop).topics[HISTORY].topic_id != before.topic_id


@pytest.mark.parametrize(("policy", "is_kept"), [("Retain", True), ("Delete", False)])
async def test_the_schemas_go_with_the_position(policy: str, is_kept: bool) -> None:
    shop = await start(deletionPolicy=policy)
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert shop.operator.get(SOURCE) is None
    assert (HISTORY in get_broker(shop).topics) is is_kept
    assert ("orders" in shop.connect.positions) is is_kept


async def test_the_status_has_the_log_and_its_end_is_the_next_mark() -> None:
    shop = await start()
    await shop.run(320)
    binlog = shop.get_status()["binlog"]
    assert (binlog["oldest"], binlog["retained"]) == ("binlog.000001", "4 KiB")
    assert binlog["end"] == {"file": "binlog.000003", "position": 900, "gtids": "0-1-900"}
    await shop.run(320)
    marks = [(each.position, each.is_exact) for each in shop.requests[-1].marks]
    assert marks == [(shop.connect.positions["orders"], False), (900, True)]
    assert condition(shop)[0] == "True"


def expire(shop: Shop) -> None:
    shop.log = BinaryLog("binlog.000004", "binlog.000009", 4, "0-1-5000", 8192)


def reset(shop: Shop) -> None:
    shop.gtids_at["binlog.000003"] = None


def replace_server(shop: Shop) -> None:
    shop.gtids_at["binlog.000003"] = "0-2-4711"


@pytest.mark.parametrize(
    ("lose", "text"),
    [
        (expire, "the binary log begins with binlog.000004, after binlog.000003"),
        (reset, "it was reset, or is that of another server"),
        (replace_server, "it was reset, or is that of another server"),
    ],
)
async def test_a_log_that_lost_changes_stops_the_connector_until_a_new_snapshot_is_requested(
    lose: Any, text: str
) -> None:
    shop = await start()
    await shop.run(320)
    lose(shop)
    await shop.run(320)
    assert condition(shop)[1] == "ChangesLost"
    assert text in condition(shop)[2]
    assert shop.connect.connectors["orders"].state == "STOPPED"
    assert shop.connect.snapshots == 1
    await shop.run(600)
    assert condition(shop)[1] == "ChangesLost", "it does not heal by itself"
    shop.gtids_at.clear()
    shop.log = BinaryLog("binlog.000001", "binlog.000003", 900, "0-1-900", 4096)
    shop.write(**MARIADB, snapshot={"request": "after the loss"})
    await shop.run(320)
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 2


async def test_with_snapshots_when_needed_a_loss_is_followed_by_one_snapshot() -> None:
    shop = await start(snapshot={"mode": "WhenNeeded"})
    await shop.run(320)
    reset(shop)
    await shop.run(301)
    shop.gtids_at.clear()
    await shop.run(320)
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 2
    assert "changes were lost" in str(shop.operator.list_events("SnapshotRequested"))


async def test_a_log_of_before_the_connector_had_a_position_means_nothing() -> None:
    shop = Shop()
    shop.answer = {"errors": 1}
    await shop.prepare(**MARIADB)
    await shop.run()
    assert "end" not in shop.get_status()["binlog"]
    shop.answer = {}
    await shop.run(320)
    assert condition(shop)[0] == "True"


async def test_a_log_that_was_reset_while_kafka_connect_was_away_is_noticed_afterwards() -> None:
    shop = await start()
    await shop.run(320)
    mark = shop.get_status()["binlog"]["end"]
    shop.connect.unreachable = True
    shop.log = BinaryLog("binlog.000001", "binlog.000003", 4711, "0-1-4711", 4096)
    await shop.run(1000)
    assert shop.get_status()["binlog"]["end"] == mark
    reset(shop)
    shop.connect.unreachable = False
    await shop.run(320)
    assert condition(shop)[1] == "ChangesLost"
