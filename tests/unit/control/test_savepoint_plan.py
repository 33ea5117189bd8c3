"""What the operator decides about a savepoint, one situation a test."""

from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.conditions import find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.progress import DriverExit, SavepointProgress
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, SavepointStatus
from kappa_operator.engine.actions import RecordStatus, TakeSavepoint
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.errors import DriverUnreachable
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.savepoint.model import MOST_ATTEMPTS, SavepointObserved
from kappa_operator.savepoint.objects import SavepointResource
from unit.control.pipelines import NOW, ON_CLAIM, pod, running, started

NAME = "before-abcdef01"
DRIVER = "delays-driver-1"


def savepoint(**status: Any) -> SavepointResource:
    metadata = {
        "name": "before", "namespace": "flights", "uid": "abcdef012345", "generation": 1, "finalizers": [SAVEPOINT_FINALIZER],
    }  # fmt: skip
    return find_kind("Savepoint").parse(
        {"metadata": metadata, "spec": {"pipelineRef": "delays"}, "status": status}
    )


def observed(resource: SavepointResource, *reported: SavepointProgress, **fields: Any) -> SavepointObserved:
    base = {
        "pipeline": started(),
        "driver": pod(),
        "progress": running(savepoints=reported),
        "storage": ON_CLAIM,
    }
    return SavepointObserved(resource, **{**base, **fields})


def report(**fields: Any) -> SavepointProgress:
    return SavepointProgress(name=NAME, location="file:///s", **fields)


def broken() -> SavepointProgress:
    return report(done=True, failure=DriverExit(reason=Reason.CHECKPOINT_DAMAGED, message="a lacks b"))


def decide(situation: SavepointObserved) -> Plan:
    return KIND_TABLE["Savepoint"].decide(situation, NOW)


def status_of(plan: Plan) -> SavepointStatus:
    recorded = [action.status for action in plan.actions if isinstance(action, RecordStatus)]
    status = plan.status or recorded[-1]
    assert isinstance(status, SavepointStatus)
    return status


def told(plan: Plan) -> tuple[str, str, str]:
    status = status_of(plan)
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    return str(status.state), ready.reason, ready.message


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"pipeline": None, "driver": None, "progress": None}, Reason.PIPELINE_NOT_FOUND),
        ({"driver": None, "progress": None}, Reason.PIPELINE_NOT_RUNNING),
    ],
)
def test_it_waits_for_a_pipeline_that_runs(fields: dict[str, Any], reason: Reason) -> None:
    plan = decide(observed(savepoint(), **fields))
    assert (plan.actions, told(plan)[:2]) == ((), ("Pending", reason))
    assert plan.requeue_after is not None


def test_an_attempt_is_recorded_before_the_request_to_the_driver() -> None:
    plan = decide(observed(savepoint()))
    assert [type(action) for action in plan.actions] == [RecordStatus]
    assert (status_of(plan).driver, status_of(plan).attempts, plan.requeue) == (DRIVER, 1, True)
    (ask,) = decide(observed(savepoint(driver=DRIVER, attempts=1))).actions
    assert isinstance(ask, TakeSavepoint)
    assert (ask.name, ask.address) == (NAME, "10.0.0.1")
    assert ask.location == "file:///var/lib/kappa/state/savepoints/flights/delays"


def test_the_next_driver_is_another_attempt() -> None:
    plan = decide(observed(savepoint(driver="delays-driver-0", attempts=1)))
    assert (status_of(plan).driver, status_of(plan).attempts) == (DRIVER, 2)


def test_a_driver_that_does_not_answer_a_stop_is_reported() -> None:
    ask = decide(observed(savepoint(driver=DRIVER, attempts=1))).actions[0]
    failures = (Failure(ask, DriverUnreachable("no answer")),)
    plan = decide(observed(savepoint(driver=DRIVER, attempts=1), failures=failures))
    assert told(plan) == ("Taking", Reason.SAVEPOINT_TAKING, "no answer")


def test_the_progress_of_a_savepoint_is_reported() -> None:
    plan = decide(observed(savepoint(driver=DRIVER, attempts=1), report(files=40, files_done=12)))
    assert told(plan) == ("Taking", Reason.SAVEPOINT_TAKING, "12 of 40 files are kept")


def test_a_taken_savepoint_is_reported() -> None:
    done = report(
        done=True,
        taken=NOW,
        batches={"log": 42},
        shuffle_partitions=2,
        size_bytes=3 * 2**20,
        copied_bytes=2048,
    )
    plan = decide(observed(savepoint(driver=DRIVER, attempts=1), done))
    assert told(plan) == ("Ready", Reason.SAVEPOINT_READY, "batch 42 of log; 3 MiB, 2 KiB copied")
    status = status_of(plan)
    assert (status.taken, status.location, status.size_bytes) == (NOW, "file:///s", 3 * 2**20)
    assert decide(observed(savepoint(**status.to_manifest()))) == Plan()


def test_a_failure_is_reported_and_retried_with_back_off() -> None:
    plan = decide(observed(savepoint(driver=DRIVER, attempts=3), broken()))
    assert told(plan) == ("Taking", Reason.SAVEPOINT_FAILED, "attempt 3 failed: a lacks b")
    due = status_of(plan).next_attempt
    assert due is not None
    assert timedelta(seconds=18) <= due - NOW <= timedelta(seconds=20)
    waiting = {"driver": DRIVER, "attempts": 3, "nextAttempt": due.isoformat()}
    assert decide(observed(savepoint(**waiting), broken())) == Plan(requeue_after=(due - NOW).total_seconds())
    plan = KIND_TABLE["Savepoint"].decide(observed(savepoint(**waiting), broken()), due)
    assert [type(action) for action in plan.actions] == [RecordStatus, TakeSavepoint]
    assert (status_of(plan).attempts, status_of(plan).next_attempt) == (4, None)


def test_after_some_attempts_it_is_given_up() -> None:
    plan = decide(observed(savepoint(driver=DRIVER, attempts=MOST_ATTEMPTS), broken()))
    assert told(plan)[:2] == ("Failed", Reason.SAVEPOINT_ABANDONED)
    stalled = find_condition(status_of(plan).conditions, "Stalled")
    assert stalled is not None
    assert (stalled.status, plan.requeue_after) == ("True", None)
    given_up = savepoint(**{**status_of(plan).to_manifest(), "driver": "delays-driver-0"})
    assert decide(observed(given_up)) == Plan(), "also where there is another driver"
