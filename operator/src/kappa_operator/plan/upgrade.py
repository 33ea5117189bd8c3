"""How a changed revision takes the place of the one that runs.

A driver with the new revision stands by: it makes a dry start on a copy of the last batch and says what the change means for the
state. Where the state fits, the old driver stops at a batch boundary and the new one takes over. Until then the old one goes on, so
that a change that cannot work costs nothing. The new one is watched until it has committed a batch; if it fails before, the
revision before takes over again. Each step is recorded before it is taken.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from kappa_crds.pipeline import PipelineState, Restarts
from kappa_crds.progress import DriverState
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.upgrade import (
    AT_WORK,
    TAKEN_BACK,
    Handover,
    UpgradeMode,
    UpgradePhase,
    UpgradeStatus,
    UpgradeVerdict,
    VerdictKind,
)
from kappa_operator.actions import Action, ActivateDriver, DeleteObject, RecordStatus
from kappa_operator.plan.driver import DriverPod
from kappa_operator.plan.model import Plan, working
from kappa_operator.plan.pipeline_model import SOON, PipelineObserved, say
from kappa_operator.plan.progress import build_progress_fields, say_progress
from kappa_operator.plan.rollback import explain_change
from kappa_operator.plan.starting import begin_watch, describe_revision, make_driver, next_generation
from kappa_operator.plan.stopping import stop_driver
from kappa_operator.resources.pipeline import build_token_ref

AT_ONCE = 0.2
ROOM_PATIENCE = 60.0


def is_taken_back(change: UpgradeStatus | None, revision: Revision) -> bool:
    """Return whether the change to this revision was refused or failed, so that the one before is to run."""
    return change is not None and change.revision == revision.name and change.phase in TAKEN_BACK


def leave_state(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan | None:
    """Record, once for each change, that the next checkpoint begins empty, where the spec asks for that."""
    status = observed.status
    changed = observed.current is not None and observed.current.revision != revision.name
    if observed.resource.spec.upgrade.mode is not UpgradeMode.STATELESS or not changed:
        return None
    if status.checkpoint != status.running_checkpoint:
        return None
    verdict = working(
        PipelineState.PENDING,
        Reason.HANDING_OVER,
        "the change begins without state, as spec.upgrade.mode says",
    )
    written = say(
        observed, verdict, now, checkpoint=status.checkpoint + 1, restoration=None, shuffle_partitions=None
    )
    return Plan((RecordStatus(written),), look_again=True)


def decide_upgrade(
    observed: PipelineObserved, revision: Revision | None, current: DriverPod, now: datetime
) -> Plan | None:
    """Return the next step of a warm change; None where the old driver is just to be stopped."""
    if revision is None or not _can_stand_by(observed, revision, current):
        return None
    change = observed.status.upgrade
    if change is None or not _is_at_work(change, revision):
        return _begin(observed, revision, now)
    if change.handover is Handover.COLD:
        return None
    if change.phase is UpgradePhase.HANDING_OVER:
        return _hand_over(observed, revision, current, now)
    return _go_on(observed, change, revision, now)


def replace_lost(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan | None:
    """Return what has a driver that stands by take over where the old one has ended; None where there is none."""
    change, pod = observed.status.upgrade, observed.standby_pod
    if change is None or pod is None or not _is_at_work(change, revision) or change.handover is Handover.COLD:
        return None
    if change.phase is UpgradePhase.REHEARSING:
        return _go_on(observed, change, revision, now)
    return None if pod.finished or pod.deleting else promote(observed, revision, pod, now)


def _is_at_work(change: UpgradeStatus | None, revision: Revision) -> bool:
    return change is not None and change.revision == revision.name and change.phase in AT_WORK


def _go_on(observed: PipelineObserved, change: UpgradeStatus, revision: Revision, now: datetime) -> Plan:
    """Make the driver that stands by, take note of it, and see what its dry start shows."""
    pod = observed.standby_pod
    if pod is None:
        return _make_standby(observed, change, revision, now)
    if change.uid != pod.uid:
        return Plan(
            (RecordStatus(_say_rehearsing(observed, change.replace(uid=pod.uid), now)),), look_again=True
        )
    return _rehearse(observed, change, pod, now)


def _can_stand_by(observed: PipelineObserved, revision: Revision, current: DriverPod) -> bool:
    """Return whether the change can be warm: the driver works, and both revisions have one checkpoint."""
    spec, status, change = observed.resource.spec, observed.status, observed.status.upgrade
    if spec.suspend or current.deleting or spec.upgrade.handover is not Handover.WARM:
        return False
    if is_taken_back(change, revision) or (change is not None and change.phase is UpgradePhase.ROLLING_BACK):
        return False
    if _is_at_work(change, revision):
        return True
    works = current.ready if observed.progress is None else observed.progress.state is DriverState.RUNNING
    return works and status.stopping_since is None and status.checkpoint == status.running_checkpoint


def _begin(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan:
    change = UpgradeStatus(
        phase=UpgradePhase.REHEARSING,
        revision=revision.name,
        previous=observed.status.revision,
        generation=next_generation(observed),
        since=now.replace(microsecond=0),
    )
    return Plan((RecordStatus(_say_rehearsing(observed, change, now)),), look_again=True)


def _make_standby(
    observed: PipelineObserved, change: UpgradeStatus, revision: Revision, now: datetime
) -> Plan:
    """Make the driver that stands by. One that was seen and is gone was lost: then the change goes on without it."""
    if change.uid is not None:
        return go_cold(observed, change, "the driver that stood by was lost", now)
    return Plan(make_driver(observed, revision, change.generation, standby=True), requeue_after=SOON)


def _rehearse(observed: PipelineObserved, change: UpgradeStatus, pod: DriverPod, now: datetime) -> Plan:
    if pod.exit is not None:
        if pod.exit.retryable:
            return go_cold(observed, change, f"the driver that stood by ended: {pod.exit.message}", now)
        return _refuse(observed, change.replace(message=pod.exit.message), now)
    verdict = observed.standby.verdict if observed.standby else None
    if verdict is None:
        waited = (now - (change.since or now)).total_seconds()
        if pod.waiting is not None and waited > ROOM_PATIENCE:
            return go_cold(observed, change, pod.waiting[1], now)
        return Plan((), _say_rehearsing(observed, change, now), SOON)
    if verdict.kind is VerdictKind.REPROCESS:
        return _refuse(observed, change.replace(verdict=verdict, message="; ".join(verdict.reasons)), now)
    change = change.replace(
        phase=UpgradePhase.HANDING_OVER,
        verdict=verdict,
        message=_say_verdict(verdict),
        since=now.replace(microsecond=0),
    )
    said = working(
        PipelineState.RUNNING, Reason.HANDING_OVER, f"{_say_verdict(verdict)}; the old driver ends its batch"
    )
    written = say(observed, said, now, upgrade=change, stopping_since=now.replace(microsecond=0))
    return Plan((RecordStatus(written),), look_again=True)


def _hand_over(observed: PipelineObserved, revision: Revision, current: DriverPod, now: datetime) -> Plan:
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
        generation=pod.generation, driver=pod.ref.name, driver_uid=pod.uid,
        upgrade=begin_watch(status.upgrade, revision, now), restarts=Restarts(total=status.restarts.total),
        **describe_revision(observed, revision),
    )  # fmt: skip
    return Plan((RecordStatus(intent), *activate(observed, pod)), requeue_after=AT_ONCE)


def activate(observed: PipelineObserved, pod: DriverPod) -> tuple[Action, ...]:
    """Return the request to take over; none while the pod has no address."""
    if pod.address is None:
        return ()
    return (ActivateDriver(pod.ref, pod.address, build_token_ref(observed.resource)),)


def go_cold(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan:
    """Give up the driver that stands by; the old one is stopped, and then the new one started."""
    message = f"{why}; the new driver starts once the old one has ended"
    change = change.replace(
        phase=UpgradePhase.HANDING_OVER,
        handover=Handover.COLD,
        message=message,
        since=now.replace(microsecond=0),
    )
    verdict = working(PipelineState.RUNNING, Reason.HANDING_OVER, message)
    return Plan((RecordStatus(say(observed, verdict, now, upgrade=change)),), look_again=True)


def _refuse(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan:
    change = change.replace(phase=UpgradePhase.REFUSED, since=now.replace(microsecond=0))
    status = say(observed, explain_change(change), now, upgrade=change)
    return Plan((RecordStatus(status),), look_again=True)


def _say_rehearsing(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Any:
    """Return the status while the old driver goes on: it says how that is, too."""
    progress, standby = observed.progress, observed.standby
    step = (
        f"driver of the new revision: {standby.state.value}"
        if standby
        else "a driver of the new revision starts"
    )
    fields = build_progress_fields(progress) if progress is not None else {}
    goes_on = f"; {say_progress(progress)}" if progress is not None else ""
    verdict = working(PipelineState.RUNNING, Reason.UPGRADE_REHEARSING, f"{step}{goes_on}")
    return say(observed, verdict, now, upgrade=change, **fields)


def _say_verdict(verdict: UpgradeVerdict) -> str:
    said = "; ".join(verdict.reasons)
    return verdict.kind.value + (f": {said}" if said else "")


def drop_standby(observed: PipelineObserved, revision: Revision | None) -> tuple[Action, ...]:
    """Return what deletes drivers that stand by and are not needed: they do nothing, so nobody waits for them."""
    change, known = observed.status.upgrade, observed.status.generation
    needed = change.generation if change is not None and _needs_standby(observed, change, revision) else None
    return tuple(
        DeleteObject(pod.ref, pod.uid, "it stands by, and is not needed")
        for pod in observed.pods
        if pod.standby and pod.generation > known and pod.generation != needed and not pod.deleting
    )


def _needs_standby(observed: PipelineObserved, change: UpgradeStatus, revision: Revision | None) -> bool:
    if change.phase not in AT_WORK or change.handover is Handover.COLD or observed.resource.spec.suspend:
        return False
    return revision is None or revision.name == change.revision
