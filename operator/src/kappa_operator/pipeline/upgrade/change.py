"""How a change starts: in the present checkpoint, from empty state, or from a savepoint that spec.restore names.

A change is recorded with its standby run before anything is created or stopped for it. Each restored savepoint and each empty state has a
checkpoint of its own, which the revision names. What follows is the same for every change: the previous driver stops at a batch boundary,
the new one starts, and if it fails while it is watched, the previous revision continues in its checkpoint.
"""

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from kappa_crds.pipeline_status import (
    NewCheckpoint,
    PipelineState,
    PipelineStatus,
    Restarts,
    Run,
    RunRole,
    UpgradePhase,
    UpgradeStatus,
    put_run,
)
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.savepoint import Restoration
from kappa_crds.upgrade import SHADOW_MODES, Handover, UpgradeMode
from kappa_operator.engine.actions import EmitEvent
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.backfill import find_backfill
from kappa_operator.pipeline.driver import has_failed
from kappa_operator.pipeline.lifecycle import next_generation
from kappa_operator.pipeline.model import (
    PipelineObserved,
    build_backfill,
    build_from_empty,
    choose_mode,
    record,
)
from kappa_operator.pipeline.revision import build_revision, read_checkpoint_number, read_place
from kappa_operator.savepoint.objects import name_savepoint

REPROCESSING_MODES = (UpgradeMode.REPROCESS, UpgradeMode.AUTO)
"""Modes in which a change that does not fit the state starts from empty state and reads the whole log."""
ENDED = (UpgradePhase.DONE, UpgradePhase.WITHDRAWN)


class Opened(NamedTuple):
    """A change that starts, and the observation with it and its standby run in the status: both are recorded with its first step."""

    observed: PipelineObserved
    change: UpgradeStatus


def open_change(observed: PipelineObserved, revision: Revision, now: datetime) -> Opened:
    """Return a change that starts now: to a revision, from the one that runs or ran last."""
    status, last = observed.status, observed.status.upgrade
    mode = choose_mode(observed, revision)
    continues = mode in SHADOW_MODES and status.checkpoint == status.active.checkpoint
    backfill = find_backfill(observed.side.running, revision) if continues else ()
    if backfill:
        revision = build_backfill(observed)
    is_rollback = last is not None and last.phase is UpgradePhase.ROLLING_BACK
    change = UpgradeStatus(
        phase=UpgradePhase.DRY_RUN,
        revision=revision.name,
        intent=revision.intent,
        previous=last.previous if last is not None and is_rollback else status.active.revision,
        mode=mode,
        backfill=backfill,
        handover=Handover.WARM,
        given_up=last.given_up if last is not None and observed.is_given_up else None,
        since=now.replace(microsecond=0),
    )
    run = Run(
        role=RunRole.STANDBY,
        generation=next_generation(observed),
        revision=revision.name,
        checkpoint=read_checkpoint_number(revision),
    )
    opened = status.replace(upgrade=change, runs=put_run(status.runs, run))
    return Opened(replace(observed, resource=observed.resource.replace(status=opened)), change)


def without_failed(change: UpgradeStatus, status: PipelineStatus) -> UpgradeStatus:
    """Return the change without a previous revision where that has failed: the change may be its cure."""
    failed = has_failed(status.restarts) or status.restarts.non_retryable_revision == change.previous
    return change.replace(previous=None) if failed else change


def next_checkpoint(status: PipelineStatus) -> int:
    """Return a number that no checkpoint has or was assigned."""
    return max(status.checkpoint, status.active.checkpoint, status.last_checkpoint) + 1


def forget_uncreated(observed: PipelineObserved) -> PipelineStatus:
    """Return the status without the driver that was recorded and never created: it is not created any more."""
    if observed.current is not None:
        return observed.status
    return observed.status.replace(runs=observed.status.update_active(driver=None, driver_uid=None))


def start_from_empty(
    observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime, *, replay: bool
) -> Plan:
    """Record that the new revision starts from empty state, and emit an Event; with `replay` at the first record of all sources."""
    status, spec = observed.status, observed.resource.spec
    number = next_checkpoint(status)
    names = tuple(source.name for source in spec.sources) if replay else ()
    new = NewCheckpoint(checkpoint=number, instead_of=status.checkpoint, from_beginning=names)
    revision = build_from_empty(observed, new).name
    effect = (
        explain_replay(observed) if replay else "it starts from empty state, at spec.sources.startingOffsets"
    )
    message = f"{why}; {effect}"
    change = change.replace(
        phase=UpgradePhase.HANDING_OVER,
        revision=revision,
        handover=Handover.COLD,
        new_checkpoint=new,
        message=message,
        since=now.replace(microsecond=0),
    )
    run = status.standby or Run(role=RunRole.STANDBY, generation=next_generation(observed))
    plan = record(
        observed, working(PipelineState.PENDING, Reason.UPGRADE_NEW_CHECKPOINT, message), now,
        upgrade=change, last_checkpoint=number, restarts=Restarts(total=status.restarts.total),
        runs=put_run(forget_uncreated(observed).runs, run.replace(revision=revision, checkpoint=number)),
    )  # fmt: skip
    event = EmitEvent(Reason.UPGRADE_NEW_CHECKPOINT, message, warning=change.mode is UpgradeMode.AUTO)
    return replace(plan, actions=(event, *plan.actions))


def explain_replay(observed: PipelineObserved) -> str:
    """Return what is read and written again where a pipeline reads the whole log."""
    spec = observed.resource.spec
    reads = ", ".join(source.reads for source in spec.sources)
    writes = ", ".join(sorted({topic for _, topic in spec.written}))
    return (
        f"it starts from empty state at the first available record of {reads}, whatever startingOffsets is,"
        f" and its output to {writes} is written again"
    )


def restore_savepoint(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record what the next checkpoint is created from, once for each value of spec.restore."""
    spec, status, dependencies = observed.resource.spec, observed.status, observed.dependencies
    if spec.restore is None or isinstance(dependencies, Verdict) or dependencies.savepoint is None:
        return None
    savepoint = dependencies.savepoint
    if savepoint.status.location is None:
        raise AssertionError("a savepoint that was taken has a location")
    number, message = next_checkpoint(status), f"restoring from savepoint {savepoint.metadata.name}"
    source = Restoration(
        location=savepoint.status.location,
        savepoint=name_savepoint(savepoint.metadata),
        fork=savepoint.spec.pipeline_ref != observed.resource.metadata.name,
    )
    place = replace(
        read_place(status),
        checkpoint=number,
        restoration=source,
        shuffle_partitions=savepoint.status.shuffle_partitions,
    )
    change = withdraw(status.upgrade, "spec.restore names another state", now)
    if status.active.revision is not None:
        revision = build_revision(observed.resource, dependencies, observed.images, place)
        observed, change = open_change(observed, revision, now)
        change = without_failed(change, status).replace(
            phase=UpgradePhase.HANDING_OVER,
            handover=Handover.COLD,
            new_checkpoint=NewCheckpoint(checkpoint=number, instead_of=status.active.checkpoint),
            message=message,
        )
    verdict = working(PipelineState.PENDING, Reason.RESTORING, message)
    return record(
        observed, verdict, now,
        restored=spec.restore, restoration=source, checkpoint=number, last_checkpoint=number,
        shuffle_partitions=place.shuffle_partitions, upgrade=change,
    )  # fmt: skip


def withdraw(change: UpgradeStatus | None, why: str, now: datetime) -> UpgradeStatus | None:
    """Return the change, withdrawn where it has not ended."""
    if change is None or change.phase in ENDED:
        return change
    return enter(change.replace(message=why, given_up=None), UpgradePhase.WITHDRAWN, now)


def enter(change: UpgradeStatus, phase: UpgradePhase, now: datetime) -> UpgradeStatus:
    """Return the change in a phase that starts now."""
    return change.replace(phase=phase, since=now.replace(microsecond=0))
