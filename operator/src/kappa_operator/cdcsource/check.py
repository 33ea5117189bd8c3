"""Checks of the database of a source: a pod in its namespace reads it with the log-in of the connector.

The number of a check is recorded before its pod is created, and the pod's name holds it. What was found is recorded before the pod is
deleted. The result of a check holds while the next one is under way.
"""

from datetime import datetime
from typing import Any

from kappa_crds.cdcsource import DATABASE_READY, SnapshotMode
from kappa_crds.cdcsource_status import DatabaseWork, SlotStatus
from kappa_crds.conditions import Condition, find_condition
from kappa_crds.quantities import format_duration, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_operator import backoff, intervals
from kappa_operator.cdc.binlog import find_binlog_loss, find_stored_until
from kappa_operator.cdc.findings import Severity
from kappa_operator.cdc.guard import find_loss
from kappa_operator.cdc.work import DatabaseResult, DatabaseTask, FoundProblem
from kappa_operator.cdcsource.expiry import judge_expiry
from kappa_operator.cdcsource.guard import choose_check_interval, judge_slot
from kappa_operator.cdcsource.model import (
    CDCSourceObserved,
    build_condition,
    build_status,
    find_log_position,
    report,
)
from kappa_operator.cdcsource.objects import build_database_request, compute_fingerprint, get_slot
from kappa_operator.cdcsource.pods import create_pod, find_refusal
from kappa_operator.cdcsource.schema import fold_schema
from kappa_operator.cdcsource.truncation import fold_files
from kappa_operator.cdcsource.works import number_work
from kappa_operator.engine.actions import DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan, Verdict, judge_error, working
from kappa_operator.engine.work_pods import WorkPod

LONGEST = 300.0
Explained = tuple[Reason, str]


def check_database(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Begin a check that is due, or follow the one under way; None where the other steps decide."""
    work = observed.resource.status.work
    if work is not None and work.state is WorkState.ENDED:
        return _clean_up(observed, work)
    if work is not None and work.state is WorkState.RUNNING and work.task == DatabaseTask.SIGNAL:
        return None
    if observed.pod is not None:
        return _follow(observed, observed.pod, now)
    if find_refusal(observed) is not None:
        return _report_refusal(observed, now)
    return _begin(observed, now) if measure_wait(observed, now) == 0 else _wait_for_first(observed, now)


def check_blindly(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Check a database whose connector was created also while Kafka Connect cannot be reached: the slot grows meanwhile."""
    was_created = observed.resource.status.credentials is not None
    if observed.problem is None or not observed.credentials or not was_created:
        return None
    return check_database(observed, now)


def measure_wait(observed: CDCSourceObserved, now: datetime) -> float:
    """Return the seconds until the next check, 0 for now: at once where the settings changed or the last one was lost."""
    status, work = observed.resource.status, observed.resource.status.work
    if work is None or work.state is WorkState.RUNNING or status.last_check is None:
        return 0.0
    if work.fingerprint != compute_fingerprint(observed.resource, observed.credentials):
        return 0.0
    return intervals.wait_after(status.last_check, _choose_interval(observed), now)


def _choose_interval(observed: CDCSourceObserved) -> float:
    """Return the seconds from check to check.

    A database that failed is checked more often, the less the longer it fails. So is one whose connector has a slot that is not known yet: to
    create a slot, PostgreSQL waits for transactions, for hours if need be.
    """
    status, condition = observed.resource.status, _get_condition(observed)
    every = choose_check_interval(parse_duration(observed.resource.spec.check_interval), status.log)
    last = observed.resource.status.last_check
    if condition is None or last is None:
        return every
    since = (last - condition.last_transition_time).total_seconds()
    if condition.status == "True":
        return min(every, max(intervals.SOON, since)) if _has_new_slot(observed) else every
    return min(every, backoff.DATABASE.pause_since(since, observed.resource.metadata.uid))


def _has_new_slot(observed: CDCSourceObserved) -> bool:
    """Return whether the connector has made a slot since the last check: the check before a connector exists finds none."""
    connector = observed.connector
    is_known = observed.resource.status.slot is not None or not get_slot(observed.resource)
    return not is_known and connector is not None and connector.runs


def _get_condition(observed: CDCSourceObserved) -> Condition | None:
    return find_condition(observed.resource.status.conditions, DATABASE_READY)


def _begin(observed: CDCSourceObserved, now: datetime) -> Plan:
    work = number_work(
        observed.resource.status.work,
        DatabaseTask.CHECK,
        compute_fingerprint(observed.resource, observed.credentials),
        now,
    )
    record = RecordStatus(observed.resource.status.replace(work=work))
    request = build_database_request(observed.resource, DatabaseTask.CHECK, find_log_position(observed))
    return Plan((record, *create_pod(observed, work, request)), requeue_after=intervals.WORKING)


def _wait_for_first(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Report what keeps the connector from being created."""
    condition = _get_condition(observed)
    if observed.connector is not None or observed.problem is not None:
        return None
    if condition is None or condition.status == "True":
        return None
    verdict = working("Waiting", condition.reason, condition.message)
    return report(observed, verdict, now, max(intervals.WORKING, measure_wait(observed, now)))


def _report_refusal(observed: CDCSourceObserved, now: datetime) -> Plan:
    """Report that no pod can be created. The next attempt waits as after a check that failed."""
    refused = find_refusal(observed)
    error = refused.error if refused is not None else None
    verdict = judge_error("Failed", error) if error else working("Failed", Reason.DATABASE_CHECK_FAILED, "")
    found = build_condition(
        observed, DATABASE_READY, "Unknown", (Reason.DATABASE_CHECK_FAILED, verdict.message), now
    )
    work = observed.resource.status.work
    ended = None if work is None else work.replace(state=WorkState.DONE)
    return report(
        observed, verdict, now, intervals.FAILED, found, work=ended, last_check=now.replace(microsecond=0)
    )


def _clean_up(observed: CDCSourceObserved, work: DatabaseWork) -> Plan:
    """Delete the pod whose answer is recorded. From then on nothing looks for it."""
    pod = observed.pod
    delete = () if pod is None else (DeleteObject(pod.ref, pod.uid, "its work has ended"),)
    done = observed.resource.status.replace(work=work.replace(state=WorkState.DONE))
    return Plan((*delete, RecordStatus(done)), requeue=True)


def _follow(observed: CDCSourceObserved, pod: WorkPod[DatabaseResult], now: datetime) -> Plan | None:
    work = observed.resource.status.work
    if work is None or work.fingerprint != compute_fingerprint(observed.resource, observed.credentials):
        why = "the settings or credentials of the database changed"
        return Plan((DeleteObject(pod.ref, pod.uid, why),), requeue=True)
    age = (now - pod.created).total_seconds()
    if pod.result is not None:
        return _finish(observed, pod.result, now)
    if age > LONGEST:
        late = f"the check did not end within {format_duration(LONGEST)}: {pod.waits or 'no reason given'}"
        return _finish(observed, DatabaseResult(problem=late), now)
    if observed.connector is not None or observed.problem is not None:
        return None
    if _get_condition(observed) is not None:
        return Plan(requeue_after=intervals.WORKING)
    message = f"the check waits: {pod.waits}" if pod.waits else "a pod checks the database"
    return report(observed, working("Checking", Reason.DATABASE_CHECKING, message), now, intervals.WORKING)


def _finish(observed: CDCSourceObserved, result: DatabaseResult, now: datetime) -> Plan:
    """Record what was found. The pod is deleted afterwards: a crash in between finds it again."""
    (reason, message), status = _judge(result), observed.resource.status
    condition = build_condition(
        observed,
        DATABASE_READY,
        "True" if reason is Reason.DATABASE_READY else "False",
        (reason, message),
        now,
    )
    fields: dict[str, Any] = {"last_check": now.replace(microsecond=0)}
    if status.work is not None:
        fields["work"] = status.work.replace(state=WorkState.ENDED)
    more: tuple[Condition, ...] = ()
    warnings: tuple[EmitEvent, ...] = ()
    if not result.problem:
        judged, more, warnings = judge_slot(observed, result.slot, now)
        schema, changes = fold_schema(observed, result)
        files, rewritten = fold_files(observed, result)
        fields |= {
            **_describe(observed, result, now),
            **judged,
            "tables_schema": schema,
            "tables_files": files,
        }
        expiring, expires = judge_expiry(observed, fields.get("binlog"), now)
        more, warnings = (*more, *expiring), (*warnings, *changes, *rewritten, *expires)
    before, ready = _get_condition(observed), condition.status == "True"
    verdict = _keep(observed, Verdict("Checking" if ready else "Waiting", reason, message))
    events: tuple[EmitEvent, ...] = ()
    if not ready and (before is None or (before.reason, before.message) != (reason, message)):
        events = (EmitEvent(reason, message, True),)
    record = RecordStatus(build_status(observed, verdict, now, condition, *more, **fields))
    return Plan((record, *events, *warnings), requeue=True)


def _keep(observed: CDCSourceObserved, verdict: Verdict) -> Verdict:
    """Return the verdict as it is where a connector works already, or cannot be seen: the check is one condition beside it."""
    conditions = {each.type: each for each in observed.resource.status.conditions}
    known = conditions.get("Ready")
    if known is None or (observed.connector is None and observed.problem is None):
        return verdict
    stalled = conditions["Stalled"].status == "True"
    settled = conditions["Reconciling"].status == "False" and not stalled
    state = observed.resource.status.state or verdict.state
    return Verdict(state, known.reason, known.message, known.status, stalled, settled)


def _judge(result: DatabaseResult) -> Explained:
    if result.problem:
        reason = Reason.DATABASE_CHECK_FAILED if "the pod" in result.problem else Reason.DATABASE_UNREACHABLE
        return reason, result.problem
    first = next((each for each in result.findings if each.severity is Severity.ERROR), None)
    if result.errors:
        return Reason.DATABASE_NOT_READY, _describe_first(first, result.errors)
    more = f"; {result.warnings} warnings, see kappa cdc check" if result.warnings else ""
    if result.fingerprint and not result.columns:
        more += "; they are too many to notice changes of their columns"
    return Reason.DATABASE_READY, f"{result.tables} tables can be read{more}"


def _describe_first(first: FoundProblem | None, errors: int) -> str:
    message = "a finding that is too long" if first is None else first.describe()
    return message + (f" ({errors - 1} more errors, see kappa cdc check)" if errors > 1 else "")


def _describe(observed: CDCSourceObserved, result: DatabaseResult, now: datetime) -> dict[str, Any]:
    """Return what the status keeps of a check. A position that was lost stays lost until it is decided what to do."""
    status, mode = observed.resource.status, observed.resource.spec.snapshot.mode
    fields: dict[str, Any] = {"tables": result.tables, "owns_publication": result.owns_publication}
    name = get_slot(observed.resource)
    if not name:
        return {**fields, **_describe_binlog(observed, result, now)}
    found = find_loss(status.slot, name, result.slot, result.system, observed.position)
    if status.lost is None and found is not None and mode is not SnapshotMode.WHEN_NEEDED:
        fields["lost"] = found
    return {**fields, "slot": _merge_slot(status.slot, result.slot, is_lost=found is not None)}


def _describe_binlog(observed: CDCSourceObserved, result: DatabaseResult, now: datetime) -> dict[str, Any]:
    """Return what the status keeps of a binary log. Its end is a mark only from when the connector has a position."""
    status, position, found = observed.resource.status, find_log_position(observed), result.binlog
    if found is None:
        return {}
    lost = find_binlog_loss(status.binlog, found, result.asked, position)
    if lost is not None:
        return {} if status.lost is not None else {"lost": lost}
    known = status.binlog
    stored = known.stored_until if known else None
    if observed.connector is not None and position is not None:
        read = find_stored_until(observed.connector.offset or {}, found.end, now)
        times = [each for each in (read, stored) if each is not None]
        return {"binlog": found.replace(stored_until=max(times, default=None))}
    # Kafka Connect may be away: the mark of before is still that of the connector
    kept = {"end": known and known.end, "server": known.server if known else "", "stored_until": stored}
    return {"binlog": found.replace(**kept)}


def _merge_slot(before: SlotStatus | None, found: SlotStatus | None, *, is_lost: bool) -> SlotStatus | None:
    """Return the slot as it is. Where changes were lost, it stays that of the database which the connector's position belongs to."""
    if before is None or found is None:
        return found or before
    known = {name: getattr(found, name) for name in SlotStatus.model_fields}
    return before.replace(**known | ({"system": before.system} if is_lost else {}))
