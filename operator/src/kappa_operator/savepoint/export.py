"""Copies of a savepoint in the StateStores of spec.exports: one after another, retried, and given up after some attempts.

Whether the savepoint is Ready does not depend on them; the condition Exported is true when all are there. An attempt is recorded before its
pod is created, and a pod copies only what is not there, so a pod that is lost is created again.
"""

from datetime import datetime

from kappa_crds.conditions import EXPORTED, Condition, ConditionStatus, find_condition
from kappa_crds.quantities import format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import ExportState, ExportStatus, SavepointState
from kappa_crds.savepoint_work import SavepointTask, Work, WorkResult
from kappa_operator import intervals
from kappa_operator.engine.plan import Plan
from kappa_operator.errors import KappaError, ReferenceProblem
from kappa_operator.savepoint.model import (
    SavepointObserved,
    build_condition,
    build_status,
    judge_attempt,
    record,
    say,
    stay,
)
from kappa_operator.savepoint.objects import Elsewhere, SavepointResource, name_savepoint
from kappa_operator.savepoint.work import decide_halt, end_work, fail_work, follow_work, number_work
from kappa_operator.statestore.storage import Storage

_SETTLED = (ExportState.EXPORTED, ExportState.ABANDONED, ExportState.DELETED)
Copies = tuple[ExportStatus, ...]


def list_copies(resource: SavepointResource) -> Copies:
    """Return the progress of each requested copy; one with another request starts again."""
    known = {each.store_ref: each for each in resource.status.exports}
    wanted = []
    for export in resource.spec.exports:
        last = known.get(export.store_ref, ExportStatus(store_ref=export.store_ref))
        if last.request != export.request:
            last = last.replace(
                state=ExportState.PENDING, request=export.request, attempts=0, next_attempt=None, message=""
            )
        wanted.append(last)
    return tuple(wanted)


def is_exported(resource: SavepointResource) -> bool:
    """Return whether nothing is to be done about copies, as far as the resource alone shows."""
    copies, condition = list_copies(resource), find_condition(resource.status.conditions, EXPORTED)
    is_told = copies == resource.status.exports and (condition is not None) == bool(copies)
    return is_told and all(copy.state in _SETTLED for copy in copies)


def decide_export(observed: SavepointObserved, now: datetime) -> Plan:
    """Have the savepoint copied where it is missing, and report the progress."""
    work, copies = observed.work, list_copies(observed.resource)
    if work is not None:
        return _follow(observed, copies, work, now)
    if is_exported(observed.resource):
        return Plan()
    due = next((copy for copy in copies if _is_due(observed, copy, now)), None)
    return _report(observed, copies, now) if due is None else _begin(observed, copies, due, now)


def _is_due(observed: SavepointObserved, copy: ExportStatus, now: datetime) -> bool:
    is_pending = copy.state not in _SETTLED and (copy.next_attempt is None or copy.next_attempt <= now)
    return is_pending and _find_problem(observed, copy) is None


def _find_problem(observed: SavepointObserved, copy: ExportStatus) -> KappaError | None:
    """Return what keeps a copy from being made, where a pod need not find it out."""
    if observed.status.state == SavepointState.DAMAGED:
        message = "the savepoint is damaged, and is not exported"
        return ReferenceProblem(message, reason=Reason.SAVEPOINT_DAMAGED)
    if isinstance(observed.storage, KappaError):
        return observed.storage
    target = observed.copies[copy.store_ref]
    if isinstance(target, KappaError):
        return target
    if target.is_same(observed.storage):
        message = f"the savepoint is in StateStore {copy.store_ref} already; remove it from spec.exports"
        return ReferenceProblem(message, reason=Reason.INVALID_SPEC)
    return None


def _begin(observed: SavepointObserved, copies: Copies, due: ExportStatus, now: datetime) -> Plan:
    target = observed.copies[due.store_ref]
    folder = None if isinstance(target, KappaError) else find_elsewhere(observed, target).locate(target.root)
    begun = due.replace(
        state=ExportState.COPYING,
        attempts=due.attempts + 1,
        next_attempt=None,
        location=folder and f"{folder}/{name_savepoint(observed.resource.metadata)}",
        message=f"a pod copies what is not there yet of {format_size(observed.status.size_bytes or 0)}",
    )
    work = number_work(observed, SavepointTask.EXPORT, now, due.store_ref)
    return _record(observed, copies, begun, work, now, requeue=True)


def _follow(observed: SavepointObserved, copies: Copies, work: Work, now: datetime) -> Plan:
    copy = next((copy for copy in copies if copy.store_ref == work.store), None)
    if copy is None or copy.state is not ExportState.COPYING:
        return decide_halt(observed, work, "the export is not requested any more, or is requested again")
    target, pod = observed.copies[copy.store_ref], observed.worker
    if isinstance(target, Storage):
        elsewhere = find_elsewhere(observed, target)
        result = follow_work(observed, work, stay(observed), now, elsewhere=elsewhere)
    elif pod is None:
        result = fail_work(target.message)
    else:
        result = pod.result or Plan(requeue_after=intervals.WORKING)
    if isinstance(result, WorkResult):
        return _record(observed, copies, _end(observed, copy, result, now), end_work(work), now)
    if pod is None or pod.waits is None:
        return result
    waiting = copy.replace(message=f"pod {pod.ref.name} waits: {pod.waits}")
    return _report(observed, _put(copies, waiting), now)


def _end(observed: SavepointObserved, copy: ExportStatus, result: WorkResult, now: datetime) -> ExportStatus:
    """Return how an attempt ended, and when the next one is due; after some attempts the copy is given up."""
    if result.taken is not None:
        at, copied = now.replace(microsecond=0), result.taken.copied_bytes
        return copy.replace(state=ExportState.EXPORTED, exported=at, copied_bytes=copied, message="")
    remedy = "change request of this export"
    due, message = judge_attempt(observed, copy.attempts, result.problem, remedy, now)
    state = ExportState.ABANDONED if due is None else ExportState.PENDING
    return copy.replace(state=state, next_attempt=due, message=message)


def _record(
    observed: SavepointObserved,
    copies: Copies,
    copy: ExportStatus,
    work: Work,
    now: datetime,
    *,
    requeue: bool = False,
) -> Plan:
    copies = _put(copies, copy)
    more = _judge_copies(observed, copies, now)
    return record(observed, stay(observed), now, requeue=requeue, more=more, work=work, exports=copies)


def _put(copies: Copies, copy: ExportStatus) -> Copies:
    return tuple(copy if each.store_ref == copy.store_ref else each for each in copies)


def _report(observed: SavepointObserved, copies: Copies, now: datetime) -> Plan:
    """Report the progress of the copies, and requeue when one is due."""
    if not copies:
        written = build_status(observed, stay(observed), now, exports=())
        kept = tuple(each for each in written.conditions if each.type != EXPORTED)
        return Plan(status=written.replace(conditions=kept))
    waits = [(copy.next_attempt - now).total_seconds() for copy in copies if copy.next_attempt]
    is_damaged = observed.status.state == SavepointState.DAMAGED  # until a new verification
    if not is_damaged and any(copy.state not in _SETTLED and copy.next_attempt is None for copy in copies):
        waits.append(intervals.SOON if observed.work is None else intervals.WORKING)
    condition = _judge_copies(observed, copies, now)
    wait = max(0.0, min(waits)) if waits else None
    return say(observed, stay(observed), now, wait, more=condition, exports=copies)


def _judge_copies(observed: SavepointObserved, copies: Copies, now: datetime) -> Condition:
    status, reason, message = _judge(observed, copies)
    return build_condition(observed, EXPORTED, status, (reason, message), now)


def _judge(observed: SavepointObserved, copies: Copies) -> tuple[ConditionStatus, Reason, str]:
    if all(copy.state is ExportState.EXPORTED for copy in copies):
        places = "; ".join(f"{copy.location} of StateStore {copy.store_ref}" for copy in copies)
        return "True", Reason.SAVEPOINT_EXPORTED, places
    open_ = [copy for copy in copies if copy.state is not ExportState.EXPORTED]
    message = "; ".join(f"to StateStore {copy.store_ref}: {_explain(observed, copy)}" for copy in open_)
    if any(copy.state is ExportState.ABANDONED for copy in open_):
        return "False", Reason.EXPORT_ABANDONED, message
    problem = _find_problem(observed, open_[0])
    if problem is not None and open_[0].state is not ExportState.COPYING:
        return "False", problem.reason, message
    failed = any(copy.next_attempt is not None for copy in open_)
    return "False", Reason.EXPORT_FAILED if failed else Reason.SAVEPOINT_EXPORTING, message


def _explain(observed: SavepointObserved, copy: ExportStatus) -> str:
    problem = _find_problem(observed, copy)
    if problem is None or copy.state is not ExportState.PENDING:
        return copy.message or "waits for its turn"
    return problem.message


def find_elsewhere(observed: SavepointObserved, target: Storage) -> Elsewhere:
    """Return where copies are in another store: in a folder as the savepoint itself."""
    return Elsewhere(target, observed.resource.metadata.namespace, observed.resource.spec.pipeline_ref)
