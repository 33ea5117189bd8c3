"""Upkeep of a state store at intervals: a collection deletes files that nothing needs, a measurement counts what the store holds.

One pod works at a time. The number of a piece of work is recorded before its pod is created, and its result before the pod is deleted.
The last result of a measurement stays in status while the next one is under way, and where that fails.
"""

from datetime import datetime
from typing import Any

from kappa_crds.progress import DriverExit
from kappa_crds.quantities import format_size, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import CollectRequest, Removal, SavepointTask, WorkResult, WorkState
from kappa_crds.statestore import Collection, CollectionStatus, Measurement
from kappa_crds.stores import StoreContents
from kappa_crds.topic import DeletionPolicy
from kappa_operator import intervals
from kappa_operator.engine.actions import DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan
from kappa_operator.statestore.model import StateStoreObserved, is_ready
from kappa_operator.statestore.objects import StateStoreResource
from kappa_operator.statestore.pods import create_pod, find_refusal

Record = CollectionStatus | Measurement
FIELDS = {SavepointTask.COLLECT: "collection", SavepointTask.MEASURE: "measurement"}
"""Where the last work of each kind is recorded in the status, in the order in which work that is due at the same time is done."""


def _get(resource: StateStoreResource, task: SavepointTask) -> Record | None:
    last: Record | None = getattr(resource.status, FIELDS[task])
    return last


def _record(observed: StateStoreObserved, task: SavepointTask, last: Record) -> RecordStatus:
    return RecordStatus(observed.resource.status.replace(**{FIELDS[task]: last}))


def find_open(resource: StateStoreResource) -> tuple[SavepointTask, Record] | None:
    """Return the work that is under way, or whose pod is still to be deleted."""
    for task in FIELDS:
        last = _get(resource, task)
        if last is not None and last.state is not WorkState.DONE:
            return task, last
    return None


def measure_wait(resource: StateStoreResource, now: datetime) -> float | None:
    """Return the seconds until some upkeep is due; None where the spec has none."""
    waits = (measure_task_wait(resource, task, now) for task in FIELDS)
    return min((wait for wait in waits if wait is not None), default=None)


def measure_task_wait(resource: StateStoreResource, task: SavepointTask, now: datetime) -> float | None:
    """Return the seconds until upkeep of that kind is due, 0 for now; None where the spec has none."""
    interval, last = resource.spec.measure_interval, _get(resource, task)
    if task is SavepointTask.COLLECT:
        wanted, collection = resource.spec.collection, resource.status.collection
        if wanted is None:
            return None
        if wanted.request != (collection.request if collection else ""):
            return 0.0
        interval = wanted.interval
    if interval is None:
        return None
    return intervals.wait_after(last.at if last else None, parse_duration(interval), now)


def follow_upkeep(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Create the pod of the work under way, record its result, delete the pod."""
    found, pod = find_open(observed.resource), observed.worker
    if found is None:
        return None
    task, last = found
    if last.state is WorkState.ENDED:
        delete = () if pod is None else (DeleteObject(pod.ref, pod.uid, "its work is done"),)
        return Plan((*delete, _record(observed, task, last.replace(state=WorkState.DONE))), requeue=True)
    result = _explain_refusal(observed, task, last) if pod is None else pod.result
    if result is not None:
        ended, events = _finish(last, result)
        written = _record(observed, task, ended.replace(state=WorkState.ENDED))
        return Plan((written, *events), requeue_after=intervals.WORKING)
    fields = {} if pod else _build_request(observed, task, now)
    create = () if pod else create_pod(observed, task, last.number, **fields)
    return Plan(create, requeue_after=intervals.WORKING)


def _explain_refusal(observed: StateStoreObserved, task: SavepointTask, last: Record) -> WorkResult | None:
    refused = find_refusal(observed, task, last.number)
    if refused is None:
        return None
    message = f"the pod cannot be created: {refused.error.message}"
    return WorkResult(failure=DriverExit(reason=Reason.SAVEPOINT_WORK_FAILED, message=message))


def begin_upkeep(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Record work that is due, before its pod is created. Only a store that is ready is collected or measured."""
    resource, at = observed.resource, now.replace(microsecond=0)
    due = (task for task in FIELDS if measure_task_wait(resource, task, now) == 0)
    task = next(due, None) if is_ready(resource.status) else None
    if task is None:
        return None
    last = _get(resource, task)
    number = 1 if last is None else last.number + 1
    if task is SavepointTask.MEASURE and last is not None:
        begun = last.replace(number=number, at=at, state=WorkState.RUNNING)
    elif task is SavepointTask.MEASURE:
        begun = Measurement(number=number, at=at, message="under way")
    else:
        request = (resource.spec.collection or Collection()).request
        begun = CollectionStatus(number=number, request=request, at=at, message="under way")
    return Plan((_record(observed, task, begun),), requeue=True)


def _build_request(observed: StateStoreObserved, task: SavepointTask, now: datetime) -> dict[str, Any]:
    """Return what the pod needs to know besides the store."""
    namespace, wanted = (
        observed.resource.metadata.namespace,
        observed.resource.spec.collection or Collection(),
    )
    if task is SavepointTask.MEASURE:
        return {"namespace": namespace}
    request = CollectRequest(
        namespace=namespace,
        at=now,
        current=dict(observed.current or {}),
        replaced=wanted.replaced_checkpoints is DeletionPolicy.DELETE,
        # Where one pipeline cannot be read, no checkpoint is known to be orphaned.
        orphaned=wanted.orphaned_checkpoints is DeletionPolicy.DELETE and observed.current is not None,
    )
    return {"collect": request}


def _finish(last: Record, result: WorkResult) -> tuple[Record, tuple[EmitEvent, ...]]:
    """Return the record with the result, and the Events."""
    if isinstance(last, Measurement):
        holds = result.contents
        if holds is None:
            return last.replace(message=result.problem), ()
        return last.replace(contents=holds, message=describe_contents(holds)), ()
    removed = result.removed
    message = result.problem if removed is None else describe_removal(removed)
    is_warning = removed is None or bool(removed.postponed)
    return last.replace(message=message), (EmitEvent(Reason.STORE_COLLECTED, message, is_warning),)


def describe_removal(removed: Removal) -> str:
    """Return what was removed, as text."""
    freed = f"{removed.objects} files of savepoints and {removed.checkpoints} checkpoints, {format_size(removed.size_bytes)}, were deleted"
    return f"{freed}; not collected yet: {removed.postponed}" if removed.postponed else freed


def describe_contents(holds: StoreContents) -> str:
    """Return what a store holds, as text."""
    held = (
        f"{holds.checkpoints} checkpoints, {format_size(holds.checkpoint_bytes)};"
        f" {holds.savepoints} savepoints, {format_size(holds.savepoint_bytes)}"
    )
    return f"at least {held}" if holds.partial else held
