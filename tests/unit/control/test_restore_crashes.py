"""A pipeline that goes on from a savepoint and fails there goes back to the checkpoint that it left, wherever the operator dies."""

import pytest

from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from unit.control.lives import (
    CHANGED,
    HOPELESS,
    SPEC,
    Step,
    crash,
    fail_to,
    live,
    live_and_die,
    take_savepoint,
    write,
)

BACK = {"restore": {"savepoint": "one"}}
LOST = DriverExit(reason=Reason.OFFSETS_LOST, message="topic events begins at 500", retryable=False)
TO_ONE = {**SPEC, **BACK}

STEPS: dict[str, tuple[Step, ...]] = {
    "what works": (write(SPEC), take_savepoint, write(TO_ONE)),
    "what the topics no longer have": (write(SPEC), take_savepoint, fail_to(TO_ONE, LOST)),
    "what the topics no longer have, with a change": (
        write(SPEC),
        take_savepoint,
        fail_to({**CHANGED, **BACK}, LOST),
    ),
    "while suspended": (
        write(SPEC),
        take_savepoint,
        write({**TO_ONE, "suspend": True}),
        fail_to(TO_ONE, LOST),
    ),
    "again after it failed": (
        write(SPEC),
        take_savepoint,
        fail_to(TO_ONE, LOST),
        write({**SPEC, "restore": {"savepoint": "one", "request": "2"}}),
    ),
    "then another change": (write(SPEC), take_savepoint, fail_to(TO_ONE, LOST), write({**CHANGED, **BACK})),
    "to cure what had failed": (write(SPEC), take_savepoint, crash(HOPELESS), write(TO_ONE)),
    "in vain, what had failed": (write(SPEC), take_savepoint, crash(HOPELESS), fail_to(TO_ONE, LOST)),
}


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, ends = await live_and_die(STEPS[name])
    for death, end in ends.items():
        assert end == wanted, death


async def test_the_ends_are_as_requested() -> None:
    ends = {}
    for name, steps in STEPS.items():
        end = await live(steps)
        status = end["status"]
        ready = next(reason for kind, _, reason in status["conditions"] if kind == "Ready")
        place = (
            status["checkpoint"],
            status["restoration"] is not None if "restoration" in status else False,
        )
        ends[name] = (status["upgrade"]["phase"], ready, status["state"], *place)
    assert ends == {
        "what works": ("Done", "Running", "Running", 1, True),
        "what the topics no longer have": ("RolledBack", "RolledBack", "Running", 0, False),
        "what the topics no longer have, with a change": ("RolledBack", "RolledBack", "Running", 0, False),
        "while suspended": ("RolledBack", "RolledBack", "Running", 0, False),
        "again after it failed": ("Done", "Running", "Running", 2, True),
        "then another change": ("Done", "Running", "Running", 0, False),
        "to cure what had failed": ("Done", "Running", "Running", 1, True),
        "in vain, what had failed": ("Watching", "OffsetsLost", "Failed", 1, True),
    }
