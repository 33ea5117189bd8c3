"""No more pipelines than the settings say are changed at the same time, and all are in the end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.context import Operator, build_resource
from fakes.fuse import Killed
from kappa_crds import API_VERSION
from kappa_crds.pipeline_status import UpgradePhase
from kappa_operator.engine.keys import Key
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.rollout import RolloutLimiter, is_in_progress
from kappa_operator.pipeline.shadow.model import BESIDE
from kappa_operator.settings import Settings
from unit.control.lives import SPEC, Life

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [Key("Pipeline", "shop", f"p{number}") for number in range(5)]
IMAGE = "kappa/pipelines:next"


def upgrade(phase: str, minutes: float = 0) -> dict[str, Any]:
    return {"phase": phase, "since": (NOW - timedelta(minutes=minutes)).isoformat()}


@pytest.mark.parametrize("phase", UpgradePhase)
def test_a_change_holds_its_slot_until_it_ends_or_makes_no_progress(phase: UpgradePhase) -> None:
    ended = (UpgradePhase.DONE, UpgradePhase.REFUSED, UpgradePhase.ROLLED_BACK, UpgradePhase.WITHDRAWN)
    assert is_in_progress(upgrade(phase), NOW) is (phase not in (*ended, *BESIDE))
    assert not is_in_progress(upgrade(phase, minutes=16), NOW)
    assert not is_in_progress({}, NOW)


def test_acquired_slots_count_before_the_status_and_expire_without_it() -> None:
    turns, nothing = RolloutLimiter(), [(key, dict[str, Any]()) for key in KEYS]
    assert [turns.try_acquire(key, nothing, 4, NOW) for key in KEYS] == [True, True, False, False, False]
    assert turns.try_acquire(KEYS[0], nothing, 4, NOW), "a key keeps its slot when it acquires again"
    begun = [(KEYS[0], upgrade("DryRun")), *nothing[1:]]
    assert not turns.try_acquire(KEYS[2], begun, 4, NOW), (
        "one that can be seen is not counted twice, nor forgotten"
    )
    done = [(KEYS[0], upgrade("Done")), *nothing[1:]]
    assert turns.try_acquire(KEYS[2], done, 4, NOW)
    assert not turns.try_acquire(KEYS[3], done, 4, NOW)
    assert turns.try_acquire(KEYS[3], done, 4, NOW + timedelta(minutes=1))


def test_one_namespace_never_holds_all_slots() -> None:
    turns, nothing = RolloutLimiter(), [(key, dict[str, Any]()) for key in KEYS]
    taken = [turns.try_acquire(key, nothing, 10, NOW) for key in KEYS]
    assert all(taken), "half of ten"
    assert not turns.try_acquire(Key("Pipeline", "shop", "p5"), nothing, 10, NOW)
    others = [Key("Pipeline", "lab", f"p{number}") for number in range(5)]
    assert [turns.try_acquire(key, nothing, 10, NOW) for key in others] == [True, True, True, False, False]
    assert turns.try_acquire(Key("Pipeline", "third", "p"), nothing, 10, NOW)


class Fleet(Life):
    """Five pipelines of one namespace, which may hold half of four slots."""

    def __init__(self) -> None:
        super().__init__()
        self.most_at_once = 0
        self.operator.cluster.subscribe(self._count)

    def _count(self, event: str, body: Any) -> None:
        if body["kind"] != "Pipeline":
            return
        phases = [each.get("status", {}).get("upgrade", {}).get("phase") for each in self.pipelines]
        at_work = sum(phase in ("DryRun", "HandingOver", "Watching") for phase in phases)
        self.most_at_once = max(self.most_at_once, at_work)

    @property
    def pipelines(self) -> list[Any]:
        return self.operator.cluster.find(API_VERSION, "Pipeline")

    def live_on(self, image: str) -> None:
        """The next life of the operator, which comes with this image."""
        cluster, drivers, clock = self.operator.cluster, self.operator.drivers, self.operator.clock
        cluster.unsubscribe_all()
        cluster.fuse.die_after(None)
        settings = Settings(runtime_image=image, concurrent_changes=4)
        self.operator = Operator(
            KIND_TABLE,
            cluster=cluster,
            brokers=self.operator.brokers,
            drivers=drivers,
            clock=clock,
            settings=settings,
        )
        self.node.watch()
        cluster.subscribe(self._count)

    async def settle_all(self, image: str) -> None:
        quiet = 0
        while quiet < 3:
            before = self.operator.cluster.fuse.writes
            for key in KEYS:
                try:
                    await self.operator.reconcile(key)
                except Killed:
                    self.live_on(image)
            self.node.step()
            self.operator.clock.advance(10)
            quiet = quiet + 1 if self.operator.cluster.fuse.writes == before else 0


async def roll_out(die_after: int | None) -> Fleet:
    fleet = Fleet()
    await fleet.prepare()
    fleet.live_on("kappa/pipelines:dev")
    for key in KEYS:
        fleet.operator.cluster.put(build_resource("Pipeline", key.name, **SPEC))
    await fleet.settle_all("kappa/pipelines:dev")
    assert fleet.most_at_once == 0, "a first driver is no change"
    fleet.live_on(IMAGE)
    fleet.operator.cluster.fuse.die_after(die_after)
    await fleet.settle_all(IMAGE)
    return fleet


@pytest.mark.parametrize("die_after", [None, 1, 4, 9])
async def test_another_image_reaches_all_pipelines_a_few_at_a_time(die_after: int | None) -> None:
    fleet = await roll_out(die_after)
    assert fleet.most_at_once == 2
    for body in fleet.pipelines:
        status = body["status"]
        assert (status["state"], status["upgrade"]["phase"]) == ("Running", "Done")
    images = {
        pod["spec"]["containers"][0]["image"]
        for pod in fleet.node.find_pods()
        if pod["status"]["phase"] == "Running"
    }
    assert images == {IMAGE}
