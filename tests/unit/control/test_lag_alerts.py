"""An alert sets a policy's remediations off, within the same bounds and cool-downs, as long as it holds; and only where the policy says so."""

import json
from datetime import timedelta
from typing import Any

import pytest

import effort
from kappa_crds import API_VERSION
from kappa_crds.lagpolicy import ALERT_PREFIX
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.kafka.model import Producer
from unit.control.lag_shop import BASE, CLUSTER, POLICY, Shop

REF = ObjectRef(API_VERSION, *POLICY)
# What the policy sees itself is never too much.
CALM: dict[str, Any] = {**BASE, "warning": {"lag": "30d", "timeToLoss": "1ms"}, "clearAfter": "0s"}
SCALE = {**CALM, "remediation": {"onAlerts": True, "scale": {"min": 1, "max": 4}}}
RESTART = {**CALM, "remediation": {"onAlerts": True, "restartStalled": {"atMost": 2}}}
HOLD = {**CALM, "remediation": {"onAlerts": True, "holdRetention": {"upTo": "1h"}}}
PAUSE = {
    **CALM,
    "remediation": {
        "onAlerts": True,
        "throttleProducers": {"producers": [{"clientId": "loader"}], "coolDown": "0s"},
    },
}
LOADER = Producer(client_id="loader")


def ring(shop: Shop, severity: str = "Warning", state: str = "Warning", minutes: float = 15) -> None:
    """Have an alert fire, as the endpoint writes it."""
    until = shop.operator.clock.time + timedelta(minutes=minutes)
    text = json.dumps({"name": "TooSlow", "severity": severity, "state": state, "until": until.isoformat()})
    shop.operator.cluster.patch(REF, metadata={"annotations": {f"{ALERT_PREFIX}0123": text}})


async def test_executors_are_added_while_an_alert_holds() -> None:
    shop = Shop(SCALE)
    await shop.run(300, 80)
    await shop.run(300, 300)
    assert shop.executors == 1, "the policy itself sees nothing"
    ring(shop)
    await shop.run(60, 300)
    assert shop.executors == 4
    body = shop.operator.get(POLICY) or {}
    assert [each["name"] for each in body["status"]["alerts"]] == ["TooSlow"]
    assert body["status"]["severity"] == "None", "what the policy says of lag is what it sees"
    assert shop.operator.list_events("AlertReceived") == [
        "alert TooSlow fires: remediations act as if it were Warning"
    ]
    await shop.run(1000, 300)
    assert (shop.operator.get(POLICY) or {})["status"].get("alerts", []) == []


async def test_a_policy_without_on_alerts_does_not_act_on_alerts() -> None:
    shop = Shop({**SCALE, "remediation": {"scale": {"min": 1, "max": 4}}})
    await shop.run(300, 80)
    await shop.run(300, 300)
    ring(shop, "Critical")
    await shop.run(300, 300)
    assert (shop.executors, shop.remediation) == (1, [])


async def test_one_that_is_over_is_no_more_acted_on() -> None:
    shop = Shop(SCALE)
    await shop.run(300, 80)
    ring(shop, minutes=0.1)
    await shop.run(600, 300)
    assert shop.executors == 1


@pytest.mark.parametrize("text", ["", "[]", '{"name": "x"}', "no json"])
async def test_an_annotation_that_is_no_alert_is_left_alone(text: str) -> None:
    shop = Shop(SCALE)
    shop.operator.cluster.patch(REF, metadata={"annotations": {f"{ALERT_PREFIX}0123": text}})
    await shop.run(300, 80)
    assert (shop.operator.get(POLICY) or {})["status"].get("alerts", []) == []


async def test_an_alert_about_a_stalled_driver_replaces_it_within_its_bounds() -> None:
    shop = Shop(RESTART)
    await shop.run(60, 80)
    nonces = set()
    for _ in range(300):
        ring(shop, state="Stalled")
        await shop.run(10, 80)
        nonces.add(shop.pipeline["spec"].get("restartNonce", ""))
    assert len(nonces - {""}) == 2
    assert all("alert TooSlow fires" in each for each in shop.operator.list_events("PipelineRestarted"))


async def test_an_alert_about_lost_records_holds_the_retention() -> None:
    shop = Shop(HOLD)
    await shop.run(60, 80)
    ring(shop, "Critical", "Losing")
    await shop.run(60, 80)
    assert shop.hold.startswith("3600s until")
    await shop.run(1500, 80)
    assert shop.hold == ""


async def test_producers_are_slowed_down_while_a_critical_alert_holds() -> None:
    shop = Shop(PAUSE)
    await shop.operator.reconcile(CLUSTER)
    quotas = shop.operator.brokers["kafka:9092"].quotas
    await shop.run(60, 80)
    ring(shop)
    await shop.run(60, 80)
    assert quotas == {}, "it is a warning"
    ring(shop, "Critical")
    await shop.run(60, 80)
    assert quotas == {LOADER: 1024.0}
    await shop.run(1080, 80)
    assert quotas == {LOADER: 1024.0}, "quietFor begins when the alert has ended"
    await shop.run(300, 80)
    assert quotas == {}


async def live(death: int | None) -> tuple[Any, int, int]:
    """Return how it ends, the writes until then, and how often the pipeline's spec was changed."""
    shop = Shop(SCALE)
    await shop.run(300, 80)
    fuse = shop.operator.cluster.fuse
    fuse.die_after(death)
    writes = fuse.writes
    ring(shop)
    await shop.run(400, 300)
    kept = [(each["kind"], each["result"], each["wanted"]) for each in shop.remediation]
    changes = int(shop.pipeline["metadata"]["generation"])
    return (shop.executors, kept), shop.operator.cluster.fuse.writes - writes, changes


async def test_dying_after_any_write_changes_nothing_about_the_end() -> None:
    wanted, writes, changes = await live(None)
    assert wanted[1], "something was done"
    for number in effort.deaths(writes):
        end, _, changed = await live(number)
        assert end == wanted, f"died after write {number} of {writes}"
        assert changed <= changes, "rates that are measured anew may lead there in one step, never in more"
