"""What to do about a state store: create its PVC, check it by writing and reading, keep its files, collect and measure.

The store itself comes first. The number of a collection or a measurement is recorded before its pod is created, and its result before
the pod is deleted; one pod works at a time.
"""

from dataclasses import replace
from datetime import datetime

from kappa_crds.reasons import Reason
from kappa_crds.statestore import STATE_STORE_FINALIZER
from kappa_crds.topic import DeletionPolicy
from kappa_operator import intervals
from kappa_operator.engine.actions import DeleteObject, EmitEvent, RemoveFinalizer
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import Plan, block_deletion, hold_deletion
from kappa_operator.statestore.check import decide_check
from kappa_operator.statestore.model import StateStoreObserved
from kappa_operator.statestore.objects import build_claim_ref
from kappa_operator.statestore.pvc import decide_claim
from kappa_operator.statestore.upkeep import begin_upkeep, find_open, follow_upkeep, measure_wait

_NAMED = 5


def hold_store(observed: StateStoreObserved, _now: datetime) -> Plan | None:
    """Hold deletion only where a PVC that the operator created is deleted with the resource."""
    spec = observed.resource.spec
    is_ours = spec.pvc is not None and spec.pvc.size is not None
    wanted = is_ours and spec.deletion_policy == DeletionPolicy.DELETE
    return hold_deletion(observed.resource, STATE_STORE_FINALIZER, wanted=wanted)


def check_store(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Provide and check the store itself, and report it; None where there is nothing to do and nothing new."""
    plan = _decide_check(observed, now)
    if plan.requeue:
        return plan
    is_news = plan.status not in (None, observed.resource.status)
    return replace(plan, requeue_after=_choose_wait(observed, plan, now)) if plan.actions or is_news else None


def wait_for_next(observed: StateStoreObserved, now: datetime) -> Plan:
    """Wait for the next check, collection or measurement, whichever is due first."""
    plan = _decide_check(observed, now)
    return replace(plan, requeue_after=_choose_wait(observed, plan, now))


def _decide_check(observed: StateStoreObserved, now: datetime) -> Plan:
    return decide_claim(observed, now) or decide_check(observed, now)


def _choose_wait(observed: StateStoreObserved, plan: Plan, now: datetime) -> float:
    if find_open(observed.resource) is not None:
        return intervals.WORKING
    waits = (plan.requeue_after, measure_wait(observed.resource, now))
    return min(max(intervals.WORKING, each) for each in waits if each is not None)


def delete_store(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Delete the PVC and release the resource, or report what blocks that; None while the resource is not deleted."""
    resource = observed.resource
    claim = build_claim_ref(resource)
    if resource.metadata.deletion_timestamp is None:
        return None
    if STATE_STORE_FINALIZER not in resource.metadata.finalizers:
        return Plan()
    if resource.spec.deletion_policy == DeletionPolicy.RETAIN:
        event = EmitEvent(Reason.RETAINED, f"PVC {claim.name} stays, with all state")
        return Plan((event, RemoveFinalizer(STATE_STORE_FINALIZER)))
    if observed.users:
        users = ", ".join(observed.users)
        message = (
            f"the store is used by Pipeline {users}; delete that first, or set spec.deletionPolicy to Retain"
        )
        return _block(observed, Reason.IN_USE, message, now)
    if observed.claim is None or not observed.claim.own:
        return Plan((RemoveFinalizer(STATE_STORE_FINALIZER),))
    if observed.savepoints:
        message = (
            f"PVC {claim.name} holds the files of Savepoint {_list(observed.savepoints)}; delete those first, remove this store from"
            " spec.exports of those that only have a copy here, or set spec.deletionPolicy to Retain"
        )
        return _block(observed, Reason.IN_USE, message, now)
    if observed.archives:
        message = (
            f"PVC {claim.name} holds the archive of Topic {_list(observed.archives)}; remove spec.archive of those first, or set"
            " spec.deletionPolicy to Retain"
        )
        return _block(observed, Reason.IN_USE, message, now)
    if observed.failures:
        message = f"{observed.failures[-1].error.message}; fix that, or set spec.deletionPolicy to Retain"
        return _block(observed, Reason.DELETION_BLOCKED, message, now)
    delete = DeleteObject(claim, observed.claim.uid, "spec.deletionPolicy is Delete")
    event = EmitEvent(Reason.DELETED, f"PVC {claim.name} was deleted, with all state")
    return Plan((delete, event, RemoveFinalizer(STATE_STORE_FINALIZER)))


def _list(names: tuple[str, ...]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _block(observed: StateStoreObserved, reason: Reason, message: str, now: datetime) -> Plan:
    return block_deletion(observed.resource, reason, message, now, intervals.BLOCKED)


STATE_STORE_STEPS: tuple[Step[StateStoreObserved], ...] = (
    delete_store,
    hold_store,
    check_store,
    follow_upkeep,
    begin_upkeep,
    wait_for_next,
)
