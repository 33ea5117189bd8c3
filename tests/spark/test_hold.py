"""Drivers that hold, advance to exactly one point of their input, and continue, on real Spark and Kafka under live writes."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from kappa_crds.progress import DriverRole, DriverState, Hold, HoldPhase, InputVector
from kappa_pipelines.driver.driver import Driver
from lab.broker import Broker
from spark.conftest import DriverThread, wait_for
from spark.revisions import build_revision, source
from spark.topics import Topics


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


def test_a_shadow_that_holds_refuses_what_it_cannot_reach_takes_its_time_and_stops(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    names = {name: topics.make(name, partitions=2) for name in ("orders", "out")}
    spec = {
        "sources": [source("orders", "k BIGINT, n BIGINT, ts TIMESTAMP")],
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
