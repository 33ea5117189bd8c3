"""Reading a savepoint back, once for each value of spec.verify: the condition Verified is the result.

One that is damaged is not Ready any more, so that nothing is restored from it.
"""

from datetime import datetime
from typing import Any

from kappa_crds.conditions import VERIFIED, Condition
from kappa_crds.quantities import format_count, format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SavepointState, Verify
from kappa_crds.savepoint_work import SavepointTask, Verification, VerifyBy, Work, WorkRequest, WorkResult
from kappa_operator import intervals
from kappa_operator.engine.actions import RecordStatus
from kappa_operator.engine.plan import Plan, Verdict, ready, stalled
from kappa_operator.errors import KappaError
from kappa_operator.savepoint.model import (
    MOST_ATTEMPTS,
    SavepointObserved,
    build_condition,
    build_status,
    find_next_attempt,
    measure_wait,
    say,
    stay,
)
from kappa_operator.savepoint.objects import name_savepoint
from kappa_operator.savepoint.work import begin_work, end_work, find_location, follow_work


def decide_verification(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Have the savepoint read back where that is requested, and report the result; None where there is nothing to do."""
    wanted, work = observed.resource.spec.verify, observed.work
    if work is not None and work.task is SavepointTask.VERIFY:
        return _follow(observed, wanted or Verify(), work, now)
    if wanted is None or wanted == observed.status.verified:
        return None
    if isinstance(observed.storage, KappaError):
        unknown = build_condition(
            observed, VERIFIED, "Unknown", (observed.storage.reason, observed.storage.message), now
        )
        return say(observed, stay(observed), now, intervals.SOON, more=unknown)
    wait = measure_wait(observed, now)
    if wait > 0:
        return Plan(requeue_after=wait)
    text = f"a pod reads it back by {wanted.by}"
    verifying = build_condition(observed, VERIFIED, "Unknown", (Reason.SAVEPOINT_VERIFYING, text), now)
    return begin_work(observed, SavepointTask.VERIFY, stay(observed), now, more=verifying)


def _follow(observed: SavepointObserved, wanted: Verify, work: Work, now: datetime) -> Plan:
    request = WorkRequest(
        task=SavepointTask.VERIFY,
        name=name_savepoint(observed.resource.metadata),
        location=observed.status.location or find_location(observed),
        verify_by=wanted.by,
    )
    result = follow_work(observed, work, request, stay(observed), now)
    if isinstance(result, Plan):
        return result
    if result.verification is None:
        return _fail(observed, wanted, work, result, now)
    return _finish(observed, wanted, work, result.verification, now)


def _fail(observed: SavepointObserved, wanted: Verify, work: Work, result: WorkResult, now: datetime) -> Plan:
    """There is no result: retry later, and give up after some attempts."""
    message = result.failure.message if result.failure else "the pod ended without a message"
    attempts, fields = observed.status.attempts, dict[str, Any]()
    if attempts < MOST_ATTEMPTS:
        text = f"attempt {attempts} failed: {message}"
        fields["next_attempt"] = find_next_attempt(observed, attempts, now)
    else:
        text = f"given up after {attempts} attempts: {message}; fix that, and change spec.verify.request"
        fields["verified_as"] = wanted
    unknown = build_condition(observed, VERIFIED, "Unknown", (Reason.SAVEPOINT_WORK_FAILED, text), now)
    return _record(observed, stay(observed), unknown, work, now, **fields)


def _finish(
    observed: SavepointObserved, wanted: Verify, work: Work, found: Verification, now: datetime
) -> Plan:
    if found.damaged:
        text = f"{found.damaged} of {found.files} files are damaged: {'; '.join(found.damage)}"
        if not found.files:
            text = "; ".join(found.damage)
        verdict = stalled(SavepointState.DAMAGED, Reason.SAVEPOINT_DAMAGED, f"{text}; use another savepoint")
        condition = build_condition(observed, VERIFIED, "False", (Reason.SAVEPOINT_DAMAGED, text), now)
        return _record(observed, verdict, condition, work, now, verified_as=wanted, state_rows=())
    condition = build_condition(
        observed, VERIFIED, "True", (Reason.SAVEPOINT_VERIFIED, _describe(wanted, found)), now
    )
    at = now.replace(microsecond=0)
    return _record(
        observed, _recover(observed), condition, work, now,
        verified_as=wanted, last_verified=at, state_rows=found.state,
    )  # fmt: skip


def _recover(observed: SavepointObserved) -> Verdict:
    """Return the verdict on what is whole; one that was damaged may have been repaired."""
    if observed.status.state != SavepointState.DAMAGED:
        return stay(observed)
    return ready(SavepointState.READY, Reason.SAVEPOINT_READY, f"{observed.status.size}; whole again")


def _describe(wanted: Verify, found: Verification) -> str:
    text = f"{found.files} files, {format_size(found.size_bytes)}, were read again"
    if wanted.by is VerifyBy.CHECKSUMS:
        return text
    rows = (f"{format_count(each.rows)} of {each.sink}/{each.name}" for each in found.state)
    return f"{text}; rows of state: {', '.join(rows) or 'none, the queries have no state'}"


def _record(
    observed: SavepointObserved,
    verdict: Verdict,
    condition: Condition,
    work: Work,
    now: datetime,
    *,
    verified_as: Verify | None = None,
    next_attempt: datetime | None = None,
    **fields: Any,
) -> Plan:
    written = build_status(
        observed, verdict, now, more=condition, work=end_work(work), next_attempt=next_attempt, **fields
    )
    if verified_as is not None:
        written = written.replace(verified=verified_as)
    return Plan((RecordStatus(written),), requeue_after=intervals.WORKING)
