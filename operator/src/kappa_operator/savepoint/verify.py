"""Reading a savepoint back, once for each value of spec.verify: the condition Verified is the result.

One that is damaged is not Ready any more, so that nothing is restored from it.
"""

from datetime import datetime
from typing import Any

from kappa_crds.conditions import VERIFIED
from kappa_crds.quantities import format_count, format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SavepointState, Verify
from kappa_crds.savepoint_work import SavepointTask, Verification, VerifyBy, Work
from kappa_operator import intervals
from kappa_operator.engine.plan import Plan, Verdict, ready, stalled
from kappa_operator.errors import KappaError
from kappa_operator.savepoint.model import (
    SavepointObserved,
    build_condition,
    judge_attempt,
    record,
    say,
    stay,
)
from kappa_operator.savepoint.work import begin_work, end_work, follow_work


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
    text = f"a pod reads it back by {wanted.by}"
    verifying = build_condition(observed, VERIFIED, "Unknown", (Reason.SAVEPOINT_VERIFYING, text), now)
    return begin_work(observed, SavepointTask.VERIFY, stay(observed), now, more=verifying)


def _follow(observed: SavepointObserved, wanted: Verify, work: Work, now: datetime) -> Plan:
    result = follow_work(observed, work, stay(observed), now, verify_by=wanted.by)
    if isinstance(result, Plan):
        return result
    if result.verification is not None:
        return _finish(observed, wanted, work, result.verification, now)
    due, text = judge_attempt(
        observed, observed.status.attempts, result.problem, "change spec.verify.request", now
    )
    unknown = build_condition(observed, VERIFIED, "Unknown", (Reason.SAVEPOINT_WORK_FAILED, text), now)
    verified = observed.status.verified if due else wanted
    return record(
        observed, stay(observed), now, more=unknown, work=end_work(work), next_attempt=due, verified=verified
    )


def _finish(
    observed: SavepointObserved, wanted: Verify, work: Work, found: Verification, now: datetime
) -> Plan:
    ended = dict[str, Any](work=end_work(work), next_attempt=None, verified=wanted, state_rows=found.state)
    if not found.damaged:
        described = Reason.SAVEPOINT_VERIFIED, _describe(wanted, found)
        condition = build_condition(observed, VERIFIED, "True", described, now)
        at = now.replace(microsecond=0)
        return record(observed, _recover(observed), now, more=condition, last_verified=at, **ended)
    text = "; ".join(found.damage)
    if found.files:
        text = f"{found.damaged} of {found.files} files are damaged: {text}"
    verdict = stalled(SavepointState.DAMAGED, Reason.SAVEPOINT_DAMAGED, f"{text}; use another savepoint")
    condition = build_condition(observed, VERIFIED, "False", (Reason.SAVEPOINT_DAMAGED, text), now)
    return record(observed, verdict, now, more=condition, **ended)


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
