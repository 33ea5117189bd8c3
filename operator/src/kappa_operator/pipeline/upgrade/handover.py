"""How a new revision takes over from the one that runs.

A standby driver with the new revision makes a dry run on a copy of the last batch, and reports what the change means for the state.
Where the state fits, the previous driver stops at a batch boundary and the standby driver takes over. Until then the previous driver
continues, so a change that cannot work costs nothing. Each step is recorded before it is taken.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from kappa_crds.pipeline_status import (
    AT_WORK,
    TAKEN_BACK,
    PipelineState,
    PipelineStatus,
    Restarts,
    Run,
    RunRole,
    UpgradePhase,
    UpgradeStatus,
    put_run,
)
from kappa_crds.progress import DriverExit, DriverState
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.savepoint import Cause
from kappa_crds.upgrade import SHADOW_MODES, Handover, UpgradeMode, UpgradeVerdict, VerdictKind
from kappa_operator.engine.actions import (
    Action,
    ActivateDriver,
    CreateObject,
    DeleteObject,
    RecordStatus,
    TakeRolloutSlot,
)
from kappa_operator.engine.plan import Plan, working
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.lifecycle import (
    activate_run,
    create_driver,
    next_generation,
    request_stop,
    start_watch,
)
from kappa_operator.pipeline.model import SOON, PipelineObserved, build_status, is_at_work, record
from kappa_operator.pipeline.news import keep_news
from kappa_operator.pipeline.objects import build_token_ref
from kappa_operator.pipeline.progress import build_progress_fields, describe_progress
from kappa_operator.pipeline.shadow.change import start_reprocessing, wants_reprocessing
from kappa_operator.pipeline.upgrade.change import (
    REPROCESSING_MODES,
    enter,
    forget_uncreated,
    open_change,
    start_from_empty,
    without_failed,
)
from kappa_operator.pipeline.verdicts import explain_change
from kappa_operator.savepoint.objects import build_savepoint

AT_ONCE = 0.2
_SLOT_POLL = 10.0
ROOM_PATIENCE = 60.0
"""Seconds that a standby driver may wait for a node."""
_ATTEMPTS = 3
_OUT_OF_ROOM = (Reason.DRIVER_OUT_OF_MEMORY, Reason.DRIVER_LOST)
_COLD = "no dry run, as spec.upgrade.handover is Cold; the new driver compares its plan with the state"
_AT_REST = "no dry run, as no driver ran; the new driver compares its plan with the state"
_STATELESS = "spec.upgrade.mode is Stateless"
_ALTERED = "the change alters what is computed"
_NO_SLOT = "the change waits until fewer other pipelines are being changed"


def would_start(observed: PipelineObserved) -> bool:
    """Return whether a change of a running driver is wanted and has not started, so that it needs a rollout slot."""
    current, revision = observed.alive, observed.wanted
    if current is None or current.deleting or revision is None or observed.resource.spec.suspend:
        return False
    if observed.wanted_name == current.revision or is_at_work(observed.status.upgrade, revision):
        return False
    return _may_start(observed, current)


def change_running(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Take the next step of a change while the previous driver runs; None where that driver is just stopped."""
    change, revision, current = observed.status.upgrade, observed.wanted, observed.alive
    if current is None or revision is None or current.deleting or observed.resource.spec.suspend:
        return None
    if change is None or not is_at_work(change, revision):
        return _start_running(observed, revision, now) if _may_start(observed, current) else None
    if change.phase is UpgradePhase.SAVING:
        return _save(observed, change, now)
    if change.handover is Handover.COLD:
        return None
    if change.phase is UpgradePhase.HANDING_OVER:
        return _stop_and_promote(observed, revision, current, now)
    if observed.resource.spec.upgrade.handover is Handover.COLD:
        return go_cold(observed, change, _COLD, now)
    return _prepare_standby(observed, change, revision, now)


def change_at_rest(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Take the next step of a change where no driver runs; None where its driver is just started."""
    change, revision, pod = observed.status.upgrade, observed.wanted, observed.standby_pod
    if revision is None:
        return None
    if change is None or not is_at_work(change, revision):
        return _start_at_rest(observed, revision, now)
    if change.phase is UpgradePhase.SAVING:
        is_warm = change.handover is Handover.WARM
        return _give_up_standby(observed, change, now) if is_warm else _save(observed, change, now)
    if pod is None or change.handover is Handover.COLD:
        return None
    if change.phase is UpgradePhase.DRY_RUN:
        return _prepare_standby(observed, change, revision, now)
    return None if pod.finished or pod.deleting else promote(observed, revision, pod, now)


def drop_standby(observed: PipelineObserved, _now: datetime) -> Plan | None:
    """Delete standby drivers that are not needed: they do nothing, so nothing waits for their end."""
    run, known = observed.status.standby, observed.status.active.generation
    needed = run.generation if run is not None and _needs_standby(observed) else None
    actions = tuple(
        DeleteObject(pod.ref, pod.uid, "this standby driver is not needed")
        for pod in observed.pods
        if pod.standby and pod.generation > known and pod.generation != needed and not pod.deleting
    )
    return Plan(actions, requeue=True) if actions else None


def _needs_standby(observed: PipelineObserved) -> bool:
    change, revision = observed.status.upgrade, observed.wanted
    if change is None or change.phase not in AT_WORK or change.handover is Handover.COLD:
        return False
    if observed.resource.spec.suspend or observed.is_forbidden:
        return False
    return revision is None or is_at_work(change, revision)


def _may_start(observed: PipelineObserved, current: DriverPod) -> bool:
    """Return whether a change can start beside the driver that runs: it works, and both have one checkpoint."""
    status, change = observed.status, observed.status.upgrade
    if status.checkpoint != status.active.checkpoint or status.active.stopping_since is not None:
        return False
    if change is not None and change.phase is UpgradePhase.ROLLING_BACK:
        return False
    return current.ready if observed.progress is None else observed.progress.state is DriverState.RUNNING


def wait_for_slot(observed: PipelineObserved, now: datetime) -> Plan:
    """Report that as many pipelines as allowed are being changed."""
    status = _report_running(observed, Reason.UPGRADE_WAITING, _NO_SLOT, now)
    return Plan((), keep_news(observed.status, status, now), _SLOT_POLL)


def _start_running(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan:
    shadow = _start_shadow(observed, revision, now)
    if shadow is not None:
        return shadow
    if not observed.has_slot:
        return wait_for_slot(observed, now)
    observed, change = open_change(observed, revision, now)
    if change.mode is UpgradeMode.STATELESS:
        plan = start_from_empty(observed, change, _STATELESS, now, replay=False)
    elif observed.resource.spec.upgrade.handover is Handover.COLD:
        plan = go_cold(observed, change, _COLD, now)
    else:
        plan = Plan((RecordStatus(_report_dry_run(observed, change, now)),), requeue=True)
    return replace(plan, actions=(TakeRolloutSlot(), *plan.actions))


def _start_shadow(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan | None:
    """Record that a Reprocessing makes the change, where the mode wants that; it replaces no driver, so it needs no slot."""
    _, change = open_change(observed, revision, now)
    if not wants_reprocessing(observed, change, revision):
        return None
    return start_reprocessing(observed, change, _ALTERED, now)


def _start_at_rest(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan | None:
    """Record a change of a pipeline at rest, unless the next driver is that of a restore or a rollback."""
    status, last, previous = observed.status, observed.status.upgrade, observed.previous
    if status.active.revision in (None, revision.name) or status.checkpoint != status.active.checkpoint:
        return None
    if last is not None and last.phase in TAKEN_BACK and previous and previous.intent == revision.intent:
        return None
    shadow = _start_shadow(observed, revision, now)
    if shadow is not None:
        return shadow
    observed, change = open_change(observed, revision, now)
    change = without_failed(change, status)
    if change.mode is UpgradeMode.STATELESS:
        return start_from_empty(observed, change, _STATELESS, now, replay=False)
    return go_cold(observed, change, _AT_REST, now)


def hand_over(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan:
    """Record that the previous driver is stopped; before that, where the mode needs one, that a savepoint is taken."""
    if change.mode is UpgradeMode.SAVEPOINT and change.savepoint is None:
        run = observed.status.standby
        number = next_generation(observed) if run is None else run.generation
        name = f"{observed.resource.metadata.name}-{change.intent}-{number}"  # another one for each attempt
        change = enter(change.replace(savepoint=name, message=why), UpgradePhase.SAVING, now)
        return _record(
            observed, change, Reason.UPGRADE_SAVING, f"{why}; savepoint {name} is taken first", now
        )
    change = enter(change.replace(message=why), UpgradePhase.HANDING_OVER, now)
    if change.handover is Handover.COLD:
        message = f"{why}; the new driver starts once the previous one has ended"
        return _record(observed, change, Reason.HANDING_OVER, message, now)
    stopping = observed.status.replace(runs=observed.status.update_active(stopping_since=change.since))
    observed = replace(observed, resource=observed.resource.replace(status=stopping))
    return _record(observed, change, Reason.HANDING_OVER, f"{why}; the previous driver ends its batch", now)


def go_cold(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan:
    """Give up the standby driver; the previous driver is stopped, and then the new one started."""
    return hand_over(observed, change.replace(handover=Handover.COLD), why, now)


def refuse(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan:
    """Record that the change is not made, and why."""
    change = enter(change.replace(message=why), UpgradePhase.REFUSED, now)
    return record(observed, explain_change(change), now, upgrade=change)


def _record(
    observed: PipelineObserved, change: UpgradeStatus, reason: Reason, message: str, now: datetime
) -> Plan:
    verdict = working(_find_state(observed), reason, message)
    return record(observed, verdict, now, upgrade=change, runs=forget_uncreated(observed).runs)


def _find_state(observed: PipelineObserved) -> PipelineState:
    return PipelineState.PENDING if observed.alive is None else PipelineState.RUNNING


def _save(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan:
    """Create the Savepoint and wait for it. Without it the change is refused, and the previous driver continues."""
    metadata, taken = observed.resource.metadata, observed.savepoint
    if taken is None and change.savepoint is not None:
        made = build_savepoint(metadata.namespace, metadata.name, change.savepoint, Cause.UPGRADE)
        return Plan((CreateObject(made),), requeue_after=SOON)
    if taken is None:
        raise AssertionError("the name is recorded before the Savepoint is created")
    name = taken.metadata.name
    if taken.spec.pipeline_ref != metadata.name:
        return refuse(observed, change, f"savepoint {name} exists already, of another pipeline", now)
    if taken.metadata.deletion_timestamp is not None:
        return refuse(observed, change, f"savepoint {name} was deleted before the change", now)
    conditions = taken.status.conditions
    message = conditions[0].message if conditions else "it was not reconciled yet"
    if taken.status.state in ("Failed", "Damaged"):
        why = (
            f"there is no savepoint to restore from ({name}: {message}); fix the cause and change spec.restartNonce, or choose another"
            " spec.upgrade.mode"
        )
        return refuse(observed, change, why, now)
    if taken.status.taken is not None:
        return hand_over(observed, change, change.message or "the savepoint is taken", now)
    verdict = working(
        _find_state(observed),
        Reason.UPGRADE_SAVING,
        f"savepoint {name} is taken before the change: {message}",
    )
    status = build_status(observed, verdict, now, **_measure(observed, now))
    return Plan((), keep_news(observed.status, status, now), SOON)


def _give_up_standby(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan:
    """The previous driver is lost while its savepoint is taken: a pod takes it, once no standby driver is left."""
    message = "the previous driver is lost; a pod takes the savepoint, and then the new driver starts"
    return _record(observed, change.replace(handover=Handover.COLD), Reason.UPGRADE_SAVING, message, now)


def _prepare_standby(
    observed: PipelineObserved, change: UpgradeStatus, revision: Revision, now: datetime
) -> Plan:
    """Create the standby driver, record its UID, and wait for the verdict of its dry run."""
    pod, run = observed.standby_pod, observed.status.standby
    if run is None or (pod is None and run.driver_uid is not None):
        return go_cold(observed, change, "the standby driver was lost", now)
    if pod is None:
        return Plan(create_driver(observed, revision, run.generation, standby=True), requeue_after=SOON)
    if run.driver_uid != pod.uid:
        seen = run.replace(driver=pod.ref.name, driver_uid=pod.uid)
        return Plan((RecordStatus(_report_dry_run(observed, change, now, seen)),), requeue=True)
    if pod.exit is not None:
        return _retry_standby(observed, change, pod.exit, now)
    verdict = observed.standby.verdict if observed.standby else None
    if verdict is not None:
        return _follow_verdict(observed, change.replace(verdict=verdict), verdict, now)
    waited = (now - (change.since or now)).total_seconds()
    if pod.waiting is not None and waited > ROOM_PATIENCE:
        return go_cold(observed, change, pod.waiting[1], now)
    return Plan((), keep_news(observed.status, _report_dry_run(observed, change, now), now), SOON)


def _follow_verdict(
    observed: PipelineObserved, change: UpgradeStatus, verdict: UpgradeVerdict, now: datetime
) -> Plan:
    reasons = "; ".join(verdict.reasons)
    why = f"{verdict.kind.value}: {reasons}" if reasons else verdict.kind.value
    if verdict.kind is not VerdictKind.REPROCESS:
        return hand_over(observed, change, why, now)
    if change.mode in REPROCESSING_MODES:
        return start_from_empty(observed, change, why, now, replay=True)
    if change.mode in SHADOW_MODES:
        return start_reprocessing(observed, change, f"the state does not fit: {reasons}", now)
    return refuse(observed, change, reasons, now)


def _retry_standby(observed: PipelineObserved, change: UpgradeStatus, end: DriverExit, now: datetime) -> Plan:
    """The standby driver has ended. The previous driver is not stopped for one that cannot start, but where there is no room for both."""
    if end.reason in _OUT_OF_ROOM:
        return go_cold(observed, change, f"the standby driver ended: {end.message}", now)
    if not end.retryable:
        return refuse(observed, change, end.message, now)
    if not _is_outage(observed, change, end):
        change = change.replace(attempts=change.attempts + 1)
    if change.attempts >= _ATTEMPTS:
        message = (
            f"{end.message}; {change.attempts} standby drivers failed. Fix the cause, then change spec.restartNonce to retry; with"
            " spec.upgrade.handover: Cold the previous driver is stopped first"
        )
        return refuse(observed, change, message, now)
    again = change.replace(message=end.message, since=now.replace(microsecond=0))
    last = observed.status.standby or Run(role=RunRole.STANDBY)
    run = last.replace(generation=next_generation(observed), driver=None, driver_uid=None)
    return Plan((RecordStatus(_report_dry_run(observed, again, now, run)),), requeue=True)


def _is_outage(observed: PipelineObserved, change: UpgradeStatus, end: DriverExit) -> bool:
    """Return whether the driver found no Kafka, and the operator was not connected to it all the time since the driver was requested."""
    if end.reason != Reason.KAFKA_UNAVAILABLE or observed.connected_since is None:
        return False
    return change.since is None or observed.connected_since >= change.since


def _stop_and_promote(
    observed: PipelineObserved, revision: Revision, current: DriverPod, now: datetime
) -> Plan:
    """Stop the previous driver; once it reports that its queries have ended, the new one need not wait for the end of its pod."""
    pod = observed.standby_pod
    stopped = observed.progress is not None and observed.progress.state is DriverState.STOPPED
    if stopped and pod is not None and not pod.finished:
        return promote(observed, revision, pod, now)
    return replace(request_stop(observed, current, now), requeue_after=AT_ONCE)


def promote(observed: PipelineObserved, revision: Revision, pod: DriverPod, now: datetime) -> Plan:
    """Record that the standby run is the active one, then have its driver take over."""
    verdict = working(PipelineState.STARTING, Reason.HANDING_OVER, f"driver {pod.ref.name} takes over")
    intent = build_status(
        observed, verdict, now,
        upgrade=start_watch(observed, revision, now), restarts=Restarts(total=observed.status.restarts.total),
        **activate_run(observed, revision, pod.generation, pod.ref.name, pod.uid),
    )  # fmt: skip
    return Plan((RecordStatus(intent), *activate(observed, pod)), requeue_after=AT_ONCE)


def activate(observed: PipelineObserved, pod: DriverPod) -> tuple[Action, ...]:
    """Return the request to take over; none while the pod has no address."""
    if pod.address is None:
        return ()
    return (ActivateDriver(pod.ref, pod.address, build_token_ref(observed.resource)),)


def _report_dry_run(
    observed: PipelineObserved, change: UpgradeStatus, now: datetime, run: Run | None = None
) -> PipelineStatus:
    """Return the status while the previous driver continues, with this standby run where it is another one."""
    state = observed.standby.state.value if observed.standby else "starting"
    before = f"; the last one ended: {change.message}" if change.attempts and change.message else ""
    message = f"standby driver of the new revision: {state}{before}"
    runs = observed.status.runs if run is None else put_run(observed.status.runs, run)
    status = observed.status.replace(runs=runs, upgrade=change)
    observed = replace(observed, resource=observed.resource.replace(status=status))
    return _report_running(observed, Reason.UPGRADE_DRY_RUN, message, now)


def _report_running(
    observed: PipelineObserved, reason: Reason, message: str, now: datetime
) -> PipelineStatus:
    """Return the status while the previous driver continues, with its progress."""
    if observed.progress is not None:
        message += f"; {describe_progress(observed.progress, observed.resource.spec, now)}"
    verdict = working(PipelineState.RUNNING, reason, message)
    return build_status(observed, verdict, now, **_measure(observed, now))


def _measure(observed: PipelineObserved, now: datetime) -> dict[str, Any]:
    if observed.progress is None:
        return {}
    return build_progress_fields(observed.status, observed.progress, observed.resource.spec, now)
