"""The operator is replaced after every single write, each time by one that finds the status as release 0.1 wrote it: the end is the same."""

import pytest

from fakes.cluster import Body
from fakes.fuse import Killed
from fakes.release import write_as_release_0_1
from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_operator.engine.keys import Key
from unit.control import test_pipeline_crashes, test_restore_crashes, test_upgrade_crashes
from unit.control.lives import PIPELINE, ROUNDS, Life, Step, describe_end, live

STEPS: dict[str, tuple[Step, ...]] = {
    **test_restore_crashes.STEPS,
    **test_upgrade_crashes.STEPS,
    **test_pipeline_crashes.STEPS,
}
TRIED = (
    "creating", "changing", "changing, cold", "changing, without state", "changing what does not fit", "changing while one cannot stand by",
    "rolling back", "suspending", "restarting after a crash", "curing", "losing the driver", "deleting", "after a savepoint",
    "after a savepoint, at rest", "back to a savepoint", "back to the state that was left", "reprocessing", "reprocessing that fails",
    "by itself, what a driver finds unfit", "restarting, cold", "what works", "what the topics no longer have",
)  # fmt: skip


class Replaced(Life):
    """A life in which each write of the status is the last one of an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.operator.cluster.subscribe(self._end_after_status)

    def _end_after_status(self, event: str, body: Body) -> None:
        if body["kind"] == "Pipeline" and body.get("status") and self.is_watched:
            self.operator.cluster.fuse.die_after(1)

    is_watched = False

    async def settle(self) -> None:
        """Replace the operator after each status that it writes, and the status by its earlier form, until nothing changes."""
        quiet = 0
        for _ in range(ROUNDS):
            before = self.operator.cluster.fuse.writes
            await self._write_back()
            moved, wait = True, 0.0
            self.is_watched = True
            try:
                outcome = await self.operator.reconcile(PIPELINE)
                wait = outcome.requeue_after or 1.0
                for body in self.operator.cluster.find(API_VERSION, "Savepoint"):
                    await self.operator.reconcile(Key("Savepoint", "shop", body["metadata"]["name"]))
                moved = self.node.step() or self.operator.cluster.fuse.writes != before
            except Killed:
                self.operator = self.operator.restart()
                self.node.watch()
                self.operator.cluster.subscribe(self._end_after_status)
            self.is_watched = False
            quiet = 0 if moved else quiet + 1
            if quiet == 2:
                return
            self.operator.clock.advance(wait)
        raise AssertionError(f"the pipeline does not come to rest: {self.operator.get(PIPELINE)}")

    async def _write_back(self) -> None:
        body: Body | None = self.operator.get(PIPELINE)
        if body is not None and "runs" in (body.get("status") or {}):
            self.operator.cluster.fuse.die_after(None)
            await self.operator.cluster.apply_status({**body, "status": write_as_release_0_1(body["status"])})
            self.rewritten += 1

    async def convert(self) -> None:
        body: Body | None = self.operator.get(PIPELINE)
        if body is not None:
            status = find_kind(PIPELINE.kind).parse(body).status.to_manifest()
            await self.operator.cluster.apply_status({**body, "status": status})

    rewritten = 0


@pytest.mark.parametrize("name", TRIED)
async def test_a_status_of_release_0_1_continues_from_every_step(name: str) -> None:
    wanted = await live(STEPS[name])
    life = Replaced()
    await life.prepare()
    for step in STEPS[name]:
        step(life)
        await life.settle()
    assert life.rewritten >= len(STEPS[name])
    assert life.node.most_alive == 1
    assert len(set(life.node.made)) == len(life.node.made)
    await life.convert()
    assert describe_end(life) == wanted
