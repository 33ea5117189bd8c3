"""What to do about a pipeline, from what was observed.

The status is the write-ahead log: a generation is recorded before its driver is made, and a failure is counted before
the next start. `status.driver` names the driver whose end has not been dealt with yet. A driver is made only when no
other driver is alive, and its name holds its generation, so that making it twice makes one. The pod of a driver that
has ended stays to be looked at until the next one is made.
"""

from dataclasses import replace
from datetime import datetime

from kappa_crds.pipeline import PIPELINE_FINALIZER
from kappa_crds.pipeline_status import PipelineState, Restarts, UpgradePhase, UpgradeStatus
from kappa_crds.progress import DriverExit, DriverState, Progress
from kappa_crds.reasons import Reason
from kappa_crds.revision import STANDBY_ANNOTATION, Revision
from kappa_crds.upgrade import Handover
from kappa_operator.engine.actions import (
    ActivateDriver,
    AddFinalizer,
    CreateObject,
    DeleteObject,
    RecordStatus,
    RemoveFinalizer,
    StopDriver,
)
from kappa_operator.engine.plan import Plan, Verdict, stalled, working
from kappa_operator.pipeline.driver import DriverPod, count_failure, forgive
from kappa_operator.pipeline.ending import count_end
from kappa_operator.pipeline.history import drop_history
from kappa_operator.pipeline.model import SOON, PipelineObserved, say
from kappa_operator.pipeline.news import is_news
from kappa_operator.pipeline.pace import IDLE, LAGGING
from kappa_operator.pipeline.progress import build_progress_fields, find_pause, say_progress
from kappa_operator.pipeline.recovery import build_recovery
from kappa_operator.pipeline.starting import start_driver, sweep
from kappa_operator.pipeline.stopping import STOP_MARGIN, report_stop_unreachable, stop_driver
from kappa_operator.pipeline.upgrade.beginning import go_cold
from kappa_operator.pipeline.upgrade.change import want_revision
from kappa_operator.pipeline.upgrade.decide import (
    AT_ONCE,
    activate,
    decide_at_rest,
    decide_upgrade,
    drop_standby,
)
from kappa_operator.pipeline.upgrade.restore import decide_restore
from kappa_operator.pipeline.upgrade.rollback import decide_rollback, follow_change
from kappa_operator.pipeline.verdicts import (
    explain_missing,
    judge_deletion,
    judge_progress,
    judge_running,
    judge_start,
)

STARTING_POLL = 1.0
BLOCKED_POLL = 15.0
_TAKEN_OVER = (UpgradePhase.WATCHING, UpgradePhase.DONE)


def decide_pipeline(observed: PipelineObserved, now: datetime) -> Plan:
    """Return the next step for the pipeline."""
    if observed.resource.metadata.deletion_timestamp is not None:
        return _delete(observed, now)
    if PIPELINE_FINALIZER not in observed.resource.metadata.finalizers:
        return Plan((AddFinalizer(PIPELINE_FINALIZER),), requeue=True)
    if observed.failures:
        return _report_failure(observed, now)
    plan = (
        _remove_stale_drivers(observed, now)
        or count_end(observed, now)
        or decide_rollback(observed, now)
        or decide_restore(observed, now)
    )
    if plan is not None:
        return plan
    revision = want_revision(observed)
    if leftover := drop_standby(observed, revision):
        return Plan(leftover, requeue=True)
    current = observed.current
    if current is not None and not current.finished:
        if _is_wanted(observed, revision):
            return _follow(observed, current, revision, now)
        return decide_upgrade(observed, revision, current, now) or stop_driver(observed, current, now)
    return _rest_or_start(observed, revision, now)


def _is_wanted(observed: PipelineObserved, revision: Revision | None) -> bool:
    """A running driver goes on while its surroundings are away; it stops for a new revision or when suspended."""
    current = observed.current
    if current is None or current.deleting or observed.resource.spec.suspend:
        return False
    return observed.status.active.stopping_since is None and (
        revision is None or revision.name == current.revision
    )


def _remove_stale_drivers(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Delete driver pods of other generations; nothing else happens until they are gone, or have at least ended."""
    known = observed.status.active.generation
    stale = [pod for pod in observed.pods if _is_stale(observed, pod, now)]
    if not stale:
        return None
    actions = tuple(
        DeleteObject(pod.ref, pod.uid, f"generation {pod.generation} is not the current one")
        for pod in stale
        if not pod.deleting
    )
    names = ", ".join(pod.ref.name for pod in stale)
    verdict = working(
        PipelineState.PENDING,
        Reason.STOPPING_PREVIOUS,
        f"waiting for driver {names} to be gone; its node must confirm",
    )
    generation = max(known, *(pod.generation for pod in stale))
    if generation > known:
        runs = observed.status.update_active(generation=generation, driver=None, driver_uid=None)
        return Plan((RecordStatus(say(observed, verdict, now, runs=runs)),), requeue_after=SOON)
    return Plan(actions, say(observed, verdict, now), SOON)


def _is_stale(observed: PipelineObserved, pod: DriverPod, now: datetime) -> bool:
    """A driver that stands by is none; nor, for a while, is one that was just taken over from, whose queries have ended."""
    known = observed.status.active.generation
    if pod.generation > known:
        return not pod.standby
    if pod.generation == known or pod.finished:
        return False
    change = observed.status.upgrade
    taken_over = change is not None and change.handover is Handover.WARM and change.phase in _TAKEN_OVER
    since = change.since if change is not None and taken_over else None
    return since is None or (now - since).total_seconds() > STOP_MARGIN


def _rest_or_start(observed: PipelineObserved, revision: Revision | None, now: datetime) -> Plan:
    """No driver is alive: stay at rest with the reason, or start one."""
    spec, restarts = observed.resource.spec, observed.status.restarts
    if spec.suspend:
        verdict = Verdict(
            PipelineState.SUSPENDED,
            Reason.SUSPENDED,
            "suspended at the end of a batch; set spec.suspend to false to go on",
            settled=True,
        )
        return Plan(sweep(observed), say(observed, verdict, now, restarts=Restarts(total=restarts.total)))
    if isinstance(observed.dependencies, Verdict):
        verdict = explain_missing(observed.dependencies, restarts)
        return Plan((), say(observed, verdict, now), BLOCKED_POLL)
    if revision is None:
        return Plan((), say(observed, _explain_dead_end(observed), now))
    if restarts.non_retryable_revision == revision.name:
        reason, message = restarts.last_reason or Reason.QUERY_FAILED, restarts.last_failure or ""
        return Plan((), say(observed, stalled(PipelineState.FAILED, reason, message), now))
    wait = _wait_before_start(observed, revision, now)
    if wait > 0:
        reason = restarts.last_reason or Reason.BACKING_OFF
        message = f"{restarts.last_failure}; failure {restarts.crashes + restarts.scheduling} in a row, next start after back-off"
        return Plan((), say(observed, working(PipelineState.FAILED, reason, message), now), wait)
    return decide_at_rest(observed, revision, now) or start_driver(observed, revision, now)


def _explain_dead_end(observed: PipelineObserved) -> Verdict:
    """The change cannot be made, and there is no revision to go back to."""
    change = observed.status.upgrade
    why = change.message if change is not None and change.message else "the change cannot run"
    said = "no revision before the change can run; correct the spec, or choose another spec.upgrade.mode"
    return stalled(PipelineState.FAILED, Reason.UPGRADE_REFUSED, f"{why}; {said}")


def _wait_before_start(observed: PipelineObserved, revision: Revision, now: datetime) -> float:
    """Return the seconds of back-off left. A new revision starts at once: it may be the cure."""
    restarts = observed.status.restarts
    if restarts.next_start is None or revision.name != observed.status.active.revision:
        return 0.0
    return (restarts.next_start - now).total_seconds()


def _follow(observed: PipelineObserved, current: DriverPod, wanted: Revision | None, now: datetime) -> Plan:
    """The right driver is alive: say how it is."""
    spec, progress = observed.resource.spec, observed.progress
    if progress is None or progress.generation != current.generation:
        return Plan((), say(observed, judge_start(current), now), STARTING_POLL)
    if progress.state is DriverState.STANDING_BY:
        return Plan(activate(observed, current), requeue_after=AT_ONCE)
    if progress.state is not DriverState.RUNNING:
        return Plan((), say(observed, judge_progress(progress, observed.shortage), now), STARTING_POLL)
    restarts = forgive(observed.status.restarts, progress.running_since, spec.restart, now)
    change = follow_change(observed, wanted, progress, now)
    verdict = judge_running(change, say_progress(progress, spec, now), find_pause(progress, spec, now))
    if isinstance(observed.dependencies, Verdict):
        verdict = replace(verdict, message=f"{verdict.message}; but {observed.dependencies.message}")
    fields = {
        **build_progress_fields(observed.status, progress, spec, now),
        "recovery": build_recovery(observed, current, progress),
    }
    old = drop_history(observed, change)
    status = say(observed, verdict, now, restarts=restarts, upgrade=change, **fields)
    news = is_news(observed.status, status, fields.keys() - {"runs"}, now)
    return Plan(old, status if news else None, _choose_poll(observed, change, progress))


def _choose_poll(observed: PipelineObserved, change: UpgradeStatus | None, progress: Progress) -> float:
    if change is not None and change.phase is UpgradePhase.WATCHING:
        return LAGGING.shortest
    return (LAGGING if progress.lag else IDLE).get_interval(observed.drivers)


def _report_failure(observed: PipelineObserved, now: datetime) -> Plan:
    """An action did not work. A driver that could not be made counts as a failure to schedule."""
    failure = observed.failures[-1]
    message = f"{failure.error.message}"
    change = observed.status.upgrade
    if change is not None and _makes_standby(failure.action):
        return go_cold(observed, change, message, now)
    if isinstance(failure.action, CreateObject) and failure.action.manifest["kind"] == "Pod":
        end = DriverExit(reason=Reason.DRIVER_UNSCHEDULABLE, message=message)
        restarts = count_failure(
            observed.status.restarts, end, None, started=False, policy=observed.resource.spec.restart, now=now
        )
        verdict = working(PipelineState.FAILED, end.reason, message)
        return Plan((), say(observed, verdict, now, restarts=restarts), SOON)
    if isinstance(failure.action, ActivateDriver):
        verdict = working(PipelineState.STARTING, Reason.HANDING_OVER, message)
        return Plan((), say(observed, verdict, now), SOON)
    if isinstance(failure.action, StopDriver) and observed.current is not None:
        return report_stop_unreachable(observed, observed.current, message, now)
    if isinstance(failure.action, CreateObject) and failure.action.manifest["kind"] == "Savepoint":
        said = f"the savepoint before the change cannot be made: {message}"
        verdict = working(observed.status.state or PipelineState.PENDING, Reason.UPGRADE_SAVING, said)
        return Plan((), say(observed, verdict, now), BLOCKED_POLL)
    judge = working if failure.error.retryable else stalled
    return Plan(
        (), say(observed, judge(PipelineState.PENDING, failure.error.reason, message), now), BLOCKED_POLL
    )


def _makes_standby(action: object) -> bool:
    if not isinstance(action, CreateObject) or action.manifest["kind"] != "Pod":
        return False
    return STANDBY_ANNOTATION in action.manifest["metadata"].get("annotations", {})


def _delete(observed: PipelineObserved, now: datetime) -> Plan:
    """Stop the drivers at a batch boundary, then let go. The checkpoint stays where it is."""
    alive = [pod for pod in observed.pods if not pod.finished]
    if PIPELINE_FINALIZER not in observed.resource.metadata.finalizers:
        return Plan()
    if not alive:
        return Plan((RemoveFinalizer(PIPELINE_FINALIZER),))
    if observed.failures:
        actions = tuple(
            DeleteObject(pod.ref, pod.uid, "the pipeline is deleted") for pod in alive if not pod.deleting
        )
        return Plan(actions, say(observed, judge_deletion(alive), now), SOON)
    plan = stop_driver(observed, alive[0], now)
    if plan.status is None:
        return plan
    return replace(plan, status=say(observed, judge_deletion(alive), now))
