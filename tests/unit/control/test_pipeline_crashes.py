"""The operator dies after every single write of a pipeline's life: the end is the same, and never are two drivers alive."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from kappa_crds.upgrade import VerdictKind
from unit.control.lives import (
    AUTO,
    CHANGED,
    COLD,
    CRASH,
    EVICTED,
    HOPELESS,
    MISFIT,
    SAVED,
    SCHEDULED,
    SPEC,
    STATELESS,
    SUSPENDED,
    Life,
    Step,
    both,
    crash,
    delete,
    delete_savepoint,
    fail_to,
    import_savepoint,
    judge,
    live,
    live_and_die,
    lose_driver,
    lose_savepoint,
    lose_the_old_driver,
    restore,
    retain_savepoint,
    spoil,
    take_and_delete_savepoint,
    take_savepoint,
    verify_savepoint,
    wait_a_day,
    write,
)

STEPS: dict[str, tuple[Step, ...]] = {
    "creating": (write(SPEC),),
    "changing": (write(SPEC), write(CHANGED)),
    "changing, cold": (write(SPEC), write(COLD)),
    "changing, without state": (write(SPEC), write(STATELESS)),
    "changing what does not fit": (write(SPEC), both(judge(VerdictKind.REPROCESS), write(CHANGED))),
    "taking back what does not fit": (
        write(SPEC),
        both(judge(VerdictKind.REPROCESS), write(CHANGED)),
        write(SPEC),
    ),
    "changing to what cannot start": (write(SPEC), both(spoil(HOPELESS), write(CHANGED))),
    "changing while no driver can stand by": (write(SPEC), both(spoil(CRASH), write(CHANGED))),
    "changing while one cannot stand by": (write(SPEC), both(spoil(CRASH, 2), write(CHANGED))),
    "changing without room for two": (write(SPEC), both(spoil(EVICTED), write(CHANGED))),
    "restarting while a change is refused": (
        write(SPEC),
        both(judge(VerdictKind.REPROCESS), write(CHANGED)),
        crash(CRASH),
    ),
    "suspending": (write(SPEC), write({**SPEC, "suspend": True})),
    "resuming": (write(SPEC), write({**SPEC, "suspend": True}), write(SPEC)),
    "restarting after a crash": (write(SPEC), crash(CRASH)),
    "giving up": (write(SPEC), crash(HOPELESS)),
    "curing": (write(SPEC), crash(HOPELESS), write(CHANGED)),
    "losing the driver": (write(SPEC), lose_driver),
    "taking a savepoint": (write(SPEC), take_savepoint),
    "restoring": (write(SPEC), take_savepoint, restore()),
    "restoring again": (write(SPEC), take_savepoint, restore(), restore("again")),
    "restoring before it is taken": (write(SPEC), restore(), take_savepoint),
    "rolling back": (write(SPEC), fail_to(CHANGED)),
    "changing what does not fit, cold": (write(SPEC), fail_to(COLD, MISFIT)),
    "resuming with what does not fit": (write(SPEC), write(SUSPENDED), fail_to(CHANGED, MISFIT)),
    "curing with what does not fit": (write(SPEC), crash(HOPELESS), fail_to(CHANGED, MISFIT)),
    "deleting": (write(SPEC), delete),
    "taking a savepoint at rest": (write(SPEC), write(SUSPENDED), take_savepoint),
    "taking a savepoint of what failed": (write(SPEC), crash(HOPELESS), take_savepoint),
    "deleting a savepoint": (write(SPEC), take_savepoint, delete_savepoint),
    "deleting a savepoint at rest": (write(SPEC), write(SUSPENDED), take_savepoint, delete_savepoint),
    "deleting a savepoint of no pipeline": (write(SPEC), take_savepoint, delete, delete_savepoint),
    "deleting a savepoint at once": (write(SPEC), write(SUSPENDED), take_and_delete_savepoint),
    "deleting a savepoint that is restored": (write(SPEC), take_savepoint, both(restore(), delete_savepoint)),
    "retaining a savepoint": (write(SPEC), take_savepoint, both(retain_savepoint, delete_savepoint)),
    "importing a savepoint": (
        write(SPEC),
        take_savepoint,
        both(retain_savepoint, delete_savepoint),
        delete,
        import_savepoint,
    ),
    "verifying a savepoint": (write(SPEC), verify_savepoint("")),
    "verifying a savepoint again": (
        write(SPEC),
        verify_savepoint(""),
        both(lose_savepoint, verify_savepoint("2")),
    ),
    "restoring a damaged savepoint": (
        write(SPEC),
        take_savepoint,
        both(lose_savepoint, verify_savepoint("")),
        restore(),
    ),
    "a savepoint that is due": (write(SCHEDULED), wait_a_day),
    "a savepoint that takes the place of another": (write(SCHEDULED), wait_a_day, wait_a_day),
}


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, ends = await live_and_die(STEPS[name])
    for death, end in ends.items():
        assert end == wanted, death


async def test_the_ends_are_as_requested() -> None:
    ends = {name: await live(steps) for name, steps in STEPS.items()}
    check_states(ends)
    check_savepoints(ends)
    check_changes(ends)


def check_states(ends: dict[str, Any]) -> None:
    states = {name: end["status"] and end["status"]["state"] for name, end in ends.items()}
    assert states == {
        "creating": "Running", "changing": "Running", "changing, cold": "Running", "changing, without state": "Running",
        "changing what does not fit": "Running", "taking back what does not fit": "Running",
        "changing to what cannot start": "Running", "changing while no driver can stand by": "Running",
        "changing while one cannot stand by": "Running", "changing without room for two": "Running",
        "restarting while a change is refused": "Running", "rolling back": "Running", "suspending": "Suspended", "resuming": "Running",
        "restarting after a crash": "Running", "giving up": "Failed", "curing": "Running",
        "changing what does not fit, cold": "Running", "resuming with what does not fit": "Running", "curing with what does not fit": "Failed",
        "losing the driver": "Running", "taking a savepoint": "Running", "restoring": "Running",
        "restoring again": "Running", "restoring before it is taken": "Running", "deleting": None,
        "taking a savepoint at rest": "Suspended", "taking a savepoint of what failed": "Failed",
        "deleting a savepoint": "Running", "deleting a savepoint at rest": "Suspended",
        "deleting a savepoint of no pipeline": None, "deleting a savepoint at once": "Suspended",
        "deleting a savepoint that is restored": "Running", "retaining a savepoint": "Running",
        "restoring a damaged savepoint": "Running", "importing a savepoint": None,
        "verifying a savepoint": "Running", "verifying a savepoint again": "Running",
        "a savepoint that is due": "Running", "a savepoint that takes the place of another": "Running",
    }  # fmt: skip
    checkpoints = {name: end["status"].get("checkpoint") for name, end in ends.items() if end["status"]}
    assert checkpoints["restoring"] == checkpoints["restoring before it is taken"] == 1
    assert checkpoints["restoring again"] == 2
    assert checkpoints["changing, without state"] == 1
    alive = [ends[name]["alive"] for name in ("creating", "suspending", "giving up", "deleting")]
    assert alive == [1, 0, 0, 0]


def check_savepoints(ends: dict[str, Any]) -> None:
    taken = {name: end["savepoint"] and end["savepoint"]["state"] for name, end in ends.items()}
    assert {name for name, state in taken.items() if state == "Ready"} == {
        "taking a savepoint", "taking a savepoint at rest", "taking a savepoint of what failed",
        "restoring", "restoring again", "restoring before it is taken", "verifying a savepoint",
        "importing a savepoint",
    }  # fmt: skip
    assert {name for name, end in ends.items() if end["kept"] and not end["savepoints"]} == {
        "retaining a savepoint"
    }
    assert ends["restoring a damaged savepoint"]["status"].get("checkpoint", 0) == 0, (
        "nothing was stopped for it"
    )
    damaged = ends["verifying a savepoint again"]["savepoint"]
    assert (damaged["state"], damaged["conditions"][-1]) == (
        "Damaged",
        ("Verified", "False", "SavepointDamaged"),
    )
    assert ends["a savepoint that is due"]["savepoints"] == ["delays-202601010300"]
    assert len(ends["importing a savepoint"]["kept"]) == 2
    another = ends["a savepoint that takes the place of another"]
    assert another["savepoints"] == ["delays-202601020300"]
    assert len(another["kept"]) == 1
    assert ends["deleting a savepoint that is restored"]["status"]["restoration"], "it was restored before"


def check_changes(ends: dict[str, Any]) -> None:
    phases = {
        name: end["status"]["upgrade"]["phase"]
        for name, end in ends.items()
        if (end["status"] or {}).get("upgrade")
    }
    assert phases == {
        "changing": "Done", "changing what does not fit": "Refused", "changing to what cannot start": "Refused",
        "changing while no driver can stand by": "Refused", "changing while one cannot stand by": "Done",
        "changing without room for two": "Done", "restarting while a change is refused": "Refused",
        "rolling back": "RolledBack", "changing, cold": "Done", "changing, without state": "Done", "curing": "Done",
        "taking back what does not fit": "Withdrawn",
        "changing what does not fit, cold": "RolledBack", "resuming with what does not fit": "RolledBack",
        "curing with what does not fit": "Watching", "restoring": "Done", "restoring again": "Done",
        "restoring before it is taken": "Done", "deleting a savepoint that is restored": "Done",
    }  # fmt: skip
    reasons = {name: end["status"]["conditions"][0][2] for name, end in ends.items() if end["status"]}
    assert [reasons[name] for name in ("changing", "changing what does not fit", "taking back what does not fit", "rolling back",
            "changing what does not fit, cold", "resuming with what does not fit", "curing with what does not fit")] == [
        "Running", "UpgradeRefused", "Running", "RolledBack", "RolledBack", "RolledBack", "StateIncompatible",
    ]  # fmt: skip


steps = st.lists(
    st.sampled_from(
        [
            write(SPEC),
            write(CHANGED),
            write(COLD),
            write(STATELESS),
            write(SAVED),
            write(AUTO),
            write(SPEC),
            lose_the_old_driver,
            write({**SPEC, "suspend": True}),
            judge(VerdictKind.REPROCESS),
            judge(VerdictKind.RESUME),
            spoil(HOPELESS),
            spoil(CRASH, 2),
            crash(CRASH),
            lose_driver,
        ]
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps, deaths=st.lists(st.integers(1, 25), max_size=4), misses_pods=st.booleans())
async def test_whatever_happens_in_whatever_order_there_never_are_two_drivers(
    steps: list[Step], deaths: list[int], misses_pods: bool
) -> None:
    life = Life(misses_pods=misses_pods)
    await life.prepare()
    write(SPEC)(life)
    remaining = list(deaths)
    for step in steps:
        if remaining:
            life.operator.cluster.fuse.die_after(remaining.pop())
        step(life)
        await life.settle()
    assert life.node.most_alive <= 1
    assert len(set(life.node.made)) == len(life.node.made)
