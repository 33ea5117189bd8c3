"""What a change is: which revision it leads to, where that keeps its state, and which revision is to run meanwhile.

Two revisions with one intent are the same change, wherever their state is. So one that was refused or failed stays taken back after its
predecessor has gone back to a savepoint, and is tried again when the spec, `restartNonce` or the mode says something else.
"""

from datetime import datetime

from kappa_crds.pipeline_status import AT_WORK, TAKEN_BACK, PipelineStatus, UpgradePhase, UpgradeStatus
from kappa_crds.revision import Revision
from kappa_crds.upgrade import Handover, UpgradeMode
from kappa_operator.engine.plan import Verdict
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.revision import Place, build_revision, move_revision, read_place
from kappa_operator.pipeline.starting import next_generation


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
    if change is not None and change.anew is not None and is_at_work(change, revision):
        return revision if change.anew.checkpoint == status.checkpoint else build_anew(observed, change)
    return revision


def build_anew(observed: PipelineObserved, change: UpgradeStatus) -> Revision:
    """Return the revision of a change that begins with an empty state."""
    if isinstance(observed.dependencies, Verdict) or change.anew is None:
        raise AssertionError("what is refered to is there, and the change begins anew")
    place = Place(change.anew.checkpoint, from_beginning=change.anew.from_beginning)
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
    return status.checkpoint != status.running_checkpoint


def choose_mode(observed: PipelineObserved, revision: Revision) -> UpgradeMode:
    """Return the mode of a change. A mere restart keeps the state, and needs no savepoint."""
    is_restart = observed.status.content == revision.content
    return UpgradeMode.LAST_STATE if is_restart else observed.resource.spec.upgrade.mode


def describe_change(observed: PipelineObserved, revision: Revision, now: datetime) -> UpgradeStatus:
    """Return a change that begins now: to a revision, from the one that runs or ran last."""
    status, last = observed.status, observed.status.upgrade
    is_back = last is not None and last.phase is UpgradePhase.ROLLING_BACK
    return UpgradeStatus(
        phase=UpgradePhase.REHEARSING,
        revision=revision.name,
        intent=revision.intent,
        previous=last.previous if last is not None and is_back else status.revision,
        generation=next_generation(observed),
        mode=choose_mode(observed, revision),
        handover=Handover.WARM,
        since=now.replace(microsecond=0),
    )


def next_checkpoint(status: PipelineStatus) -> int:
    """Return a number that no checkpoint has or was to have."""
    return max(status.checkpoint, status.running_checkpoint, status.last_checkpoint) + 1
