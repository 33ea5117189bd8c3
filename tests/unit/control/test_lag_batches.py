"""Larger batches for a pipeline whose batches are full: while that helps, up to a bound, and back again; no flapping."""

import random
from typing import Any

import pytest

import effort
from fakes.cluster import Body
from kappa_operator.engine.keys import ObjectRef
from unit.control.lag_shop import BASE, PIPELINE, POLICY, Shop

RAISE: dict[str, Any] = {**BASE, "remediation": {"raiseBatchLimit": {"upTo": 8000}}}
BOTH: dict[str, Any] = {
    **BASE,
    "remediation": {"raiseBatchLimit": {"upTo": 8000}, "scale": {"min": 1, "max": 4}},
}


def open_shop(spec: dict[str, Any] = RAISE, *, overhead: float = 9.0, limit: int | None = 1000) -> Shop:
    """Return a pipeline whose batches take a second for each 1,000 records, and a while more whatever their size is."""
    shop = Shop(spec, trigger={} if limit is None else {"maxRecords": limit})
    shop.each, shop.overhead = 1000.0, overhead
    return shop


def count_drivers(shop: Shop) -> int:
    return int(shop.pipeline["metadata"]["generation"])


async def test_full_batches_become_larger_while_the_pipeline_is_behind_and_smaller_again_afterwards() -> None:
    shop = open_shop()
    await shop.run(300, 80)
    await shop.run(1500, 250)
    assert shop.batch_limit == 8000, "those of 4,000 take 307/s, which drains too slowly"
    assert shop.end - shop.committed < 8000
    await shop.run(2400, 60)
    assert shop.batch_limit == 1000
    assert len(shop.operator.list_events("BatchLimitChanged")) == 4
    up, *_, down = shop.operator.list_events("BatchLimitChanged")
    assert "full batches of 1000 take 100/s, which does not drain them within 5m" in up
    assert "all groups were healthy for 10m, and at most" in down
    assert [each["result"] for each in shop.remediation] == ["Done"]


async def test_it_stays_larger_while_the_smaller_one_would_be_too_small() -> None:
    shop = open_shop()
    await shop.run(300, 80)
    await shop.run(1500, 250)
    await shop.run(6000, 120)
    assert shop.batch_limit == 8000, "1,000 take 100/s"


async def test_there_is_an_end_to_it() -> None:
    shop = open_shop(overhead=30.0)
    await shop.run(300, 20)
    await shop.run(6000, 5000)
    assert shop.batch_limit == 8000


async def test_a_step_is_judged_by_what_was_measured_after_it_however_short_the_pause() -> None:
    record = {"upTo": 64_000, "factor": 8, "coolDown": "10s"}
    shop = open_shop({**BASE, "remediation": {"raiseBatchLimit": record}})
    await shop.run(300, 80)
    await shop.run(1500, 250)
    assert shop.batch_limit == 8000, "it takes 470/s, which is enough"


async def test_what_makes_nothing_faster_is_tried_once() -> None:
    shop = open_shop(overhead=0.01)
    await shop.run(300, 500)
    await shop.run(3000, 2000)
    assert shop.batch_limit == 2000
    (record,) = shop.remediation
    assert record["message"].startswith("batches of 2000 make it no faster (")


async def test_batches_that_are_not_full_are_left_alone() -> None:
    shop = open_shop(limit=1_000_000)
    shop.each, shop.overhead = 100.0, 0.0
    await shop.run(300, 80)
    await shop.run(900, 160)
    assert (shop.batch_limit, shop.remediation) == (1_000_000, [])


async def test_a_pipeline_that_declares_no_bound_is_left_alone() -> None:
    shop = open_shop(limit=None)
    shop.each = 100.0
    await shop.run(300, 80)
    await shop.run(900, 160)
    assert (shop.batch_limit, shop.remediation) == (None, [])


async def test_a_stalled_pipeline_gets_no_larger_batches() -> None:
    shop = open_shop()
    shop.each = 0.0
    await shop.run(3000, 100)
    assert (shop.batch_limit, shop.remediation) == (1000, [])


@pytest.mark.parametrize("seed", range(4))
async def test_twenty_minutes_of_noisy_load_change_nothing(seed: int) -> None:
    shop, dice = open_shop(), random.Random(seed)
    await shop.run(300, 60)
    for _ in range(120):
        await shop.run(10, 70 * (1 + 0.6 * dice.uniform(-1, 1)))
    assert (count_drivers(shop), shop.remediation) == (1, [])


@pytest.mark.parametrize("seed", range(4))
async def test_noise_around_what_is_needed_does_not_make_it_flap(seed: int) -> None:
    shop, dice = open_shop(), random.Random(seed)
    await shop.run(300, 80)
    await shop.run(900, 250)
    before = count_drivers(shop)
    for _ in range(180):
        await shop.run(10, 150 * (1 + 0.6 * dice.uniform(-1, 1)))
    assert count_drivers(shop) - before <= 1, "back, once"


async def test_a_bound_that_a_user_changed_meanwhile_is_kept() -> None:
    shop = open_shop()
    await shop.run(300, 80)
    await shop.run(1500, 250)
    shop.operator.cluster.patch(PIPELINE, spec={"trigger": {"maxRecords": 6000}})
    await shop.run(3000, 60)
    assert shop.batch_limit == 6000


async def test_what_was_raised_goes_back_when_the_policy_has_no_such_remediation_any_more() -> None:
    shop = open_shop()
    await shop.run(300, 80)
    await shop.run(600, 250)
    assert shop.batch_limit != 1000
    body = shop.operator.get(POLICY) or {}
    del body["spec"]["remediation"]
    shop.operator.cluster.put(body)
    await shop.run(60, 250)
    assert shop.batch_limit == 1000
    assert shop.operator.list_events("BatchLimitChanged")[-1].endswith(
        "does not have this remediation any more"
    )


async def test_batches_become_larger_before_there_are_more_executors() -> None:
    shop = open_shop(BOTH)
    await shop.run(300, 80)
    while not shop.remediation:
        await shop.run(10, 250)
    assert [each["kind"] for each in shop.remediation] == ["RaiseBatchLimit"]
    before = shop.operator.clock.time
    while shop.executors == 1 and (shop.operator.clock.time - before).total_seconds() < 1200:
        await shop.run(10, 2000)
    assert (shop.operator.clock.time - before).total_seconds() >= 180, (
        "what the first one is worth is awaited"
    )
    assert shop.executors > 1


async def live(death: int | None) -> tuple[Any, int, int]:
    """Return how it ends, the writes until then, and how often the pipeline's spec was changed."""
    shop = open_shop()
    await shop.run(300, 80)
    fuse = shop.operator.cluster.fuse
    fuse.die_after(death)
    writes = fuse.writes
    await shop.run(600, 250)
    await shop.run(900, 20)  # a restart may measure anew, and wait a while longer
    kept = [(each["result"], each["wanted"]) for each in shop.remediation]
    return (shop.batch_limit, kept), shop.operator.cluster.fuse.writes - writes, count_drivers(shop)


async def test_dying_after_any_write_changes_nothing_about_the_end() -> None:
    wanted, writes, changes = await live(None)
    assert changes >= 3, "raised and brought back"
    for number in effort.deaths(writes):
        end, _, changed = await live(number)
        assert (end, changed) == (wanted, changes), f"died after write {number} of {writes}"


async def test_a_refused_step_is_reported_and_not_reverted() -> None:
    shop = open_shop()
    shop.operator.cluster.refusals.append(
        lambda before, after: (
            "no larger than 1000"
            if ObjectRef.of(after) == PIPELINE and after["spec"].get("trigger", {}).get("maxRecords") != 1000
            else None
        )
    )
    await shop.run(300, 80)
    await shop.run(900, 250)
    await shop.run(1500, 20)
    assert (shop.batch_limit, shop.remediation[0]["result"]) == (1000, "Refused")
    assert "RaiseBatchLimit of delays: no larger than 1000" in shop.operator.list_events("RemediationRefused")


@pytest.mark.parametrize("kept", [{}, {"savepoints": {"maxCount": 2}}])
async def test_a_way_back_that_is_refused_or_waits_for_a_savepoint_is_not_forgotten(kept: Body) -> None:
    shop = Shop(RAISE, trigger={"maxRecords": 1000}, **kept)
    shop.each, shop.overhead, shop.takes = 1000.0, 9.0, True
    await shop.run(300, 80)
    await shop.run(900, 250)
    assert shop.batch_limit != 1000
    shop.operator.cluster.refusals.append(
        lambda _, after: "not now" if ObjectRef.of(after) == PIPELINE and _get_limit(after) == 1000 else None
    )
    body = shop.operator.get(POLICY) or {}
    body["spec"]["remediation"] = {"holdRetention": {"upTo": "3h"}}
    shop.operator.cluster.put(body)
    await shop.run(300, 20)
    assert shop.batch_limit != 1000
    assert any("not now" in each for each in shop.operator.list_events("RemediationRefused"))
    shop.operator.cluster.refusals.clear()
    await shop.run(300, 20)
    assert shop.batch_limit == 1000


def _get_limit(body: Body) -> int:
    found: int = body["spec"].get("trigger", {}).get("maxRecords", 0)
    return found
