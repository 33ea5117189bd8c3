"""The savepoint before a remediation that gives a pipeline another driver: it is waited for, never for ever, and nothing is done twice."""

from typing import Any

import pytest

import effort
from unit.control.lag_shop import BASE, POLICY, Shop

KEPT = {"savepoints": {"maxCount": 3}}
SCALE: dict[str, Any] = {**BASE, "remediation": {"scale": {"min": 1, "max": 4}}}
RESTART: dict[str, Any] = {**BASE, "warning": {"lag": "1d"}, "remediation": {"restartStalled": {"atMost": 3}}}


def ask(spec: dict[str, Any], **savepoint: Any) -> dict[str, Any]:
    return {**spec, "remediation": {**spec["remediation"], "savepoint": savepoint}}


async def stall(spec: dict[str, Any] = RESTART, **pipeline: Any) -> Shop:
    """Return a pipeline that stands still, up to the first look at which something is to be done about it."""
    shop = Shop(spec, **(pipeline or KEPT))
    shop.each = 0
    for _ in range(40):
        await shop.run(10, 1)
        if shop.remediation:
            return shop
    raise AssertionError("nothing was decided")


def get_nonce(shop: Shop) -> str:
    found: str = shop.pipeline["spec"].get("restartNonce", "")
    return found


async def test_a_stalled_driver_is_replaced_after_its_savepoint() -> None:
    shop = await stall()
    (savepoint,) = shop.savepoints
    assert savepoint["spec"]["cause"] == "BeforeRemediation"
    assert savepoint["spec"]["pipelineRef"] == "delays"
    assert (shop.remediation[0]["saved"], get_nonce(shop)) == ("Taking", "")
    await shop.run(50, 1)
    assert get_nonce(shop) == "", "it waits"
    shop.take_savepoints()
    await shop.run(20, 1)
    assert get_nonce(shop) == shop.remediation[0]["wanted"]
    assert (shop.remediation[0]["saved"], shop.remediation[0]["result"]) == ("Taken", "Done")
    assert len(shop.operator.list_events("RemediationSaving")) == 1
    assert len(shop.operator.list_events("PipelineRestarted")) == 1


async def test_it_is_replaced_without_a_late_savepoint_and_that_is_reported() -> None:
    shop = await stall(ask(RESTART, within="1m"))
    await shop.run(50, 1)
    assert get_nonce(shop) == ""
    await shop.run(30, 1)
    assert get_nonce(shop) != ""
    (said,) = shop.operator.list_events("PipelineRestarted")
    assert said.endswith("it was not taken within 1m (it has not been checked yet)")
    assert shop.remediation[0]["saved"] == "Without"


@pytest.mark.parametrize("state", ["Failed", "Damaged"])
async def test_a_savepoint_that_failed_is_not_waited_for(state: str) -> None:
    shop = await stall()
    shop.take_savepoints(state=state, conditions=[{"message": "given up after 5 attempts: the disk is full"}])
    await shop.run(20, 1)
    assert get_nonce(shop) != ""
    assert "given up after 5 attempts: the disk is full" in shop.remediation[0]["message"]


async def test_a_savepoint_that_is_refused_is_not_waited_for() -> None:
    shop = Shop(RESTART, **KEPT)
    shop.each = 0
    shop.operator.cluster.refusals.append(
        lambda _, after: "exceeded quota: savepoints" if after["kind"] == "Savepoint" else None
    )
    await shop.run(400, 1)
    assert get_nonce(shop) != ""
    assert "exceeded quota: savepoints" in shop.remediation[0]["message"]


async def test_one_that_moves_again_meanwhile_is_left_alone() -> None:
    shop = await stall()
    shop.each = 100.0
    await shop.run(60, 1)
    assert get_nonce(shop) == ""
    assert [each["result"] for each in shop.remediation] == ["Withdrawn"]
    assert len(shop.operator.list_events("RemediationWithdrawn")) == 1
    assert shop.operator.list_events("PipelineRestarted") == []


async def test_a_second_restart_finds_the_same_state_and_takes_no_second_savepoint() -> None:
    shop = await stall()
    shop.takes = True
    await shop.run(1500, 1)
    assert shop.remediation[0]["count"] == 3
    assert len(shop.savepoints) == 1


async def test_more_executors_wait_for_their_savepoint_too() -> None:
    shop = Shop(SCALE, **KEPT)
    await shop.run(300, 80)
    while not shop.remediation:
        await shop.run(10, 160)
    assert shop.executors == 1
    shop.takes = True
    await shop.run(30, 160)
    assert shop.executors > 1


@pytest.mark.parametrize(
    ("case", "spec", "pipeline"),
    [
        ("savepoints would never go again", SCALE, {}),
        ("it keeps them, but the policy wants none", ask(SCALE, when="Never"), KEPT),
        ("its changes are saved anyway", SCALE, {**KEPT, "upgrade": {"mode": "Savepoint"}}),
    ],
)
async def test_what_takes_none(case: str, spec: dict[str, Any], pipeline: dict[str, Any]) -> None:
    shop = Shop(spec, **pipeline)
    await shop.run(300, 80)
    await shop.run(400, 160)
    assert (shop.savepoints, shop.executors > 1) == ([], True), case


async def test_a_policy_may_want_one_of_all_pipelines() -> None:
    shop = await stall(ask(RESTART, when="Always"), **{"savepoints": {"schedule": "0 3 * * *"}})
    assert len(shop.savepoints) == 1


async def test_a_remediation_that_the_policy_gives_up_while_it_waits_is_not_taken() -> None:
    shop = await stall()
    body = shop.operator.get(POLICY) or {}
    del body["spec"]["remediation"]
    shop.operator.cluster.put(body)
    await shop.run(60, 1)
    assert get_nonce(shop) == ""
    assert shop.remediation[0]["result"] == "Withdrawn"


async def live(spec: dict[str, Any], death: int | None, *, takes: bool) -> tuple[Any, int, int]:
    """Return how it ends, the writes until then, and how often the pipeline's spec was changed."""
    shop = Shop(spec, **KEPT)
    shop.each = 100.0 if spec is SCALE else 0.0
    await shop.run(250, 80)
    fuse = shop.operator.cluster.fuse
    fuse.die_after(death)
    writes, shop.takes = fuse.writes, takes
    await shop.run(400, 160)
    kept = [(each["kind"], each["result"], each["saved"], each["wanted"][:4]) for each in shop.remediation]
    end = shop.executors, kept, len(shop.savepoints)
    return end, shop.operator.cluster.fuse.writes - writes, int(shop.pipeline["metadata"]["generation"])


@pytest.mark.parametrize("takes", [True, False])
@pytest.mark.parametrize("name", ["scale", "restart"])
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str, takes: bool) -> None:
    spec = {"scale": SCALE, "restart": RESTART}[name]
    wanted, writes, changes = await live(spec, None, takes=takes)
    assert wanted[2] == 1
    assert writes >= 5
    for number in effort.deaths(writes):
        end, _, changed = await live(spec, number, takes=takes)
        assert (end, changed) == (wanted, changes), f"died after write {number} of {writes}"
