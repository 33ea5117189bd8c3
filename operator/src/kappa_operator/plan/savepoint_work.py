"""Pieces of work that a pod does: recorded before the pod is made, and the pod is deleted after its result is.

The pod's name holds the number of the work, so that making it twice makes one; and each kind of work may be done twice, so that a
pod that is lost is made again.
"""

from datetime import datetime

from kappa_crds.conditions import Condition
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import SavepointTask, Work, WorkRequest, WorkResult, WorkState
from kappa_operator.actions import CreateObject, DeleteObject, RecordStatus
from kappa_operator.plan.model import Failure, Plan, Verdict, working
from kappa_operator.plan.savepoint_model import POLL, SavepointObserved, build_status, say
from kappa_operator.resources.savepoint import build_location, build_worker, build_worker_ref
from kappa_operator.resources.storage import Storage
from kappa_operator.resources.worker import Placement


def begin_work(
    observed: SavepointObserved,
    task: SavepointTask,
    verdict: Verdict,
    now: datetime,
    verified: Condition | None = None,
) -> Plan:
    """Record a piece of work before its pod is made. `verified` is the condition of that name, where it changes."""
    status, last = observed.status, observed.status.work
    again = task in (SavepointTask.TAKE, SavepointTask.IMPORT) or (
        status.next_attempt is not None and last is not None and last.task is task
    )
    number = 1 if last is None else last.number + 1
    written = build_status(
        observed, verdict, now, verified=verified,
        work=Work(number=number, task=task, since=now.replace(microsecond=0)),
        attempts=status.attempts + 1 if again else 1, next_attempt=None, driver=None,
        location=status.location or find_location(observed),
        **observed.place,
    )  # fmt: skip
    return Plan((RecordStatus(written),), look_again=True)


def follow_work(
    observed: SavepointObserved, work: Work, request: WorkRequest, verdict: Verdict, now: datetime
) -> Plan | WorkResult:
    """Return the result of the work, or what to do until there is one. `verdict` says what is under way."""
    pod = observed.worker
    if pod is None:
        failure = next((each for each in observed.failures if isinstance(each.action, CreateObject)), None)
        return _make(observed, work, request) if failure is None else _fail(failure)
    if pod.result is not None:
        return pod.result
    if work.task is SavepointTask.VERIFY:
        return Plan(requeue_after=POLL)
    said = f"{verdict.message}; pod {pod.ref.name} waits: {pod.waits}" if pod.waits else verdict.message
    return say(observed, working(verdict.state, verdict.reason, said), now, POLL)


def _make(observed: SavepointObserved, work: Work, request: WorkRequest) -> Plan:
    if not isinstance(observed.storage, Storage):
        raise AssertionError("work is begun only where it is known where")
    takes = work.task is SavepointTask.TAKE and observed.pipeline is not None
    placement = Placement(observed.storage, observed.node, observed.image, observed.pull_policy)
    revision = observed.pipeline.status.revision if takes and observed.pipeline else None
    pod = build_worker(observed.resource, work, request, placement, revision=revision)
    return Plan((CreateObject(pod),), requeue_after=POLL)


def _fail(failure: Failure) -> WorkResult:
    error = failure.error
    said = f"the pod cannot be made: {error.message}"
    return WorkResult(
        failure=DriverExit(reason=Reason.SAVEPOINT_WORK_FAILED, message=said, retryable=error.retryable)
    )


def end_work(work: Work) -> Work:
    """Return the work as it is recorded together with its result; its pod is deleted after that."""
    return work.replace(state=WorkState.ENDED)


def decide_sweep(observed: SavepointObserved) -> Plan | None:
    """Delete the pod of a piece of work whose result is recorded; None where there is none."""
    work, pod = observed.status.work, observed.worker
    if work is None or work.state is not WorkState.ENDED:
        return None
    delete = () if pod is None else (DeleteObject(pod.ref, pod.uid, "its work is done"),)
    swept = observed.status.replace(work=work.replace(state=WorkState.DONE))
    return Plan((*delete, RecordStatus(swept)), look_again=True)


def decide_halt(observed: SavepointObserved, work: Work) -> Plan:
    """Have a pod be gone that works on what is not wanted any more."""
    pod = observed.worker
    if pod is None:
        halted = observed.status.replace(work=work.replace(state=WorkState.DONE))
        return Plan((RecordStatus(halted),), look_again=True)
    why = "the savepoint is deleted"
    return Plan(() if pod.deleting else (DeleteObject(pod.ref, pod.uid, why),), requeue_after=POLL)


def find_location(observed: SavepointObserved) -> str:
    """Return the folder of the pipeline's savepoints."""
    resource = observed.resource
    if not isinstance(observed.storage, Storage):
        raise AssertionError("nothing is asked for before it is known where")
    return build_location(observed.storage.root, resource.metadata.namespace, resource.spec.pipeline_ref)


def name_worker(observed: SavepointObserved, work: Work) -> str:
    """Return the name of the pod for a piece of work, for people."""
    return build_worker_ref(observed.resource, work).name
