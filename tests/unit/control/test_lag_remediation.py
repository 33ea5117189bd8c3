"""Remediation of a LagPolicy on fakes: what is recorded, done, and told; and that dying after any write changes nothing about the end."""

from datetime import timedelta
from typing import Any

import pytest

import effort
from fakes.cluster import Body
from fakes.context import build_resource
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.lag.model import ClusterSample, PartitionLog, Sample
from unit.control.lag_shop import BASE, CLUSTER, PAIR, PIPELINE, POLICY, TOPIC, Shop

SCALE = {**BASE, "remediation": {"scale": {"min": 1, "max": 4}}}
RESTART = {**BASE, "warning": {"lag": "1d"}, "remediation": {"restartStalled": {"atMost": 2}}}
HOLD = {**BASE, "warning": {"timeToLoss": "10m"}, "remediation": {"holdRetention": {"upTo": "3h"}}}


async def test_when_load_doubles_executors_are_added_and_taken_away_again() -> None:
    shop = Shop(SCALE)
    await shop.run(300, 80)
    await shop.run(1200, 160)
    assert shop.end - shop.committed < 160 * 60
    assert max(shop.seen) in (2, 3)
    await shop.run(2400, 60)
    assert shop.executors == 1
    assert len(shop.list_changes()) <= 3
    up, *down = shop.operator.list_events("PipelineScaled")
    assert "an executor takes 100/s" in up
    assert "are enough instead of" in down[-1]


async def test_what_was_done_is_in_the_status_with_its_reason() -> None:
    shop = Shop(SCALE)
    await shop.run(300, 80)
    await shop.run(600, 160)
    (record,) = shop.remediation
    assert (record["kind"], record["target"], record["before"], record["result"]) == (
        "Scale",
        "delays",
        "1",
        "Done",
    )
    assert record["why"] == (
        "17.4k records wait and 159/s come; an executor takes 100/s, so 3 instead of 1 drain them within 5m"
    )


@pytest.mark.parametrize(
    ("case", "spec", "status"),
    [
        ("a change would begin with an empty state", {"upgrade": {"mode": "Stateless"}}, {}),
        ("its tasks run in the driver", {"resources": {"executors": {"count": 0}}}, {}),
        ("a change is under way", {}, {"upgrade": {"phase": "Watching"}}),
        ("it does not run", {}, {"state": "Starting"}),
    ],
)
async def test_what_is_not_scaled(case: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
    shop = Shop(SCALE, **spec)
    before = shop.executors
    for _ in range(90):
        shop.run_as_asked()
        shop.operator.cluster.patch(PIPELINE, status=status)
        shop.operator.clock.advance(10)
        shop.end, shop.committed = shop.end + 2000, shop.committed + 1000
        at = shop.operator.clock.time
        sample = Sample(at, PartitionLog(0, shop.end, shop.end), shop.committed, 300.0)
        shop.operator.lag.samples[CLUSTER] = ClusterSample(at, 0.1, samples={PAIR: sample})
        await shop.look()
    assert (shop.executors, shop.remediation) == (before, []), case


async def test_a_stalled_pipeline_is_restarted_a_limited_number_of_times() -> None:
    shop = Shop(RESTART)
    shop.each = 0
    nonces: list[str] = []
    for _ in range(300):
        await shop.run(10, 1)
        nonces.append(shop.pipeline["spec"].get("restartNonce", ""))
    assert len(set(nonces) - {""}) == 2
    (record,) = shop.remediation
    assert (record["count"], record["message"]) == (
        2,
        "given up after 2 restarts; find the record that it cannot process",
    )
    assert len(shop.operator.list_events("PipelineRestarted")) == 2
    shop.each = 100.0
    await shop.run(300, 1)
    assert "message" not in shop.remediation[0]
    assert shop.remediation[0]["count"] == 0, "it may be restarted again when it stands still again"


async def test_retention_is_held_while_records_would_be_lost_and_given_back_afterwards() -> None:
    shop = Shop(HOLD)
    shop.each, shop.loss = 1.0, 300.0
    await shop.run(200, 100, behind=1500)
    assert shop.hold == "3600s until 2026-01-01T02:02:10Z"
    await shop.operator.reconcile(CLUSTER)
    await shop.operator.settle(TOPIC)
    configs = shop.operator.brokers["kafka:9092"].topics["in"].configs
    assert configs["retention.ms"] == "3600000"
    await shop.run(700, 100, behind=3300)
    assert shop.hold.startswith("7200s until"), "twice as long again, as it still would be lost"
    shop.each, shop.loss = 1000.0, None
    await shop.run(600, 1)
    assert shop.hold == ""
    await shop.operator.settle(TOPIC)
    assert configs["retention.ms"] == "1800000"
    assert [len(shop.operator.list_events(reason)) for reason in ("RetentionHeld", "RetentionRestored")] == [
        2,
        1,
    ]
    assert shop.operator.list_events("DriftRepaired") == []


async def test_a_hold_ends_too_where_the_bound_leaves_little_of_the_retention() -> None:
    shop = Shop({**HOLD, "warning": {"timeToLoss": "25m"}})
    shop.each, shop.loss = 1.0, 300.0
    await shop.run(200, 100, behind=1500)
    assert shop.hold
    shop.each, shop.loss = 10.0, None
    shop.end = shop.committed + 50
    await shop.run(600, 10, behind=30)
    assert shop.hold == ""


async def test_a_hold_is_renewed_while_needed_and_expires_otherwise() -> None:
    shop = Shop(HOLD)
    shop.each, shop.loss = 1.0, 300.0
    await shop.run(9000, 100, behind=1500)
    ends = shop.hold.rpartition(" ")[2]
    assert ends > f"{shop.operator.clock.time + timedelta(minutes=55):%Y-%m-%dT%H:%M:%SZ}"
    await shop.operator.reconcile(CLUSTER)
    await shop.operator.settle(TOPIC)
    configs = shop.operator.brokers["kafka:9092"].topics["in"].configs
    assert configs["retention.ms"] == "10800000", "not longer than upTo"
    shop.operator.cluster.remove(ObjectRef(API_VERSION, *POLICY))
    shop.operator.clock.advance(7201)
    await shop.operator.settle(TOPIC)
    assert configs["retention.ms"] == "1800000"


async def test_a_refused_remediation_is_reported_and_not_retried_at_each_reconcile() -> None:
    shop = Shop(SCALE)
    tries: list[int] = []

    def refuse(before: Body | None, after: Body) -> str | None:
        if after["kind"] != "Pipeline" or before is None or before["spec"] == after["spec"]:
            return None
        tries.append(1)
        return "admission webhook denied the request: no more than one"

    shop.operator.cluster.refusals.append(refuse)
    await shop.run(300, 80)
    await shop.run(400, 160)
    assert shop.executors == 1
    (record,) = shop.remediation
    assert (record["result"], record["message"]) == (
        "Refused",
        "admission webhook denied the request: no more than one",
    )
    (event,) = set(shop.operator.list_events("RemediationRefused"))
    assert event == "Scale of delays: admission webhook denied the request: no more than one"
    assert len(tries) <= 2


async def test_two_policies_with_the_same_remediation_report_the_conflict_and_neither_applies_it() -> None:
    shop = Shop(SCALE)
    shop.operator.cluster.put(build_resource("LagPolicy", "other", **SCALE))
    await shop.run(300, 80)
    await shop.run(600, 160)
    assert shop.executors == 1
    assert (
        "both have remediations.scale, which neither takes"
        in shop.operator.get_condition(POLICY, "Consistent")[2]
    )
    assert shop.operator.get_condition(POLICY, "LagHealthy")[0] == "False", "it is judged as ever"


async def live(spec: dict[str, Any], death: int | None) -> tuple[Any, int, int]:
    """Return how it ends, the writes until then, and how often the pipeline's spec was changed."""
    shop = Shop(spec)
    shop.each = 100.0 if spec is SCALE else 0.0 if spec is RESTART else 1.0
    shop.loss = 300.0 if spec is HOLD else None
    await shop.run(300, 80, behind=1500 if spec is HOLD else None)
    shop.operator.cluster.fuse.die_after(death)
    writes = shop.operator.cluster.fuse.writes
    await shop.run(500, 160, behind=1500 if spec is HOLD else None)
    kept = [(record["kind"], record["result"], record["wanted"][:4]) for record in shop.remediation]
    end = shop.executors, shop.hold[:5], kept
    return end, shop.operator.cluster.fuse.writes - writes, int(shop.pipeline["metadata"]["generation"])


@pytest.mark.parametrize("name", ["scale", "restart", "hold"])
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    spec = {"scale": SCALE, "restart": RESTART, "hold": HOLD}[name]
    wanted, writes, changes = await live(spec, None)
    assert wanted[2], "something was done"
    assert writes >= 3
    for number in effort.deaths(writes):
        end, _, changed = await live(spec, number)
        assert (end, changed) == (wanted, changes), f"died after write {number} of {writes}"
