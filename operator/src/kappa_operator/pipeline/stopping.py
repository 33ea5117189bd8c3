"""How a driver is stopped: at a batch boundary, and by deleting its pod where it does not hear or obey."""

from datetime import datetime

from kappa_crds.pipeline_status import PipelineState
from kappa_crds.progress import DriverState
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import DeleteObject, RecordStatus, StopDriver
from kappa_operator.engine.plan import Plan, working
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.model import SOON, PipelineObserved, say
from kappa_operator.pipeline.objects import build_token_ref

STOP_MARGIN = 30.0
ASK_PATIENCE = 15.0


def stop_driver(observed: PipelineObserved, current: DriverPod, now: datetime) -> Plan:
    """Ask the driver to stop at a batch boundary; delete the pod if it never ran or does not obey in time."""
    status, spec = observed.status, observed.resource.spec
    since = status.active.stopping_since
    why = "suspending" if spec.suspend else "a new revision waits"
    verdict = working(
        PipelineState.PENDING, Reason.STOPPING_PREVIOUS, f"{why}: driver {current.ref.name} ends its batch"
    )
    if since is None:
        intent = say(
            observed, verdict, now, runs=status.update_active(stopping_since=now.replace(microsecond=0))
        )
        return Plan((RecordStatus(intent),), requeue=True)
    said = say(observed, verdict, now)
    if current.deleting:
        return Plan((), said, SOON)
    overdue = (now - since).total_seconds() > parse_duration(spec.stop_timeout) + STOP_MARGIN
    if overdue or current.unstarted or current.address is None:
        reason = "it did not stop in time" if overdue else "it never ran"
        return Plan((DeleteObject(current.ref, current.uid, reason),), said, SOON)
    if observed.progress is not None and observed.progress.state in (
        DriverState.STOPPING,
        DriverState.STOPPED,
    ):
        return Plan((), said, SOON)
    timeout = parse_duration(spec.stop_timeout)
    ask = StopDriver(current.ref, current.address, build_token_ref(observed.resource), timeout)
    return Plan((ask,), said, SOON)


def report_stop_unreachable(
    observed: PipelineObserved, current: DriverPod, message: str, now: datetime
) -> Plan:
    """A driver did not hear that it shall stop. One that is just ending does not either, so wait a little first."""
    verdict = working(PipelineState.PENDING, Reason.STOPPING_PREVIOUS, message)
    said = say(observed, verdict, now)
    since = observed.status.active.stopping_since or now
    if (now - since).total_seconds() < ASK_PATIENCE:
        return Plan((), said, SOON)
    return Plan(
        (DeleteObject(current.ref, current.uid, f"it cannot be asked to stop: {message}"),), said, SOON
    )
