"""What to do when a `Savepoint` is deleted: have a pod delete its files, or report what blocks that.

No driver may still take it, or deleted files would come back; and no pipeline may still need to restore from it. A condition reports
what blocks the deletion, and the policy Retain always unblocks it.
"""

from datetime import datetime

from kappa_crds.quantities import format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, ExportState, ExportStatus, SavepointState
from kappa_crds.savepoint_work import Removal, SavepointTask, Work, WorkRequest, WorkResult
from kappa_crds.topic import DeletionPolicy
from kappa_operator import intervals
from kappa_operator.engine.actions import Action, DeleteObject, EmitEvent, RecordStatus, RemoveFinalizer
from kappa_operator.engine.plan import Plan, stalled, working
from kappa_operator.errors import KappaError
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.savepoint.export import find_elsewhere
from kappa_operator.savepoint.model import (
    SavepointObserved,
    build_status,
    find_next_attempt,
    measure_wait,
    say,
)
from kappa_operator.savepoint.objects import name_savepoint
from kappa_operator.savepoint.work import (
    begin_work,
    decide_halt,
    end_work,
    find_location,
    follow_work,
    name_worker,
)
from kappa_operator.statestore.storage import Storage

_WAY_OUT = "or set spec.deletionPolicy to Retain to keep the files and delete only this resource"
_COPY_WAY_OUT = "or set deletionPolicy of that export to Retain to keep the copy"


def delete_savepoint(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Delete the savepoint's files and release the resource, or report what blocks that; None while the resource is not deleted."""
    resource, status, work = observed.resource, observed.status, observed.work
    if resource.metadata.deletion_timestamp is None:
        return None
    if SAVEPOINT_FINALIZER not in resource.metadata.finalizers:
        return Plan()
    retains = resource.spec.deletion_policy is DeletionPolicy.RETAIN
    copy = _find_copy(observed)
    if retains and copy is None:
        return _release(observed, Reason.RETAINED, f"the files of {_where(observed)} stay")
    if status.taken is None and status.attempts == 0:
        return Plan((RemoveFinalizer(SAVEPOINT_FINALIZER),))
    if work is not None and (
        work.task is not SavepointTask.DELETE or work.store != (copy and copy.store_ref)
    ):
        return decide_halt(observed, work)
    if observed.unreadable and not _has_begun(observed):
        names = ", ".join(observed.unreadable)
        message = f"Pipeline {names} is invalid, so whether it needs the savepoint is unknown; correct it"
        return _block(observed, Reason.SAVEPOINT_IN_USE, message, now)
    taker = _find_taker(observed)
    if taker is not None:
        message = f"driver {taker.ref.name} may still be taking it; wait until it has ended that, or suspend the pipeline"
        return _block(observed, Reason.DELETION_BLOCKED, message, now)
    if observed.awaited_by and not _has_begun(observed):
        names = ", ".join(observed.awaited_by)
        message = f"Pipeline {names} is to be restored from it; wait until that is done, remove it from spec.restore"
        return _block(observed, Reason.SAVEPOINT_IN_USE, message, now)
    if copy is not None:
        return _delete_copy(observed, copy, now)
    if observed.lost:
        return _release(
            observed, Reason.DELETED, f"the {_name_place(observed)} with {_where(observed)} is gone"
        )
    if isinstance(observed.storage, KappaError):
        return _block(observed, Reason.DELETION_BLOCKED, f"{observed.storage.message}; fix that", now)
    return _begin(observed, now) if work is None else _follow(observed, work, now)


def _find_taker(observed: SavepointObserved) -> DriverPod | None:
    """Return the driver that has a request for the savepoint and does not report that it is done."""
    if observed.status.taken is not None:
        return None
    takers = (pod for pod in observed.drivers if pod.ref.name == observed.status.driver and not pod.finished)
    taker, reported = next(takers, None), observed.reported
    is_over = observed.progress is not None and (reported is None or reported.done)
    return None if is_over else taker


def _has_begun(observed: SavepointObserved) -> bool:
    """Return whether a pod deletes it: from then on no pipeline starts to restore from it."""
    work = observed.status.work
    return work is not None and work.task is SavepointTask.DELETE


def _find_copy(observed: SavepointObserved) -> ExportStatus | None:
    """Return the first copy that goes with the resource and is not gone yet."""
    policies = {each.store_ref: each.deletion_policy for each in observed.resource.spec.exports}
    return next(
        (
            copy
            for copy in observed.status.exports
            if copy.attempts > 0
            and copy.state is not ExportState.DELETED
            and policies.get(copy.store_ref) is DeletionPolicy.DELETE
        ),
        None,
    )


def _delete_copy(observed: SavepointObserved, copy: ExportStatus, now: datetime) -> Plan:
    """Have a pod delete a copy in another StateStore, and record that it is gone."""
    target, work = observed.copies[copy.store_ref], observed.work
    if isinstance(target, KappaError):
        return _block(observed, Reason.DELETION_BLOCKED, f"{target.message}; fix that", now)
    if work is None:
        return _begin(observed, now, copy.store_ref)
    location = find_elsewhere(observed, target).locate(target.root)
    result = _ask_pod(observed, work, location, now, target)
    if isinstance(result, Plan):
        return result
    if result.removed is None:
        return _fail(observed, work, result, now)
    gone = copy.replace(state=ExportState.DELETED)
    copies = tuple(gone if each.store_ref == copy.store_ref else each for each in observed.status.exports)
    verdict = working(
        SavepointState.DELETING, Reason.SAVEPOINT_DELETING, f"its copy in {copy.store_ref} is deleted"
    )
    written = build_status(observed, verdict, now, exports=copies, work=end_work(work))
    return Plan((RecordStatus(written),), requeue_after=intervals.WORKING)


def _begin(observed: SavepointObserved, now: datetime, store: str | None = None) -> Plan:
    wait = measure_wait(observed, now) if observed.status.state == SavepointState.DELETING else 0.0
    if wait > 0:
        return Plan(requeue_after=wait)
    what = "its files" if store is None else f"its copy in StateStore {store}"
    verdict = working(SavepointState.DELETING, Reason.SAVEPOINT_DELETING, f"a pod deletes {what}")
    return begin_work(observed, SavepointTask.DELETE, verdict, now, store=store)


def _follow(observed: SavepointObserved, work: Work, now: datetime) -> Plan:
    location = observed.status.location or find_location(observed)
    result = _ask_pod(observed, work, location, now)
    if isinstance(result, Plan):
        return result
    if result.removed is not None:
        return _release(observed, Reason.DELETED, _describe(observed, result.removed))
    return _fail(observed, work, result, now)


def _ask_pod(
    observed: SavepointObserved, work: Work, location: str, now: datetime, storage: Storage | None = None
) -> Plan | WorkResult:
    """Return how a pod deleted the savepoint below a location, in its own store or another; or what to do until then."""
    request = WorkRequest(
        task=SavepointTask.DELETE,
        name=name_savepoint(observed.resource.metadata),
        location=location,
        # Checkpoints are made of the savepoint itself, never of a copy.
        needed_by=() if storage else observed.needed_by,
    )
    verdict = working(
        SavepointState.DELETING,
        Reason.SAVEPOINT_DELETING,
        f"pod {name_worker(observed, work)} deletes its files",
    )
    return follow_work(observed, work, request, verdict, now, storage=storage)


def _fail(observed: SavepointObserved, work: Work, result: WorkResult, now: datetime) -> Plan:
    """Record that a pod could not delete it, and try again later. In a namespace that goes, no pod can be made any more."""
    failure = result.failure
    message = failure.message if failure else "the pod ended without a message"
    if "because it is being terminated" in message:
        return _release(
            observed,
            Reason.RETAINED,
            f"the namespace goes, and {_where(observed)} with its {_name_place(observed)}",
        )
    reason = failure.reason if failure else Reason.DELETION_BLOCKED
    written = build_status(
        observed, stalled(SavepointState.DELETING, reason, f"{message}; fix that, {_say_way_out(observed)}"), now,
        work=end_work(work), next_attempt=find_next_attempt(observed, observed.status.attempts, now),
    )  # fmt: skip
    return Plan((RecordStatus(written),), requeue_after=intervals.WORKING)


def _block(observed: SavepointObserved, reason: Reason, message: str, now: datetime) -> Plan:
    return say(
        observed,
        stalled(SavepointState.DELETING, reason, f"{message}, {_say_way_out(observed)}"),
        now,
        intervals.SOON,
    )


def _say_way_out(observed: SavepointObserved) -> str:
    """Return how to let the resource go without what is in the way; copies are deleted before the savepoint itself."""
    return _WAY_OUT if _find_copy(observed) is None else _COPY_WAY_OUT


def _release(observed: SavepointObserved, reason: Reason, message: str) -> Plan:
    pod = observed.worker
    actions: tuple[Action, ...] = () if pod is None else (DeleteObject(pod.ref, pod.uid, "its work is done"),)
    return Plan((*actions, EmitEvent(reason, message), RemoveFinalizer(SAVEPOINT_FINALIZER)))


def _describe(observed: SavepointObserved, removed: Removal) -> str:
    if removed.postponed:
        freed = f"what only it needed is freed with the next savepoint that is deleted: {removed.postponed}"
    else:
        freed = f"{removed.objects} files and {format_size(removed.size_bytes)} that only it needed are free"
    return f"{_where(observed)} is deleted; {freed}"


def _where(observed: SavepointObserved) -> str:
    known = isinstance(observed.storage, Storage)
    location = observed.status.location or (find_location(observed) if known else "its store")
    return f"{location}/{name_savepoint(observed.resource.metadata)}"


def _name_place(observed: SavepointObserved) -> str:
    return "StateStore" if observed.status.store_name else "claim"
