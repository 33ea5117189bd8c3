"""What the end of a driver means: a stop that was asked for, or a failure that is counted once."""

from datetime import datetime

from kappa_crds.pipeline_status import PipelineState
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import RecordStatus
from kappa_operator.engine.plan import Plan, stalled, working
from kappa_operator.pipeline.driver import DriverPod, count_failure, forgive
from kappa_operator.pipeline.model import PipelineObserved, say


def count_end(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record the end of the current driver, once: as a stop that was asked for, or as a failure with its reason."""
    run, current = observed.status.active, observed.current
    if run.driver is None:
        return None
    if current is None:
        return _count_loss(observed, now)
    if not current.finished:
        return _note_uid(observed, current, now)
    end = current.exit or DriverExit(
        reason=Reason.DRIVER_LOST, message=f"driver {run.driver} ended without a word"
    )
    return _record_end(observed, end, started=current.started, now=now)


def _count_loss(observed: PipelineObserved, now: datetime) -> Plan | None:
    """A driver that was seen and is gone was lost; one that never was seen has still to be made."""
    run = observed.status.active
    if run.driver_uid is None:
        return None
    message = f"driver pod {run.driver} is gone; it was deleted, or its node was lost"
    asked = run.stopping_since is not None
    end = DriverExit(reason=Reason.DRIVER_LOST, message=message, graceful=asked)
    return _record_end(observed, end, started=True, now=now)


def _note_uid(observed: PipelineObserved, current: DriverPod, now: datetime) -> Plan | None:
    if observed.status.active.driver_uid == current.uid:
        return None
    verdict = working(PipelineState.STARTING, Reason.DRIVER_STARTING, f"driver {current.ref.name} was made")
    runs = observed.status.update_active(driver_uid=current.uid)
    return Plan((RecordStatus(say(observed, verdict, now, runs=runs)),), requeue=True)


def _record_end(observed: PipelineObserved, end: DriverExit, *, started: bool, now: datetime) -> Plan:
    status = observed.status
    runs = status.update_active(driver=None, driver_uid=None, running_since=None, stopping_since=None)
    if end.graceful:
        verdict = working(PipelineState.PENDING, Reason.DRIVER_STOPPED, end.message)
        return Plan((RecordStatus(say(observed, verdict, now, runs=runs)),), requeue=True)
    policy = observed.resource.spec.restart
    base = forgive(status.restarts, status.active.running_since, policy, now)
    restarts = count_failure(base, end, status.active.revision, started=started, policy=policy, now=now)
    verdict = (working if end.retryable else stalled)(PipelineState.FAILED, end.reason, end.message)
    return Plan((RecordStatus(say(observed, verdict, now, restarts=restarts, runs=runs)),), requeue=True)
