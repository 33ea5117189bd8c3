"""What to do about a state store: make its claim, check it by writing and reading, and never lose what it holds."""

from datetime import datetime

from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.statestore import STATE_STORE_FINALIZER
from kappa_crds.topic import DeletionPolicy
from kappa_operator.engine.actions import AddFinalizer, DeleteObject, EmitEvent, RemoveFinalizer
from kappa_operator.engine.plan import Plan, Verdict, build_conditions, ready, stalled, working
from kappa_operator.statestore.model import FAILED_POLL, StateStoreObserved, get_wait, report
from kappa_operator.statestore.objects import StateStoreResource, build_claim_ref
from kappa_operator.statestore.pvc import decide_claim

BLOCKED_POLL = 15.0
_TOLD = 5


def decide_statestore(observed: StateStoreObserved, now: datetime) -> Plan:
    """Bring the store to its spec, check it when that is due, and say how it is."""
    resource = observed.resource
    if resource.metadata.deletion_timestamp is not None:
        return _decide_deletion(observed, now)
    finalizer = _decide_finalizer(resource)
    if finalizer is not None:
        return Plan((finalizer,), requeue=True)
    return decide_claim(observed, now) if resource.spec.pvc is not None else _decide_remote(observed, now)


def _decide_finalizer(resource: StateStoreResource) -> AddFinalizer | RemoveFinalizer | None:
    """Hold deletion only where a claim that the operator made is to go with the resource."""
    spec = resource.spec
    made = spec.pvc is not None and spec.pvc.size is not None
    wanted = made and spec.deletion_policy == DeletionPolicy.DELETE
    if wanted == (STATE_STORE_FINALIZER in resource.metadata.finalizers):
        return None
    return AddFinalizer(STATE_STORE_FINALIZER) if wanted else RemoveFinalizer(STATE_STORE_FINALIZER)


def _decide_remote(observed: StateStoreObserved, now: datetime) -> Plan:
    if not observed.checked:
        return Plan(requeue_after=get_wait(observed.resource, now))
    at = now.replace(microsecond=0)
    every = parse_duration(observed.resource.spec.check_every)
    requeue = min(every, FAILED_POLL) if observed.problem else every
    return report(observed, _judge_remote(observed), now, requeue, last_check=at)


def _judge_remote(observed: StateStoreObserved) -> Verdict:
    problem = observed.problem
    if problem is None:
        what = "an object" if observed.resource.spec.s3 is not None else "a file"
        return ready("Ready", Reason.STORE_VERIFIED, f"{what} was written, read back and deleted")
    say = working if problem.retryable else stalled
    return say("Failed", problem.reason, problem.message)


def _decide_deletion(observed: StateStoreObserved, now: datetime) -> Plan:
    resource = observed.resource
    claim = build_claim_ref(resource)
    if STATE_STORE_FINALIZER not in resource.metadata.finalizers:
        return Plan()
    if resource.spec.deletion_policy == DeletionPolicy.RETAIN:
        event = EmitEvent(Reason.RETAINED, f"claim {claim.name} stays, with all state")
        return Plan((event, RemoveFinalizer(STATE_STORE_FINALIZER)))
    if observed.users:
        users = ", ".join(observed.users)
        said = (
            f"the store is used by Pipeline {users}; delete that first, or set spec.deletionPolicy to Retain"
        )
        return _block(observed, Reason.IN_USE, said, now)
    if observed.claim is None:
        return Plan((RemoveFinalizer(STATE_STORE_FINALIZER),))
    if observed.savepoints:
        said = (
            f"claim {claim.name} holds the files of Savepoint {_list(observed.savepoints)}; delete those first, take this store out of the"
            " spec.exports of those that only have a copy here, or set spec.deletionPolicy to Retain"
        )
        return _block(observed, Reason.IN_USE, said, now)
    if observed.failures:
        said = f"{observed.failures[-1].error.message}; repair that, or set spec.deletionPolicy to Retain"
        return _block(observed, Reason.DELETION_BLOCKED, said, now)
    delete = DeleteObject(claim, observed.claim.uid, "spec.deletionPolicy is Delete")
    event = EmitEvent(Reason.DELETED, f"claim {claim.name} was deleted, with all state")
    return Plan((delete, event, RemoveFinalizer(STATE_STORE_FINALIZER)))


def _list(names: tuple[str, ...]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _TOLD
    return ", ".join(names[:_TOLD]) + (f" and {more} more" if more > 0 else "")


def _block(observed: StateStoreObserved, reason: Reason, message: str, now: datetime) -> Plan:
    status, generation = observed.resource.status, observed.resource.metadata.generation
    verdict = stalled("Deleting", reason, message)
    conditions = build_conditions(verdict, status.conditions, generation, now)
    return Plan(
        status=status.replace(conditions=conditions, state=verdict.state, observed_generation=generation),
        requeue_after=BLOCKED_POLL,
    )
