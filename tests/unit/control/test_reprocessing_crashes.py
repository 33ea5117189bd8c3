"""The operator dies after every single write of a reprocessing: the end is the same, no run has two drivers, and the active one never stops."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import effort
from unit.control.downstream import DownstreamLife
from unit.control.lives import CRASH, HOPELESS, Life, Step, both, lose_driver, wait_an_hour, write
from unit.control.reprocessings import (
    FIXED,
    OTHER,
    SPEC,
    ShadowLife,
    check,
    delete_reprocessing,
    describe,
    fail_active,
    fail_new,
    find_all,
    list_phases,
    live_and_die,
    pause_at,
    request,
)

ENDS = {"Done", "RolledBack", "Failed", "Aborted"}
BY_HAND = {**FIXED, "upgrade": {"mode": "Shadow", "reprocessing": {"soak": "1m", "outputs": "Delete"}}}
STEPS: dict[str, tuple[Step, ...]] = {
    "to the end": (write(SPEC), write(FIXED)),
    "cut over by a person": (write(SPEC), write(BY_HAND), request("Cut")),
    "aborting": (write(SPEC), write(BY_HAND), request("Abort")),
    "rolling back": (write(SPEC), both(pause_at("Soaking"), write(FIXED)), request("Rollback")),
    "failing": (write(SPEC), both(fail_new(HOPELESS), write(FIXED))),
    "failing while the old version soaks": (
        write(SPEC),
        both(pause_at("Soaking"), write(FIXED)),
        fail_active(CRASH),
    ),
    "another spec": (write(SPEC), write(BY_HAND), write(OTHER)),
    "the former spec": (write(SPEC), write(BY_HAND), write(SPEC)),
    "another spec while the old version soaks": (
        write(SPEC),
        both(pause_at("Soaking"), write(FIXED)),
        write(OTHER),
    ),
    "deleting it": (write(SPEC), write(BY_HAND), delete_reprocessing),
    "suspending": (write(SPEC), write(BY_HAND), write({**BY_HAND, "suspend": True})),
    "losing both drivers": (write(SPEC), write(BY_HAND), lose_driver),
}


READ_BY_ANOTHER: dict[str, tuple[Step, ...]] = {
    "to the end": (write(SPEC), write(FIXED)),
    "aborting": (write(SPEC), write(BY_HAND), request("Abort")),
    "rolling back": (write(SPEC), both(pause_at("Soaking"), write(FIXED)), request("Rollback")),
    "another spec": (write(SPEC), write(BY_HAND), write(OTHER)),
}


_IN_CI = ("to the end", "rolling back")
"""The others take half a minute of a core."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in _IN_CI else pytest.mark.chaos) for name in READ_BY_ANOTHER],
)
async def test_dying_after_any_write_moves_readers_as_well_or_none(name: str) -> None:
    wanted, ends = await live_and_die(*READ_BY_ANOTHER[name], kind=DownstreamLife)
    assert ends
    wanted_runs = {role: run[1:] for role, run in wanted.pop("runs").items()}
    assert wanted["holding"] == []
    for death, end in ends.items():
        runs = {role: run[1:] for role, run in end.pop("runs").items()}
        assert (end, runs) == (wanted, wanted_runs), death


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, ends = await live_and_die(*STEPS[name])
    assert ends
    wanted_runs = {role: run[1:] for role, run in wanted.pop("runs").items()}
    for death, end in ends.items():
        runs = {role: run[1:] for role, run in end.pop("runs").items()}
        assert (end, runs) == (wanted, wanted_runs), death


whatever = st.lists(
    st.sampled_from(
        [
            write(SPEC),
            write(FIXED),
            write(BY_HAND),
            write(OTHER),
            write({**BY_HAND, "suspend": True}),
            pause_at("CatchingUp"),
            pause_at("CuttingOver"),
            pause_at("Soaking"),
            lose_driver,
            wait_an_hour,
            "Compare",
            "Cut",
            "Finish",
            "Rollback",
            "Abort",
            "Delete",
        ]
    ),
    min_size=1,
    max_size=6,
)


def apply_step(life: Life, step: Step | str) -> None:
    """Take a step; one that concerns a Reprocessing does nothing where there is none."""
    if callable(step):
        step(life)
    elif find_all(life):
        (delete_reprocessing if step == "Delete" else request(step, str(len(life.node.made))))(life)


@settings(max_examples=effort.examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=whatever, deaths=st.lists(st.integers(1, 40), max_size=4))
async def test_whatever_happens_no_run_has_two_drivers_and_each_reprocessing_ends_or_waits_for_a_person(
    steps: list[Step | str], deaths: list[int]
) -> None:
    life = ShadowLife()
    await life.prepare()
    write(SPEC)(life)
    remaining = list(deaths)
    for step in steps:
        if remaining:
            life.operator.cluster.fuse.die_after(remaining.pop())
        apply_step(life, step)
        await life.settle()
    life.pauses = None
    await life.settle()
    check(life)
    assert set(list_phases(life)) <= {
        *ENDS,
        "ReadyToCut",
        "CatchingUp",
        "CuttingOver",
        "Soaking",
        "Comparing",
    }
    runs = describe(life)["runs"]
    assert set(runs) <= {"active", "shadow", "soaking"}
    assert len(runs) <= 2
