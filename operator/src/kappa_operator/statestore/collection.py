"""Collections of a state store: at each interval of `spec.collection` a pod deletes the files that nothing needs any more."""

from datetime import datetime

from kappa_crds.quantities import format_size, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import CollectRequest, Removal, WorkResult, WorkState
from kappa_crds.statestore import Collection, CollectionStatus
from kappa_crds.topic import DeletionPolicy
from kappa_operator import intervals
from kappa_operator.engine.actions import CreateObject, DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan
from kappa_operator.statestore.collection_pods import build_collector, build_collector_ref
from kappa_operator.statestore.model import StateStoreObserved, build_placement, is_ready


def sweep_collection(observed: StateStoreObserved, _now: datetime) -> Plan | None:
    """Delete the pod of a collection whose result is recorded."""
    collection = observed.resource.status.collection
    if collection is None or collection.state is not WorkState.ENDED:
        return None
    pod, ref = observed.worker, build_collector_ref(observed.resource, collection)
    delete = () if pod is None else (DeleteObject(ref, pod.uid, "its work is done"),)
    return Plan((*delete, _record(observed, collection.replace(state=WorkState.DONE))), requeue=True)


def follow_collection(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Create the pod of a collection, and record its result."""
    collection, pod = observed.resource.status.collection, observed.worker
    if collection is None or collection.state is not WorkState.RUNNING:
        return None
    if pod is None and observed.refused:
        return _end(observed, collection, f"the pod cannot be created: {observed.refused}", warning=True)
    if pod is None:
        return Plan((CreateObject(_build_pod(observed, collection, now)),), requeue_after=intervals.WORKING)
    if pod.result is None:
        return Plan(requeue_after=intervals.WORKING)
    message, warning = describe_result(pod.result)
    return _end(observed, collection, message, warning=warning)


def begin_collection(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Record a collection that is due, before its pod is created. Only a store that is ready is collected."""
    wanted, last = observed.resource.spec.collection, observed.resource.status.collection
    if wanted is None or not is_ready(observed.resource.status) or measure_wait(wanted, last, now) != 0:
        return None
    number, at = 1 if last is None else last.number + 1, now.replace(microsecond=0)
    begun = CollectionStatus(number=number, request=wanted.request, at=at, message="under way")
    return Plan((_record(observed, begun),), requeue=True)


def measure_wait(wanted: Collection | None, last: CollectionStatus | None, now: datetime) -> float | None:
    """Return the seconds until a collection is due, 0 for now; None where the spec has none."""
    if wanted is None:
        return None
    if (last.request if last else "") != wanted.request:
        return 0.0
    if wanted.interval is None:
        return None
    return intervals.wait_after(last.at if last else None, parse_duration(wanted.interval), now)


def _build_pod(
    observed: StateStoreObserved, collection: CollectionStatus, now: datetime
) -> dict[str, object]:
    wanted = observed.resource.spec.collection or Collection()
    request = CollectRequest(
        namespace=observed.resource.metadata.namespace,
        at=now,
        current=observed.current or {},
        replaced=wanted.replaced_checkpoints is DeletionPolicy.DELETE,
        # Where one pipeline cannot be read, no checkpoint is known to be orphaned.
        orphaned=wanted.orphaned_checkpoints is DeletionPolicy.DELETE and observed.current is not None,
    )
    return build_collector(observed.resource, collection, request, build_placement(observed))


def _end(observed: StateStoreObserved, collection: CollectionStatus, message: str, *, warning: bool) -> Plan:
    ended = collection.replace(state=WorkState.ENDED, message=message)
    event = EmitEvent(Reason.STORE_COLLECTED, message, warning)
    return Plan((_record(observed, ended), event), requeue_after=intervals.WORKING)


def _record(observed: StateStoreObserved, collection: CollectionStatus) -> RecordStatus:
    return RecordStatus(observed.resource.status.replace(collection=collection))


def describe_result(result: WorkResult) -> tuple[str, bool]:
    """Return the result of a collection as text, and whether it is a warning."""
    if result.removed is None:
        return (result.failure.message if result.failure else "the pod ended without a message"), True
    return describe_removal(result.removed), bool(result.removed.postponed)


def describe_removal(removed: Removal) -> str:
    """Return what was removed, as text."""
    freed = f"{removed.objects} files of savepoints and {removed.checkpoints} checkpoints, {format_size(removed.size_bytes)}, were deleted"
    return f"{freed}; not collected yet: {removed.postponed}" if removed.postponed else freed
