"""How a change is watched, and what follows where it fails: the revision before takes over again, with the state that it had.

A change with a savepoint goes back to that, in a new checkpoint made of it; one that began anew goes back to the checkpoint that was left;
any other goes on from the state that the new revision left, which is of the same kind. The place is recorded before anything is stopped.
"""

from datetime import datetime
from typing import Any

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import PipelineState, Restarts, UpgradePhase, UpgradeStatus
from kappa_crds.progress import Progress
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.savepoint import Restoration
from kappa_operator.engine.actions import RecordStatus
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.driver import has_failed
from kappa_operator.pipeline.model import PipelineObserved, say
from kappa_operator.pipeline.progress_cache import Samples
from kappa_operator.pipeline.revision import build_revision
from kappa_operator.pipeline.upgrade.beginning import ANEW_MODES, begin_anew
from kappa_operator.pipeline.upgrade.change import is_taken_back, next_checkpoint
from kappa_operator.pipeline.upgrade.gate import (
    adds_executors,
    explain_failure,
    find_failure,
    is_healthy,
    is_overdue,
    note_first_batches,
)
from kappa_operator.savepoint.objects import name_savepoint

_UNFIT = (Reason.STATE_INCOMPATIBLE, Reason.OFFSETS_LOST)
_ENDED = (UpgradePhase.DONE, UpgradePhase.WITHDRAWN)


def decide_rollback(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record that the revision before is to take over again, where the new one has failed while it was watched."""
    status, change = observed.status, observed.status.upgrade
    if (
        change is None
        or change.phase is not UpgradePhase.WATCHING
        or change.revision != status.active.revision
    ):
        return None
    spec = observed.resource.spec
    if spec.suspend or (status.active.driver is None and not has_failed(status.restarts)):
        return None  # it is not there, because it was asked to stop
    why = find_failure(change, status.restarts, observed.samples, spec, now, by_lag=_is_by_lag(observed))
    if why is None:
        return None
    if _may_begin_anew(observed, change):
        return begin_anew(observed, change, why, now, replay=True)
    if change.previous is None or observed.previous is None:
        return None
    place, where = _find_way_back(observed, change, observed.previous)
    why += where
    change = change.replace(phase=UpgradePhase.ROLLING_BACK, message=why, since=now.replace(microsecond=0))
    verdict = working(
        PipelineState.PENDING, Reason.ROLLED_BACK, f"the revision before takes over again: {why}"
    )
    restarts = Restarts(total=status.restarts.total)
    written = say(observed, verdict, now, upgrade=change, restarts=restarts, **place)
    return Plan((RecordStatus(written),), requeue=True)


def _may_begin_anew(observed: PipelineObserved, change: UpgradeStatus) -> bool:
    """Return whether the driver itself found that the state does not fit, and the mode says what follows."""
    restarts = observed.status.restarts
    unfit = restarts.non_retryable_revision == change.revision and restarts.last_reason in _UNFIT
    wants = unfit and change.mode in ANEW_MODES and change.new_checkpoint is None
    return wants and not isinstance(observed.dependencies, Verdict)


def _find_way_back(
    observed: PipelineObserved, change: UpgradeStatus, previous: Revision
) -> tuple[dict[str, Any], str]:
    """Return the place of the state that the revision before goes on from, and what is to be said of it."""
    began = {"from_beginning": previous.from_beginning}
    if change.new_checkpoint is not None:
        partitions = previous.tuning.shuffle_partitions
        left = {"restoration": previous.restoration, "shuffle_partitions": partitions}
        return {
            "checkpoint": change.new_checkpoint.instead_of,
            **left,
            **began,
        }, "; it goes on from the state before"
    if change.savepoint is None:
        return {}, ""
    savepoint = observed.savepoint
    if savepoint is None or savepoint.status.taken is None or savepoint.status.location is None:
        gone = (
            f"savepoint {change.savepoint} is gone, so it goes on from the state that the new revision left"
        )
        return {}, f"; {gone}"
    number = next_checkpoint(observed.status)
    made_of = Restoration(location=savepoint.status.location, savepoint=name_savepoint(savepoint.metadata))
    partitions = savepoint.status.shuffle_partitions or previous.tuning.shuffle_partitions
    place = {"restoration": made_of, "shuffle_partitions": partitions, "last_checkpoint": number}
    return {"checkpoint": number, **place, **began}, f"; it goes back to savepoint {change.savepoint}"


def follow_change(
    observed: PipelineObserved, wanted: Revision | None, progress: Progress, now: datetime
) -> UpgradeStatus | None:
    """Return the change as it is while the wanted revision runs: healthy, withdrawn, or watched on."""
    change = observed.status.upgrade
    if change is None or wanted is None or change.phase in _ENDED:
        return change
    if change.intent != wanted.intent and not _is_held(observed):
        return withdraw(change, "the spec was taken back to what runs", now)
    return note_health(
        change, progress, observed.samples, observed.resource.spec, now, by_lag=_is_by_lag(observed)
    )


def _is_by_lag(observed: PipelineObserved) -> bool:
    """Return whether the change is judged by the lag, too."""
    before = None if observed.previous is None else observed.previous.spec
    return not adds_executors(before, observed.resource.spec)


def note_health(
    change: UpgradeStatus,
    progress: Progress,
    samples: Samples | None,
    spec: PipelineSpec,
    now: datetime,
    *,
    by_lag: bool,
) -> UpgradeStatus:
    """Return the change, done where its driver has shown that it works; a way back only has to commit a batch."""
    if change.phase is UpgradePhase.ROLLING_BACK:
        begun = all(query.batch_id >= 0 for query in progress.queries) or progress.lag == 0
        return _enter(change, UpgradePhase.ROLLED_BACK, now) if begun else change
    if change.phase is not UpgradePhase.WATCHING:
        return change
    health = note_first_batches(change.health, progress)
    change = change.replace(health=health)
    if is_healthy(health, progress, by_lag=by_lag):
        return _enter(change, UpgradePhase.DONE, now)
    failure = explain_failure(health, progress, spec, by_lag=by_lag)
    passed = failure is None and samples is not None and is_overdue(change, samples, spec, now)
    return _enter(change, UpgradePhase.DONE, now) if passed else change


def withdraw(change: UpgradeStatus | None, why: str, now: datetime) -> UpgradeStatus | None:
    """Return the change, given up where it has not come to its end."""
    if change is None or change.phase in _ENDED:
        return change
    return _enter(change.replace(message=why), UpgradePhase.WITHDRAWN, now)


def _enter(change: UpgradeStatus, phase: UpgradePhase, now: datetime) -> UpgradeStatus:
    return change.replace(phase=phase, since=now.replace(microsecond=0))


def _is_held(observed: PipelineObserved) -> bool:
    """Return whether what runs is there in the place of what the spec says."""
    if isinstance(observed.dependencies, Verdict):
        return True
    asked = build_revision(observed.resource, observed.dependencies, observed.images)
    return is_taken_back(observed, asked)
