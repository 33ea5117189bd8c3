"""Incremental snapshots of a source: requested by a signal that a pod writes into the database, and followed by the stored position.

The id of the signal and the number of the pod are recorded before the pod is created. A pod that is lost is created again with the same
signal, which is written once; so a request is never carried out twice, whatever dies.
"""

from datetime import datetime

from kappa_crds.cdcsource import SourceState
from kappa_crds.cdcsource_requests import IncrementalSnapshot
from kappa_crds.cdcsource_status import ACTIVE_SNAPSHOTS, DatabaseWork, IncrementalState, IncrementalStatus
from kappa_crds.quantities import format_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_operator import intervals
from kappa_operator.cdc import signals
from kappa_operator.cdc.connector.common import SIGNAL_TABLE
from kappa_operator.cdc.connector.expressions import qualify
from kappa_operator.cdc.connector.postgresql import SCHEMA
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.patterns import TablePattern
from kappa_operator.cdc.quoting import MYSQL, POSTGRESQL
from kappa_operator.cdc.work import DatabaseResult, DatabaseTask, SignalRequest, SignalTable
from kappa_operator.cdcsource.check import LONGEST
from kappa_operator.cdcsource.model import CDCSourceObserved, is_database_ready, is_snapshotting
from kappa_operator.cdcsource.objects import (
    CDCSourceResource,
    build_database_request,
    get_publication,
    get_signal_table,
)
from kappa_operator.cdcsource.pods import create_pod, find_refusal
from kappa_operator.cdcsource.progress import hides_tables, list_left, measure
from kappa_operator.cdcsource.works import number_work
from kappa_operator.engine.actions import EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan

_NO_TABLE = (
    "set spec.signalTable to a table of the database, such as public.kappa_signals; the condition DatabaseReady has the statement that"
    " creates it"
)
_UNREAD = "the connector has not read the request yet"


def request_snapshot(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Have a pod write the signal that starts or stops a snapshot; None where there is nothing to request, or the pod works."""
    status, wanted = observed.resource.status, observed.resource.spec.snapshot.incremental
    work = status.work
    if is_signalling(work):
        return _follow_pod(observed, now)
    if wanted is None or observed.connector is None or observed.is_foreign or observed.prefix_owner:
        return None
    if work is not None and work.state is not WorkState.DONE:
        return None
    known = status.incremental
    if known is not None and known.state in ACTIVE_SNAPSHOTS:
        must_stop = known.request == wanted.request and wanted.stop and not known.is_stop_sent
        is_recent = work is not None and (now - work.at).total_seconds() < intervals.SOON
        return _begin(observed, known, now) if must_stop and not is_recent else None
    if known is not None and known.request == wanted.request and known.state is not IncrementalState.WAITING:
        return None
    return _prepare(observed, wanted, now)


def is_signalling(work: DatabaseWork | None) -> bool:
    """Return whether the last pod is to write a signal."""
    return work is not None and work.task == DatabaseTask.SIGNAL and work.state is WorkState.RUNNING


def _prepare(observed: CDCSourceObserved, wanted: IncrementalSnapshot, now: datetime) -> Plan | None:
    """Begin a new snapshot, or record what it waits for."""
    before, work = observed.resource.status.incremental, observed.resource.status.work
    known = IncrementalStatus(request=wanted.request, state=IncrementalState.WAITING)
    if before is not None and before.request == wanted.request:
        known = before
    if wanted.stop:
        ended = known.replace(state=IncrementalState.STOPPED, message="stopped before it began", ended=now)
        return _record(observed, ended)
    obstacle = find_obstacle(observed, wanted)
    if obstacle is not None:
        waiting = known.replace(message=obstacle)
        return None if waiting == before else _record(observed, waiting)
    has_failed = known.signal and work is not None and (now - work.at).total_seconds() < intervals.FAILED
    return None if has_failed else _begin(observed, known, now)


def _record(observed: CDCSourceObserved, known: IncrementalStatus) -> Plan:
    return Plan((RecordStatus(observed.resource.status.replace(incremental=known)),), requeue=True)


def find_obstacle(observed: CDCSourceObserved, wanted: IncrementalSnapshot) -> str | None:
    """Return what a snapshot waits for, None where it can begin."""
    resource, connector = observed.resource, observed.connector
    table = get_signal_table(resource)
    if not table:
        return _NO_TABLE
    foreign = [each.table for each in wanted.tables if not _is_read(resource, each.table)]
    if foreign:
        return f"spec.tables does not have {', '.join(foreign)}; add it, or correct spec.snapshot.incremental"
    if resource.spec.state is not SourceState.RUNNING:
        return f"spec.state is {resource.spec.state}; set it to Running"
    if not is_database_ready(resource):
        return "the database is not ready; the condition DatabaseReady has what to do"
    if connector is None or not connector.runs or connector.config.get(SIGNAL_TABLE) != table:
        return "the connector does not run with the signal table yet"
    return "the first snapshot is not complete yet" if is_snapshotting(observed) else None


def _is_read(resource: CDCSourceResource, table: str) -> bool:
    name, tables = _parse(table), resource.spec.tables
    include, exclude = (
        [TablePattern.parse(text, SCHEMA).matches(name) for text in texts]
        for texts in (tables.include, tables.exclude)
    )
    return any(include) and not any(exclude)


def _parse(table: str) -> TableName:
    schema, _, name = qualify(table, SCHEMA).partition(".")
    return TableName(schema, name)


def _begin(observed: CDCSourceObserved, known: IncrementalStatus, now: datetime) -> Plan:
    """Record the pod, and the signal unless it has its id already, and create the pod."""
    resource = observed.resource
    work = number_work(resource.status.work, DatabaseTask.SIGNAL, "", now)
    signal = known.signal or f"kappa-{resource.metadata.uid[:8]}-{work.number}"
    if known.state is IncrementalState.WAITING:
        begun = now.replace(microsecond=0)
        message = "a pod requests it of the connector"
        known = known.replace(state=IncrementalState.REQUESTED, signal=signal, message=message, begun=begun)
    record = RecordStatus(resource.status.replace(work=work, incremental=known))
    request = build_database_request(resource, DatabaseTask.SIGNAL).replace(
        signal=build_signal(resource, known)
    )
    return Plan((record, *create_pod(observed, work, request)), requeue_after=intervals.WORKING)


def build_signal(resource: CDCSourceResource, known: IncrementalStatus) -> SignalRequest:
    """Return the signal that starts a snapshot, or the one that stops it where its position is known already."""
    target, wanted = _parse(get_signal_table(resource)), resource.spec.snapshot.incremental
    place = (target.schema, target.name)
    if known.position is not None or wanted is None:
        return SignalRequest(
            target=place, id=f"{known.signal}-stop", type=signals.STOP, data=signals.describe_stop()
        )
    dialect = POSTGRESQL if resource.spec.postgresql else MYSQL
    conditions = {_parse(each.table): signals.build_condition(each.where, dialect) for each in wanted.tables}
    keyed = [TablePattern.parse(each.table, SCHEMA) for each in resource.spec.keys]
    tables = tuple(
        SignalTable(
            schema_name=table.schema, name=table.name, condition=condition,
            is_keyed=any(pattern.matches(table) for pattern in keyed),
        )
        for table, condition in conditions.items()
    )  # fmt: skip
    return SignalRequest(
        target=place, id=known.signal, type=signals.EXECUTE, data=signals.describe_snapshot(conditions),
        publication=get_publication(resource), tables=tables,
    )  # fmt: skip


def _follow_pod(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    pod, known = observed.pod, observed.resource.status.incremental
    if known is None:
        return _end_work(observed, None)
    refused = find_refusal(observed)
    if refused is not None and refused.error is not None:
        waiting = known.replace(message=f"the pod cannot be created: {refused.error.message}")
        return None if waiting == known else _record(observed, waiting)
    if pod is None:
        return _begin(observed, known, now)
    if pod.result is not None:
        return _finish(observed, known, pod.result, now)
    if (now - pod.created).total_seconds() > LONGEST:
        late = f"the pod did not end within {format_duration(LONGEST)}: {pod.waits or 'no reason given'}"
        return _finish(observed, known, DatabaseResult(problem=late), now)
    return None


def _finish(
    observed: CDCSourceObserved, known: IncrementalStatus, result: DatabaseResult, now: datetime
) -> Plan:
    """Record what the pod has done, and then remove it, as after a check."""
    is_stop = known.position is not None
    if result.problem:
        state = known.state if is_stop else IncrementalState.WAITING
        return _end_work(observed, known.replace(state=state, message=f"{result.problem}; it is retried"))
    if result.refused:
        failed = known.replace(state=IncrementalState.FAILED, message=result.refused, ended=now)
        event = EmitEvent(Reason.INCREMENTAL_SNAPSHOT_FAILED, result.refused, True)
        return _end_work(observed, known.replace(is_stop_sent=True) if is_stop else failed, event)
    if is_stop:
        stopping = {"is_stop_sent": True, "position": result.position, "message": "it stops"}
        return _end_work(observed, known.replace(**stopping))
    rows = sum(each.rows or 0 for each in result.ranges) or None
    sent = {"tables": result.ranges, "rows": rows, "position": result.position, "message": _UNREAD}
    names = ", ".join(each.table for each in result.ranges)
    event = EmitEvent(Reason.INCREMENTAL_SNAPSHOT, f"the rows of {names} are read again, by request")
    return _end_work(observed, known.replace(**sent), event)


def _end_work(observed: CDCSourceObserved, known: IncrementalStatus | None, *events: EmitEvent) -> Plan:
    status = observed.resource.status
    work = None if status.work is None else status.work.replace(state=WorkState.ENDED)
    return Plan((RecordStatus(status.replace(work=work, incremental=known)), *events), requeue=True)


def follow_snapshot(observed: CDCSourceObserved, now: datetime) -> tuple[IncrementalStatus | None, tuple[EmitEvent, ...]]:  # fmt: skip
    """Return the status of the snapshot as the connector's position shows it, with an Event where it has ended."""
    known, connector = observed.resource.status.incremental, observed.connector
    if known is None or known.state not in ACTIVE_SNAPSHOTS or known.position is None or connector is None:
        return known, ()
    offset = connector.offset
    if offset is None:
        return supersede(known, now), ()
    left = list_left(offset, known.signal, (each.table for each in known.tables))
    if left:
        return measure(known.replace(hidden_since=None), offset, left, now), ()
    # The tables of MySQL and MariaDB may be those of another signal, so the position has to be behind that of this one.
    is_seen = known.state is IncrementalState.RUNNING and observed.resource.spec.postgresql is not None
    if not is_seen and (observed.position or 0) < known.position:
        return known, ()
    if hides_tables(offset) and not known.is_stop_sent:
        return _await_tables(known, now)
    return _end(known, now)


def _await_tables(known: IncrementalStatus, now: datetime) -> tuple[IncrementalStatus, tuple[EmitEvent, ...]]:
    """Return the status of a snapshot whose tables the position hides: it continues soon, or is requested again by another signal.

    One that only took long reads its rows twice, which changes nothing about the tables.
    """
    since = known.hidden_since or now.replace(microsecond=0)
    if (now - since).total_seconds() < intervals.HIDDEN:
        return known.replace(hidden_since=since, message="continues after a restart of the connector"), ()
    names = ", ".join(each.table for each in known.tables)
    waited = format_duration(intervals.HIDDEN)
    text = f"the connector read no rows of {names} for {waited} after a restart, so it may have lost the snapshot: it is requested again"
    lost = IncrementalStatus(request=known.request, state=IncrementalState.WAITING, message=text)
    return lost, (EmitEvent(Reason.INCREMENTAL_SNAPSHOT, text),)


def _end(known: IncrementalStatus, now: datetime) -> tuple[IncrementalStatus, tuple[EmitEvent, ...]]:
    took = format_duration(max(0.0, (now - known.begun).total_seconds())) if known.begun else "unknown time"
    names = ", ".join(each.table for each in known.tables)
    fields = {"ended": now.replace(microsecond=0), "remaining": None, "hidden_since": None}
    if known.is_stop_sent:
        text = f"stopped after {took}; rows that were read stay in the topics"
        ended = known.replace(state=IncrementalState.STOPPED, message=text, **fields)
        return ended, (EmitEvent(Reason.INCREMENTAL_SNAPSHOT, f"the snapshot of {names} was {text}"),)
    text = f"the rows of {names} were read within {took}"
    count = len(known.tables)
    ended = known.replace(
        state=IncrementalState.DONE, message=text, tables_done=count, rows_done=known.rows, **fields
    )
    return ended, (EmitEvent(Reason.INCREMENTAL_SNAPSHOT, text),)


def supersede(known: IncrementalStatus | None, now: datetime) -> IncrementalStatus | None:
    """Return the status of a snapshot whose position was forgotten or changed, if it was under way."""
    if known is None or known.state not in ACTIVE_SNAPSHOTS:
        return known
    text = "ended, because the position of the connector was forgotten or changed; request it again if its rows are needed"
    ended = now.replace(microsecond=0)
    return known.replace(
        state=IncrementalState.SUPERSEDED, message=text, ended=ended, remaining=None, hidden_since=None
    )
