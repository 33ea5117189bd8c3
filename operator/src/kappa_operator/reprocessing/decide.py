"""What to do about a reprocessing, from what was observed. It creates no pods: its Pipeline reads its phase and acts on it."""

from datetime import datetime

from kappa_crds.reasons import Reason
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import Plan, stalled
from kappa_operator.reprocessing.model import ReprocessingObserved, report


def report_uncontrolled(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Report that it has no effect where the Pipeline did not create it."""
    if observed.is_controlled:
        return None
    name = observed.resource.spec.pipeline_ref
    message = f"Pipeline {name} did not create this Reprocessing, so it has no effect; delete it"
    return report(observed, stalled("Ignored", Reason.NOT_CONTROLLED, message), now)


REPROCESSING_STEPS: tuple[Step[ReprocessingObserved], ...] = (report_uncontrolled,)
