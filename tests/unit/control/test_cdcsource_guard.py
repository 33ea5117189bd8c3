"""The guard of a slot: forecasts of the WAL that it retains, and what is done about one that has outgrown its limit."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kappa_crds.cdcsource_status import LogForecast, LogSample, SlotStatus
from kappa_crds.quantities import format_size
from kappa_operator.cdc.forecast import OWN_LIMIT, SERVER_LIMIT, describe, forecast
from kappa_operator.engine.keys import ObjectRef
from unit.control.sources import CLUSTER, REF, SOURCE, SPEC, Shop, start

GIB = 2**30
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DROP = {"limit": "10Gi", "action": "DropSlot"}


def guard(**fields: Any) -> dict[str, Any]:
    return {"postgresql": {**SPEC["postgresql"], "slotGuard": fields}}


def slot(retained: int | None, safe: int | None = None) -> SlotStatus:
    text = None if retained is None else format_size(retained)
    return SlotStatus(name="kappa", retained_bytes=retained, safe_bytes=safe, retained=text)


def follow(
    *retained: int, safe: int | None = None, limit: int | None = None, every: float = 60.0
) -> LogForecast:
    """Return the forecast after checks that found so much WAL; `safe` is what is left at the last one."""
    found = LogForecast()
    for number, size in enumerate(retained):
        found = forecast(found.samples, slot(size, safe), limit, NOW + timedelta(seconds=number * every))
    return found


def test_the_rate_is_that_since_the_wal_last_became_less() -> None:
    found = follow(9 * GIB, GIB, 2 * GIB, 3 * GIB, safe=10 * GIB)
    assert found.bytes_per_second == GIB / 60
    assert found.seconds_left == 600
    assert found.limit == SERVER_LIMIT
    assert describe(slot(3 * GIB, 10 * GIB), found) == (
        "slot kappa retains 3 GiB of WAL, which grows by 17.1 MiB per second, max_slot_wal_keep_size is reached in 10m"
    )


@pytest.mark.parametrize(
    ("sizes", "rate"),
    [((GIB,), None), ((GIB, 2 * GIB), None), ((GIB, 2 * GIB, GIB), None), ((GIB, GIB, GIB), 0.0)],
    ids=["one check", "two checks", "it became less", "it stays"],
)
def test_without_a_rise_that_lasts_nothing_is_forecast(sizes: tuple[int, ...], rate: float | None) -> None:
    found = follow(*sizes, safe=10 * GIB)
    assert (found.bytes_per_second, found.seconds_left) == (rate, None)


def test_the_limit_that_is_reached_first_counts() -> None:
    found = follow(GIB, 2 * GIB, 3 * GIB, safe=10 * GIB, limit=4 * GIB)
    assert (found.limit, found.remaining_bytes, found.seconds_left) == (OWN_LIMIT, GIB, 60)
    over = follow(GIB, 2 * GIB, 5 * GIB, limit=4 * GIB)
    assert (over.remaining_bytes, over.seconds_left) == (-GIB, 0)


def test_a_clock_that_is_set_back_begins_again() -> None:
    before = (LogSample(at=NOW + timedelta(hours=1), retained_bytes=1),)
    assert len(forecast(before, slot(GIB), None, NOW).samples) == 1


def test_samples_are_bounded() -> None:
    assert len(follow(*range(100, 200)).samples) == 12


async def grow(shop: Shop, sizes: list[int], *, step: float = 300.0) -> None:
    """Let checks find more and more WAL."""
    for size in sizes:
        shop.retained, shop.safe = size, 100 * GIB - size
        await shop.run(step)


def condition(shop: Shop, kind: str = "SlotSafe") -> tuple[str, str, str]:
    return shop.operator.get_condition(SOURCE, kind)


async def test_a_slot_that_keeps_up_is_safe() -> None:
    shop = await start()
    await shop.run(310)
    assert condition(shop)[:2] == ("True", "SlotSafe")
    assert condition(shop, "Ready")[0] == "True"


async def test_a_slot_that_fills_warns_in_time_and_is_checked_more_often() -> None:
    shop = await start()
    await grow(shop, [2 * GIB, 20 * GIB, 40 * GIB])
    status, reason, message = condition(shop)
    assert (status, reason) == ("False", "SlotFilling")
    assert "retains 40 GiB of WAL, which grows by" in message
    assert "max_slot_wal_keep_size is reached in " in message
    (event,) = shop.operator.list_events("SlotFilling")
    assert event.startswith("slot kappa_orders_")
    checks = len(shop.requests)
    shop.retained = 41 * GIB
    await shop.run(200)
    assert len(shop.requests) - checks >= 2
    await grow(shop, [95 * GIB], step=200)
    assert condition(shop)[1] == "SlotFull"
    assert condition(shop, "Ready")[0] == "True", "the connector does what the spec declares"
    await grow(shop, [GIB], step=100)
    assert condition(shop)[:2] == ("True", "SlotSafe")


async def test_a_slot_without_a_limit_is_not_called_safe() -> None:
    shop = Shop()
    shop.answer = {"slot": slot(GIB)}
    await shop.prepare()
    await shop.run()
    assert condition(shop)[:2] == ("Unknown", "SlotUnlimited")
    shop.write(**guard(limit="50Gi"))
    await shop.run(310)
    assert condition(shop)[:2] == ("True", "SlotSafe")


def lose_connect(shop: Shop) -> None:
    shop.connect.unreachable = True


def lose_kafka(shop: Shop) -> None:
    reference = ObjectRef("kappa-platform.io/v1alpha1", *CLUSTER)
    ready = {"type": "Ready", "status": "False", "reason": "BrokerUnreachable", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    status = (shop.operator.cluster.read(reference) or {})["status"]
    others = [each for each in status["conditions"] if each["type"] != "Ready"]
    shop.operator.cluster.patch(reference, status={**status, "conditions": [ready, *others]})


@pytest.mark.parametrize(
    ("lose", "reason"), [(lose_connect, "ConnectUnavailable"), (lose_kafka, "ClusterNotReady")]
)
async def test_the_slot_is_guarded_while_connect_or_kafka_is_away(lose: Any, reason: str) -> None:
    """That is when it grows."""
    shop = await start()
    lose(shop)
    await shop.run(20)
    assert condition(shop, "Ready")[1] == reason
    await grow(shop, [2 * GIB, 20 * GIB, 40 * GIB])
    assert condition(shop)[:2] == ("False", "SlotFilling")
    assert condition(shop, "Ready")[1] == reason


async def test_a_slot_that_outgrows_its_limit_is_dropped_where_the_spec_demands_it() -> None:
    shop = await start(**guard(**DROP))
    await grow(shop, [11 * GIB])
    assert shop.connect.database.slots == {}
    assert shop.connect.connectors["orders"].state == "STOPPED"
    assert len(shop.connect.database.publications) == 1
    status, reason, message = condition(shop, "Ready")
    assert (status, reason) == ("False", "ChangesLost")
    assert "retained more than 10 GiB of WAL and was dropped, by spec.postgresql.slotGuard" in message
    assert len(shop.operator.list_events("SlotDropped")) == 1
    assert shop.operator.cluster.find("v1", "Pod") == []
    assert "SlotSafe" not in {each["type"] for each in shop.get_status()["conditions"]}, "there is no slot"
    shop.retained = 10
    shop.write(**guard(**DROP), snapshot={"request": "again"})
    await shop.run(320)
    assert condition(shop, "Ready")[0] == "True"
    assert shop.connect.snapshots == 2


async def test_a_slot_is_not_dropped_without_a_demand() -> None:
    shop = await start(**guard(limit="10Gi"))
    await grow(shop, [11 * GIB, 12 * GIB])
    assert len(shop.connect.database.slots) == 1
    assert condition(shop)[1] == "SlotFull"
    assert condition(shop, "Ready")[0] == "True"


async def test_a_slot_that_has_caught_up_meanwhile_stays() -> None:
    """The pod sees again how much it retains."""
    shop = await start(**guard(**DROP))
    shop.shrinks_to = GIB
    await grow(shop, [11 * GIB])
    assert len(shop.connect.database.slots) == 1
    assert condition(shop, "Ready")[0] == "True"
    assert shop.get_status().get("lost") is None
    assert shop.connect.snapshots == 1


async def test_a_slot_that_cannot_be_dropped_is_tried_again_after_the_next_check() -> None:
    shop = await start(**guard(**DROP))
    shop.drop_problem = "db.example:5432/shop: slot x is in use"
    shop.retained = 11 * GIB
    shop.operator.clock.advance(300)
    for _ in range(120):
        await shop.operator.reconcile(SOURCE)
        shop.work()
        shop.operator.clock.advance(1)
    assert len(shop.connect.database.slots) == 1
    assert any("is in use" in each for each in shop.operator.list_events("SlotFull"))
    shop.drop_problem = ""
    await shop.run(60)
    assert shop.connect.database.slots == {}


async def test_the_slot_is_dropped_while_connect_is_away() -> None:
    shop = await start(**guard(**DROP))
    await shop.run(310)
    lose_connect(shop)
    await grow(shop, [11 * GIB, 12 * GIB])
    assert shop.connect.database.slots == {}
    assert "dropped" in (shop.get_status().get("lost") or "")


async def test_with_snapshots_when_needed_the_connector_continues_with_a_new_slot() -> None:
    shop = await start(**guard(**DROP), snapshot={"mode": "WhenNeeded"})
    shop.retained = 11 * GIB
    shop.operator.clock.advance(300)
    for _ in range(60):
        await shop.operator.reconcile(SOURCE)
        shop.work()
        shop.operator.clock.advance(1)
        if not shop.connect.database.slots:
            shop.retained = 10
    await shop.run(60)
    assert condition(shop, "Ready")[0] == "True"
    assert shop.connect.snapshots == 2
    assert len(shop.connect.database.slots) == 1
    assert shop.get_status().get("lost") is None


async def test_a_source_that_is_deleted_meanwhile_drops_its_slot_by_its_policy() -> None:
    shop = await start(**guard(**DROP), deletionPolicy="Delete")
    shop.is_slow = True
    shop.retained = 11 * GIB
    shop.operator.clock.advance(300)
    await shop.run(5)
    shop.operator.cluster.remove(REF)
    shop.is_slow = False
    await shop.run(30)
    assert shop.operator.get(SOURCE) is None
    assert shop.connect.database.slots == {}
