"""How a changed revision takes the place of the one that runs.

A driver with the new revision stands by: it makes a dry start on a copy of the last batch and says what the change means for the
state. Where the state fits, the old driver stops at a batch boundary and the new one takes over. Until then the old one goes on, so
that a change that cannot work costs nothing. The new one is watched until it has committed a batch; if it fails before, the
revision before takes over again. Each step is recorded before it is taken.
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
from kappa_crds.upgrade import Handover, UpgradeMode, VerdictKind
from kappa_operator.engine.actions import Action, ActivateDriver, DeleteObject, RecordStatus
from kappa_operator.engine.plan import Plan, working
from kappa_operator.pipeline.driver import DriverPod, has_failed
from kappa_operator.pipeline.model import SOON, PipelineObserved, say
from kappa_operator.pipeline.objects import build_token_ref
from kappa_operator.pipeline.progress import build_progress_fields, say_progress
from kappa_operator.pipeline.starting import activate_run, begin_watch, make_driver, next_generation
from kappa_operator.pipeline.stopping import stop_driver
from kappa_operator.pipeline.upgrade.beginning import (
    ANEW_MODES,
    begin_anew,
    go_cold,
    hand_over,
    refuse,
    save,
    say_verdict,
)
from kappa_operator.pipeline.upgrade.change import is_at_work, is_moved, open_change, want_revision

AT_ONCE = 0.2
_TURN_POLL = 10.0
ROOM_PATIENCE = 60.0
_ATTEMPTS = 3
_OUT_OF_ROOM = (Reason.DRIVER_OUT_OF_MEMORY, Reason.DRIVER_LOST)
_COLD = "not rehearsed, as spec.upgrade.handover is Cold; the new driver compares its plan with the state that it finds"
_AT_REST = "not rehearsed, as no driver ran; the new one compares its plan with the state that it finds"
_STATELESS = "spec.upgrade.mode is Stateless"


def decide_upgrade(
    observed: PipelineObserved, revision: Revision | None, current: DriverPod, now: datetime
) -> Plan | None:
    """Return the next step of a change while the old driver goes on; None where that is just to be stopped."""
    change, spec = observed.status.upgrade, observed.resource.spec
    if revision is None or spec.suspend or current.deleting:
        return None
    if change is None or not is_at_work(change, revision):
        if not _may_begin(observed, current):
            return None
        return _begin(observed, revision, now) if observed.has_turn else _await_turn(observed, now)
    if change.phase is UpgradePhase.SAVING:
        return save(observed, change, now)
    if change.handover is Handover.COLD:
        return None
    if change.phase is UpgradePhase.HANDING_OVER:
        return _stop_and_promote(observed, revision, current, now)
    if spec.upgrade.handover is Handover.COLD:
        return go_cold(observed, change, _COLD, now)
    return _go_on(observed, change, revision, now)


def decide_at_rest(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan | None:
    """Return the next step of a change where no driver runs any more; None where its driver is just to be started."""
    change, pod = observed.status.upgrade, observed.standby_pod
    if change is None or not is_at_work(change, revision):
        return _begin_at_rest(observed, revision, now)
    if change.phase is UpgradePhase.SAVING:
        if change.handover is Handover.WARM:
            return _give_up_standby(observed, change, now)
        return save(observed, change, now)
    if pod is None or change.handover is Handover.COLD:
        return None
    if change.phase is UpgradePhase.DRY_RUN:
        return _go_on(observed, change, revision, now)
    return None if pod.finished or pod.deleting else promote(observed, revision, pod, now)


def _begin_at_rest(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan | None:
    """Record a change of what does not run. What had failed is not gone back to: the change may be its cure."""
    status = observed.status
    is_change = status.active.revision is not None and status.active.revision != revision.name
    if not is_change or is_moved(status) or _is_way_back(observed, revision):
        return None
    observed, change = open_change(observed, revision, now)
    failed = has_failed(status.restarts) or status.restarts.non_retryable_revision == change.previous
    change = change.replace(previous=None if failed else change.previous)
    if change.mode is UpgradeMode.STATELESS:
        return begin_anew(observed, change, _STATELESS, now, replay=False)
    return go_cold(observed, change, _AT_REST, now)


def _is_way_back(observed: PipelineObserved, revision: Revision) -> bool:
    """Return whether this is the revision before a change that was refused or failed."""
    change, previous = observed.status.upgrade, observed.previous
    taken_back = change is not None and change.phase in TAKEN_BACK
    return taken_back and previous is not None and previous.intent == revision.intent


def _give_up_standby(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan:
    """The old driver is lost while its savepoint is taken: a pod takes it, once no driver stands by any more."""
    change = change.replace(handover=Handover.COLD)
    said = "the driver before is lost; a pod takes the savepoint, and then the new driver starts"
    verdict = working(PipelineState.PENDING, Reason.UPGRADE_SAVING, said)
    return Plan((RecordStatus(say(observed, verdict, now, upgrade=change)),), requeue=True)


def _may_begin(observed: PipelineObserved, current: DriverPod) -> bool:
    """Return whether a change can begin beside the driver that runs: that works, and both have one checkpoint."""
    status, change = observed.status, observed.status.upgrade
    if is_moved(status) or status.active.stopping_since is not None:
        return False
    if change is not None and change.phase is UpgradePhase.ROLLING_BACK:
        return False
    return current.ready if observed.progress is None else observed.progress.state is DriverState.RUNNING


def would_begin(observed: PipelineObserved) -> bool:
    """Return whether a change of a driver that runs is wanted and has not begun, so that it needs a turn."""
    current, change = observed.current, observed.status.upgrade
    if current is None or current.finished or current.deleting or observed.resource.spec.suspend:
        return False
    revision = want_revision(observed)
    if revision is None or revision.name == current.revision:
        return False
    return not is_at_work(change, revision) and _may_begin(observed, current)


def _await_turn(observed: PipelineObserved, now: datetime) -> Plan:
    said = "the change waits for those of other pipelines; as many as may be are under way"
    return Plan((), _say_going_on(observed, Reason.UPGRADE_WAITING, said, now), _TURN_POLL)


def _begin(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan:
    observed, change = open_change(observed, revision, now)
    if change.mode is UpgradeMode.STATELESS:
        return begin_anew(observed, change, _STATELESS, now, replay=False)
    if observed.resource.spec.upgrade.handover is Handover.COLD:
        return go_cold(observed, change, _COLD, now)
    return Plan((RecordStatus(_say_rehearsing(observed, change, now)),), requeue=True)


def _go_on(observed: PipelineObserved, change: UpgradeStatus, revision: Revision, now: datetime) -> Plan:
    """Make the driver that stands by, take note of it, and see what its dry start shows."""
    pod, run = observed.standby_pod, observed.status.standby
    if run is None or pod is None:
        return _make_standby(observed, change, revision, now)
    if run.driver_uid != pod.uid:
        seen = run.replace(driver=pod.ref.name, driver_uid=pod.uid)
        return Plan((RecordStatus(_say_rehearsing(observed, change, now, seen)),), requeue=True)
    return _rehearse(observed, change, pod, now)


def _make_standby(
    observed: PipelineObserved, change: UpgradeStatus, revision: Revision, now: datetime
) -> Plan:
    """Make the driver that stands by. One that was seen and is gone was lost: then the change goes on without it."""
    run = observed.status.standby
    if run is None or run.driver_uid is not None:
        return go_cold(observed, change, "the driver that stood by was lost", now)
    return Plan(make_driver(observed, revision, run.generation, standby=True), requeue_after=SOON)


def _rehearse(observed: PipelineObserved, change: UpgradeStatus, pod: DriverPod, now: datetime) -> Plan:
    if pod.exit is not None:
        return _try_again(observed, change, pod.exit, now)
    verdict = observed.standby.verdict if observed.standby else None
    if verdict is None:
        waited = (now - (change.since or now)).total_seconds()
        if pod.waiting is not None and waited > ROOM_PATIENCE:
            return go_cold(observed, change, pod.waiting[1], now)
        return Plan((), _say_rehearsing(observed, change, now), SOON)
    change = change.replace(verdict=verdict)
    if verdict.kind is not VerdictKind.REPROCESS:
        return hand_over(observed, change, say_verdict(verdict), now)
    if change.mode in ANEW_MODES:
        return begin_anew(observed, change, say_verdict(verdict), now, replay=True)
    return refuse(observed, change, "; ".join(verdict.reasons), now)


def _try_again(observed: PipelineObserved, change: UpgradeStatus, end: DriverExit, now: datetime) -> Plan:
    """The driver that stood by has ended. What runs is not stopped for one that cannot start, but for lack of room for both."""
    if end.reason in _OUT_OF_ROOM:
        return go_cold(observed, change, f"the driver that stood by ended: {end.message}", now)
    attempts = change.attempts + 1
    if not end.retryable:
        return refuse(observed, change, end.message, now)
    if attempts >= _ATTEMPTS:
        said = (
            f"{end.message}; {attempts} drivers that stood by have ended so. Mend that, then another spec.restartNonce tries again; with"
            " spec.upgrade.handover: Cold the old driver is stopped for it"
        )
        return refuse(observed, change.replace(attempts=attempts), said, now)
    again = change.replace(attempts=attempts, message=end.message, since=now.replace(microsecond=0))
    last = observed.status.standby or Run(role=RunRole.STANDBY)
    run = last.replace(generation=next_generation(observed), driver=None, driver_uid=None)
    return Plan((RecordStatus(_say_rehearsing(observed, again, now, run)),), requeue=True)


def _stop_and_promote(
    observed: PipelineObserved, revision: Revision, current: DriverPod, now: datetime
) -> Plan:
    """The old driver stops; once it says that its queries have ended, the new one need not wait for its pod to be gone."""
    pod = observed.standby_pod
    stopped = observed.progress is not None and observed.progress.state is DriverState.STOPPED
    if stopped and pod is not None and not pod.finished:
        return promote(observed, revision, pod, now)
    return replace(stop_driver(observed, current, now), requeue_after=AT_ONCE)


def promote(observed: PipelineObserved, revision: Revision, pod: DriverPod, now: datetime) -> Plan:
    """Record that the driver that stands by is the current one, then have it take over."""
    status = observed.status
    verdict = working(PipelineState.STARTING, Reason.HANDING_OVER, f"driver {pod.ref.name} takes over")
    intent = say(
        observed, verdict, now,
        upgrade=begin_watch(observed, revision, now), restarts=Restarts(total=status.restarts.total),
        **activate_run(observed, revision, pod.generation, pod.ref.name, pod.uid),
    )  # fmt: skip
    return Plan((RecordStatus(intent), *activate(observed, pod)), requeue_after=AT_ONCE)


def activate(observed: PipelineObserved, pod: DriverPod) -> tuple[Action, ...]:
    """Return the request to take over; none while the pod has no address."""
    if pod.address is None:
        return ()
    return (ActivateDriver(pod.ref, pod.address, build_token_ref(observed.resource)),)


def _say_rehearsing(
    observed: PipelineObserved, change: UpgradeStatus, now: datetime, run: Run | None = None
) -> PipelineStatus:
    """Return the status while the old driver goes on, with this standby run where it is another one."""
    standby = observed.standby
    step = (
        f"driver of the new revision: {standby.state.value}"
        if standby
        else "a driver of the new revision starts"
    )
    before = f"; the one before ended: {change.message}" if change.attempts and change.message else ""
    return _say_going_on(observed, Reason.UPGRADE_DRY_RUN, f"{step}{before}", now, run, upgrade=change)


def _say_going_on(
    observed: PipelineObserved,
    reason: Reason,
    said: str,
    now: datetime,
    run: Run | None = None,
    **fields: Any,
) -> PipelineStatus:
    """Return the status while the old driver goes on: it says how that is, too."""
    progress = observed.progress
    if progress is not None:
        spec = observed.resource.spec
        fields |= build_progress_fields(observed.status, progress, spec, now)
        said += f"; {say_progress(progress, spec, now)}"
    if run is not None:
        fields["runs"] = put_run(fields.get("runs", observed.status.runs), run)
    return say(observed, working(PipelineState.RUNNING, reason, said), now, **fields)


def drop_standby(observed: PipelineObserved, revision: Revision | None) -> tuple[Action, ...]:
    """Return what deletes drivers that stand by and are not needed: they do nothing, so nobody waits for them."""
    change, run, known = observed.status.upgrade, observed.status.standby, observed.status.active.generation
    is_needed = change is not None and _needs_standby(observed, change, revision)
    needed = run.generation if run is not None and is_needed else None
    return tuple(
        DeleteObject(pod.ref, pod.uid, "it stands by, and is not needed")
        for pod in observed.pods
        if pod.standby and pod.generation > known and pod.generation != needed and not pod.deleting
    )


def _needs_standby(observed: PipelineObserved, change: UpgradeStatus, revision: Revision | None) -> bool:
    if change.phase not in AT_WORK or change.handover is Handover.COLD or observed.resource.spec.suspend:
        return False
    return revision is None or is_at_work(change, revision)
