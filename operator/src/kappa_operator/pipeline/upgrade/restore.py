"""When a pipeline goes on from a savepoint: what is recorded of it before anything is stopped or made.

Each restored savepoint begins a checkpoint of its own, and the revision says which. So all that follows is a change of the
revision like any other: the old driver stops at a batch boundary, the new one makes its checkpoint and starts. If it does not prove itself,
because the savepoint is damaged, the topics no longer have its offsets, or the state does not fit the spec, the checkpoint before is gone on in.
"""

from datetime import datetime

from kappa_crds.pipeline_status import NewCheckpoint, PipelineState, UpgradePhase, UpgradeStatus
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import Restoration
from kappa_crds.upgrade import Handover
from kappa_operator.engine.actions import RecordStatus
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.driver import has_failed
from kappa_operator.pipeline.model import PipelineObserved, say
from kappa_operator.pipeline.revision import Dependencies, Place, build_revision
from kappa_operator.pipeline.upgrade.change import next_checkpoint, open_change
from kappa_operator.pipeline.upgrade.rollback import withdraw
from kappa_operator.savepoint.objects import name_savepoint


def decide_restore(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record what the next checkpoint is made of, once for each value of spec.restore; None where there is nothing to do."""
    spec, status, dependencies = observed.resource.spec, observed.status, observed.dependencies
    if spec.restore is None or isinstance(dependencies, Verdict) or dependencies.savepoint is None:
        return None
    savepoint = dependencies.savepoint
    if savepoint.status.location is None:
        raise AssertionError("a savepoint that was taken is somewhere")
    number, name = next_checkpoint(status), savepoint.metadata.name
    made_of = Restoration(
        location=savepoint.status.location,
        savepoint=name_savepoint(savepoint.metadata),
        fork=savepoint.spec.pipeline_ref != observed.resource.metadata.name,
    )
    place = Place(number, made_of, savepoint.status.shuffle_partitions, status.from_beginning)
    verdict = working(PipelineState.PENDING, Reason.RESTORING, f"goes on from savepoint {name}")
    opened, change = _open(observed, dependencies, place, f"goes on from savepoint {name}", now)
    written = say(
        opened, verdict, now,
        restored=spec.restore, restoration=made_of, checkpoint=number, last_checkpoint=number,
        shuffle_partitions=place.shuffle_partitions, upgrade=change,
    )  # fmt: skip
    return Plan((RecordStatus(written),), requeue=True)


def _open(
    observed: PipelineObserved, dependencies: Dependencies, place: Place, said: str, now: datetime
) -> tuple[PipelineObserved, UpgradeStatus | None]:
    """Return the change that this is. It is watched, and where it fails the state before is gone on from; what had failed is not gone back to."""
    status = observed.status
    if status.active.revision is None:
        return observed, withdraw(status.upgrade, "spec.restore asks for another state", now)
    revision = build_revision(observed.resource, dependencies, observed.images, place)
    failed = has_failed(status.restarts) or status.restarts.non_retryable_revision == status.active.revision
    observed, change = open_change(observed, revision, now)
    return observed, change.replace(
        phase=UpgradePhase.HANDING_OVER,
        handover=Handover.COLD,
        previous=None if failed else change.previous,
        new_checkpoint=NewCheckpoint(checkpoint=place.checkpoint, instead_of=status.active.checkpoint),
        message=said,
    )
