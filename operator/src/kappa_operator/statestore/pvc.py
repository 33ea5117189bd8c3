"""What to do about the PersistentVolumeClaim of a state store: create it where it is missing, and grow it."""

from datetime import datetime

from kappa_crds.quantities import parse_size
from kappa_crds.reasons import Reason
from kappa_crds.statestore import PersistentVolume
from kappa_operator import intervals
from kappa_operator.engine.actions import Action, ApplyObject, EmitEvent
from kappa_operator.engine.plan import Plan, Verdict, find_failure, judge_error, stalled, working
from kappa_operator.statestore.model import StateStoreObserved, report
from kappa_operator.statestore.objects import build_claim, name_claim


def decide_claim(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Create or grow the PVC; None where the store needs none, or has it."""
    pvc, claim = observed.resource.spec.pvc, observed.claim
    if pvc is None:
        return None
    if claim is None or claim.deleting:
        return _decide_missing(observed, pvc, now)
    if pvc.size is not None and not claim.own:
        return report(observed, _judge_foreign(observed), now, intervals.FAILED)
    differs = pvc.size is not None and parse_size(pvc.size) != claim.size
    if not differs or find_failure(observed.failures, ApplyObject) is not None:
        return None
    return Plan((ApplyObject(build_claim(observed.resource, pvc)),), requeue=True)


def _judge_foreign(observed: StateStoreObserved) -> Verdict:
    name = name_claim(observed.resource)
    message = (
        f"PVC {name} exists and was not created for this StateStore; leave out spec.pvc.size to use it as it is,"
        " or give another spec.pvc.claimName"
    )
    return stalled("Failed", Reason.NAME_TAKEN, message)


def _decide_missing(observed: StateStoreObserved, pvc: PersistentVolume, now: datetime) -> Plan:
    name = name_claim(observed.resource)
    if observed.claim is not None:
        message = f"PVC {name} is being deleted, with all state; wait for that, or delete the pods that still use it"
        return report(observed, working("Failed", Reason.PVC_NOT_FOUND, message), now, intervals.FAILED)
    if pvc.size is None:
        message = f'PVC "{name}" not found; create it, or set spec.pvc.size and the operator creates one'
        return report(observed, stalled("Failed", Reason.PVC_NOT_FOUND, message), now, intervals.FAILED)
    failure = find_failure(observed.failures, ApplyObject)
    if failure is not None:
        verdict = judge_error("Failed", failure.error, Reason.STORE_CHECK_FAILED)
        return report(observed, verdict, now, intervals.FAILED)
    actions: list[Action] = [ApplyObject(build_claim(observed.resource, pvc))]
    if observed.resource.status.last_check is not None:
        lost = f"PVC {name} was deleted from outside, with all state; a new, empty one is created"
        actions.append(EmitEvent(Reason.PVC_NOT_FOUND, lost, True))
    return Plan(tuple(actions), requeue=True)


def judge_size(observed: StateStoreObserved) -> Verdict | None:
    """Return the verdict where the API server refused another size of the PVC; the store itself still works."""
    refused = find_failure(observed.failures, ApplyObject)
    if refused is None:
        return None
    say = working if refused.error.retryable else stalled
    message = f"the size of the PVC cannot change: {refused.error.message}"
    return say("Failed", Reason.STORE_SIZE_REFUSED, message)
