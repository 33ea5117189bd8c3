"""How a pipeline follows a topic to another version: at the cut of the Pipeline that writes it, with its state (ADR 72).

At the cut the driver holds where it has read all of the old version. It is stopped there, and the next one continues in the new version.
Between the record of the cut and the exchange of the versions no driver is started: it would read on.
"""

from dataclasses import replace
from datetime import datetime

from kappa_crds.pipeline_status import PipelineState, UpgradePhase
from kappa_crds.reasons import Reason
from kappa_crds.upgrade import Handover
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.model import PipelineObserved, record, wait
from kappa_operator.pipeline.upgrade.change import enter, open_change


def move_inputs(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record that sources are read in another version from now on; a driver that reads the old one is stopped, and the next one started."""
    status, inputs = observed.status, observed.inputs.topics
    if inputs == status.inputs or isinstance(observed.dependencies, Verdict):
        return None
    names = ", ".join(each.topic for each in inputs if each not in status.inputs)
    message = f"sources continue in {names}, with the present state"
    state = PipelineState.PENDING if observed.alive is None else PipelineState.RUNNING
    verdict = working(state, Reason.INPUT_MOVED, message)
    if status.active.revision is None:
        return record(observed, verdict, now, inputs=inputs)
    moved = replace(observed, resource=observed.resource.replace(status=status.replace(inputs=inputs)))
    if moved.wanted is None:
        return None
    moved, change = open_change(moved, moved.wanted, now)
    change = change.replace(handover=Handover.COLD, previous=None, message=message)
    return record(moved, verdict, now, upgrade=enter(change, UpgradePhase.HANDING_OVER, now))


def await_cut(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Start and change nothing while a cut is recorded that this pipeline stands at, and the versions are not exchanged yet."""
    if not observed.inputs.awaited:
        return None
    message = (
        f"Reprocessing {observed.inputs.awaited} is about to move its readers; the driver waits for that"
    )
    state = PipelineState.PENDING if observed.alive is None else PipelineState.RUNNING
    return wait(observed, working(state, Reason.INPUT_MOVED, message), now)
