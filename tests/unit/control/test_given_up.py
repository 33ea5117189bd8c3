"""A reprocessing that a person has ended stays ended, whatever else changes: only another spec starts it again."""

from collections.abc import Callable
from typing import Any

import pytest

from kappa_crds.pipeline import PipelineSpec
from kappa_operator.pipeline.revision import hash_declared
from kappa_operator.settings import Settings
from unit.control.lives import HOPELESS, PIPELINE, Life, Step, both, wait_an_hour, write
from unit.control.reprocessings import (
    FIXED,
    OTHER,
    SPEC,
    ShadowLife,
    check,
    describe,
    fail_new,
    list_phases,
    live,
    live_and_die,
    pause_at,
    request,
)

BY_HAND = {**FIXED, "upgrade": {"mode": "Shadow", "reprocessing": {"soak": "1m", "outputs": "Delete"}}}
ROLLED_BACK: tuple[Step, ...] = (
    write(SPEC),
    both(pause_at("Soaking"), write(FIXED)),
    request("Rollback"),
)
ABORTED: tuple[Step, ...] = (write(SPEC), write(BY_HAND), request("Abort"))
FAILED: tuple[Step, ...] = (write(SPEC), both(fail_new(HOPELESS), write(FIXED)))
OLD = {"active": (1, 0, 0)}


def update_image(life: Life) -> None:
    """The next life of the operator has another default image."""
    life.operator = life.operator.restart(
        Settings(runtime_image="kappa/pipelines:next", network_policies="{}", allow_clear_text=("*",))
    )
    life.node.watch()


class UpdatedLife(ShadowLife):
    """A life that has another default image after each death."""

    def fork(self) -> "UpdatedLife":
        forked = super().fork()
        assert isinstance(forked, UpdatedLife)
        update_image(forked)
        return forked


def scale(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "resources": {"executors": {"count": 3}}}


def get_change(life: Life) -> dict[str, Any]:
    change: dict[str, Any] = (life.operator.get(PIPELINE) or {})["status"]["upgrade"]
    return change


@pytest.mark.parametrize(
    ("steps", "phase"), [(ROLLED_BACK, "RolledBack"), (ABORTED, "Aborted"), (FAILED, "Failed")]
)
@pytest.mark.parametrize(
    "change",
    [update_image, write(scale(FIXED)), both(update_image, wait_an_hour)],
    ids=["image", "scale", "later"],
)
async def test_what_a_person_has_ended_does_not_start_again_by_another_image_or_an_autoscaler(
    steps: tuple[Step, ...], phase: str, change: Step
) -> None:
    if steps is ABORTED and change is not update_image:
        change = both(write(scale(BY_HAND)), update_image)
    life = await live(*steps, change)
    end = describe(life)
    assert (end["phases"], end["runs"], end["alive"]) == ([phase], OLD, 1)
    assert life.operator.get_condition(PIPELINE)[0] == "False"
    check(life)


@pytest.mark.parametrize(
    "changed",
    [{**FIXED, "reprocessNonce": "again"}, {**FIXED, "restartNonce": "again"}, OTHER],
    ids=["reprocess", "restart", "spec"],
)
@pytest.mark.parametrize("before", [lambda life: None, update_image], ids=["same image", "other image"])
async def test_another_spec_or_a_nonce_starts_it_again(
    changed: dict[str, Any], before: Callable[[Life], None]
) -> None:
    life = await live(*ROLLED_BACK, before, write(changed))
    assert sorted(list_phases(life)) == ["Done", "RolledBack"]
    assert describe(life)["outputs"] == ["out.r2"]
    assert "givenUp" not in get_change(life)


async def test_the_spec_that_runs_ends_the_memory_so_that_the_same_change_can_be_made_later() -> None:
    life = await live(*ROLLED_BACK, write(SPEC))
    assert "givenUp" not in get_change(life)
    assert get_change(life)["phase"] == "Withdrawn"
    update_image(life)
    await life.settle()
    write(FIXED)(life)
    await life.settle()
    assert sorted(list_phases(life)) == ["Done", "RolledBack"]


@pytest.mark.parametrize("steps", [ROLLED_BACK, ABORTED], ids=["rolled back", "aborted"])
async def test_dying_after_any_write_of_an_end_forgets_nothing(steps: tuple[Step, ...]) -> None:
    wanted, ends = await live_and_die(*steps, kind=UpdatedLife)
    assert ends
    for death, end in ends.items():
        assert (end["phases"], end["outputs"]) == (wanted["phases"], wanted["outputs"]), death


async def test_a_suspension_leaves_it_given_up() -> None:
    life = await live(*ROLLED_BACK, update_image, write({**FIXED, "suspend": True}), write(FIXED))
    assert describe(life)["runs"]["active"][1:] == (0, 0)
    assert list_phases(life) == ["RolledBack"]
    assert get_change(life)["phase"] in ("RolledBack", "Refused")


def test_fields_with_their_defaults_are_no_other_spec() -> None:
    """A later release of the operator has more of them, and comes with another default image."""
    spelled = {**FIXED, "suspend": False, "revisionHistoryLimit": 10, "trigger": {}, "stopTimeout": "2m"}
    bare, full = (PipelineSpec.model_validate(each) for each in (FIXED, spelled))
    assert full.stop_timeout == bare.stop_timeout
    assert hash_declared(bare, None) == hash_declared(full, None)
    assert hash_declared(bare, None) != hash_declared(bare, {"a.py": ""})
    other = PipelineSpec.model_validate({**FIXED, "stopTimeout": "3m"})
    assert hash_declared(bare, None) != hash_declared(other, None)


def test_a_field_of_a_later_release_does_not_alter_the_hash() -> None:
    class Later(PipelineSpec):
        novelty: str = "none"

    later = Later.model_validate(FIXED)
    assert hash_declared(later, None) == hash_declared(PipelineSpec.model_validate(FIXED), None)
