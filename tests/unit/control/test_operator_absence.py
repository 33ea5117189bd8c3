"""A change is judged by what the operator sampled itself: its absence, or that of the API server, is no verdict on a driver."""

from typing import Any

import pytest

from kappa_crds.pipeline_status import UpgradePhase
from kappa_crds.progress import Progress
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import ApiUnavailable
from unit.control.lives import CHANGED, PIPELINE, SPEC, Life, write

TOKEN = ObjectRef("v1", "Secret", "shop", "delays-control")


async def change() -> Life:
    """Return a pipeline whose changed driver has taken over and has records left, so that it is watched."""
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    write(CHANGED)(life)
    for _ in range(60):
        await life.operator.reconcile(PIPELINE)
        life.node.step()
        life.operator.clock.advance(1)
        if phase_of(life) == UpgradePhase.WATCHING:
            return life
    raise AssertionError(life.operator.get(PIPELINE))


def status_of(life: Life) -> dict[str, Any]:
    body = life.operator.get(PIPELINE)
    assert body is not None
    status: dict[str, Any] = body["status"]
    return status


def phase_of(life: Life) -> str:
    return str(status_of(life).get("upgrade", {}).get("phase"))


def silence(life: Life) -> dict[str, Progress]:
    """Have no driver answer; return what they would have."""
    kept = dict(life.operator.drivers.progress)
    life.operator.drivers.progress.clear()
    return kept


async def poll(life: Life, seconds: int) -> None:
    for _ in range(seconds // 5):
        life.operator.clock.advance(5)
        await life.operator.reconcile(PIPELINE)


@pytest.mark.parametrize("away", [400, 3600, 30 * 86400])
async def test_a_driver_that_does_not_answer_the_first_time_after_an_absence_stays(away: int) -> None:
    life = await change()
    revision, kept = status_of(life)["runs"][0]["revision"], silence(life)
    life.operator.clock.advance(away)
    life.operator = life.operator.restart()
    await poll(life, 60)
    assert phase_of(life) == UpgradePhase.WATCHING
    life.operator.drivers.progress.update(kept)
    life.node.watch()
    await life.settle()
    assert status_of(life)["runs"][0]["revision"] == revision
    assert phase_of(life) == UpgradePhase.DONE


async def test_an_operator_that_is_restarted_again_and_again_rolls_nothing_back() -> None:
    life = await change()
    silence(life)
    for _ in range(10):
        await poll(life, 200)
        life.operator = life.operator.restart()
    assert phase_of(life) == UpgradePhase.WATCHING


async def test_a_driver_that_never_answers_is_rolled_back_by_an_operator_that_stays() -> None:
    life = await change()
    silence(life)
    await poll(life, 320)
    assert phase_of(life) in (UpgradePhase.ROLLING_BACK, UpgradePhase.ROLLED_BACK)


async def test_an_api_server_that_does_not_answer_is_no_verdict_on_a_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = await change()
    life.operator.reads.limit = 0.0  # else the token is remembered
    get = life.operator.cluster.get

    async def brown_out(ref: ObjectRef) -> dict[str, Any] | None:
        if ref == TOKEN:
            raise ApiUnavailable("GET /secrets: 503")
        return await get(ref)

    monkeypatch.setattr(life.operator.cluster, "get", brown_out)
    for _ in range(120):
        life.operator.clock.advance(5)
        with pytest.raises(ApiUnavailable):
            await life.operator.reconcile(PIPELINE)
    monkeypatch.undo()
    await life.operator.reconcile(PIPELINE)
    assert phase_of(life) in (UpgradePhase.WATCHING, UpgradePhase.DONE)
