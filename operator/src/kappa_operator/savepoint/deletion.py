"""What to do when a `Savepoint` is deleted: have a pod delete its files, or report what blocks that.

No driver may still take it, or deleted files would come back; and no pipeline may still need to restore from it. A condition reports
what blocks the deletion, and the policy Retain always unblocks it.
"""

from datetime import datetime

from kappa_crds.quantities import format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, ExportState, ExportStatus, SavepointState
from kappa_crds.savepoint_work import Removal, SavepointTask, Work, WorkResult
from kappa_crds.topic import DeletionPolicy
from kappa_operator import intervals
from kappa_operator.engine.actions import Action, DeleteObject, EmitEvent, RemoveFinalizer
from kappa_operator.engine.plan import Plan, stalled, working
from kappa_operator.engine.work_pods import is_namespace_deleted
from kappa_operator.errors import KappaError
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.savepoint.export import find_elsewhere
from kappa_operator.savepoint.model import SavepointObserved, find_next_attempt, record, say
from kappa_operator.savepoint.objects import build_worker_ref, name_savepoint
from kappa_operator.savepoint.work import begin_work, decide_halt, end_work, find_location, follow_work
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
    if copy is None and observed.lost:
        return _release(
            observed, Reason.DELETED, f"the {_name_place(observed)} with {_where(observed)} is gone"
        )
    storage = observed.storage if copy is None else observed.copies[copy.store_ref]
    if isinstance(storage, KappaError):
        return _block(observed, Reason.DELETION_BLOCKED, f"{storage.message}; fix that", now)
    return _begin(observed, copy, now) if work is None else _follow(observed, copy, storage, work, now)


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


def _begin(observed: SavepointObserved, copy: ExportStatus | None, now: datetime) -> Plan:
    what = "its files" if copy is None else f"its copy in StateStore {copy.store_ref}"
    verdict = working(SavepointState.DELETING, Reason.SAVEPOINT_DELETING, f"a pod deletes {what}")
    return begin_work(observed, SavepointTask.DELETE, verdict, now, store=copy.store_ref if copy else None)


def _follow(
    observed: SavepointObserved, copy: ExportStatus | None, storage: Storage, work: Work, now: datetime
) -> Plan:
    """Follow the pod that deletes the savepoint, or a copy in another StateStore, and record that it is gone."""
    message = f"pod {build_worker_ref(observed.resource, work).name} deletes its files"
    verdict = working(SavepointState.DELETING, Reason.SAVEPOINT_DELETING, message)
    if copy is None:
        result = follow_work(observed, work, verdict, now, needed_by=observed.needed_by)
    else:  # checkpoints are made of the savepoint itself, never of a copy
        location = find_elsewhere(observed, storage).locate(storage.root)
        result = follow_work(observed, work, verdict, now, storage=storage, location=location)
    if isinstance(result, Plan):
        return result
    if result.removed is None:
        return _fail(observed, work, result, now)
    if copy is None:
        return _release(observed, Reason.DELETED, _describe(observed, result.removed))
    gone = copy.replace(state=ExportState.DELETED)
    copies = tuple(gone if each.store_ref == copy.store_ref else each for each in observed.status.exports)
    message = f"its copy in {copy.store_ref} is deleted"
    verdict = working(SavepointState.DELETING, Reason.SAVEPOINT_DELETING, message)
    return record(observed, verdict, now, exports=copies, work=end_work(work))


def _fail(observed: SavepointObserved, work: Work, result: WorkResult, now: datetime) -> Plan:
    """Record that a pod could not delete it, and try again later. In a namespace that goes, no pod can be created any more."""
    if is_namespace_deleted(result.problem):
        return _release(
            observed,
            Reason.RETAINED,
            f"the namespace goes, and {_where(observed)} with its {_name_place(observed)}",
        )
    reason = result.failure.reason if result.failure else Reason.DELETION_BLOCKED
    message = f"{result.problem}; fix that, {_say_way_out(observed)}"
    due = find_next_attempt(observed, observed.status.attempts, now)
    verdict = stalled(SavepointState.DELETING, reason, message)
    return record(observed, verdict, now, work=end_work(work), next_attempt=due)


def _block(observed: SavepointObserved, reason: Reason, message: str, now: datetime) -> Plan:
    verdict = stalled(SavepointState.DELETING, reason, f"{message}, {_say_way_out(observed)}")
    return say(observed, verdict, now, intervals.SOON)


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
