"""Upkeep of a state store at intervals: a collection deletes files that nothing needs, a measurement counts what the store holds.

One pod works at a time. The number of a piece of work is recorded before its pod is created, and its result before the pod is deleted.
The last result of a measurement stays in status while the next one is under way, and where that fails.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Upkeep:
    """A kind of upkeep, recorded in `field` of the status.

    `measure_wait` returns the seconds until it is due, 0 for now, and None where the spec has none. `begin` returns the record of the
    next piece of work, `build_request` what its pod needs to know, `finish` the record and the Events of its result.
    """

    field: str
    task: SavepointTask
    measure_wait: Callable[[StateStoreResource, datetime], float | None]
    begin: Callable[[StateStoreResource, int, datetime], Record]
    build_request: Callable[[StateStoreObserved, datetime], Mapping[str, Any]]
    finish: Callable[[Any, WorkResult], tuple[Record, tuple[EmitEvent, ...]]]

    def get(self, resource: StateStoreResource) -> Record | None:
        """Return the record of the last piece of work."""
        found: Record | None = getattr(resource.status, self.field)
        return found

    def record(self, observed: StateStoreObserved, record: Record) -> RecordStatus:
        """Return the action that writes the record."""
        return RecordStatus(observed.resource.status.replace(**{self.field: record}))


def find_open(resource: StateStoreResource) -> tuple[Upkeep, Record] | None:
    """Return the work that is under way, or whose pod is still to be deleted."""
    found = ((kind, kind.get(resource)) for kind in UPKEEP)
    return next(
        ((kind, last) for kind, last in found if last is not None and last.state is not WorkState.DONE), None
    )


def measure_wait(resource: StateStoreResource, now: datetime) -> float | None:
    """Return the seconds until some upkeep is due; None where the spec has none."""
    waits = (kind.measure_wait(resource, now) for kind in UPKEEP)
    return min((wait for wait in waits if wait is not None), default=None)


def follow_upkeep(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Create the pod of the work under way, record its result, delete the pod."""
    found, pod = find_open(observed.resource), observed.worker
    if found is None:
        return None
    kind, last = found
    if last.state is WorkState.ENDED:
        delete = () if pod is None else (DeleteObject(pod.ref, pod.uid, "its work is done"),)
        return Plan((*delete, kind.record(observed, last.replace(state=WorkState.DONE))), requeue=True)
    result = _explain_refusal(observed, kind, last) if pod is None else pod.result
    if result is not None:
        ended, events = kind.finish(last.replace(state=WorkState.ENDED), result)
        return Plan((kind.record(observed, ended), *events), requeue_after=intervals.WORKING)
    if pod is not None:
        return Plan(requeue_after=intervals.WORKING)
    create = create_pod(observed, kind.task, last.number, **kind.build_request(observed, now))
    return Plan((create,), requeue_after=intervals.WORKING)


def _explain_refusal(observed: StateStoreObserved, kind: Upkeep, last: Record) -> WorkResult | None:
    refused = find_refusal(observed, kind.task, last.number)
    if refused is None:
        return None
    message = f"the pod cannot be created: {refused.error.message}"
    return WorkResult(failure=DriverExit(reason=Reason.SAVEPOINT_WORK_FAILED, message=message))


def begin_upkeep(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Record work that is due, before its pod is created. Only a store that is ready is collected or measured."""
    resource = observed.resource
    due = (kind for kind in UPKEEP if kind.measure_wait(resource, now) == 0)
    kind = next(due, None) if is_ready(resource.status) else None
    if kind is None:
        return None
    last = kind.get(resource)
    begun = kind.begin(resource, 1 if last is None else last.number + 1, now.replace(microsecond=0))
    return Plan((kind.record(observed, begun),), requeue=True)


def _wait_to_collect(resource: StateStoreResource, now: datetime) -> float | None:
    wanted, last = resource.spec.collection, resource.status.collection
    if wanted is None:
        return None
    if (last.request if last else "") != wanted.request:
        return 0.0
    if wanted.interval is None:
        return None
    return intervals.wait_after(last.at if last else None, parse_duration(wanted.interval), now)


def _begin_collection(resource: StateStoreResource, number: int, at: datetime) -> CollectionStatus:
    wanted = resource.spec.collection or Collection()
    return CollectionStatus(number=number, request=wanted.request, at=at, message="under way")


def _request_collection(observed: StateStoreObserved, now: datetime) -> dict[str, CollectRequest]:
    wanted = observed.resource.spec.collection or Collection()
    request = CollectRequest(
        namespace=observed.resource.metadata.namespace,
        at=now,
        current=dict(observed.current or {}),
        replaced=wanted.replaced_checkpoints is DeletionPolicy.DELETE,
        # Where one pipeline cannot be read, no checkpoint is known to be orphaned.
        orphaned=wanted.orphaned_checkpoints is DeletionPolicy.DELETE and observed.current is not None,
    )
    return {"collect": request}


def _finish_collection(
    ended: CollectionStatus, result: WorkResult
) -> tuple[CollectionStatus, tuple[EmitEvent, ...]]:
    removed = result.removed
    message = result.problem if removed is None else describe_removal(removed)
    is_warning = removed is None or bool(removed.postponed)
    return ended.replace(message=message), (EmitEvent(Reason.STORE_COLLECTED, message, is_warning),)


def describe_removal(removed: Removal) -> str:
    """Return what was removed, as text."""
    freed = f"{removed.objects} files of savepoints and {removed.checkpoints} checkpoints, {format_size(removed.size_bytes)}, were deleted"
    return f"{freed}; not collected yet: {removed.postponed}" if removed.postponed else freed


def _wait_to_measure(resource: StateStoreResource, now: datetime) -> float | None:
    every, last = resource.spec.measure_interval, resource.status.measurement
    if every is None:
        return None
    return intervals.wait_after(last.at if last else None, parse_duration(every), now)


def _begin_measurement(resource: StateStoreResource, number: int, at: datetime) -> Measurement:
    last = resource.status.measurement or Measurement(number=1, at=at, message="under way")
    return last.replace(number=number, at=at, state=WorkState.RUNNING)


def _finish_measurement(ended: Measurement, result: WorkResult) -> tuple[Measurement, tuple[EmitEvent, ...]]:
    if result.contents is None:
        return ended.replace(message=result.problem), ()
    return ended.replace(contents=result.contents, message=describe_contents(result.contents)), ()


def describe_contents(holds: StoreContents) -> str:
    """Return what a store holds, as text."""
    held = (
        f"{holds.checkpoints} checkpoints, {format_size(holds.checkpoint_bytes)};"
        f" {holds.savepoints} savepoints, {format_size(holds.savepoint_bytes)}"
    )
    return f"at least {held}" if holds.partial else held


UPKEEP = (
    Upkeep(
        "collection",
        SavepointTask.COLLECT,
        _wait_to_collect,
        _begin_collection,
        _request_collection,
        _finish_collection,
    ),
    Upkeep(
        "measurement",
        SavepointTask.MEASURE,
        _wait_to_measure,
        _begin_measurement,
        lambda observed, _now: {"namespace": observed.resource.metadata.namespace},
        _finish_measurement,
    ),
)
"""In the order in which work that is due at the same time is done."""
