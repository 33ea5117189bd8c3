"""Drivers that hold, advance to exactly one point of their input, and continue, on real Spark and Kafka under live writes."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.progress import DriverRole, DriverState, Hold, HoldPhase, InputVector, find_common_cut
from kappa_pipelines.driver.driver import Driver
from lab.broker import Broker
from spark.conftest import DriverThread, wait_for
from spark.revisions import build_revision, source
from spark.topics import Topics
from spark.versions import COLUMNS, Shop, Version, expect_batch, list_pairs


def find_hold(driver: DriverThread, what: str, is_so: Any) -> Hold:
    found = driver.wait_for(what, lambda p: p.hold is not None and is_so(p.hold)).hold
    assert found is not None
    return found


def is_refused(driver: DriverThread, part: int, offset: int) -> bool:
    """Whether a target with this offset of a partition was the last one, and refused."""
    held = driver.progress.hold
    target = held.target if held else None
    wanted = {part: offset}.items()
    return bool(
        held and target and any(wanted <= parts.items() for parts in target.offsets.values()) and held.refusal
    )


@pytest.mark.chaos  # two JVMs beside the broker
def test_two_drivers_reach_the_same_cut_under_live_writes_and_lose_and_repeat_nothing(
    start: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    shop = Shop(topics, broker.bootstrap)
    shop.write(500)
    versions = [Version(shop, start, tmp_path, number, limit) for number, limit in enumerate((4000, 600))]
    with shop.open():
        for _ in range(2):
            cut = find_common_cut([version.hold() for version in versions])
            for version in versions:
                version.ask(cut)
            reached = [version.reach(cut) for version in versions]
            orders = shop.read_orders(cut)
            pairs = []
            for version, ends in zip(versions, reached, strict=True):
                assert version.driver.post("/continue") == 202
                expect_batch(version, orders, ends)
                pairs.append(list_pairs(version, ends))
            assert pairs[0] == pairs[1]
            for version in versions:
                version.driver.wait_for("it reads on", lambda p: p.hold is None)
    for version in versions:
        version.expect_all()


def test_a_shadow_that_holds_refuses_what_it_cannot_reach_takes_its_time_and_stops(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    names = {name: topics.make(name, partitions=2) for name in ("orders", "out")}
    spec = {
        "sources": [source("orders", COLUMNS)],
        "sinks": [{"name": "out", "from": "orders", "kafka": {"topic": "out"}}],
    }
    revision = build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="held")
    topics.write(names["orders"], [json.dumps({"k": number}) for number in range(100)])
    driver = run(revision, role=DriverRole.SHADOW)
    control: Driver = driver.driver
    driver.wait_until_running()
    driver.wait_for_records(100)
    assert control.request_hold(60)
    held = find_hold(driver, "it holds", lambda held: held.phase is HoldPhase.HOLDING)
    begin = held.position.offsets[names["orders"]]
    assert sum(begin.values()) == 100
    topics.write(names["orders"], [json.dumps({"k": number}) for number in range(20)])
    cut = InputVector(offsets={names["orders"]: {0: begin[0], 1: topics.ends(names["orders"])[1]}})
    for part, offset in ((0, begin[0] - 1), (1, 5000), (2, 0)):
        wrong = {**cut.offsets[names["orders"]], part: offset}
        assert control.request_advance(InputVector(offsets={names["orders"]: wrong}))
        wait_for("it is refused", partial(is_refused, driver, part, offset))
    assert control.request_advance(cut)
    ends = find_hold(driver, "it is there", lambda held: held.has_reached(cut)).outputs[names["out"]]
    assert sum(ends.values()) == sum(cut.offsets[names["orders"]].values()) < 120
    assert topics.ends(names["out"]) == ends
    driver.wait_for("its lag", lambda p: p.lag == 120 - sum(ends.values()))
    assert control.request_hold(0.5)
    driver.wait_for("its time is over", lambda p: p.hold is None)
    driver.wait_for("no lag", lambda p: p.lag == 0 and sum(topics.ends(names["out"]).values()) == 120)
    time.sleep(5)  # an active driver commits in this time
    group = revision.consumer_group
    assert not any(offset > 0 for offset in topics.committed(group, names["orders"]).values())
    control.set_role(DriverRole.ACTIVE)
    wait_for("it commits", lambda: sum(topics.committed(group, names["orders"]).values()) == 120)
    assert control.request_hold(60)
    find_hold(driver, "it holds", lambda held: held.phase is HoldPhase.HOLDING)
    assert driver.progress.state is DriverState.RUNNING
    assert control.request_savepoint("held", f"file://{tmp_path}/savepoints")
    taken = driver.wait_for("a savepoint", lambda p: p.savepoints and p.savepoints[0].done).savepoints[0]
    assert taken.failure is None
    assert driver.stop().graceful
