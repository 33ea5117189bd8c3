"""What the operator decides about a changed pipeline, one situation a test. The whole way is in test_pipeline_crashes.py."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.conditions import find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline_status import (
    FirstBatch,
    Health,
    NewCheckpoint,
    PipelineStatus,
    Run,
    UpgradePhase,
    UpgradeStatus,
)
from kappa_crds.progress import DriverExit, DriverState, Progress
from kappa_crds.reasons import Reason
from kappa_crds.revision import REVISION_KEY, Revision
from kappa_crds.savepoint import Restoration
from kappa_crds.upgrade import Handover, UpgradeMode, UpgradeVerdict, VerdictKind
from kappa_operator.engine.actions import (
    ActivateDriver,
    CreateObject,
    DeleteObject,
    EmitEvent,
    RecordStatus,
    StopDriver,
    TakeRolloutSlot,
)
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.errors import Refused
from kappa_operator.pipeline.decide import decide_pipeline
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.savepoint.objects import SavepointResource
from unit.control.pipelines import (
    NOW,
    SPEC,
    build,
    failed,
    observed,
    pipeline,
    pod,
    revision_of,
    running,
    sample_all,
    started,
)

CHANGED: dict[str, Any] = {"trigger": {"maxRecords": 10}}
OLD = revision_of(pipeline(shufflePartitions=1))
NEW = revision_of(pipeline(CHANGED, shufflePartitions=1))
INTENT = build(pipeline(CHANGED)).intent
BEFORE = build(pipeline(shufflePartitions=1))
FITS = UpgradeVerdict(kind=VerdictKind.RESUME)
DOES_NOT = UpgradeVerdict(
    kind=VerdictKind.REPROCESS, reasons=("the keys of the aggregation are k, w instead of k",)
)


def change(phase: UpgradePhase = UpgradePhase.DRY_RUN, **fields: Any) -> dict[str, Any]:
    known = UpgradeStatus(phase=phase, revision=NEW, intent=INTENT, previous=OLD, since=NOW)
    return known.model_copy(update=fields).model_dump(mode="json", by_alias=True, exclude_none=True)


def changed(**status: Any) -> PipelineResource:
    """Return a pipeline whose spec was changed while its driver runs."""
    return started(CHANGED, **{"revision": OLD, **status})


def standby(**fields: Any) -> DriverPod:
    return pod(2, **{"revision": NEW, "address": "10.0.0.2", "standby": True, **fields})


def standing(verdict: UpgradeVerdict | None, state: DriverState = DriverState.STANDING_BY) -> Progress:
    return running(2, state=state, verdict=verdict, queries=(), running_since=None)


def look(resource: PipelineResource, *pods: DriverPod, **fields: Any) -> PipelineObserved:
    return observed(resource, *(pods or (pod(), standby())), **{"progress": running(), **fields})


def decide(situation: PipelineObserved) -> tuple[Plan, PipelineStatus]:
    plan = decide_pipeline(situation, NOW)
    recorded = [action.status for action in plan.actions if isinstance(action, RecordStatus)]
    status = plan.status or (recorded[-1] if recorded else situation.resource.status)
    assert isinstance(status, PipelineStatus)
    return plan, status


def kinds(plan: Plan) -> list[type]:
    return [type(action) for action in plan.actions]


def ready_of(status: PipelineStatus) -> tuple[str, str]:
    condition = find_condition(status.conditions, "Ready")
    assert condition is not None
    return condition.status, condition.reason


def upgrade_of(status: PipelineStatus) -> UpgradeStatus:
    assert status.upgrade is not None
    return status.upgrade


def standby_of(status: PipelineStatus) -> Run:
    assert status.standby is not None
    return status.standby


def at_rest(status: PipelineStatus) -> PipelineStatus:
    """Return the status after the driver has ended."""
    return status.replace(runs=status.update_active(driver=None, driver_uid=None, stopping_since=None))


def test_a_change_is_recorded_before_its_driver_is_created_and_the_active_driver_continues() -> None:
    plan, status = decide(look(changed(), pod()))
    assert kinds(plan) == [TakeRolloutSlot, RecordStatus]
    assert (upgrade_of(status).phase, standby_of(status).generation) == (UpgradePhase.DRY_RUN, 2)
    assert (upgrade_of(status).revision, upgrade_of(status).previous) == (NEW, OLD)
    assert (status.active.generation, status.active.driver, status.active.stopping_since) == (
        1,
        "delays-driver-1",
        None,
    )


def test_then_its_driver_is_made_to_stand_by() -> None:
    plan, _ = decide(look(changed(upgrade=change(), standby={"driverUid": None}), pod()))
    made = plan.actions[-1]
    assert isinstance(made, CreateObject)
    assert made.manifest["metadata"]["name"] == "delays-driver-2"
    assert made.manifest["metadata"]["annotations"]["kappa-platform.io/standby"] == "true"
    assert {"name": "KAPPA_STANDBY", "value": "1"} in made.manifest["spec"]["containers"][0]["env"]
    assert StopDriver not in kinds(plan)


@pytest.mark.parametrize("progress", [None, standing(None, DriverState.DRY_RUN)])
def test_while_it_makes_ready_the_old_one_runs_and_its_progress_is_shown(progress: Progress | None) -> None:
    plan, status = decide(look(changed(upgrade=change()), standby=progress))
    assert plan.actions == ()
    assert ready_of(status) == ("False", Reason.UPGRADE_DRY_RUN)
    assert (status.batch, status.state) == (42, "Running")


@pytest.mark.parametrize("kind", [VerdictKind.RESUME, VerdictKind.REPARTITION])
def test_where_the_state_fits_the_old_one_is_stopped(kind: VerdictKind) -> None:
    verdict = UpgradeVerdict(kind=kind)
    plan, status = decide(look(changed(upgrade=change()), standby=standing(verdict)))
    assert kinds(plan) == [RecordStatus]
    assert (upgrade_of(status).phase, status.active.stopping_since) == (UpgradePhase.HANDING_OVER, NOW)
    assert upgrade_of(status).verdict == verdict


def test_a_change_that_does_not_fit_is_refused_with_the_reason_and_the_active_driver_continues() -> None:
    plan, status = decide(look(changed(upgrade=change()), standby=standing(DOES_NOT)))
    assert kinds(plan) == [RecordStatus]
    assert ready_of(status) == ("False", Reason.UPGRADE_REFUSED)
    condition = find_condition(status.conditions, "Ready")
    assert condition is not None
    assert "the keys of the aggregation are k, w instead of k" in condition.message
    assert (upgrade_of(status).phase, status.active.stopping_since) == (UpgradePhase.REFUSED, None)


def test_a_refused_change_has_its_driver_removed_and_is_not_tried_again() -> None:
    refused = changed(upgrade=change(UpgradePhase.REFUSED))
    previous = observed(pipeline(shufflePartitions=1))
    plan, _ = decide(look(refused))
    assert kinds(plan) == [DeleteObject]
    revision = build_previous(previous)
    plan, status = decide(look(refused, pod(), previous=revision))
    assert plan.actions == ()
    assert ready_of(status) == ("False", Reason.UPGRADE_REFUSED)


def build_previous(situation: PipelineObserved) -> Any:
    plan = decide_pipeline(situation, NOW)
    config = next(
        a for a in plan.actions if isinstance(a, CreateObject) and a.manifest["kind"] == "ConfigMap"
    )
    return Revision.model_validate_json(config.manifest["data"][REVISION_KEY])


def test_when_the_queries_of_the_old_driver_have_ended_the_new_one_takes_over() -> None:
    handing = changed(upgrade=change(UpgradePhase.HANDING_OVER), stoppingSince=NOW.isoformat())
    plan, _ = decide(look(handing))
    assert kinds(plan) == [StopDriver]
    plan, status = decide(look(handing, progress=running(state=DriverState.STOPPED)))
    assert kinds(plan) == [RecordStatus, ActivateDriver]
    assert (status.active.generation, status.active.driver, status.active.driver_uid) == (
        2,
        "delays-driver-2",
        "pod-2",
    )
    assert (status.active.revision, status.active.stopping_since) == (NEW, None)
    assert upgrade_of(status).phase is UpgradePhase.WATCHING


def taken_over(
    phase: UpgradePhase = UpgradePhase.WATCHING, health: Health | None = None, **fields: Any
) -> PipelineResource:
    """Return a pipeline whose changed driver is the current one."""
    known = change(phase, health=health)
    status = {"revision": NEW, "driver": "delays-driver-2", "driverUid": "pod-2", "upgrade": known}
    return started(CHANGED, generation=2, **{**status, **fields})


def test_it_is_notified_again_until_it_acknowledges() -> None:
    plan, _ = decide(look(taken_over(), standby(), progress=standing(FITS)))
    assert kinds(plan) == [ActivateDriver]


def test_the_pod_of_the_old_driver_has_time_to_end() -> None:
    plan, _ = decide(look(taken_over(), progress=standing(FITS)))
    assert kinds(plan) == [ActivateDriver]
    later = decide_pipeline(look(taken_over()), NOW + timedelta(minutes=2))
    assert [action.ref.name for action in later.actions if isinstance(action, DeleteObject)] == [
        "delays-driver-1"
    ]


def test_a_first_batch_before_the_old_pod_is_gone_is_no_reason_to_wait_for_that() -> None:
    plan, status = decide(look(taken_over(UpgradePhase.DONE), progress=running(2)))
    assert plan.actions == ()
    assert ready_of(status) == ("True", Reason.RUNNING)


def test_a_change_is_done_when_each_query_has_committed_a_second_batch() -> None:
    behind = running(2)
    query = behind.queries[0]
    _, status = decide(
        look(taken_over(), standby(), progress=behind.replace(queries=(query.replace(batch_id=-1),)))
    )
    assert upgrade_of(status).phase is UpgradePhase.WATCHING
    _, status = decide(look(taken_over(), standby(), progress=behind))
    assert upgrade_of(status).phase is UpgradePhase.WATCHING
    second = behind.replace(queries=(query.replace(batch_id=43),))
    _, status = decide(look(taken_over(health=upgrade_of(status).health), standby(), progress=second))
    assert upgrade_of(status).phase is UpgradePhase.DONE
    assert ready_of(status) == ("True", Reason.RUNNING)


@pytest.mark.parametrize(
    "restarts",
    [
        {"crashes": 2, "lastReason": "DriverCrashed", "lastFailure": "out of luck"},
        {"crashes": 1, "lastReason": "InvalidSql", "lastFailure": "out of luck", "nonRetryableRevision": NEW},
    ],
)
def test_one_that_fails_before_makes_room_for_the_revision_before(restarts: dict[str, Any]) -> None:
    gone = taken_over(restarts=restarts, driver=None, driverUid=None)
    plan, status = decide(look(gone, failed(2), progress=None, previous=BEFORE))
    assert kinds(plan) == [RecordStatus]
    assert upgrade_of(status).phase is UpgradePhase.ROLLING_BACK
    assert "out of luck" in (upgrade_of(status).message or "")
    assert status.restarts.crashes == 0


def test_one_that_does_not_run_in_time_does_so_too() -> None:
    late = taken_over()
    late = late.replace(
        status=late.status.replace(upgrade=upgrade_of(late.status).replace(since=NOW - timedelta(minutes=6)))
    )
    progress = running(2, state=DriverState.STARTING)
    samples = sample_all([progress] * 40, NOW - timedelta(minutes=6))
    _, status = decide(look(late, standby(), progress=progress, samples=samples, previous=BEFORE))
    assert upgrade_of(status).phase is UpgradePhase.ROLLING_BACK
    assert "spec.upgrade.healthTimeout" in (upgrade_of(status).message or "")


@pytest.mark.parametrize(
    ("wanted", "phase"),
    [
        ({"resources": {"executors": {"count": 3}}}, UpgradePhase.DONE),
        (CHANGED, UpgradePhase.ROLLING_BACK),
    ],
    ids=["more executors", "another change"],
)
def test_one_whose_lag_grows_makes_room_too_unless_it_only_has_more_executors(
    wanted: dict[str, Any], phase: UpgradePhase
) -> None:
    since, health = NOW - timedelta(minutes=6), Health(lag=0, batches=(FirstBatch(sink="log", batch=41),))
    name, intent = revision_of(pipeline(wanted, shufflePartitions=1)), build(pipeline(wanted)).intent
    known = change(UpgradePhase.WATCHING, revision=name, intent=intent, since=since, health=health)
    status = {"revision": name, "driver": "delays-driver-2", "driverUid": "pod-2", "upgrade": known}
    progress = running(2)
    query = progress.queries[0]
    source = query.sources[0].replace(latest_offsets={"in": {0: 9000}})
    behind = progress.replace(queries=(query.replace(sources=(source,), input_rows=10),))
    late = started(wanted, generation=2, **status)
    alive = pod(2, revision=name)
    samples = sample_all([behind] * 40, since)
    _, after = decide(look(late, alive, progress=behind, samples=samples, previous=BEFORE))
    assert upgrade_of(after).phase is phase


def test_one_that_has_done_its_first_batch_is_restarted_like_any_other() -> None:
    restarts = {"crashes": 3, "lastReason": "DriverCrashed", "lastFailure": "out of luck"}
    gone = taken_over(UpgradePhase.DONE, restarts=restarts, driver=None, driverUid=None)
    _, status = decide(look(gone, failed(2), progress=None))
    assert upgrade_of(status).phase is UpgradePhase.DONE
    assert status.active.revision == NEW


def test_where_no_node_takes_a_second_driver_the_old_one_is_stopped_first() -> None:
    full = standby(
        waiting=(Reason.DRIVER_UNSCHEDULABLE, "no node takes the driver"), started=False, address=None
    )
    waiting = changed(upgrade=change())
    _, status = decide(look(waiting, pod(), full))
    assert upgrade_of(status).handover is Handover.WARM
    plan = decide_pipeline(look(waiting, pod(), full), NOW + timedelta(seconds=61))
    assert isinstance(plan.actions[0], RecordStatus)
    recorded = plan.actions[0].status
    assert isinstance(recorded, PipelineStatus)
    assert upgrade_of(recorded).handover is Handover.COLD
    assert "no node takes the driver" in (upgrade_of(recorded).message or "")
    plan, _ = decide(look(waiting.replace(status=recorded), pod(), full))
    assert kinds(plan) == [DeleteObject]
    plan, status = decide(look(waiting.replace(status=recorded), pod()))
    assert status.active.stopping_since == NOW


def test_a_quota_against_the_second_pod_is_reported_and_the_old_one_stops_first() -> None:
    made = decide_pipeline(look(changed(upgrade=change(), standby={"driverUid": None}), pod()), NOW).actions[
        -1
    ]
    failure = Failure(made, Refused("pods is forbidden: exceeded quota"))
    _, status = decide(
        look(changed(upgrade=change(), standby={"driverUid": None}), pod(), failures=(failure,))
    )
    assert upgrade_of(status).handover is Handover.COLD
    assert "exceeded quota" in (upgrade_of(status).message or "")


def test_one_that_ends_with_an_error_of_its_spec_is_refused_with_that_error() -> None:
    end = DriverExit(reason=Reason.UNKNOWN_COLUMN, message="there is no column 'x'", retryable=False)
    _, status = decide(look(changed(upgrade=change()), pod(), standby(phase="Failed", exit=end)))
    assert upgrade_of(status).phase is UpgradePhase.REFUSED
    assert upgrade_of(status).message == "there is no column 'x'"


def test_a_standby_with_a_transient_failure_is_replaced_and_the_active_driver_continues() -> None:
    end = DriverExit(reason=Reason.REGISTRY_UNAVAILABLE, message="the registry does not answer")
    plan, status = decide(look(changed(upgrade=change()), pod(), standby(phase="Failed", exit=end)))
    again = upgrade_of(status)
    assert (again.phase, again.attempts) == (UpgradePhase.DRY_RUN, 1)
    assert (standby_of(status).generation, standby_of(status).driver_uid) == (3, None)
    assert "the last one ended: the registry does not answer" in (status.conditions[0].message or "")
    assert not any(isinstance(action, StopDriver) for action in plan.actions)


def test_after_three_the_change_is_refused_and_the_active_driver_continues() -> None:
    end = DriverExit(reason=Reason.AUTHORIZATION_FAILED, message="grant WRITE on topic 'out'")
    last = change(attempts=2)
    plan, status = decide(look(changed(upgrade=last), pod(), standby(phase="Failed", exit=end)))
    assert upgrade_of(status).phase is UpgradePhase.REFUSED
    said = upgrade_of(status).message or ""
    assert said.startswith("grant WRITE on topic 'out'; 3 standby drivers failed.")
    assert not any(isinstance(action, StopDriver) for action in plan.actions)


@pytest.mark.parametrize("reason", [Reason.DRIVER_OUT_OF_MEMORY, Reason.DRIVER_LOST])
def test_one_that_had_no_room_beside_the_old_one_makes_the_change_cold(reason: Reason) -> None:
    end = DriverExit(reason=reason, message="out of room")
    _, status = decide(look(changed(upgrade=change()), pod(), standby(phase="Failed", exit=end)))
    assert (upgrade_of(status).phase, upgrade_of(status).handover) == (
        UpgradePhase.HANDING_OVER,
        Handover.COLD,
    )


def test_reverting_the_change_removes_the_standby_driver() -> None:
    back = started(upgrade=change())
    plan, _ = decide(look(back))
    assert [a.ref.name for a in plan.actions if isinstance(a, DeleteObject)] == ["delays-driver-2"]
    plan, status = decide(look(back, pod()))
    assert plan.actions == ()
    assert ready_of(status) == ("True", Reason.RUNNING)


def test_another_change_starts_with_its_own_driver() -> None:
    again = started({"trigger": {"maxRecords": 11}}, revision=OLD, upgrade=change())
    plan, _ = decide(look(again))
    assert [a.ref.name for a in plan.actions if isinstance(a, DeleteObject)] == ["delays-driver-2"]
    _, status = decide(look(again, pod(), replace(standby(), deleting=True)))
    assert (standby_of(status).generation, upgrade_of(status).revision) == (
        3,
        revision_of(pipeline({"trigger": {"maxRecords": 11}}, shufflePartitions=1)),
    )


def test_a_failed_pipeline_starts_its_new_revision_without_a_dry_run() -> None:
    _, status = decide(look(changed(), pod(), progress=running(state=DriverState.STARTING)))
    assert status.active.stopping_since == NOW
    assert status.upgrade is None


def test_a_change_without_state_begins_in_a_checkpoint_of_its_own_and_leaves_the_other_one() -> None:
    spec = {**CHANGED, "upgrade": {"mode": "Stateless"}}
    resource = started(spec, revision=OLD, checkpoint=3, runningCheckpoint=3)
    plan, status = decide(look(resource, pod()))
    assert kinds(plan) == [TakeRolloutSlot, EmitEvent, RecordStatus]
    assert upgrade_of(status).new_checkpoint == NewCheckpoint(checkpoint=4, instead_of=3)
    assert (status.checkpoint, status.last_checkpoint) == (3, 4)
    plan, status = decide(look(resource.replace(status=status), pod()))
    assert status.active.stopping_since == NOW
    ended = resource.replace(status=at_rest(status))
    plan, status = decide(observed(ended))
    assert (status.checkpoint, status.active.checkpoint) == (4, 4)
    assert upgrade_of(status).phase is UpgradePhase.WATCHING


SAVED = {**CHANGED, "upgrade": {"mode": "Savepoint"}}


def test_mode_savepoint_records_the_name_then_creates_the_savepoint_while_the_active_driver_continues() -> (
    None
):
    waiting = started(SAVED, revision=OLD, upgrade=change(mode=UpgradeMode.SAVEPOINT))
    plan, status = decide(look(waiting, standby=standing(FITS)))
    assert kinds(plan) == [RecordStatus]
    assert (upgrade_of(status).phase, status.active.stopping_since) == (UpgradePhase.SAVING, None)
    name = upgrade_of(status).savepoint
    assert name == f"delays-{INTENT}-2"
    plan, _ = decide(look(waiting.replace(status=status), standby=standing(FITS)))
    made = plan.actions[0]
    assert isinstance(made, CreateObject)
    assert (made.manifest["kind"], made.manifest["metadata"]["name"]) == ("Savepoint", name)
    assert made.manifest["spec"]["cause"] == "Upgrade"


def saving(phase: UpgradePhase = UpgradePhase.SAVING, **fields: Any) -> PipelineResource:
    known = change(phase, mode=UpgradeMode.SAVEPOINT, savepoint="before", **fields)
    return started(SAVED, revision=OLD, upgrade=known)


def before(state: str, **status: Any) -> SavepointResource:
    """Return the savepoint before the change, in this state."""
    condition = {"type": "Ready", "status": "False", "reason": "SavepointTaking", "message": "3 of 7 files"}
    known = {"state": state, "conditions": [{**condition, "lastTransitionTime": NOW.isoformat()}], **status}
    metadata = {"name": "before", "namespace": "flights", "uid": "12345678"}
    return find_kind("Savepoint").parse(
        {"metadata": metadata, "spec": {"pipelineRef": "delays", "cause": "Upgrade"}, "status": known}
    )


TAKEN = before("Ready", taken=NOW.isoformat(), location="file:///kept", shufflePartitions=5)


def test_the_status_shows_the_progress_of_a_savepoint() -> None:
    plan, status = decide(look(saving(), savepoint=before("Taking")))
    assert plan.actions == ()
    assert ready_of(status) == ("False", Reason.UPGRADE_SAVING)
    assert status.batch == 42
    condition = find_condition(status.conditions, "Ready")
    assert condition is not None
    assert "3 of 7 files" in condition.message


def test_when_it_is_taken_the_old_one_is_stopped() -> None:
    _, status = decide(look(saving(), savepoint=TAKEN))
    assert (upgrade_of(status).phase, status.active.stopping_since) == (UpgradePhase.HANDING_OVER, NOW)


@pytest.mark.parametrize("state", ["Failed", "Damaged"])
def test_without_it_the_change_is_refused_and_the_active_driver_continues(state: str) -> None:
    _, status = decide(look(saving(), savepoint=before(state)))
    assert (upgrade_of(status).phase, status.active.stopping_since) == (UpgradePhase.REFUSED, None)
    assert "there is no savepoint to restore from" in (upgrade_of(status).message or "")


def test_another_mode_tries_a_refused_change_again() -> None:
    refused = started(CHANGED, revision=OLD, upgrade=change(UpgradePhase.REFUSED, mode=UpgradeMode.SAVEPOINT))
    _, status = decide(look(refused, pod(), previous=BEFORE))
    assert (upgrade_of(status).phase, upgrade_of(status).mode) == (
        UpgradePhase.DRY_RUN,
        UpgradeMode.LAST_STATE,
    )


def test_what_fails_goes_back_to_the_savepoint_in_a_new_checkpoint() -> None:
    restarts = {"crashes": 2, "lastReason": "DriverCrashed", "lastFailure": "out of luck"}
    gone = taken_over(restarts=restarts, driver=None, driverUid=None, checkpoint=3, runningCheckpoint=3)
    known = upgrade_of(gone.status).replace(mode=UpgradeMode.SAVEPOINT, savepoint="before")
    gone = gone.replace(status=gone.status.replace(upgrade=known))
    _, status = decide(look(gone, failed(2), progress=None, previous=BEFORE, savepoint=TAKEN))
    assert upgrade_of(status).phase is UpgradePhase.ROLLING_BACK
    assert (status.checkpoint, status.active.checkpoint, status.shuffle_partitions) == (4, 3, 5)
    assert status.restoration == Restoration(location="file:///kept", savepoint="before-12345678")
    assert "restored from savepoint before" in (upgrade_of(status).message or "")


def test_without_its_savepoint_a_rollback_continues_from_the_last_state_and_reports_it() -> None:
    restarts = {"crashes": 2, "lastReason": "DriverCrashed", "lastFailure": "out of luck"}
    gone = taken_over(restarts=restarts, driver=None, driverUid=None)
    known = upgrade_of(gone.status).replace(mode=UpgradeMode.SAVEPOINT, savepoint="before")
    gone = gone.replace(status=gone.status.replace(upgrade=known))
    _, status = decide(look(gone, failed(2), progress=None, previous=BEFORE))
    assert "savepoint before is gone" in (upgrade_of(status).message or "")


@pytest.mark.parametrize(("mode", "warns"), [(UpgradeMode.REPROCESS, False), (UpgradeMode.AUTO, True)])
def test_mode_reprocess_starts_with_empty_state_over_the_whole_log(mode: UpgradeMode, warns: bool) -> None:
    sources = [{**SPEC["sources"][0], "startingOffsets": "latest"}]
    spec = {**CHANGED, "sources": sources, "upgrade": {"mode": mode}}
    asked = started(spec, revision=OLD, checkpoint=3, runningCheckpoint=3)
    known = change(intent=build(asked).intent, mode=mode)
    resource = started(spec, revision=OLD, checkpoint=3, runningCheckpoint=3, upgrade=known)
    plan, status = decide(look(resource, standby=standing(DOES_NOT)))
    told = plan.actions[0]
    assert isinstance(told, EmitEvent)
    assert (told.reason, told.warning) == (Reason.UPGRADE_NEW_CHECKPOINT, warns)
    assert "output to out is written again" in told.message
    assert upgrade_of(status).new_checkpoint == NewCheckpoint(
        checkpoint=4, instead_of=3, from_beginning=("events",)
    )
    assert (status.checkpoint, upgrade_of(status).handover) == (3, Handover.COLD)
    ended = resource.replace(status=at_rest(status))
    plan, begun = decide(observed(ended))
    config = next(
        a for a in plan.actions if isinstance(a, CreateObject) and a.manifest["kind"] == "ConfigMap"
    )
    revision = Revision.model_validate_json(config.manifest["data"][REVISION_KEY])
    assert revision.checkpoint.endswith("/u1-4")
    assert [source.starting_offsets for source in revision.spec.sources] == ["earliest"]
    assert (begun.checkpoint, begun.from_beginning) == (4, ("events",))
    assert build(ended.replace(status=begun)).name == begun.active.revision, (
        "it does not change again by itself"
    )


@pytest.mark.parametrize("mode", [UpgradeMode.LAST_STATE, UpgradeMode.SAVEPOINT])
def test_in_other_modes_it_is_refused(mode: UpgradeMode) -> None:
    waiting = started({**CHANGED, "upgrade": {"mode": mode}}, revision=OLD, upgrade=change(mode=mode))
    _, status = decide(look(waiting, standby=standing(DOES_NOT)))
    assert upgrade_of(status).phase is UpgradePhase.REFUSED


@pytest.mark.parametrize("mode", list(UpgradeMode))
def test_a_request_to_restart_keeps_the_state_in_every_mode(mode: UpgradeMode) -> None:
    content = BEFORE.content
    asked = started({"restartNonce": "2", "upgrade": {"mode": mode}}, revision=OLD, content=content)
    _, status = decide(look(asked, pod()))
    assert (upgrade_of(status).phase, upgrade_of(status).mode) == (
        UpgradePhase.DRY_RUN,
        UpgradeMode.LAST_STATE,
    )
    assert (upgrade_of(status).new_checkpoint, upgrade_of(status).savepoint) == (None, None)


def test_a_pipeline_that_is_suspended_while_it_is_watched_is_not_taken_back_for_that() -> None:
    late = NOW - timedelta(hours=1)
    known = upgrade_of(taken_over().status).replace(since=late)
    waiting = taken_over(driver=None, driverUid=None)
    waiting = waiting.replace(status=waiting.status.replace(upgrade=known))
    plan, status = decide(observed(waiting, previous=BEFORE))
    assert (upgrade_of(status).phase, upgrade_of(status).since) == (UpgradePhase.WATCHING, NOW)
    assert CreateObject in kinds(plan)
