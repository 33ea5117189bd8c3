"""How a change is watched: until its driver has committed a batch. If it fails before, the revision before takes over again."""

from datetime import datetime

from kappa_crds.pipeline import PipelineState, Restarts
from kappa_crds.progress import DriverState, Progress
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.upgrade import UpgradePhase, UpgradeStatus
from kappa_operator.actions import RecordStatus
from kappa_operator.plan.model import Plan, Verdict, ready, stalled, working
from kappa_operator.plan.pipeline_model import PipelineObserved, say

MOST_CRASHES = 2


def decide_rollback(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record that the revision before is to take over again, where the new one has failed while it was watched."""
    status, change = observed.status, observed.status.upgrade
    if change is None or change.phase is not UpgradePhase.WATCHING or change.revision != status.revision:
        return None
    why = _find_failure(observed, change, now)
    if why is None or change.previous is None:
        return None
    change = change.replace(phase=UpgradePhase.ROLLING_BACK, message=why, since=now.replace(microsecond=0))
    verdict = working(
        PipelineState.PENDING, Reason.ROLLED_BACK, f"the revision before takes over again: {why}"
    )
    restarts = Restarts(total=status.restarts.total)
    return Plan(
        (RecordStatus(say(observed, verdict, now, upgrade=change, restarts=restarts)),), look_again=True
    )


def _find_failure(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> str | None:
    restarts, progress = observed.status.restarts, observed.progress
    if restarts.hopeless_revision == change.revision or restarts.crashes >= MOST_CRASHES:
        return f"{restarts.last_reason}: {restarts.last_failure}"
    limit = observed.resource.spec.upgrade.health_timeout
    overdue = (now - (change.since or now)).total_seconds() > parse_duration(limit)
    if overdue and (progress is None or progress.state is not DriverState.RUNNING):
        return f"it did not run within {limit} (spec.upgrade.healthTimeout)"
    return None


def forget_unwanted(observed: PipelineObserved, wanted: Revision | None) -> UpgradeStatus | None:
    """Return the change, or None where the spec was taken back to what runs before the change came to its end."""
    change = observed.status.upgrade
    if change is None or wanted is None or wanted is observed.previous or wanted.name == change.revision:
        return change
    return None


def note_health(change: UpgradeStatus | None, progress: Progress, now: datetime) -> UpgradeStatus | None:
    """Return the change, done where its driver has committed a batch of every query or found nothing to read."""
    if change is None or (not all(query.batch_id >= 0 for query in progress.queries) and progress.lag > 0):
        return change
    done = {UpgradePhase.WATCHING: UpgradePhase.DONE, UpgradePhase.ROLLING_BACK: UpgradePhase.ROLLED_BACK}
    if change.phase not in done:
        return change
    return change.replace(phase=done[change.phase], since=now.replace(microsecond=0))


def judge_running(change: UpgradeStatus | None, message: str) -> Verdict:
    """Return the verdict on a driver that runs: ready, unless it is there in the place of what the spec says."""
    if change is not None and change.phase in (UpgradePhase.REFUSED, UpgradePhase.ROLLED_BACK):
        return explain_change(change)
    return ready(PipelineState.RUNNING, Reason.RUNNING, message)


def explain_change(change: UpgradeStatus) -> Verdict:
    """Return the verdict on a pipeline that runs, but not what its spec says."""
    if change.phase is UpgradePhase.REFUSED:
        reason, said = Reason.UPGRADE_REFUSED, "the change is refused and the revision before goes on"
    else:
        reason, said = Reason.ROLLED_BACK, "the change failed and the revision before has taken over again"
    return stalled(PipelineState.RUNNING, reason, f"{said}: {change.message or 'no reason was given'}")
