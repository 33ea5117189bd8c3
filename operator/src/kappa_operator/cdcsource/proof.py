"""Proofs that tables equal their topics: begun when they are due, followed, and recorded.

The number of a proof is recorded before its pod is created, and the pod's name holds it. What was found is recorded before the pod is
deleted. A pod that is still there, or being deleted, keeps the next one from being created, so there are never two.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from cronsim import CronSimError

from kappa_crds.cdcsource import SourceState
from kappa_crds.cdcsource_proof import (
    PROVEN,
    ProofPolicy,
    ProofRecord,
    ProofResult,
    ProofStatus,
    ProofWork,
    TableFinding,
)
from kappa_crds.conditions import ConditionStatus, find_condition, is_true
from kappa_crds.quantities import format_duration, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_operator import backoff, intervals
from kappa_operator.cdcsource.model import (
    CDCSourceObserved,
    build_condition,
    is_snapshotting,
    keep_condition,
)
from kappa_operator.cdcsource.pods import find_refusal
from kappa_operator.cdcsource.proof_pods import (
    GRACE,
    PROOF,
    build_proof_request,
    compute_fingerprint,
    create_proof_pod,
    find_offsets,
)
from kappa_operator.engine.actions import DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.engine.work_pods import WorkPod
from kappa_operator.pipeline.savepoints import find_next

HISTORY = 5
_NAMED = 3
"""Tables that a message names."""
_START = 300.0
"""Seconds that a pod may need to start."""
_NONE = ProofStatus()
Judged = tuple[ConditionStatus, Reason, str]


def follow_proof(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Record the result of a proof that has ended, and delete its pod; None while it works, and where there is none."""
    proof, pod = observed.resource.status.proof or _NONE, observed.proof_pod
    if proof.work is None or proof.work.state is WorkState.DONE:
        return None
    if proof.work.state is WorkState.ENDED:
        return _clean_up(observed, proof.work)
    if pod is None or pod.deleting:
        return None
    if observed.resource.spec.proof is None or not _is_current(observed, proof.work):
        why = "the settings of the source changed"
        return Plan((DeleteObject(pod.ref, pod.uid, why),), requeue_after=intervals.WORKING)
    result = pod.result or _give_up(pod, observed.resource.spec.proof, now)
    return None if result is None else _finish(observed, proof.work, result, now)


def withdraw_proof(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Report that nothing is proven any more where changes were lost."""
    resource = observed.resource
    if resource.spec.proof is None or resource.status.lost is None:
        return None
    if not is_true(resource.status.conditions, PROVEN):
        return None
    message = f"changes were lost after the last proof: {resource.status.lost}"
    return _record(observed, ("Unknown", Reason.CHANGES_LOST, message), now)


def begin_proof(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Begin a proof that is due, where the connector runs."""
    resource, policy = observed.resource, observed.resource.spec.proof
    refused = find_refusal(observed, PROOF)
    if policy is None or not may_begin(observed):
        return None
    if refused is not None:
        return _report_refusal(observed, refused, now)
    try:
        if measure_wait(observed, policy, now) > 0:
            return None
    except CronSimError as error:
        message = f"spec.proof.schedule {policy.schedule!r} is not a valid cron expression: {error}"
        return _report_once(observed, ("Unknown", Reason.INVALID_SPEC, message), now)
    if observed.readers is None:
        return _report_problem(observed, now)
    request = build_proof_request(resource, policy, observed.readers, find_offsets(observed.cluster))
    proof = resource.status.proof or _NONE
    work = ProofWork(
        number=1 if proof.work is None else proof.work.number + 1,
        fingerprint=compute_fingerprint(request),
        request=policy.request,
        at=now.replace(microsecond=0),
    )
    record = RecordStatus(resource.status.replace(proof=proof.replace(work=work)))
    return Plan((record, *create_proof_pod(observed, work, request)), requeue_after=intervals.WORKING)


def may_begin(observed: CDCSourceObserved) -> bool:
    """Return whether a proof makes sense now: the connector has read all rows and reads changes, and no pod is there."""
    connector, status = observed.connector, observed.resource.status
    runs = connector is not None and connector.runs and observed.resource.spec.state is SourceState.RUNNING
    return runs and status.lost is None and observed.proof_pod is None and not is_snapshotting(observed)


def measure_wait(observed: CDCSourceObserved, policy: ProofPolicy, now: datetime) -> float:
    """Return the seconds until the next proof, 0 for now, infinity for never; raise CronSimError."""
    proof, key = observed.resource.status.proof or _NONE, observed.resource.metadata.uid
    work, last = proof.work, proof.last
    if work is None or work.state is WorkState.RUNNING or policy.request != work.request:
        return 0.0
    known = find_condition(observed.resource.status.conditions, PROVEN)
    if known is not None and known.reason == Reason.CHANGES_LOST:
        return 0.0
    if last is None or proof.failures:
        since = work.at if last is None else max(work.at, last.ended)
        return intervals.wait_after(since, backoff.PROOF.pause(proof.failures, key), now)
    if policy.schedule is None:
        return float("inf")
    return intervals.wait_until(find_next(policy.schedule, last.began.astimezone(UTC)), now)


def _is_current(observed: CDCSourceObserved, work: ProofWork) -> bool:
    """Return whether a proof has the settings of now. Where the log-in to Kafka is not known, it is given the benefit of the doubt."""
    policy, readers = observed.resource.spec.proof, observed.readers
    if policy is None or readers is None:
        return policy is not None
    request = build_proof_request(observed.resource, policy, readers, find_offsets(observed.cluster))
    return work.fingerprint == compute_fingerprint(request)


def _clean_up(observed: CDCSourceObserved, work: ProofWork) -> Plan:
    """Delete the pod whose answer is recorded. From then on nothing looks for it."""
    proof, pod = observed.resource.status.proof or _NONE, observed.proof_pod
    delete = () if pod is None or pod.deleting else (DeleteObject(pod.ref, pod.uid, "its work has ended"),)
    done = observed.resource.status.replace(proof=proof.replace(work=work.replace(state=WorkState.DONE)))
    return Plan((*delete, RecordStatus(done)), requeue=True)


def _give_up(pod: WorkPod[ProofResult], policy: ProofPolicy, now: datetime) -> ProofResult | None:
    """Return the result of a pod that takes too long, which is only one that does not start: the kubelet ends others."""
    longest = parse_duration(policy.timeout) + GRACE + _START
    if (now - pod.created).total_seconds() <= longest:
        return None
    return ProofResult(
        problem=f"the proof did not end within {format_duration(longest)}: {pod.waits or 'no reason given'}"
    )


def _finish(observed: CDCSourceObserved, work: ProofWork, result: ProofResult, now: datetime) -> Plan:
    """Record what was found. The pod is deleted afterwards: a crash in between finds it again."""
    status = observed.resource.status
    proof, ended = status.proof or _NONE, now.replace(microsecond=0)
    known = {name: getattr(result, name) for name in ProofResult.model_fields}
    record = ProofRecord(**known, began=work.at, ended=ended)
    short = record.replace(findings=())
    kept = proof.replace(
        work=work.replace(state=WorkState.ENDED),
        failures=proof.failures + 1 if result.problem else 0,
        last=record,
        proven=result.at if result.is_equal else proof.proven,
        history=(short, *proof.history)[:HISTORY],
    )
    judged = judge(result)
    condition = build_condition(observed, PROVEN, judged[0], judged[1:], now)
    record_status = RecordStatus(keep_condition(status, condition).replace(proof=kept))
    return Plan((record_status, *_explain(observed, judged)), requeue=True)


def _explain(observed: CDCSourceObserved, judged: Judged) -> tuple[EmitEvent, ...]:
    """Return the Event: a difference each time, anything else where it is news."""
    before = find_condition(observed.resource.status.conditions, PROVEN)
    status, reason, message = judged
    if status != "False" and before is not None and before.reason == reason:
        return ()
    return (EmitEvent(reason, message, status != "True"),)


def judge(result: ProofResult) -> Judged:
    """Return the condition that a result leads to."""
    if result.problem:
        return "Unknown", Reason.PROOF_FAILED, result.problem
    where = f"at position {result.position} of the log and later ({result.at:%Y-%m-%d %H:%M:%S} UTC)"
    if result.differing:
        found = _name(each for each in result.findings if each.differing)
        return "False", Reason.ROWS_DIFFER, f"{result.differing:,} rows differ, {where}: {found}"
    if not result.is_equal:
        return (
            "Unknown",
            Reason.PROOF_UNDECIDED,
            f"{result.equal} of {result.tables} tables are equal; {_name(result.findings)}",
        )
    return (
        "True",
        Reason.TABLES_EQUAL,
        f"{result.tables} tables with {result.rows:,} rows equal their topics, {where}",
    )


def _name(findings: Iterable[TableFinding]) -> str:
    """Return the first tables with their first rows."""
    known = list(findings)
    parts = [_describe(each) for each in known[:_NAMED]]
    more = [f"{len(known) - _NAMED} more tables"] if len(known) > _NAMED else []
    return "; ".join([*parts, *more])


def _describe(finding: TableFinding) -> str:
    parts = [f"{finding.differing:,} rows differ"] if finding.differing else []
    if finding.undecided:
        parts.append(f"{finding.undecided:,} rows are undecided")
    rows = f": {', '.join(finding.first)}" if finding.first else ""
    why = f" ({finding.message})" if finding.message else ""
    return (
        f"{finding.table}: {', '.join(parts)}{rows}{why}" if parts else f"{finding.table}: {finding.message}"
    )


def _report_refusal(observed: CDCSourceObserved, refused: Failure, now: datetime) -> Plan:
    """Report that no pod could be created. The next attempt waits as after a proof that failed."""
    status = observed.resource.status
    proof, ended = status.proof or _NONE, now.replace(microsecond=0)
    work = proof.work and proof.work.replace(state=WorkState.DONE, at=ended)
    condition = build_condition(
        observed, PROVEN, "Unknown", (Reason.PROOF_FAILED, refused.error.message), now
    )
    kept = proof.replace(work=work, failures=proof.failures + 1)
    return Plan((), keep_condition(status, condition).replace(proof=kept), intervals.FAILED)


def _report_problem(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Report why topics cannot be read for a proof that is due."""
    problem = observed.proof_problem
    if problem is None:
        return None
    return _report_once(observed, ("Unknown", problem.reason, problem.message), now)


def _report_once(observed: CDCSourceObserved, judged: Judged, now: datetime) -> Plan | None:
    known = find_condition(observed.resource.status.conditions, PROVEN)
    return None if known is not None and known.message == judged[2] else _record(observed, judged, now)


def _record(observed: CDCSourceObserved, judged: Judged, now: datetime) -> Plan:
    condition = build_condition(observed, PROVEN, judged[0], judged[1:], now)
    record = RecordStatus(keep_condition(observed.resource.status, condition))
    return Plan((record, EmitEvent(judged[1], judged[2], True)), requeue=True)
