"""What `spec.collection` of a state store asks for: that it is looked through when that is due, by one pod at a time.

A measurement takes turns with it, see `measurement`.

The store itself comes first and is decided without regard to this. The number of a collection is recorded before its pod is made, and its
result before the pod is deleted.
"""

from dataclasses import replace
from datetime import datetime

from kappa_crds.collection import Collection, CollectionStatus
from kappa_crds.quantities import format_size, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import CollectRequest, Removal, WorkResult, WorkState
from kappa_crds.topic import DeletionPolicy
from kappa_operator.engine.actions import CreateObject, DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan
from kappa_operator.statestore.collection_pods import build_collector, build_collector_ref
from kappa_operator.statestore.decide import decide_statestore
from kappa_operator.statestore.measurement import begin_measurement, follow_measurement, wait_to_measure
from kappa_operator.statestore.model import CollectedStore, build_placement, is_ready

_POLL = 1.0


def decide_collected_store(observed: CollectedStore, now: datetime) -> Plan:
    """Return the next step for the store; where it has none to take at once, the next one for its collection."""
    plan, status = decide_statestore(observed.store, now), observed.resource.status
    collection, measurement = status.collection, status.measurement
    if plan.requeue or observed.resource.metadata.deletion_timestamp is not None:
        return plan
    if plan.actions:
        return replace(plan, requeue_after=_POLL)
    if collection is not None and collection.state is WorkState.ENDED:
        return _sweep(observed, collection)
    if collection is not None and collection.state is WorkState.RUNNING:
        return _follow(observed, plan, collection, now)
    if measurement is not None and measurement.state is not WorkState.DONE:
        return follow_measurement(observed, plan, measurement)
    return _decide_next(observed, plan, now)


def _decide_next(observed: CollectedStore, plan: Plan, now: datetime) -> Plan:
    """Begin what is due, a collection first; or look again when something is. A store that has just been found ready says so first."""
    wanted, is_known = observed.resource.spec.collection, is_ready(observed.resource.status)
    if not is_known and (plan.status is None or not is_ready(plan.status)):
        return plan
    to_collect = measure_wait(wanted, observed.resource.status.collection, now)
    to_measure = wait_to_measure(observed.resource, now)
    if is_known and wanted is not None and to_collect == 0:
        return _begin(observed, wanted, now)
    if is_known and to_measure == 0:
        return begin_measurement(observed, now)
    waits = [max(_POLL, each) for each in (plan.requeue_after, to_collect, to_measure) if each is not None]
    return Plan(plan.actions, plan.status, min(waits, default=None))


def measure_wait(wanted: Collection | None, last: CollectionStatus | None, now: datetime) -> float | None:
    """Return the seconds until a collection is due, 0 for now; None where none is asked for."""
    if wanted is None:
        return None
    if (last.request if last else "") != wanted.request:
        return 0.0
    if wanted.every is None:
        return None
    return 0.0 if last is None else max(0.0, parse_duration(wanted.every) - (now - last.at).total_seconds())


def _begin(observed: CollectedStore, wanted: Collection, now: datetime) -> Plan:
    last = observed.resource.status.collection
    number, at = 1 if last is None else last.number + 1, now.replace(microsecond=0)
    begun = CollectionStatus(number=number, request=wanted.request, at=at, message="under way")
    return Plan((_record(observed, begun),), requeue=True)


def _follow(observed: CollectedStore, plan: Plan, collection: CollectionStatus, now: datetime) -> Plan:
    pod = observed.pod
    if pod is None and observed.refused:
        return _end(observed, collection, f"the pod cannot be made: {observed.refused}", warning=True)
    if pod is None:
        return Plan((CreateObject(_build_pod(observed, collection, now)),), requeue_after=_POLL)
    if pod.result is None:
        return Plan(plan.actions, plan.status, _POLL)
    message, warning = describe_result(pod.result)
    return _end(observed, collection, message, warning=warning)


def _build_pod(observed: CollectedStore, collection: CollectionStatus, now: datetime) -> dict[str, object]:
    wanted = observed.resource.spec.collection or Collection()
    request = CollectRequest(
        namespace=observed.resource.metadata.namespace,
        at=now,
        current=observed.current or {},
        replaced=wanted.replaced_checkpoints is DeletionPolicy.DELETE,
        # Without knowing the pipelines, all would seem to be gone.
        orphaned=wanted.orphaned_checkpoints is DeletionPolicy.DELETE and observed.current is not None,
    )
    return build_collector(observed.resource, collection, request, build_placement(observed))


def _end(observed: CollectedStore, collection: CollectionStatus, message: str, *, warning: bool) -> Plan:
    ended = collection.replace(state=WorkState.ENDED, message=message)
    event = EmitEvent(Reason.STORE_COLLECTED, message, warning)
    return Plan((_record(observed, ended), event), requeue_after=_POLL)


def _sweep(observed: CollectedStore, collection: CollectionStatus) -> Plan:
    pod, ref = observed.pod, build_collector_ref(observed.resource, collection)
    delete = () if pod is None else (DeleteObject(ref, pod.uid, "its work is done"),)
    return Plan((*delete, _record(observed, collection.replace(state=WorkState.DONE))), requeue=True)


def _record(observed: CollectedStore, collection: CollectionStatus) -> RecordStatus:
    return RecordStatus(observed.resource.status.replace(collection=collection))


def describe_result(result: WorkResult) -> tuple[str, bool]:
    """Return what a collection came to, in words, and whether something is wrong."""
    if result.removed is None:
        return (result.failure.message if result.failure else "the pod ended without a word"), True
    return describe_removal(result.removed), bool(result.removed.postponed)


def describe_removal(removed: Removal) -> str:
    """Return what was removed, in words."""
    said = f"{removed.objects} files of savepoints and {removed.checkpoints} checkpoints, {format_size(removed.size_bytes)}, are free"
    return f"{said}; not yet looked through: {removed.postponed}" if removed.postponed else said
