"""What to do about a pipeline: the first of `PIPELINE_STEPS` that has a plan decides.

The status is the write-ahead log: a run and its generation are recorded before its driver is created, and a failure is counted before the
next start. The active run names its driver until the end of that is recorded. A driver is created only when no other driver is alive, and
its name contains its generation, so that creating it twice creates one. The pod of an ended driver stays until the next one is created.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from kappa_crds.pipeline import PIPELINE_FINALIZER
from kappa_crds.pipeline_status import OutputTopic, PipelineState, Restarts, UpgradePhase, UpgradeStatus
from kappa_crds.progress import DriverExit, DriverState, Progress
from kappa_crds.reasons import Reason
from kappa_crds.revision import STANDBY_ANNOTATION
from kappa_crds.upgrade import Handover
from kappa_operator.engine.actions import (
    Action,
    ActivateDriver,
    CreateObject,
    DeleteObject,
    Manifest,
    StopDriver,
    TakeRolloutSlot,
)
from kappa_operator.engine.kinds import Step, take_first
from kappa_operator.engine.plan import Plan, Verdict, hold_deletion, judge_error, stalled, working
from kappa_operator.errors import NameTaken
from kappa_operator.pipeline import lifecycle, savepoints, verdicts
from kappa_operator.pipeline import progress as figures
from kappa_operator.pipeline.driver import DriverPod, count_failure, forgive
from kappa_operator.pipeline.inputs import await_cut, move_inputs
from kappa_operator.pipeline.model import SOON, PipelineObserved, build_status, record, wait
from kappa_operator.pipeline.news import keep_news
from kappa_operator.pipeline.pace import IDLE, LAGGING
from kappa_operator.pipeline.revision import list_outputs
from kappa_operator.pipeline.savepoints import wait_for_schedule
from kappa_operator.pipeline.shadow.change import await_chain, follow_reprocessing, join_reprocessing
from kappa_operator.pipeline.shadow.run import create_added_topics, keep_side_run
from kappa_operator.pipeline.upgrade import handover, rollback
from kappa_operator.pipeline.upgrade.change import restore_savepoint
from kappa_operator.pipeline.user_steps import drop_users, keep_user, release_users

STARTING_POLL = 1.0
BLOCKED_POLL = 15.0
_TAKEN_OVER = (UpgradePhase.WATCHING, UpgradePhase.DONE)


def delete_pipeline(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Stop the drivers at a batch boundary, then let the resource go. Its checkpoint stays."""
    metadata, alive = observed.resource.metadata, [pod for pod in observed.pods if not pod.finished]
    if metadata.deletion_timestamp is None:
        return None
    if PIPELINE_FINALIZER not in metadata.finalizers:
        return Plan()
    if not alive:
        return release_users(observed, now)
    status = build_status(observed, verdicts.judge_deletion(alive), now)
    if observed.failures:
        return Plan(tuple(_delete_pods(alive, "the pipeline is deleted")), status, SOON)
    plan = lifecycle.request_stop(observed, alive[0], now)
    return plan if plan.status is None else replace(plan, status=status)


def hold_pipeline(observed: PipelineObserved, _now: datetime) -> Plan | None:
    """Hold deletion until no driver is alive."""
    return hold_deletion(observed.resource, PIPELINE_FINALIZER, wanted=True)


def report_failure(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Report an action that failed. A driver that could not be created counts as a failure to schedule."""
    if not observed.failures:
        return None
    failure, change = observed.failures[-1], observed.status.upgrade
    action, message = failure.action, failure.error.message
    if isinstance(action, TakeRolloutSlot):
        return handover.wait_for_slot(observed, now)
    if isinstance(action, StopDriver) and observed.current is not None:
        return lifecycle.report_stop_unreachable(observed, observed.current, message, now)
    if isinstance(action, ActivateDriver):
        verdict = working(PipelineState.STARTING, Reason.HANDING_OVER, message)
        return wait(observed, verdict, now)
    created: Manifest = action.manifest if isinstance(action, CreateObject) else {"kind": ""}
    if created["kind"] == "Pod" and not isinstance(failure.error, NameTaken):
        is_standby = STANDBY_ANNOTATION in created["metadata"].get("annotations", {})
        if change is not None and is_standby:
            return handover.go_cold(observed, change, message, now)
        return _count_unscheduled(observed, message, now)
    verdict = judge_error(PipelineState.PENDING, failure.error)
    if created["kind"] == "Savepoint":
        message = f"the savepoint before the change cannot be created: {message}"
        verdict = working(observed.status.state or PipelineState.PENDING, Reason.UPGRADE_SAVING, message)
    return wait(observed, verdict, now, BLOCKED_POLL)


def _count_unscheduled(observed: PipelineObserved, message: str, now: datetime) -> Plan:
    end = DriverExit(reason=Reason.DRIVER_UNSCHEDULABLE, message=message)
    restarts = count_failure(
        observed.status.restarts, end, None, started=False, policy=observed.resource.spec.restart, now=now
    )
    return wait(observed, working(PipelineState.FAILED, end.reason, message), now, restarts=restarts)


def remove_stale_drivers(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Delete driver pods of other generations; nothing else happens until they are gone, or have at least ended."""
    status = observed.status
    known = status.active.generation
    stale = [pod for pod in observed.pods if _is_stale(observed, pod, now)]
    if not stale:
        return None
    names = ", ".join(pod.ref.name for pod in stale)
    message = f"waiting until driver {names} is gone; its node must confirm"
    verdict = working(PipelineState.PENDING, Reason.STOPPING_PREVIOUS, message)
    generation = max(known, *(pod.generation for pod in stale))
    if generation > max(known, status.last_generation):
        runs = observed.status.update_active(generation=generation, driver=None, driver_uid=None)
        return replace(record(observed, verdict, now, runs=runs), requeue=False, requeue_after=SOON)
    actions = tuple(_delete_pods(stale, "its generation is not the active one"))
    return replace(wait(observed, verdict, now), actions=actions)


def _is_stale(observed: PipelineObserved, pod: DriverPod, now: datetime) -> bool:
    """A standby driver is not stale, nor one beside the active one; nor, for a while, is the previous driver after a handover, whose queries have ended."""
    status = observed.status
    known, change = status.active.generation, status.upgrade
    if pod.generation in {run.generation for run in status.sides}:
        return False
    if pod.generation > known:
        is_known = pod.generation <= status.last_generation  # it was beside the active one
        return not pod.standby and not (is_known and pod.finished)
    if pod.generation == known or pod.finished:
        return False
    taken_over = change is not None and change.handover is Handover.WARM and change.phase in _TAKEN_OVER
    since = change.since if change is not None and taken_over else None
    return since is None or (now - since).total_seconds() > lifecycle.STOP_MARGIN


def _delete_pods(pods: list[DriverPod], why: str) -> Iterator[Action]:
    return (DeleteObject(pod.ref, pod.uid, why) for pod in pods if not pod.deleting)


def follow_driver(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Report the driver that runs, where it is the wanted one."""
    current, progress, spec = observed.alive, observed.progress, observed.resource.spec
    if current is None or not _is_wanted(observed, current):
        return None
    if progress is None or progress.generation != current.generation:
        return wait(observed, verdicts.judge_start(current), now, STARTING_POLL)
    if progress.state is DriverState.STANDING_BY:
        return Plan(handover.activate(observed, current), requeue_after=handover.AT_ONCE)
    if progress.state is not DriverState.RUNNING:
        return wait(observed, verdicts.judge_progress(progress, observed.shortage), now, STARTING_POLL)
    change = rollback.follow_change(observed, progress, now)
    figure, pause = figures.describe_progress(progress, spec, now), figures.find_pause(progress, spec, now)
    running = verdicts.judge_running(change, figure, pause, spec.upgrade.reprocessing.scope)
    verdict = verdicts.add_refusal(running, progress)
    if isinstance(observed.dependencies, Verdict):
        verdict = replace(verdict, message=f"{verdict.message}; but {observed.dependencies.message}")
    if observed.side.failure is not None:
        verdict = replace(verdict, message=f"{verdict.message}; the run beside it: {observed.side.failure}")
    if observed.inputs.behind:
        verdict = replace(verdict, message=f"{verdict.message}; {observed.inputs.behind}")
    restarts = forgive(observed.status.restarts, progress.running_since, spec.restart, now)
    fields = {
        **figures.build_progress_fields(observed.status, progress, spec, now),
        "recovery": figures.build_recovery(observed, current, progress),
        "outputs": _name_outputs(observed),
    }
    status = build_status(observed, verdict, now, restarts=restarts, upgrade=change, **fields)
    poll = wait_for_schedule(observed, now, _choose_poll(observed, change, progress, now))
    actions = (*lifecycle.renew_certificate(observed, now), *lifecycle.drop_history(observed, change))
    return Plan(actions, keep_news(observed.status, status, now), poll)


def _name_outputs(observed: PipelineObserved) -> tuple[OutputTopic, ...]:
    """Return the topics that the active run writes to; those in the status where they are the same, or not known now."""
    known, wanted = observed.status.outputs, observed.wanted
    found = known if wanted is None else list_outputs(wanted)
    is_same = {each.name: each.topic for each in known} == {each.name: each.topic for each in found}
    return known if is_same else found


def _is_wanted(observed: PipelineObserved, current: DriverPod) -> bool:
    """A running driver continues while a dependency is missing; it stops for a new revision, when suspended, or when it is forbidden."""
    is_stopping = observed.status.active.stopping_since is not None
    if current.deleting or observed.resource.spec.suspend or is_stopping or observed.is_forbidden:
        return False
    return observed.wanted_name in (None, current.revision)


def _choose_poll(
    observed: PipelineObserved, change: UpgradeStatus | None, progress: Progress, now: datetime
) -> float:
    if change is not None and change.phase is UpgradePhase.WATCHING:
        return LAGGING.shortest
    return (LAGGING if progress.lag else IDLE).get_wait(observed.drivers, observed.resource.metadata.uid, now)


def stop_driver(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Stop the driver that runs and is not wanted."""
    return None if observed.alive is None else lifecycle.request_stop(observed, observed.alive, now)


def rest_suspended(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Rest while spec.suspend is set."""
    if not observed.resource.spec.suspend:
        return None
    message = "suspended at the end of a batch; set spec.suspend to false to resume"
    verdict = Verdict(PipelineState.SUSPENDED, Reason.SUSPENDED, message, settled=True)
    restarts = Restarts(total=observed.status.restarts.total)
    plan = wait(observed, verdict, now, wait_for_schedule(observed, now), restarts=restarts)
    return replace(plan, actions=lifecycle.remove_ended(observed))


def wait_for_dependencies(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Wait for what the spec names and is missing."""
    if not isinstance(observed.dependencies, Verdict):
        return None
    verdict = verdicts.explain_missing(observed.dependencies, observed.status.restarts)
    return wait(observed, verdict, now, wait_for_schedule(observed, now, BLOCKED_POLL))


def wait_for_spec(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Wait for another spec where no revision can run: there is none, or its failure is not retryable."""
    wanted, restarts = observed.wanted, observed.status.restarts
    if wanted is None:
        verdict = verdicts.explain_dead_end(observed.status.upgrade)
    elif wanted.name == restarts.non_retryable_revision:
        reason = restarts.last_reason or Reason.QUERY_FAILED
        verdict = stalled(PipelineState.FAILED, reason, restarts.last_failure or "")
    else:
        return None
    return wait(observed, verdict, now, wait_for_schedule(observed, now))


def wait_before_restart(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Wait for the back-off after a failure. A new revision starts at once: it may be the cure."""
    restarts, wanted = observed.status.restarts, observed.wanted
    if restarts.next_start is None or restarts.next_start <= now:
        return None
    if wanted is not None and wanted.name != observed.status.active.revision:
        return None
    failures = restarts.crashes + restarts.scheduling
    message = f"{restarts.last_failure}; failure {failures} in a row, next start after back-off"
    verdict = working(PipelineState.FAILED, restarts.last_reason or Reason.BACKING_OFF, message)
    pause = (restarts.next_start - now).total_seconds()
    return wait(observed, verdict, now, wait_for_schedule(observed, now, pause))


def start_driver(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Start the driver of the wanted revision."""
    return None if observed.wanted is None else lifecycle.create_active(observed, observed.wanted, now)


def hold_log(observed: PipelineObserved, _now: datetime) -> Plan | None:
    """Hold the retention of topics while a sink that was added reads their history, and give it back."""
    return Plan(observed.holds, requeue=True) if observed.holds else None


def act_beside(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Follow the Reprocessing of a change and keep its run. What is only done, and not recorded, comes first in the plan of the active run."""
    for step in (join_reprocessing, follow_reprocessing, keep_side_run):
        plan = step(observed, now)
        if plan is not None and plan.requeue:
            return plan
        if plan is not None:
            return _combine(plan, take_first(ACTIVE_STEPS, observed, now))
    return None


def _combine(beside: Plan, active: Plan) -> Plan:
    waits = [each for each in (beside.requeue_after, active.requeue_after) if each is not None]
    return replace(active, actions=(*beside.actions, *active.actions), requeue_after=min(waits, default=None))


ACTIVE_STEPS: tuple[Step[PipelineObserved], ...] = (
    rollback.roll_back,
    await_chain,
    restore_savepoint,
    handover.drop_standby,
    savepoints.take_scheduled_savepoint,
    savepoints.expire_savepoints,
    drop_users,
    move_inputs,
    follow_driver,
    await_cut,
    create_added_topics,
    handover.change_running,
    stop_driver,
    rest_suspended,
    wait_for_dependencies,
    wait_for_spec,
    wait_before_restart,
    handover.change_at_rest,
    start_driver,
)
"""What a change or a restore needs, then the driver that runs, then the next start."""

PIPELINE_STEPS: tuple[Step[PipelineObserved], ...] = (
    delete_pipeline,
    hold_pipeline,
    report_failure,
    remove_stale_drivers,
    lifecycle.record_end,
    keep_user,
    hold_log,
    act_beside,
    *ACTIVE_STEPS,
)
"""Fencing comes first, then the end of a driver, then the run beside the active one, then the active one."""


def decide_pipeline(observed: PipelineObserved, now: datetime) -> Plan:
    """Return the next step for the pipeline."""
    return take_first(PIPELINE_STEPS, observed, now)
