"""The position of a connector on request, and sources that would write the same topics."""

from typing import Any

import pytest

from fakes.context import build_resource
from kappa_operator.cdc.guard import format_lsn
from kappa_operator.engine.keys import Key, ObjectRef
from unit.control.sources import MARIADB, SOURCE, SPEC, Shop, start

OTHER = Key("CDCSource", "shop", "second")


async def ask(shop: Shop, request: str, state: str = "Running", **fields: Any) -> dict[str, Any]:
    shop.write(state=state, offsets={"request": request, **fields})
    await shop.run(5)
    answer: dict[str, Any] = shop.get_status()["offsets"]
    return answer


async def stopped() -> Shop:
    shop = await start()
    shop.write(state="Stopped")
    await shop.run()
    return shop


async def test_the_position_is_reported_without_keys_of_rows() -> None:
    shop = await start()
    shop.connect.positions["orders"] = shop.connect.database.end = 3 * 2**32
    shop.connect.left = {"x": ("public.orders",)}
    shop.connect.keys = {
        "incremental_snapshot_primary_key": "aced",
        "incremental_snapshot_maximum_key": "aced",
    }
    shop.connect.is_reading = True
    answer = await ask(shop, "list")
    assert (answer["request"], answer.get("refused"), answer["message"]) == ("list", False, "reported")
    assert answer["position"]["lsn"] == "3/0"
    assert not [name for name in answer["position"] if name.endswith("_key")]


async def test_the_position_of_a_stopped_connector_is_changed_once() -> None:
    shop = await stopped()
    answer = await ask(shop, "skip", "Stopped", set={"lsn": format_lsn(5000)})
    assert answer["refused"] is False
    assert "transactions that committed between are not read" in answer["message"]
    assert shop.connect.positions == {"orders": 5000}
    shop.connect.positions["orders"] = 6000
    await shop.run(120)
    assert shop.connect.positions == {"orders": 6000}
    assert len(shop.operator.list_events("OffsetsChanged")) == 1


async def test_a_position_that_is_forgotten_leads_to_a_snapshot() -> None:
    shop = await stopped()
    answer = await ask(shop, "reset", "Stopped", reset=True)
    assert "the position is forgotten" in answer["message"]
    assert shop.connect.positions == {}
    shop.write()
    await shop.run()
    assert shop.connect.snapshots == 2


@pytest.mark.parametrize("change", [{"set": {"lsn": "0/FFFF"}}, {"reset": True}], ids=["set", "reset"])
async def test_a_connector_that_runs_keeps_its_position(change: dict[str, Any]) -> None:
    shop = await start()
    before = dict(shop.connect.positions)
    answer = await ask(shop, "now", **change)
    assert answer["refused"] is True
    assert "set it to Stopped" in answer["message"]
    shop.write(state="Stopped", offsets={"request": "now", **change})
    await shop.run(20)
    assert shop.connect.positions == before, "a refused request is not carried out later"


async def test_a_request_with_the_stop_waits_for_it() -> None:
    shop = await start()
    answer = await ask(shop, "both", "Stopped", set={"lsn": format_lsn(5000)})
    assert answer["refused"] is False
    assert shop.connect.positions == {"orders": 5000}


async def test_a_position_that_the_database_does_not_have_any_more_is_refused() -> None:
    shop = await start()
    await shop.run(320)
    shop.write(state="Stopped")
    await shop.run()
    answer = await ask(shop, "back", "Stopped", set={"lsn": "0/1"})
    assert answer["refused"] is True
    assert "which its slot has confirmed" in answer["message"]


async def test_the_position_in_a_binary_log_is_reported_and_not_changed() -> None:
    shop = Shop()
    await shop.prepare(**MARIADB)
    await shop.run()
    shop.write(**MARIADB, offsets={"request": "list"})
    await shop.run(5)
    answer = shop.get_status()["offsets"]
    assert (answer["message"], answer["position"]["file"]) == ("reported", "binlog.000003")
    shop.write(**MARIADB, state="Stopped", offsets={"request": "reset", "reset": True})
    await shop.run(20)
    answer = shop.get_status()["offsets"]
    assert answer["refused"] is True
    assert answer["message"].startswith("the position in a binary log is reported only")
    assert shop.connect.positions


async def second(shop: Shop, created: str, **spec: Any) -> tuple[str, str, str]:
    body = build_resource("CDCSource", "second", **{**SPEC, "topicPrefix": "orders", **spec})
    body["metadata"]["creationTimestamp"] = created
    shop.operator.cluster.put(body)
    await shop.operator.settle(OTHER)
    return shop.operator.get_condition(OTHER)


async def test_of_two_sources_with_the_same_topics_the_younger_one_is_refused() -> None:
    shop = await start()
    status, reason, message = await second(shop, "2030-01-01T00:00:00Z")
    assert (status, reason) == ("False", "TopicPrefixTaken")
    assert "CDCSource orders, which is older, has topicPrefix orders" in message
    assert list(shop.connect.connectors) == ["orders"]
    shop.operator.cluster.remove(ObjectRef("kappa-platform.io/v1alpha1", *SOURCE))
    await shop.run(20)
    for _ in range(3):
        await shop.operator.reconcile(OTHER)
    assert shop.operator.get_condition(OTHER)[1] != "TopicPrefixTaken"


async def test_sources_with_other_topics_do_not_meet() -> None:
    shop = await start()
    assert (await second(shop, "2030-01-01T00:00:00Z", topicPrefix="others"))[1] != "TopicPrefixTaken"
    assert shop.operator.get_condition(SOURCE)[0] == "True"
