"""What the operator decides about a pipeline, one situation a test."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.conditions import find_condition
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.progress import DriverExit, DriverState
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import (
    Action,
    AddFinalizer,
    CreateObject,
    DeleteObject,
    RecordStatus,
    RemoveFinalizer,
    StopDriver,
)
from kappa_operator.engine.plan import Failure, Plan, Verdict
from kappa_operator.errors import DriverUnreachable, Refused
from kappa_operator.pipeline.decide import decide_pipeline
from kappa_operator.pipeline.model import PipelineObserved
from unit.control.pipelines import NOW, failed, observed, pipeline, pod, running, started


def decide(situation: PipelineObserved) -> Plan:
    return decide_pipeline(situation, NOW)


def status_of(plan: Plan) -> PipelineStatus:
    recorded = [action.status for action in plan.actions if isinstance(action, RecordStatus)]
    status = plan.status or recorded[-1]
    assert isinstance(status, PipelineStatus)
    return status


def reason_of(plan: Plan) -> str:
    ready = find_condition(status_of(plan).conditions, "Ready")
    assert ready is not None
    return ready.reason


def is_stalled(plan: Plan) -> bool:
    stalled = find_condition(status_of(plan).conditions, "Stalled")
    return stalled is not None and stalled.status == "True"


def kinds(plan: Plan) -> list[str]:
    return [describe(action) for action in plan.actions]


def describe(action: Action) -> str:
    if isinstance(action, CreateObject):
        return f"create {action.manifest['kind']}"
    return type(action).__name__


def test_a_new_pipeline_first_gets_its_finalizer() -> None:
    resource = pipeline()
    bare = resource.replace(metadata=resource.metadata.replace(finalizers=()))
    plan = decide(observed(bare))
    assert [type(action) for action in plan.actions] == [AddFinalizer]
    assert plan.requeue


def test_a_start_records_the_generation_before_it_makes_the_driver() -> None:
    plan = decide(observed(pipeline()))
    assert isinstance(plan.actions[0], RecordStatus)
    assert kinds(plan)[-2:] == ["create ConfigMap", "create Pod"]
    assert status_of(plan).active.generation == 1
    assert status_of(plan).active.driver == "delays-driver-1"


def test_the_driver_pod_carries_its_generation_and_no_secret() -> None:
    plan = decide(observed(pipeline(generation=4)))
    made = plan.actions[-1]
    assert isinstance(made, CreateObject)
    assert made.manifest["metadata"]["name"] == "delays-driver-5"
    assert made.manifest["metadata"]["annotations"]["kappa-platform.io/generation"] == "5"
    assert "secretKeyRef" not in str(made.manifest)


def test_a_driver_that_was_recorded_but_never_made_is_made_with_the_same_generation() -> None:
    plan = decide(observed(started(driverUid=None)))
    assert "RecordStatus" not in kinds(plan)
    made = plan.actions[-1]
    assert isinstance(made, CreateObject)
    assert made.manifest["metadata"]["name"] == "delays-driver-1"


def test_a_driver_that_was_recorded_for_another_revision_is_not_made() -> None:
    resource = started({"deadLetter": "in2"}, driverUid=None, revision="delays-older")
    begun = status_of(decide(observed(resource)))
    assert begun.active.driver is None
    assert status_of(decide(observed(resource.replace(status=begun)))).active.generation > 1


def test_what_is_missing_keeps_a_pipeline_pending() -> None:
    missing = Verdict("Pending", Reason.TOPIC_NOT_FOUND, "topic in is missing; create a Topic")
    plan = decide(observed(pipeline(), dependencies=missing))
    assert plan.actions == ()
    assert reason_of(plan) == Reason.TOPIC_NOT_FOUND
    assert plan.requeue_after is not None


def test_a_topic_that_a_driver_saw_vanish_is_not_just_missing() -> None:
    restarts = {"crashes": 1, "total": 1, "lastReason": "SourceTopicDeleted", "lastFailure": "in was deleted"}
    missing = Verdict("Pending", Reason.TOPIC_NOT_FOUND, "topic in is missing; create a Topic")
    plan = decide(observed(pipeline(restarts=restarts), dependencies=missing))
    assert (reason_of(plan), find_message(plan)) == (Reason.SOURCE_TOPIC_DELETED, "in was deleted")


def test_a_running_driver_continues_while_its_cluster_is_unavailable() -> None:
    missing = Verdict("Pending", Reason.CLUSTER_NOT_READY, "KafkaCluster main is not ready")
    plan = decide(observed(started(), pod(), dependencies=missing, progress=running()))
    assert plan.actions == ()
    assert reason_of(plan) == Reason.RUNNING
    assert "KafkaCluster main is not ready" in find_message(plan)


def find_message(plan: Plan) -> str:
    ready = find_condition(status_of(plan).conditions, "Ready")
    assert ready is not None
    return ready.message


def test_the_first_observation_of_a_driver_pod_records_its_uid() -> None:
    plan = decide(observed(started(driverUid=None), pod()))
    assert status_of(plan).active.driver_uid == "pod-1"


def test_a_running_driver_makes_the_pipeline_ready_and_shows_its_progress() -> None:
    plan = decide(observed(started(), pod(), progress=running()))
    status = status_of(plan)
    assert (status.state, status.batch, status.lag_records, status.rate) == ("Running", 42, 10, "1.2k/s")
    assert [condition.status for condition in status.conditions] == ["True", "False", "False"]


def test_progress_of_another_generation_is_not_believed() -> None:
    plan = decide(observed(started(), pod(), progress=running(generation=9)))
    assert status_of(plan).state == "Starting"


def test_a_driver_that_waits_for_executors_reports_it() -> None:
    plan = decide(observed(started(), pod(), progress=running(state=DriverState.WAITING_FOR_EXECUTORS)))
    assert reason_of(plan) == Reason.WAITING_FOR_EXECUTORS


def test_what_keeps_executors_from_starting_is_in_the_message() -> None:
    waits = running(state=DriverState.WAITING_FOR_EXECUTORS)
    plan = decide(observed(started(), pod(), progress=waits, shortage="exec-1: no node takes the executor"))
    assert find_message(plan).endswith("first executor; exec-1: no node takes the executor")


def test_a_driver_that_waits_for_more_executors_reports_how_many_run() -> None:
    waits = running(state=DriverState.WAITING_FOR_EXECUTORS, executors=1)
    plan = decide(observed(started(), pod(), progress=waits))
    assert find_message(plan) == "the driver waits for more executors; executors that run: 1"


QUOTA = "the API server refuses executors: ResourceQuota 'small' has no room"


def test_a_quota_that_refuses_all_executors_is_the_reason_while_the_driver_waits() -> None:
    waits = running(state=DriverState.WAITING_FOR_EXECUTORS, refusal=QUOTA)
    plan = decide(observed(started(), pod(), progress=waits))
    assert (reason_of(plan), find_message(plan)) == (
        Reason.EXECUTORS_REFUSED,
        f"the driver waits for its first executor; {QUOTA}",
    )


def test_a_quota_that_refuses_some_executors_is_the_reason_of_a_pipeline_that_is_ready() -> None:
    plan = decide(observed(started(), pod(), progress=running(refusal=QUOTA, executors=1)))
    ready = find_condition(status_of(plan).conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("True", Reason.EXECUTORS_REFUSED)
    assert ready.message.endswith(f"; executors that run: 1, as {QUOTA}")
    again = decide(observed(started(), pod(), progress=running()))
    assert reason_of(again) == Reason.RUNNING


def test_a_driver_without_a_batch_reports_none() -> None:
    progress = running()
    fresh = progress.replace(queries=tuple(query.replace(batch_id=-1) for query in progress.queries))
    plan = decide(observed(started(), pod(), progress=fresh))
    assert (status_of(plan).batch, find_message(plan)) == (None, "running; no batch yet")


def test_a_ready_driver_that_does_not_answer_is_unknown_not_failed() -> None:
    plan = decide(observed(started(), pod(ready=True)))
    ready = find_condition(status_of(plan).conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("Unknown", Reason.DRIVER_UNRESPONSIVE)


def test_an_unschedulable_driver_reports_the_reason_and_stays_with_the_scheduler() -> None:
    waiting = (Reason.DRIVER_UNSCHEDULABLE, "no node takes the pod: insufficient memory")
    plan = decide(observed(started(), pod(phase="Pending", started=False, waiting=waiting)))
    assert plan.actions == ()
    assert reason_of(plan) == Reason.DRIVER_UNSCHEDULABLE


def test_a_changed_spec_first_records_the_stop_of_the_driver() -> None:
    plan = decide(observed(started({"trigger": {"maxRecords": 10}}), pod(revision="delays-old")))
    assert kinds(plan) == ["RecordStatus"]
    assert status_of(plan).active.stopping_since == NOW


def test_then_the_driver_is_stopped_at_the_end_of_its_batch() -> None:
    resource = started({"trigger": {"maxRecords": 10}}, stoppingSince=NOW.isoformat())
    plan = decide(observed(resource, pod(revision="delays-old")))
    assert [type(action) for action in plan.actions] == [StopDriver]


def test_a_driver_that_does_not_stop_in_time_is_deleted() -> None:
    since = NOW - timedelta(minutes=10)
    resource = started({"trigger": {"maxRecords": 10}}, stoppingSince=since.isoformat())
    plan = decide(observed(resource, pod(revision="delays-old")))
    assert [type(action) for action in plan.actions] == [DeleteObject]


def test_a_stopping_driver_gets_no_second_request() -> None:
    resource = started({"trigger": {"maxRecords": 10}}, stoppingSince=NOW.isoformat())
    plan = decide(
        observed(resource, pod(revision="delays-old"), progress=running(state=DriverState.STOPPING))
    )
    assert plan.actions == ()
    assert plan.requeue_after is not None


def decide_unheard(since: timedelta) -> Plan:
    resource = started({"trigger": {"maxRecords": 10}}, stoppingSince=(NOW - since).isoformat())
    ask = decide(observed(resource, pod(revision="delays-old"))).actions[0]
    failure = Failure(ask, DriverUnreachable("no answer"))
    return decide(observed(resource, pod(revision="delays-old"), failures=(failure,)))


def test_a_driver_that_does_not_get_the_request_may_be_ending_already() -> None:
    plan = decide_unheard(timedelta(seconds=3))
    assert plan.actions == ()
    assert reason_of(plan) == Reason.STOPPING_PREVIOUS


def test_an_unreachable_driver_is_deleted_gracefully() -> None:
    plan = decide_unheard(timedelta(seconds=20))
    assert [type(action) for action in plan.actions] == [DeleteObject]


def test_a_graceful_stop_counts_no_failure_and_the_next_driver_starts_at_once() -> None:
    end = DriverExit(reason=Reason.DRIVER_STOPPED, message="stopped after batch 7", graceful=True)
    resource = started(stoppingSince=NOW.isoformat())
    plan = decide(observed(resource, pod(phase="Succeeded", exit=end)))
    status = status_of(plan)
    assert (status.restarts.total, status.active.driver, status.active.stopping_since) == (0, None, None)
    assert plan.requeue


def test_the_pod_of_a_driver_that_has_ended_is_removed_when_the_next_is_made() -> None:
    resource = started(driver=None, driverUid=None)
    plan = decide(observed(resource, failed()))
    assert kinds(plan)[:2] == ["RecordStatus", "DeleteObject"]
    assert kinds(plan)[-1] == "create Pod"


def test_a_driver_that_has_ended_and_whose_pod_lingers_holds_nothing_up() -> None:
    resource = started(generation=2, driver="delays-driver-2", driverUid="pod-2")
    alone = decide(observed(resource, pod(2), progress=running(2)))
    beside = decide(observed(resource, replace(failed(1), deleting=True), pod(2), progress=running(2)))
    assert status_of(alone) == status_of(beside)
    assert beside.actions == alone.actions == ()


def test_a_crash_is_counted_once_and_delays_the_next_start() -> None:
    plan = decide(observed(started(), failed()))
    restarts = status_of(plan).restarts
    assert (restarts.crashes, restarts.total, restarts.next_start) == (1, 1, NOW + timedelta(seconds=5))
    again = decide(observed(started(driver=None, driverUid=None, restarts=restarts.to_manifest()), failed()))
    assert again.actions == ()
    assert reason_of(again) == Reason.DRIVER_CRASHED
    assert again.requeue_after == 5.0


def test_back_off_doubles_up_to_its_limit() -> None:
    delays = []
    for crashes in (1, 2, 20):
        restarts = {"crashes": crashes, "total": crashes}
        counted = status_of(decide(observed(started(restarts=restarts), failed()))).restarts
        assert counted.next_start is not None
        delays.append((counted.next_start - NOW).total_seconds())
    assert delays == [pytest.approx(delay, rel=0.11) for delay in (10.0, 20.0, 300.0)]


def test_a_quiet_time_forgives_earlier_crashes() -> None:
    restarts = {"crashes": 4, "scheduling": 1, "total": 5}
    plan = decide(observed(started(restarts=restarts), pod(), progress=running(since=timedelta(hours=1))))
    counted = status_of(plan).restarts
    assert (counted.crashes, counted.scheduling, counted.total) == (0, 0, 5)


def test_an_error_that_would_repeat_stalls_the_pipeline_until_its_spec_changes() -> None:
    plan = decide(observed(started(), failed(reason=Reason.INVALID_SQL, retryable=False)))
    restarts = status_of(plan).restarts
    assert is_stalled(plan)
    held: dict[str, Any] = {"driver": None, "driverUid": None, "restarts": restarts.to_manifest()}
    waits = decide(observed(started(**held), failed(reason=Reason.INVALID_SQL, retryable=False)))
    assert (waits.actions, reason_of(waits), is_stalled(waits)) == ((), Reason.INVALID_SQL, True)
    changed = started({"trigger": {"maxRecords": 10}}, **{**held, "revision": "delays-old"})
    begun = status_of(decide(observed(changed)))
    cured = decide(observed(changed.replace(status=begun)))
    assert kinds(cured)[-1] == "create Pod"
    assert status_of(cured).restarts.crashes == 0


def test_a_lost_driver_counts_as_a_crash() -> None:
    plan = decide(observed(started()))
    assert status_of(plan).restarts.crashes == 1
    assert reason_of(plan) == Reason.DRIVER_LOST


def test_a_driver_that_the_api_server_refuses_counts_as_a_failure_to_schedule() -> None:
    situation = observed(pipeline())
    create = decide(situation).actions[-1]
    refused = Failure(create, Refused("pods is forbidden: exceeded quota"))
    plan = decide(observed(started(driverUid=None), failures=(refused,)))
    assert status_of(plan).restarts.scheduling == 1
    assert "exceeded quota" in find_message(plan)
    waits = decide(observed(started(driverUid=None, restarts=status_of(plan).restarts.to_manifest())))
    assert waits.actions == ()


def test_pods_of_other_generations_are_deleted_and_nothing_starts_before_they_are_gone() -> None:
    plan = decide(observed(started(generation=3), pod(3), pod(2)))
    assert kinds(plan) == ["DeleteObject"]
    leaving = decide(observed(started(generation=3, driver=None, driverUid=None), pod(2, deleting=True)))
    assert leaving.actions == ()
    assert reason_of(leaving) == Reason.STOPPING_PREVIOUS


def test_a_generation_ahead_of_the_status_is_taken_over_before_anything_else() -> None:
    plan = decide(observed(pipeline(generation=1), pod(6)))
    assert kinds(plan) == ["RecordStatus"]
    assert status_of(plan).active.generation == 6


def test_suspending_stops_the_driver_and_rests() -> None:
    asked = decide(observed(started({"suspend": True}), pod()))
    assert kinds(asked) == ["RecordStatus"]
    rests = decide(observed(started({"suspend": True}, driver=None, driverUid=None)))
    assert (rests.actions, status_of(rests).state, reason_of(rests)) == ((), "Suspended", Reason.SUSPENDED)
    assert [condition.status for condition in status_of(rests).conditions] == ["False", "False", "False"]


def test_a_suspended_pipeline_does_not_need_what_it_refers_to() -> None:
    missing = Verdict("Pending", Reason.CLUSTER_NOT_FOUND, "no cluster")
    plan = decide(observed(pipeline({"suspend": True}), dependencies=missing))
    assert status_of(plan).state == "Suspended"


def test_deleting_a_pipeline_stops_its_driver_first_and_reports_what_it_waits_for() -> None:
    resource = started(stoppingSince=NOW.isoformat())
    leaving = resource.replace(metadata=resource.metadata.replace(deletion_timestamp=NOW))
    plan = decide(observed(leaving, pod()))
    assert [type(action) for action in plan.actions] == [StopDriver]
    assert reason_of(plan) == Reason.DELETION_BLOCKED
    assert "delays-driver-1" in find_message(plan)


def test_deleting_a_pipeline_without_a_driver_lets_go_at_once() -> None:
    resource = started()
    leaving = resource.replace(metadata=resource.metadata.replace(deletion_timestamp=NOW))
    plan = decide(observed(leaving))
    assert [type(action) for action in plan.actions] == [RemoveFinalizer]


def test_changing_fields_of_the_operator_restarts_nothing() -> None:
    changed = started({"restart": {"initialDelay": "30s"}})
    assert decide(observed(changed, pod(), progress=running())).actions == ()


def test_deciding_twice_on_the_same_observation_gives_the_same_plan() -> None:
    situation = observed(pipeline())
    assert decide(situation) == decide(situation)
