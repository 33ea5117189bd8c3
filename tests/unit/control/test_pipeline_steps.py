"""The order of the steps of a Pipeline's decision: where two steps have a plan, the earlier one decides."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.kinds import find_kind
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import TakeRolloutSlot
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import Failure, Verdict
from kappa_operator.errors import NoRolloutSlot
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline import decide as steps
from kappa_operator.pipeline.decide import PIPELINE_STEPS
from kappa_operator.pipeline.lifecycle import record_end
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.revision import Dependencies
from kappa_operator.pipeline.savepoints import take_scheduled_savepoint
from kappa_operator.pipeline.upgrade.change import restore_savepoint
from kappa_operator.pipeline.upgrade.handover import change_at_rest, change_running, drop_standby
from kappa_operator.pipeline.upgrade.rollback import roll_back
from unit.control.pipelines import (
    DEPENDENCIES,
    NOW,
    failed,
    observed,
    pipeline,
    pod,
    revision_of,
    running,
    started,
)
from unit.control.test_upgrade_plan import BEFORE, CHANGED, OLD, change, standby, taken_over

TAKEN = find_kind("Savepoint").parse(
    {
        "metadata": {"name": "one", "namespace": "flights", "uid": "12345678"},
        "spec": {"pipelineRef": "delays"},
        "status": {"taken": NOW.isoformat(), "location": "file:///kept", "state": "Ready"},
    }
)
RESTORABLE: Dependencies = replace(DEPENDENCIES, savepoint=TAKEN)
TO_ONE = {"restore": {"savepoint": "one"}}
DUE = {"savepoints": {"schedule": "* * * * *"}}
LONG_AGO = (NOW - timedelta(hours=1)).isoformat()
BROKEN: dict[str, Any] = {
    "restarts": {"crashes": 2, "lastReason": "DriverCrashed", "lastFailure": "out of luck"},
    "driver": None,
    "driverUid": None,
}
MISSING = Verdict("Pending", Reason.TOPIC_NOT_FOUND, "topic in is missing")
FAILED_CHANGE = taken_over(**BROKEN)
FAILURE = Failure(TakeRolloutSlot(), NoRolloutSlot("none"))
LEAVING = started(stoppingSince=LONG_AGO)
LEAVING = LEAVING.replace(metadata=LEAVING.metadata.replace(deletion_timestamp=NOW, finalizers=()))
UNHELD = pipeline()
UNHELD = UNHELD.replace(metadata=UNHELD.metadata.replace(finalizers=()))
BACKING_OFF: dict[str, Any] = {
    **BROKEN,
    "restarts": {**BROKEN["restarts"], "nextStart": "2026-01-01T12:00:05Z"},
}

ORDERS: list[tuple[str, Step[Any], Step[Any], PipelineObserved]] = [
    ("a deleted pipeline gets no finalizer", steps.delete_pipeline, steps.hold_pipeline, observed(LEAVING)),
    ("nothing is started before deletion is held", steps.hold_pipeline, steps.start_driver, observed(UNHELD)),
    ("a failure is reported before the same action is tried again", steps.report_failure, change_running, observed(started(CHANGED, revision=OLD), pod(), progress=running(), failures=(FAILURE,))),
    ("stale drivers are gone before an end is counted", steps.remove_stale_drivers, record_end, observed(started(generation=3), pod(2))),
    ("stale drivers are gone before a driver starts", steps.remove_stale_drivers, steps.start_driver, observed(started(generation=3, driver=None, driverUid=None), pod(2))),
    ("an end is counted before the next start", record_end, steps.start_driver, observed(started(), failed())),
    ("an end is counted before a savepoint is restored", record_end, restore_savepoint, observed(started(TO_ONE), failed(), dependencies=RESTORABLE)),
    ("a failed change is rolled back before its driver starts again", roll_back, steps.start_driver, observed(FAILED_CHANGE, failed(2), previous=BEFORE)),
    ("a failed change is rolled back before a back-off", roll_back, steps.wait_before_restart, observed(taken_over(**BACKING_OFF), failed(2), previous=BEFORE)),
    ("a restore is recorded before the running driver is reported", restore_savepoint, steps.follow_driver, observed(started(TO_ONE), pod(), progress=running(), dependencies=RESTORABLE)),
    ("a standby driver that is not needed goes before the next change starts", drop_standby, change_running, observed(started({"trigger": {"maxRecords": 11}}, revision=OLD, upgrade=change()), pod(), standby(), progress=running())),
    ("a scheduled savepoint does not wait until the pipeline changes", take_scheduled_savepoint, steps.follow_driver, observed(started(DUE, lastScheduled=LONG_AGO), pod(), progress=running())),
    ("a change has its steps before the driver is just stopped", change_running, steps.stop_driver, observed(started(CHANGED, revision=OLD), pod(), progress=running())),
    ("a driver that runs is stopped before its pipeline rests", steps.stop_driver, steps.rest_suspended, observed(started({"suspend": True}), pod(), progress=running())),
    ("a suspended pipeline does not need its dependencies", steps.rest_suspended, steps.wait_for_dependencies, observed(pipeline({"suspend": True}), dependencies=MISSING)),
    ("a suspended pipeline starts no driver", steps.rest_suspended, steps.start_driver, observed(pipeline({"suspend": True}))),
    ("a failure that is not retryable is not started again", steps.wait_for_spec, steps.start_driver, observed(started(driver=None, driverUid=None, restarts={"nonRetryableRevision": revision_of(pipeline(shufflePartitions=1))}))),
    ("a back-off is waited for", steps.wait_before_restart, steps.start_driver, observed(started(**BACKING_OFF))),
    ("a change at rest is recorded before its driver starts", change_at_rest, steps.start_driver, observed(started(CHANGED, revision=OLD, driver=None, driverUid=None))),
]  # fmt: skip


@pytest.mark.parametrize(("why", "first", "second", "situation"), ORDERS, ids=[each[0] for each in ORDERS])
def test_of_two_steps_with_a_plan_the_earlier_one_decides(
    why: str, first: Step[Any], second: Step[Any], situation: PipelineObserved
) -> None:
    earlier, later = first(situation, NOW), second(situation, NOW)
    assert earlier is not None, why
    assert later is not None, "the order does not matter here"
    assert earlier != later
    assert PIPELINE_STEPS.index(first) < PIPELINE_STEPS.index(second)
    assert steps.decide_pipeline(situation, NOW) == earlier


def test_the_steps_are_those_of_the_table_of_kinds() -> None:
    assert KIND_TABLE["Pipeline"].steps is PIPELINE_STEPS


def test_the_last_step_always_has_a_plan_where_a_revision_can_run() -> None:
    assert PIPELINE_STEPS[-1](observed(pipeline()), NOW) is not None


def test_revisions_are_built_once() -> None:
    situation = observed(started(), pod(), progress=running())
    steps.decide_pipeline(situation, NOW)
    assert situation.wanted is situation.requested is situation.requested


def test_a_slot_that_another_pipeline_took_meanwhile_is_waited_for() -> None:
    resource = started(CHANGED, revision=OLD)
    plan = steps.decide_pipeline(observed(resource, pod(), progress=running()), NOW)
    assert plan.actions[0] == TakeRolloutSlot()
    situation = observed(resource, pod(), progress=running(), failures=(FAILURE,))
    waits = steps.decide_pipeline(situation, NOW)
    assert waits == steps.decide_pipeline(replace(situation, failures=(), has_slot=False), NOW)
    assert waits.status is not None
    assert (waits.actions, waits.status.conditions[0].reason) == ((), Reason.UPGRADE_WAITING)
