"""While the old version soaks, it shows what lag is possible: a new one that falls behind it is rolled back, or reported."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fakes.kubelet import find_address
from kappa_crds.progress import SourceProgress
from kappa_operator.pipeline.objects import REVISION_LABEL
from unit.control.lives import CRASH, both, write
from unit.control.reprocessings import (
    FIXED,
    SPEC,
    ShadowLife,
    build_query,
    check,
    describe,
    find_active_revision,
    find_all,
    live,
    pause_at,
    request,
)

_STEPS = 120
"""Seconds, twice the health timeout."""
Lag = Callable[[int], int]


def write_fixed(**gates: str) -> dict[str, Any]:
    reprocessing = {"gates": {"cut": "Automatic", **gates}, "soak": "9h"}
    return {**FIXED, "upgrade": {"mode": "Shadow", "healthTimeout": "1m", "reprocessing": reprocessing}}


def read_ready(life: ShadowLife) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = find_all(life)[0]["status"]["conditions"]
    return next(each for each in conditions if each["type"] == "Ready")


@dataclass
class Soak:
    """A life whose old version has begun to soak. The lags of both versions are functions of the seconds since then."""

    life: ShadowLife
    new: Lag
    old: Lag

    async def step(self, seconds: int = _STEPS) -> dict[str, Any]:
        """Let so many seconds pass one by one; return the condition Ready of the Reprocessing."""
        active, started = find_active_revision(self.life), self.life.operator.clock()
        for second in range(seconds):
            for pod in self.life.node.find_pods():
                is_new = pod["metadata"]["labels"][REVISION_LABEL] == active
                self._report(find_address(pod), (self.new if is_new else self.old)(second))
            await self.life.step()
        assert (self.life.operator.clock() - started).total_seconds() == seconds
        return read_ready(self.life)

    def _report(self, address: str, lag: int) -> None:
        positions, ends = {"in": {0: 100}}, {"in": {0: 100 + lag}}
        source = SourceProgress(name="events", topic="in", end_offsets=positions, latest_offsets=ends)
        drivers = self.life.operator.drivers.progress
        if address in drivers:  # one has ended after a rollback
            drivers[address] = drivers[address].replace(queries=(build_query(source),))


async def begin(spec: dict[str, Any], new: Lag, old: Lag = lambda _: 0) -> Soak:
    return Soak(await live(write(SPEC), both(pause_at("Soaking"), write(spec))), new, old)


async def test_a_new_version_whose_lag_grows_above_that_of_the_old_one_is_rolled_back() -> None:
    soak = await begin(write_fixed(), lambda seconds: 100 + seconds)
    await soak.step()
    await soak.life.settle()
    assert describe(soak.life)["phases"] == ["RolledBack"]
    assert describe(soak.life)["outputs"] == ["out"]
    assert read_ready(soak.life)["reason"] == "ReprocessingFailed"
    why = find_all(soak.life)[0]["status"]["why"]
    assert why.startswith("the lag of the new version grew from ")
    assert why.endswith("in more than 1m (spec.upgrade.healthTimeout); that of the old one is 0")
    check(soak.life)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (lambda seconds: 100 + seconds, lambda seconds: 100 + seconds),
        (lambda seconds: 500 - seconds, lambda _: 0),
        (lambda seconds: 100 + seconds if seconds % 50 else 0, lambda _: 0),
        (lambda _: 10, lambda _: 0),
    ],
    ids=["both are behind", "it catches up", "it reaches the end now and then", "it is one batch behind"],
)
async def test_other_lags_roll_nothing_back(new: Lag, old: Lag) -> None:
    soak = await begin(write_fixed(), new, old)
    ready = await soak.step()
    assert (ready["status"], ready["reason"]) == ("True", "Soaking")
    assert describe(soak.life)["phases"] == ["Soaking"]


async def test_samples_before_an_absence_of_the_operator_do_not_count() -> None:
    soak = await begin(write_fixed(), lambda seconds: 100 + seconds)
    await soak.step(40)
    soak.life.operator = soak.life.operator.restart()
    await soak.step(40)
    soak.life.operator.clock.advance(1200)
    await soak.step(40)
    assert describe(soak.life)["phases"] == ["Soaking"]


async def test_a_person_decides_where_the_gate_is_manual_and_the_soak_time_does_not_end_meanwhile() -> None:
    soak = await begin(write_fixed(rollback="Manual"), lambda seconds: 100 + seconds)
    ready = await soak.step()
    assert (ready["status"], ready["reason"]) == ("False", "WaitingForPerson")
    assert "kappa reprocess rollback" in ready["message"]
    for _ in range(100):
        soak.life.operator.clock.advance(40)
        await soak.life.step()
    assert describe(soak.life)["phases"] == ["Soaking"]
    request("Rollback")(soak.life)
    await soak.life.settle()
    assert describe(soak.life)["phases"] == ["RolledBack"]
    assert read_ready(soak.life)["reason"] == "RolledBack"


async def step(life: ShadowLife, seconds: int) -> None:
    """Let time pass; a driver reports since when it runs."""
    drivers = life.operator.drivers.progress
    known = set(drivers)
    for _ in range(seconds):
        await life.step()
        for address in drivers.keys() - known:
            drivers[address] = drivers[address].replace(running_since=life.operator.clock())
            known.add(address)


async def take_away(life: ShadowLife, seconds: int) -> None:
    """Have all drivers of both versions crash for so long, as where Kafka is away."""
    life.node.broken = lambda _pod: CRASH
    await step(life, seconds)
    assert len(life.node.made) > 6
    life.node.broken = lambda _pod: None


async def test_an_outage_in_which_both_versions_crash_rolls_nothing_back() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(write_fixed())))
    await take_away(life, 200)
    assert describe(life)["phases"] == ["Soaking"]
    await step(life, 250)
    assert (describe(life)["phases"], describe(life)["alive"]) == (["Soaking"], 2)
    assert describe(life)["outputs"] == ["out.r1"]


async def test_a_new_version_that_does_not_run_does_not_end_the_soak_time() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)))
    await take_away(life, 200)
    assert describe(life)["phases"] == ["Soaking"]
    await life.settle()
    assert describe(life)["phases"] == ["Done"]


async def test_a_rollback_in_an_outage_waits_for_the_old_version_and_has_a_common_cut() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(write_fixed())))
    request("Rollback")(life)
    await take_away(life, 300)
    assert describe(life)["phases"] == ["RollingBack"]
    await life.settle()
    assert describe(life)["phases"] == ["RolledBack"]
    assert find_all(life)[0]["status"]["rollbackCut"]["new"] == [{"topic": "out", "offsets": {"0": 50}}]
