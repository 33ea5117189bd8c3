"""When a pipeline goes on from a savepoint: what is recorded of it before anything is stopped or made.

Each restored savepoint begins a checkpoint of its own, and the revision says which. So all that follows is a change of the
revision like any other: the old driver stops at a batch boundary, the new one makes its checkpoint and starts.
"""

from datetime import datetime

from kappa_crds.pipeline import PipelineState
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import Restoration
from kappa_operator.actions import RecordStatus
from kappa_operator.plan.change import next_checkpoint
from kappa_operator.plan.model import Plan, Verdict, working
from kappa_operator.plan.pipeline_model import PipelineObserved, say
from kappa_operator.plan.rollback import withdraw
from kappa_operator.resources.savepoint import name_savepoint


def decide_restore(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record what the next checkpoint is made of, once for each value of spec.restore; None where there is nothing to do."""
    spec, status, dependencies = observed.resource.spec, observed.status, observed.dependencies
    if spec.restore is None or isinstance(dependencies, Verdict) or dependencies.savepoint is None:
        return None
    savepoint = dependencies.savepoint
    if savepoint.status.location is None:
        raise AssertionError("a savepoint that was taken is somewhere")
    made_of = Restoration(
        location=savepoint.status.location,
        savepoint=name_savepoint(savepoint.metadata),
        fork=savepoint.spec.pipeline_ref != observed.resource.metadata.name,
    )
    verdict = working(
        PipelineState.PENDING, Reason.RESTORING, f"goes on from savepoint {savepoint.metadata.name}"
    )
    number = next_checkpoint(status)
    written = say(
        observed, verdict, now,
        restored=spec.restore, restoration=made_of, checkpoint=number, last_checkpoint=number,
        shuffle_partitions=savepoint.status.shuffle_partitions,
        upgrade=withdraw(status.upgrade, "spec.restore asks for another state", now),
    )  # fmt: skip
    return Plan((RecordStatus(written),), look_again=True)
