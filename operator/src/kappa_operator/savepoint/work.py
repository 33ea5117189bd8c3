"""Pieces of work that a pod does: recorded before the pod is created, and the pod is deleted after its result is recorded.

The pod's name holds the number of the work, so that creating it twice creates one; and each kind of work may be done twice, so that a
pod that is lost is created again. An attempt that failed is followed by another one after a pause, and at last by none.
"""

from datetime import datetime
from typing import Any

from kappa_crds.conditions import Condition
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import OtherPlace, SavepointTask, Work, WorkRequest, WorkResult, WorkState
from kappa_operator import intervals
from kappa_operator.engine.actions import ApplyObject, CreateObject, DeleteObject, RecordStatus
from kappa_operator.engine.plan import Plan, Verdict, find_failure, working
from kappa_operator.savepoint.model import SavepointObserved, record, say
from kappa_operator.savepoint.objects import (
    SAVEPOINT_LABEL,
    WORKER_ROLE,
    Elsewhere,
    build_location,
    build_worker,
    name_savepoint,
)
from kappa_operator.savepoint.worker import Placement
from kappa_operator.statestore.network import build_worker_policy
from kappa_operator.statestore.storage import Storage, build_pair


def begin_work(
    observed: SavepointObserved,
    task: SavepointTask,
    verdict: Verdict,
    now: datetime,
    *,
    more: Condition | None = None,
    store: str | None = None,
) -> Plan:
    """Record a piece of work before its pod is created, as soon as the pause after a failure is over.

    `more` is a condition that changes with it, `store` a StateStore besides the savepoint's.
    """
    status, last = observed.status, observed.status.work
    wait = intervals.wait_until(status.next_attempt, now)
    is_taking = task in (SavepointTask.TAKE, SavepointTask.IMPORT)
    if wait > 0 and (is_taking or (last is not None and last.task is task)):
        return Plan(requeue_after=wait)
    again = is_taking or (
        status.next_attempt is not None and last is not None and (last.task, last.store) == (task, store)
    )
    return record(
        observed, verdict, now, requeue=True, more=more, work=number_work(observed, task, now, store),
        attempts=status.attempts + 1 if again else 1, next_attempt=None, driver=None,
        location=status.location or find_location(observed),
        **observed.place,
    )  # fmt: skip


def number_work(
    observed: SavepointObserved, task: SavepointTask, now: datetime, store: str | None = None
) -> Work:
    """Return the next piece of work."""
    last = observed.status.work
    number = 1 if last is None else last.number + 1
    return Work(number=number, task=task, store=store, since=now.replace(microsecond=0))


def follow_work(
    observed: SavepointObserved,
    work: Work,
    verdict: Verdict,
    now: datetime,
    *,
    storage: Storage | None = None,
    elsewhere: Elsewhere | None = None,
    **fields: Any,
) -> Plan | WorkResult:
    """Return the result of the work, or what to do until there is one. `verdict` is reported while it is under way.

    It is done in the savepoint's own store, or in `storage`, and with what is `elsewhere`. `fields` are more of the pod's request.
    """
    pod = observed.worker
    if pod is None:
        failure = find_failure(observed.failures, CreateObject) or find_failure(
            observed.failures, ApplyObject
        )
        if failure is not None:
            return fail_work(f"the pod cannot be created: {failure.error.message}")
        if len(observed.nodes) > 1:
            return fail_work(_explain_apart(observed))
        return _create(observed, work, storage or _get_storage(observed), elsewhere, fields)
    if pod.result is not None:
        return pod.result
    if work.task in (SavepointTask.VERIFY, SavepointTask.EXPORT):
        return Plan(requeue_after=intervals.WORKING)
    message = f"{verdict.message}; pod {pod.ref.name} waits: {pod.waits}" if pod.waits else verdict.message
    return say(observed, working(verdict.state, verdict.reason, message), now, intervals.WORKING)


def _create(
    observed: SavepointObserved,
    work: Work,
    storage: Storage,
    elsewhere: Elsewhere | None,
    fields: dict[str, Any],
) -> Plan:
    known = {"location": observed.status.location or find_location(observed), **fields}
    name = name_savepoint(observed.resource.metadata)
    takes = work.task is SavepointTask.TAKE and observed.pipeline is not None
    revision = observed.pipeline.status.active.revision if takes and observed.pipeline else None
    storage, other, place = _seat(storage, elsewhere)
    placement = Placement(
        storage, other, next(iter(observed.nodes), None), observed.image, observed.pull_policy, observed.pods
    )
    request = WorkRequest(task=work.task, name=name, other=place, **known)
    pod = build_worker(observed.resource, work, request, placement, revision=revision)
    policy = build_policy(observed, storage, other)
    return Plan((*policy, CreateObject(pod)), requeue_after=intervals.WORKING)


def build_policy(
    observed: SavepointObserved, storage: Storage, other: Storage | None
) -> tuple[ApplyObject, ...]:
    """Return what applies the NetworkPolicy of the pod, by the stores that it reaches; nothing where the installation has none."""
    if observed.network is None:
        return ()
    name = observed.resource.metadata.name
    stores = tuple(each for each in (storage, other) if each is not None)
    selector = {SAVEPOINT_LABEL: name, **WORKER_ROLE}
    owner = observed.resource
    return (ApplyObject(build_worker_policy(owner, f"{name}-savepoint", selector, stores, observed.network)),)


def _seat(storage: Storage, elsewhere: Elsewhere | None) -> tuple[Storage, Storage | None, OtherPlace | None]:
    """Return the two stores as the pod finds them, and where it finds what is elsewhere; that may be in the same store."""
    if elsewhere is None:
        return storage, None, None
    if elsewhere.storage.is_same(storage):
        return storage, None, _locate(elsewhere, storage)
    own, other = build_pair(storage, elsewhere.storage)
    return own, other, _locate(elsewhere, other)


def _locate(elsewhere: Elsewhere, storage: Storage) -> OtherPlace:
    return OtherPlace(location=elsewhere.locate(storage.root), bucket=storage.bucket, hdfs=storage.hdfs)


def _get_storage(observed: SavepointObserved) -> Storage:
    if not isinstance(observed.storage, Storage):
        raise AssertionError("work is begun only where it is known where")
    return observed.storage


def _explain_apart(observed: SavepointObserved) -> str:
    nodes = " and ".join(observed.nodes)
    return f"the claims of both StateStores are mounted on different nodes ({nodes}), and each can be on one only; move a pipeline, or use a bucket"


def fail_work(why: str) -> WorkResult:
    """Return the result of work that no pod can do."""
    return WorkResult(failure=DriverExit(reason=Reason.SAVEPOINT_WORK_FAILED, message=why))


def end_work(work: Work) -> Work:
    """Return the work as it is recorded together with its result; its pod is deleted after that."""
    return work.replace(state=WorkState.ENDED)


def sweep_work(observed: SavepointObserved, _now: datetime) -> Plan | None:
    """Delete the pod of a piece of work whose result is recorded; None where there is none."""
    work, pod = observed.status.work, observed.worker
    if work is None or work.state is not WorkState.ENDED:
        return None
    delete = () if pod is None else (DeleteObject(pod.ref, pod.uid, "its work is done"),)
    swept = observed.status.replace(work=work.replace(state=WorkState.DONE))
    return Plan((*delete, RecordStatus(swept)), requeue=True)


def decide_halt(observed: SavepointObserved, work: Work, why: str = "the savepoint is deleted") -> Plan:
    """Delete a pod whose work is not wanted any more."""
    pod = observed.worker
    if pod is None:
        halted = observed.status.replace(work=work.replace(state=WorkState.DONE))
        return Plan((RecordStatus(halted),), requeue=True)
    return Plan(
        () if pod.deleting else (DeleteObject(pod.ref, pod.uid, why),), requeue_after=intervals.WORKING
    )


def find_location(observed: SavepointObserved) -> str:
    """Return the folder of the pipeline's savepoints."""
    resource = observed.resource
    return build_location(
        _get_storage(observed).root, resource.metadata.namespace, resource.spec.pipeline_ref
    )


def find_source(observed: SavepointObserved) -> Elsewhere | None:
    """Return where the savepoint is brought in from; None where it is in its place already."""
    imported, resource, source = observed.resource.spec.import_, observed.resource, observed.source
    if imported is None or not isinstance(source, Storage) or not isinstance(observed.storage, Storage):
        return None
    namespace = imported.namespace or resource.metadata.namespace
    found = Elsewhere(source, namespace, imported.pipeline or resource.spec.pipeline_ref)
    is_there = source.is_same(observed.storage) and found.locate(source.root) == find_location(observed)
    return None if is_there else found
