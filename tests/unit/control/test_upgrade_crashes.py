"""A pipeline is changed in each of its modes, and the operator dies after every single write: the end is the same."""

from typing import Any

import pytest

from kappa_crds.upgrade import VerdictKind
from kappa_operator.pipeline.observe import observe_pipeline
from kappa_operator.savepoint.observe import observe_savepoint
from unit.control.lives import (
    AUTO,
    AUTO_COLD,
    CHANGED,
    COLD,
    HOPELESS,
    MISFIT,
    NO_KAFKA,
    PIPELINE,
    REF,
    REPROCESSED,
    RESTARTED,
    SAVED,
    SAVED_COLD,
    SAVEPOINT,
    SAVEPOINT_REF,
    SPEC,
    STATELESS,
    SUSPENDED,
    Life,
    Step,
    both,
    crash,
    fail_savepoints,
    fail_to,
    judge,
    live,
    live_and_die,
    lose_the_old_driver,
    slow_savepoints,
    take_savepoint,
    wait_an_hour,
    write,
)

SHORT = [{**SPEC, "revisionHistoryLimit": 1, "trigger": {"maxRecords": 10 + number}} for number in range(4)]
QUICK = {**CHANGED, "restart": {"maxDelay": "10s"}, "upgrade": {"healthTimeout": "20s"}}
UNFIT = judge(VerdictKind.REPROCESS)
ATTEMPTS = (wait_an_hour,) * 4

STEPS: dict[str, tuple[Step, ...]] = {
    "after a savepoint": (write(SPEC), write(SAVED)),
    "after a savepoint, cold": (write(SPEC), write(SAVED_COLD)),
    "after a savepoint, at rest": (write(SPEC), write(SUSPENDED), write(SAVED)),
    "curing after a savepoint": (write(SPEC), crash(HOPELESS), write(SAVED)),
    "without the savepoint": (write(SPEC), both(fail_savepoints, write(SAVED)), *ATTEMPTS),
    "without the savepoint, at rest": (
        write(SPEC),
        write(SUSPENDED),
        both(fail_savepoints, write(SAVED)),
        *ATTEMPTS,
    ),
    "what does not fit, with a savepoint": (write(SPEC), both(UNFIT, write(SAVED))),
    "losing the driver while a savepoint is taken": (
        write(SPEC),
        both(slow_savepoints, write(SAVED)),
        lose_the_old_driver,
    ),
    "back to a savepoint": (write(SPEC), fail_to(SAVED)),
    "back to a savepoint, cold": (write(SPEC), fail_to(SAVED_COLD)),
    "corrected after it went back": (
        write(SPEC),
        fail_to(SAVED),
        write({**SAVED, "trigger": {"maxRecords": 11}}),
    ),
    "taken back after it went back": (write(SPEC), fail_to(SAVED), write(SPEC)),
    "back, cold": (write(SPEC), fail_to(COLD)),
    "back to the state that was left": (write(SPEC), fail_to(STATELESS)),
    "in an outage of Kafka": (write(SPEC), fail_to(CHANGED, NO_KAFKA, 4)),
    "in an outage of Kafka, after a savepoint": (write(SPEC), fail_to(SAVED_COLD, NO_KAFKA, 4)),
    "back, as only its drivers do not find Kafka": (write(SPEC), fail_to(QUICK, NO_KAFKA)),
    "again without state": (write(SPEC), fail_to(STATELESS), write({**STATELESS, "restartNonce": "2"})),
    "reprocessing": (write(SPEC), both(UNFIT, write(REPROCESSED))),
    "reprocessing, then suspended": (
        write(SPEC),
        both(UNFIT, write(REPROCESSED)),
        write({**REPROCESSED, "suspend": True}),
        write(REPROCESSED),
    ),
    "reprocessing what was refused": (write(SPEC), both(UNFIT, write(CHANGED)), write(REPROCESSED)),
    "reprocessing that fails": (write(SPEC), both(UNFIT, fail_to(REPROCESSED))),
    "by itself": (write(SPEC), both(UNFIT, write(AUTO))),
    "by itself, what fits": (write(SPEC), write(AUTO)),
    "by itself, what a driver finds unfit": (write(SPEC), fail_to(AUTO_COLD, MISFIT)),
    "restarting": (write(SPEC), write(RESTARTED)),
    "restarting, cold": (
        write(SPEC),
        write({**RESTARTED, "upgrade": {"mode": "Savepoint", "handover": "Cold"}}),
    ),
    "with a short history": tuple(map(write, SHORT)),
}


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, ends = await live_and_die(STEPS[name])
    for death, end in ends.items():
        assert end == wanted, death


async def test_the_ends_are_as_requested() -> None:
    ends = {name: tell(await live(steps)) for name, steps in STEPS.items()}
    assert ends == {
        "after a savepoint": ("Done", 0, [], 1),
        "after a savepoint, cold": ("Done", 0, [], 1),
        "after a savepoint, at rest": ("Done", 0, [], 1),
        "curing after a savepoint": ("Done", 0, [], 1),
        "without the savepoint": ("Refused", 0, [], 1),
        "without the savepoint, at rest": ("Refused", 0, [], 1),
        "what does not fit, with a savepoint": ("Refused", 0, [], 0),
        "losing the driver while a savepoint is taken": ("Done", 0, [], 1),
        "back to a savepoint": ("RolledBack", 1, [], 1),
        "back to a savepoint, cold": ("RolledBack", 1, [], 1),
        "corrected after it went back": ("Done", 1, [], 2),
        "taken back after it went back": ("Withdrawn", 1, [], 1),
        "back, cold": ("RolledBack", 0, [], 0),
        "back to the state that was left": ("RolledBack", 0, [], 0),
        "in an outage of Kafka": ("Done", 0, [], 0),
        "in an outage of Kafka, after a savepoint": ("Done", 0, [], 1),
        "back, as only its drivers do not find Kafka": ("RolledBack", 0, [], 0),
        "again without state": ("Done", 2, [], 0),
        "reprocessing": ("Done", 1, ["events"], 0),
        "reprocessing, then suspended": ("Done", 1, ["events"], 0),
        "reprocessing what was refused": ("Done", 1, ["events"], 0),
        "reprocessing that fails": ("RolledBack", 0, [], 0),
        "by itself": ("Done", 1, ["events"], 0),
        "by itself, what fits": ("Done", 0, [], 0),
        "by itself, what a driver finds unfit": ("Done", 1, ["events"], 0),
        "restarting": ("Done", 0, [], 0),
        "restarting, cold": ("Done", 0, [], 0),
        "with a short history": ("Done", 0, [], 0),
    }


@pytest.mark.parametrize(("limit", "kept"), [(0, 1), (2, 3), (10, 4)])
async def test_old_revisions_go_and_the_newest_are_kept(limit: int, kept: int) -> None:
    life = Life()
    await life.prepare()
    made = []
    for spec in SHORT:
        life.operator.clock.advance(60)
        write({**spec, "revisionHistoryLimit": limit})(life)
        await life.settle()
        made.append(read_status(life)["runs"][0]["revision"])
    there = {body["metadata"]["name"] for body in life.operator.cluster.find("v1", "ConfigMap")}
    assert len(set(made)) == len(SHORT)
    assert there == set(made[-kept:])
    pods = [pod["metadata"]["name"] for pod in life.operator.cluster.find("v1", "Pod")]
    assert sorted(pods) == ["delays-driver-3", "delays-driver-4"], (
        "the one that runs, and the last one that ended"
    )
    write({**SHORT[0], "revisionHistoryLimit": limit})(life)
    await life.settle()
    status = read_status(life)
    assert (status["runs"][0]["revision"], status["upgrade"]["phase"]) == (made[0], "Done"), (
        "made again under its name"
    )


def read_status(life: Life) -> dict[str, Any]:
    status: dict[str, Any] = (life.operator.get(PIPELINE) or {})["status"]
    return status


def tell(end: dict[str, Any]) -> tuple[str, int, list[str], int]:
    """Return the phase, the checkpoint, what is read from its beginning, and the number of savepoints; a driver runs in each case."""
    status = end["status"]
    assert (end["alive"], status["state"]) == (1, "Running")
    assert status["checkpoint"] == status["runs"][0]["checkpoint"]
    made_of = status.get("restoration", {}).get("savepoint", "")
    assert bool(made_of) == (status["checkpoint"] == 1 and bool(end["savepoints"]))
    return status["upgrade"]["phase"], status["checkpoint"], status["fromBeginning"], len(end["savepoints"])


@pytest.mark.parametrize(("phase", "needed"), [("Saving", True), ("Watching", True), ("Done", False)])
async def test_the_savepoint_before_a_change_is_kept_while_that_may_go_back_to_it(
    phase: str, needed: bool
) -> None:
    life = Life()
    await life.prepare()
    write({**SPEC, "savepoints": {"maxCount": 1}})(life)
    await life.settle()
    take_savepoint(life)
    await life.settle()
    change = {"phase": phase, "revision": "new", "savepoint": SAVEPOINT.name}
    life.operator.cluster.patch(REF, status={"upgrade": change})
    operator = life.operator.restart()
    kept = await observe_pipeline(operator.context, PIPELINE, ())
    assert kept is not None
    assert (SAVEPOINT.name in kept.restored) is needed
    life.operator.cluster.remove(SAVEPOINT_REF)
    savepoint = await observe_savepoint(operator.restart().context, SAVEPOINT, ())
    assert savepoint is not None
    assert savepoint.awaited_by == (("delays",) if needed else ())
