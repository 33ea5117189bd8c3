"""Requests of a person: each value is carried out once, in a phase that it fits, or refused."""

from datetime import datetime

from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import ENDS, ReprocessingPhase, ReprocessingRequest, RequestAction
from kappa_crds.reprocessing_policy import CutGate
from kappa_operator.engine.actions import EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan
from kappa_operator.reprocessing.model import ReprocessingObserved

Phase = ReprocessingPhase
FITS: dict[RequestAction, tuple[ReprocessingPhase, ...]] = {
    RequestAction.COMPARE: (Phase.CATCHING_UP, Phase.READY_TO_CUT),
    RequestAction.CUT: (Phase.READY_TO_CUT,),
    RequestAction.FINISH: (Phase.SOAKING,),
    RequestAction.ROLLBACK: (Phase.SOAKING,),
    RequestAction.ABORT: (
        Phase.PENDING,
        Phase.PROVING,
        Phase.CATCHING_UP,
        Phase.COMPARING,
        Phase.READY_TO_CUT,
        Phase.CUTTING_OVER,
    ),
}
"""The phases in which each action has an effect."""


def find_request(observed: ReprocessingObserved) -> ReprocessingRequest | None:
    """Return the request that was not carried out yet."""
    request = observed.resource.spec.request
    return None if request is None or request == observed.status.request else request


def carry_out(observed: ReprocessingObserved, action: RequestAction) -> ReprocessingRequest | None:
    """Return the request for an action, to be recorded with its effect; None without one."""
    request = find_request(observed)
    return request if request is not None and request.action is action else None


def refuse_request(observed: ReprocessingObserved, _now: datetime) -> Plan | None:
    """Record a request that does not fit the phase, with an Event: it is not carried out later."""
    request = find_request(observed)
    is_never = observed.resource.spec.gates.cut is CutGate.NEVER
    if request is None:
        return None
    if is_never and request.action is RequestAction.CUT:
        remedy, spec = "set it to Manual first", observed.resource.spec
        if spec.from_ is not None:
            remedy = "a run from a time lacks earlier results, so start one without spec.from"
        elif spec.only is not None:
            remedy = "a run for some rows lacks all others, so start one without spec.only"
        message = f"request Cut is refused, because spec.gates.cut is Never; {remedy}"
        event = EmitEvent(Reason.RECONCILING, message, warning=True)
        return Plan((RecordStatus(observed.status.replace(request=request)), event), requeue=True)
    if observed.phase in FITS[request.action]:
        return None
    fitting = " or ".join(FITS[request.action])
    end = "it has ended" if observed.phase in ENDS else f"its phase is {observed.phase}"
    message = f"request {request.action} is refused, because {end}; it fits in {fitting}"
    event = EmitEvent(Reason.RECONCILING, message, warning=True)
    return Plan((RecordStatus(observed.status.replace(request=request)), event), requeue=True)


def explain_gate(observed: ReprocessingObserved, action: RequestAction) -> str:
    """Return the command that passes a gate."""
    return f"to continue, run: {_build_command(observed, action)}"


def explain_end(observed: ReprocessingObserved) -> str:
    """Return the command that ends one before its cutover."""
    return f"to end it, run: {_build_command(observed, RequestAction.ABORT)}"


def _build_command(observed: ReprocessingObserved, action: RequestAction) -> str:
    metadata = observed.resource.metadata
    return f"kappa reprocess {action.lower()} {metadata.name} -n {metadata.namespace}"
