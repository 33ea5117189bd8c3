"""Checks of a state store: a pod in its namespace writes, reads and deletes there with the code of a driver.

The operator itself never connects to a store. The number of a check is recorded before its pod is created, and the pod's name holds it,
so that creating it twice creates one. The result of a check holds while the next one is under way.
"""

from dataclasses import replace
from datetime import datetime

from kappa_crds.conditions import Condition
from kappa_crds.progress import DriverExit
from kappa_crds.quantities import format_duration, format_size, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import SavepointTask, WorkResult
from kappa_operator import intervals
from kappa_operator.engine.actions import DeleteObject, RecordStatus
from kappa_operator.engine.plan import Plan, Verdict, judge_error, ready, working
from kappa_operator.savepoint.model import WorkerPod
from kappa_operator.statestore.model import StateStoreObserved, get_ready, get_wait, is_unseen, report
from kappa_operator.statestore.objects import build_storage
from kappa_operator.statestore.pods import create_pod, find_refusal
from kappa_operator.statestore.pvc import judge_size

PATIENCE = 20.0
LONGEST_CHECK = 300.0
_REASONS = (Reason.STORE_FULL, Reason.BUCKET_NOT_FOUND)
"""Reasons that a pod may report; all others are a failed check."""


def decide_check(observed: StateStoreObserved, now: datetime) -> Plan:
    """Check the store when that is due: at each interval, and when its settings or credentials changed."""
    if observed.checker is not None:
        return _follow(observed, observed.checker, now)
    wait = get_wait(observed.resource, observed.fingerprint, now)
    return _rest(observed, wait, now) if wait > 0 else _begin(observed, now)


def _begin(observed: StateStoreObserved, now: datetime) -> Plan:
    status, number = observed.resource.status, observed.resource.status.check or 0
    if observed.problem is not None:
        return _report_failure(observed, judge_error("Failed", observed.problem), now)
    refused = find_refusal(observed, SavepointTask.CHECK, number)
    if refused is not None:
        verdict = judge_error("Failed", refused.error, Reason.STORE_CHECK_FAILED)
        return _report_failure(observed, verdict, now)
    record = RecordStatus(status.replace(check=number + 1, check_fingerprint=observed.fingerprint))
    name = f"_kappa/check-{observed.resource.metadata.uid}"
    return Plan((record, *create_pod(observed, SavepointTask.CHECK, number + 1, name=name)), requeue=True)


def _report_failure(observed: StateStoreObserved, verdict: Verdict, now: datetime) -> Plan:
    """Report that no pod can check the store. The next attempt waits as after a check that failed."""
    return report(
        observed, verdict, now, intervals.FAILED,
        **_note_end(observed, now), check_fingerprint=observed.fingerprint,
    )  # fmt: skip


def _note_end(observed: StateStoreObserved, now: datetime) -> dict[str, object]:
    return {"last_check": now.replace(microsecond=0), "checked": observed.resource.status.check}


def _follow(observed: StateStoreObserved, pod: WorkerPod, now: datetime) -> Plan:
    if observed.resource.status.check_fingerprint != observed.fingerprint:
        why = "the settings or credentials of the store changed"
        return Plan((DeleteObject(pod.ref, pod.uid, why),), requeue=True)
    age = (now - pod.created).total_seconds()
    if pod.result is not None:
        return _finish(observed, pod, pod.result, now)
    if age > LONGEST_CHECK:
        late = (
            f"the check did not end within {format_duration(LONGEST_CHECK)}: {pod.waits or 'no reason given'}"
        )
        failure = DriverExit(reason=Reason.STORE_CHECK_FAILED, message=late)
        return _finish(observed, pod, WorkResult(failure=failure), now)
    if _still_holds(observed, get_ready(observed.resource), age):
        return Plan(requeue_after=intervals.WORKING)
    is_late = pod.waits and age > PATIENCE
    message = f"the check waits: {pod.waits}" if is_late else "the check is under way"
    verdict = working("Provisioning", Reason.STORE_PROVISIONING, message)
    return report(observed, verdict, now, intervals.WORKING)


def _still_holds(observed: StateStoreObserved, condition: Condition | None, age: float) -> bool:
    """Return whether the result of the previous check still holds: a success does, a failure for a while."""
    if condition is None or observed.resource.status.last_check is None:
        return False
    return condition.status == "True" or age <= PATIENCE


def _finish(observed: StateStoreObserved, pod: WorkerPod, result: WorkResult, now: datetime) -> Plan:
    verdict = _judge(observed, result)
    every = parse_duration(observed.resource.spec.check_interval)
    requeue = every if verdict.ready == "True" else min(every, intervals.FAILED)
    free = result.checked and result.checked.free_bytes
    plan = report(observed, verdict, now, requeue, **_note_end(observed, now), free_bytes=free)
    return replace(plan, actions=(DeleteObject(pod.ref, pod.uid, "the check has ended"),))


def _judge(observed: StateStoreObserved, result: WorkResult) -> Verdict:
    if result.checked is None:
        found = result.failure.reason if result.failure else None
        reason = found if found in _REASONS else Reason.STORE_CHECK_FAILED
        return working("Failed", reason, result.problem)
    refused = judge_size(observed)
    if refused is not None:
        return refused
    free = result.checked.free_bytes
    more = "" if free is None else f"; {format_size(free)} free"
    return ready("Ready", Reason.STORE_VERIFIED, f"1 MiB was written, read back and deleted{more}")


def _rest(observed: StateStoreObserved, wait: float, now: datetime) -> Plan:
    resource = observed.resource
    if build_storage(resource).secret is not None:
        wait = min(wait, intervals.WAITING)  # no event reports that a Secret changed
    refused, condition = judge_size(observed), get_ready(resource)
    if refused is not None:
        return report(observed, refused, now, wait)
    if is_unseen(resource) and condition is not None and condition.status == "True":
        # The result of the last check holds for the changed spec too: nothing in it names another store.
        return report(observed, ready("Ready", condition.reason, condition.message), now, wait)
    return Plan(requeue_after=wait)
