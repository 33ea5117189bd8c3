"""The guard of a slot: whether its WAL stays below a limit, and what is done about one that has outgrown it.

A slot is dropped only where the spec demands it, by a pod that sees again how much it retains: what the status has may be old. The number
of that work is recorded before its pod is created. The connector is stopped first, where Kafka Connect can be reached.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kappa_crds.cdcsource import SLOT_SAFE, SnapshotMode
from kappa_crds.cdcsource_status import DatabaseWork, LogForecast, SlotStatus
from kappa_crds.conditions import Condition, ConditionStatus, find_condition
from kappa_crds.databases import PostgreSql, SlotAction
from kappa_crds.quantities import format_size, parse_duration, parse_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_operator import intervals
from kappa_operator.cdc.forecast import OWN_LIMIT, describe, forecast, is_full
from kappa_operator.cdc.work import DatabaseResult, DatabaseTask
from kappa_operator.cdcsource.model import CDCSourceObserved, build_condition, build_status
from kappa_operator.cdcsource.objects import build_database_request, get_slot
from kappa_operator.cdcsource.pods import create_pod, find_refusal
from kappa_operator.cdcsource.works import number_work
from kappa_operator.connect.model import STOPPED
from kappa_operator.engine.actions import EmitEvent, RecordStatus, SetConnectorState
from kappa_operator.engine.plan import Plan, working

SOONEST = 30.0
"""Seconds between checks of a slot that fills."""
_PART = 0.1
"""The next check is after this part of the time that is left."""
_NONE = LogForecast()
_STATUSES: Mapping[Reason, ConditionStatus] = {Reason.SLOT_SAFE: "True", Reason.SLOT_UNLIMITED: "Unknown"}


def judge_slot(
    observed: CDCSourceObserved, slot: SlotStatus | None, now: datetime
) -> tuple[dict[str, Any], tuple[Condition, ...], tuple[EmitEvent, ...]]:
    """Return fields of the status, the condition and Events after a check that found a slot; nothing where there is none."""
    resource, database = observed.resource, observed.resource.spec.postgresql
    if slot is None or database is None:
        return {"log": None}, (), ()
    before = resource.status.log or _NONE
    found = forecast(before.samples, slot, _get_limit(database), now.replace(microsecond=0))
    reason, message = _judge(slot, found, parse_duration(database.slot_guard.warn_before))
    status = _STATUSES.get(reason, "False")
    condition = build_condition(observed, SLOT_SAFE, status, (reason, message), now)
    known = find_condition(resource.status.conditions, SLOT_SAFE)
    is_news = status == "False" and (known is None or known.reason != reason)
    events = (EmitEvent(reason, message, True),) if is_news else ()
    return {"log": found}, (condition,), events


def _get_limit(database: PostgreSql) -> int | None:
    limit = database.slot_guard.limit
    return None if limit is None else parse_size(limit)


def _judge(slot: SlotStatus, found: LogForecast, warn_before: float) -> tuple[Reason, str]:
    message = describe(slot, found)
    if is_full(found, slot.retained_bytes):
        return Reason.SLOT_FULL, message
    if found.remaining_bytes is None:
        return (
            Reason.SLOT_UNLIMITED,
            f"{message}; nothing limits it: set max_slot_wal_keep_size, or {OWN_LIMIT}",
        )
    if found.seconds_left is not None and found.seconds_left <= warn_before:
        return Reason.SLOT_FILLING, message
    return Reason.SLOT_SAFE, message


def choose_check_interval(every: float, found: LogForecast | None) -> float:
    """Return the seconds to the next check: a slot that fills is checked more often, the less time is left."""
    if found is None or found.seconds_left is None:
        return every
    return min(every, max(SOONEST, _PART * found.seconds_left))


def drop_outgrown_slot(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Stop the connector and drop its slot, where the slot retains more than the spec allows and the spec demands that."""
    work = observed.resource.status.work
    if work is not None and work.task == DatabaseTask.DROP_OUTGROWN and work.state is WorkState.RUNNING:
        return _follow(observed, work, now)
    if not _is_outgrown(observed):
        return None
    if observed.pod is not None or work is None or work.state is not WorkState.DONE:
        return None
    if work.task != DatabaseTask.CHECK:
        return None
    return _stop(observed, now) or _begin(observed, work, now)


def _is_outgrown(observed: CDCSourceObserved) -> bool:
    status, database = observed.resource.status, observed.resource.spec.postgresql
    if database is None or database.slot_guard.action is not SlotAction.DROP_SLOT:
        return False
    limit, retained = _get_limit(database), status.slot.retained_bytes if status.slot else None
    if status.lost is not None or limit is None or retained is None or not observed.credentials:
        return False
    return retained >= limit and not observed.is_foreign


def _stop(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Stop the connector; None where it is, or where Kafka Connect cannot be reached: then it reads nothing either, or the slot stays."""
    connector = observed.connector
    if connector is None or (connector.state == STOPPED and not connector.status.tasks):
        return None
    stop = SetConnectorState(observed.cluster_key, observed.resource.metadata.name, STOPPED)
    return Plan((stop,), _describe(observed, "the connector stops", now), intervals.WORKING)


def _describe(observed: CDCSourceObserved, what: str, now: datetime) -> Any:
    slot = observed.resource.status.slot
    size = (slot and slot.retained) or "too much"
    message = f"slot {get_slot(observed.resource)} retains {size} of WAL and is dropped: {what}"
    return build_status(observed, working("Protecting", Reason.SLOT_FULL, message), now)


def _begin(observed: CDCSourceObserved, work: DatabaseWork, now: datetime) -> Plan:
    begun = number_work(work, DatabaseTask.DROP_OUTGROWN, "", now)
    return Plan((RecordStatus(observed.resource.status.replace(work=begun)),), requeue=True)


def _follow(observed: CDCSourceObserved, work: DatabaseWork, now: datetime) -> Plan:
    resource, pod, refused = observed.resource, observed.pod, find_refusal(observed)
    done = work.replace(state=WorkState.DONE)
    if refused is not None:
        event = EmitEvent(Reason.SLOT_FULL, f"the slot cannot be dropped: {refused.error.message}", True)
        return Plan((RecordStatus(resource.status.replace(work=done)), event), requeue_after=intervals.FAILED)
    if pod is None:
        database = resource.spec.postgresql
        limit = _get_limit(database) if database else None
        if limit is None:
            return Plan((RecordStatus(resource.status.replace(work=done)),), requeue=True)
        request = build_database_request(resource, DatabaseTask.DROP_OUTGROWN)
        request = request.replace(least_retained=limit, drop_publication=False)
        return Plan(create_pod(observed, work, request), requeue_after=intervals.WORKING)
    if pod.result is None:
        return Plan((), _describe(observed, "a pod drops it", now), intervals.WORKING)
    return _finish(observed, pod.result, work)


def _finish(observed: CDCSourceObserved, result: DatabaseResult, work: DatabaseWork) -> Plan:
    """Record what became of the slot; its pod is deleted afterwards. Where the slot stays, the next check decides again."""
    resource = observed.resource
    fields: dict[str, Any] = {"work": work.replace(state=WorkState.ENDED)}
    events: tuple[EmitEvent, ...] = ()
    if result.problem:
        events = (EmitEvent(Reason.SLOT_FULL, f"the slot was not dropped: {result.problem}", True),)
    elif result.dropped:
        database = resource.spec.postgresql
        limit = format_size(_get_limit(database) or 0) if database else ""
        message = f"slot {get_slot(resource)} retained more than {limit} of WAL and was dropped, by spec.postgresql.slotGuard"
        fields |= {"log": None}
        if resource.spec.snapshot.mode is not SnapshotMode.WHEN_NEEDED:
            fields["lost"] = message
        else:
            fields["slot"] = None
        events = (EmitEvent(Reason.SLOT_DROPPED, message, True),)
    record = RecordStatus(resource.status.replace(**fields))
    return Plan((record, *events), requeue=True)
