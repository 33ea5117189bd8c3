"""What to do about a state store on a PersistentVolumeClaim.

A short-lived pod checks the PVC. The number of a check is recorded before its pod is created, and the pod's name
holds it, so that creating it twice creates one. The result of a check holds while the next one is under way.
"""

from dataclasses import replace
from datetime import datetime

from kappa_crds.conditions import Condition
from kappa_crds.quantities import format_duration, format_size, parse_duration, parse_size
from kappa_crds.reasons import Reason
from kappa_crds.statestore import PersistentVolume
from kappa_operator import intervals
from kappa_operator.engine.actions import (
    Action,
    ApplyObject,
    CreateObject,
    DeleteObject,
    EmitEvent,
    RecordStatus,
)
from kappa_operator.engine.plan import (
    Failure,
    Plan,
    Verdict,
    find_failure,
    judge_error,
    ready,
    stalled,
    working,
)
from kappa_operator.statestore.model import (
    Claim,
    Probe,
    ProbeResult,
    StateStoreObserved,
    get_ready,
    get_wait,
    is_unseen,
    report,
)
from kappa_operator.statestore.objects import build_claim, build_probe, name_claim

PATIENCE = 20.0
LONGEST_CHECK = 300.0


def decide_claim(observed: StateStoreObserved, now: datetime) -> Plan:
    """Create or grow the PVC, then check it when that is due."""
    pvc = observed.resource.spec.pvc
    assert pvc is not None  # noqa: S101 - the caller checked
    if observed.claim is None or observed.claim.deleting:
        return _decide_missing(observed, pvc, now)
    if _differs_in_size(pvc, observed.claim) and find_failure(observed.failures, ApplyObject) is None:
        return Plan((ApplyObject(build_claim(observed.resource, pvc)),), requeue=True)
    if observed.probe is not None:
        return _decide_running_check(observed, observed.probe, now)
    wait = get_wait(observed.resource, now)
    return _decide_idle(observed, wait, now) if wait > 0 else _start_check(observed, now)


def _differs_in_size(pvc: PersistentVolume, claim: Claim) -> bool:
    return pvc.size is not None and parse_size(pvc.size) != claim.size


def _decide_missing(observed: StateStoreObserved, pvc: PersistentVolume, now: datetime) -> Plan:
    name = name_claim(observed.resource)
    if observed.claim is not None:
        message = f"PVC {name} is being deleted, with all state; wait for that, or delete the pods that still use it"
        return report(observed, working("Failed", Reason.PVC_NOT_FOUND, message), now, intervals.FAILED)
    if pvc.size is None:
        message = f'PVC "{name}" not found; create it, or set spec.pvc.size and the operator creates one'
        return report(observed, stalled("Failed", Reason.PVC_NOT_FOUND, message), now, intervals.FAILED)
    failure = find_failure(observed.failures, ApplyObject)
    if failure is not None:
        return _report_failure(observed, failure, now)
    actions: list[Action] = [ApplyObject(build_claim(observed.resource, pvc))]
    if observed.resource.status.last_check is not None:
        lost = f"PVC {name} was deleted from outside, with all state; a new, empty one is created"
        actions.append(EmitEvent(Reason.PVC_NOT_FOUND, lost, True))
    return Plan(tuple(actions), requeue=True)


def _start_check(observed: StateStoreObserved, now: datetime) -> Plan:
    failure = find_failure(observed.failures, CreateObject)
    if failure is not None:
        return _report_failure(observed, failure, now)
    number = (observed.resource.status.check or 0) + 1
    pod = build_probe(observed.resource, number, observed.image, observed.pull_policy, observed.node)
    record = RecordStatus(observed.resource.status.replace(check=number))
    return Plan((record, CreateObject(pod)), requeue=True)


def _decide_running_check(observed: StateStoreObserved, probe: Probe, now: datetime) -> Plan:
    age = (now - probe.created).total_seconds()
    if probe.result is not None:
        return _finish_check(observed, probe, probe.result, now)
    if age > LONGEST_CHECK:
        late = f"the check did not end within {format_duration(LONGEST_CHECK)}: {probe.waits or 'no reason given'}"
        return _finish_check(observed, probe, ProbeResult(ok=False, message=late), now)
    condition = get_ready(observed.resource)
    if condition is not None and _still_holds(condition, age):
        return Plan(requeue_after=intervals.WORKING)
    is_late = probe.waits and age > PATIENCE
    message = f"the check waits: {probe.waits}" if is_late else "the check is under way"
    return report(
        observed, working("Provisioning", Reason.STORE_PROVISIONING, message), now, intervals.WORKING
    )


def _still_holds(condition: Condition, age: float) -> bool:
    """Return whether the result of the previous check still holds: a success does, a failure for a while."""
    failed = condition.reason in (Reason.STORE_FULL, Reason.STORE_CHECK_FAILED)
    return condition.status == "True" or (failed and age <= PATIENCE)


def _finish_check(observed: StateStoreObserved, probe: Probe, result: ProbeResult, now: datetime) -> Plan:
    verdict = _judge(observed, result)
    every = parse_duration(observed.resource.spec.check_interval)
    requeue = every if verdict.ready == "True" else min(every, intervals.FAILED)
    at = now.replace(microsecond=0)
    plan = report(observed, verdict, now, requeue, last_check=at, free_bytes=result.free_bytes)
    return replace(plan, actions=(DeleteObject(probe.ref, probe.uid, "the check has ended"),))


def _judge(observed: StateStoreObserved, result: ProbeResult) -> Verdict:
    if not result.ok:
        return working("Failed", result.reason, result.message)
    refused = find_failure(observed.failures, ApplyObject)
    if refused is not None:
        return _judge_size(refused)
    free = "" if result.free_bytes is None else f"; {format_size(result.free_bytes)} free"
    return ready("Ready", Reason.STORE_VERIFIED, f"1 MiB was written, read back and deleted{free}")


def _judge_size(refused: Failure) -> Verdict:
    """The API server refused another size of the PVC; the store itself still works."""
    say = working if refused.error.retryable else stalled
    return say(
        "Failed", Reason.STORE_SIZE_REFUSED, f"the size of the PVC cannot change: {refused.error.message}"
    )


def _decide_idle(observed: StateStoreObserved, wait: float, now: datetime) -> Plan:
    refused = find_failure(observed.failures, ApplyObject)
    if refused is not None:
        return report(observed, _judge_size(refused), now, wait)
    condition = get_ready(observed.resource)
    if is_unseen(observed.resource) and condition is not None and condition.status == "True":
        # The result of the last check holds for the changed spec too: nothing in it names another PVC.
        return report(observed, ready("Ready", condition.reason, condition.message), now, wait)
    return Plan(requeue_after=wait)


def _report_failure(observed: StateStoreObserved, failure: Failure, now: datetime) -> Plan:
    verdict = judge_error("Failed", failure.error, Reason.STORE_CHECK_FAILED)
    return report(observed, verdict, now, intervals.FAILED)
