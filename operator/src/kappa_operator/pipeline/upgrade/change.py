"""What a change is: which revision it leads to, where that keeps its state, and which revision is to run meanwhile.

Two revisions with one intent are the same change, wherever their state is. So one that was refused or failed stays taken back after its
predecessor has gone back to a savepoint, and is tried again when the spec, `restartNonce` or the mode says something else.
"""

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from kappa_crds.pipeline_status import (
    AT_WORK,
    TAKEN_BACK,
    NewCheckpoint,
    PipelineStatus,
    Run,
    RunRole,
    UpgradePhase,
    UpgradeStatus,
    put_run,
)
from kappa_crds.revision import Revision
from kappa_crds.upgrade import Handover, UpgradeMode
from kappa_operator.engine.plan import Verdict
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.revision import (
    Place,
    build_revision,
    move_revision,
    read_checkpoint_number,
    read_place,
)
from kappa_operator.pipeline.starting import next_generation


class Opened(NamedTuple):
    """A change that starts, and the observation with it and its standby run in the status: both are recorded with its first step."""

    observed: PipelineObserved
    change: UpgradeStatus


def want_revision(observed: PipelineObserved) -> Revision | None:
    """Return the revision that should run: the one before, where the spec's was refused or failed; None where there is none now."""
    if isinstance(observed.dependencies, Verdict):
        return None
    revision = build_revision(observed.resource, observed.dependencies, observed.images)
    change, status = observed.status.upgrade, observed.status
    if is_taken_back(observed, revision):
        if observed.previous is None:
            return None
        return move_revision(observed.previous, observed.resource.metadata, read_place(status))
    if change is not None and change.new_checkpoint is not None and is_at_work(change, revision):
        is_there = change.new_checkpoint.checkpoint == status.checkpoint
        return revision if is_there else build_from_empty(observed, change.new_checkpoint)
    return revision


def build_from_empty(observed: PipelineObserved, new: NewCheckpoint) -> Revision:
    """Return the revision of the spec that starts from empty state in a new checkpoint."""
    if isinstance(observed.dependencies, Verdict):
        raise AssertionError("a change starts only when its dependencies were found")
    place = Place(new.checkpoint, from_beginning=new.from_beginning)
    return build_revision(observed.resource, observed.dependencies, observed.images, place)


def is_taken_back(observed: PipelineObserved, revision: Revision) -> bool:
    """Return whether the change to this revision was refused or failed, so that the one before is to run."""
    change = observed.status.upgrade
    if change is None or change.intent != revision.intent or change.phase not in TAKEN_BACK:
        return False
    return change.phase is UpgradePhase.ROLLING_BACK or change.mode is choose_mode(observed, revision)


def is_at_work(change: UpgradeStatus | None, revision: Revision) -> bool:
    """Return whether the change to this revision is under way, and the revision does not run yet."""
    return change is not None and change.intent == revision.intent and change.phase in AT_WORK


def is_moved(status: PipelineStatus) -> bool:
    """Return whether the next driver goes on in another checkpoint, made of the savepoint that spec.restore names."""
    return status.checkpoint != status.active.checkpoint


def choose_mode(observed: PipelineObserved, revision: Revision) -> UpgradeMode:
    """Return the mode of a change. A mere restart keeps the state, and needs no savepoint."""
    is_restart = observed.status.active.content == revision.content
    return UpgradeMode.LAST_STATE if is_restart else observed.resource.spec.upgrade.mode


def open_change(observed: PipelineObserved, revision: Revision, now: datetime) -> Opened:
    """Return a change that starts now: to a revision, from the one that runs or ran last."""
    status, last = observed.status, observed.status.upgrade
    is_back = last is not None and last.phase is UpgradePhase.ROLLING_BACK
    change = UpgradeStatus(
        phase=UpgradePhase.DRY_RUN,
        revision=revision.name,
        intent=revision.intent,
        previous=last.previous if last is not None and is_back else status.active.revision,
        mode=choose_mode(observed, revision),
        handover=Handover.WARM,
        since=now.replace(microsecond=0),
    )
    run = Run(
        role=RunRole.STANDBY,
        generation=next_generation(observed),
        revision=revision.name,
        checkpoint=read_checkpoint_number(revision),
    )
    opened = observed.resource.replace(status=status.replace(upgrade=change, runs=put_run(status.runs, run)))
    return Opened(replace(observed, resource=opened), change)


def next_checkpoint(status: PipelineStatus) -> int:
    """Return a number that no checkpoint has or was to have."""
    return max(status.checkpoint, status.active.checkpoint, status.last_checkpoint) + 1
