"""The connector of a source: created, changed, set to its state, restarted, and reported.

Kafka Connect takes a moment for each change, so each step is repeated until its effect is seen; all requests may be repeated. The request
for a snapshot is recorded after the position was forgotten: after a crash in between it is forgotten again, before any task has started.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.cdcsource import SNAPSHOTTING, SnapshotMode, SourceState
from kappa_crds.cdcsource_status import (
    ACTIVE_SNAPSHOTS,
    ConnectorRestarts,
    IncrementalState,
    IncrementalStatus,
)
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_operator import intervals
from kappa_operator.backoff import Backoff
from kappa_operator.cdc.connector.failures import FailureCause, explain_failure
from kappa_operator.cdc.quoting import quote_postgresql_text
from kappa_operator.cdcsource.check import measure_wait
from kappa_operator.cdcsource.incremental import follow_snapshot, supersede
from kappa_operator.cdcsource.limits import check_memory, describe_large
from kappa_operator.cdcsource.model import (
    CDCSourceObserved,
    ConnectorView,
    build_condition,
    build_status,
    is_snapshotting,
    report,
)
from kappa_operator.cdcsource.objects import CDCSourceResource, build_config, build_credentials, get_slot
from kappa_operator.cdcsource.schema import describe_tables
from kappa_operator.connect.model import PAUSED, RUNNING, STOPPED
from kappa_operator.engine import actions as act
from kappa_operator.engine.plan import Plan, Verdict, judge_error, ready, stalled, working

_STATES = {SourceState.RUNNING: RUNNING, SourceState.PAUSED: PAUSED, SourceState.STOPPED: STOPPED}
_GRACE = 5.0
"""Seconds after a restart in which Kafka Connect may still report the failure before it."""
_REMEDY = "set spec.snapshot.request to any new text for a new snapshot, which writes all rows again"


def keep_credentials(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Give the workers the log-in of the source."""
    if observed.are_credentials_kept or observed.cluster is None:
        return None
    if observed.failures:
        return _report_failure(observed, now)
    return Plan((build_credentials(observed.resource, observed.cluster),), requeue_after=intervals.WORKING)


def stop_lost(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Stop a connector that would continue behind a gap, and report that, until a new snapshot is requested."""
    resource = observed.resource
    lost = resource.status.lost
    if lost is None or _is_snapshot_requested(observed) or observed.connector is None:
        return None
    message = f"changes were lost: {lost}. The connector is stopped. To continue, {_REMEDY}"
    verdict = stalled("Lost", Reason.CHANGES_LOST, message)
    stop = (
        ()
        if _is_in(observed.connector, STOPPED)
        else (act.SetConnectorState(observed.cluster_key, resource.metadata.name, STOPPED),)
    )
    plan = report(observed, verdict, now, intervals.BLOCKED)
    return plan if not stop or observed.failures else Plan(stop, plan.status, intervals.WORKING)


def take_snapshot(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Stop the connector, forget its position, and record that: its next start takes a snapshot."""
    if not _is_snapshot_requested(observed) or observed.connector is None:
        return None
    if observed.failures:
        return _report_failure(observed, now)
    resource, cluster, name = observed.resource, observed.cluster_key, observed.resource.metadata.name
    verdict = working("Resetting", Reason.SNAPSHOT_REQUESTED, "the position of the connector is forgotten")
    if not _is_in(observed.connector, STOPPED) or observed.connector.status.tasks:
        stop = act.SetConnectorState(cluster, name, STOPPED)
        return Plan((stop,), build_status(observed, verdict, now), intervals.WORKING)
    done: dict[str, Any] = {
        **dict.fromkeys(("lost", "slot", "binlog", "schema_topic")),
        "snapshot_request": resource.spec.snapshot.request,
        "incremental": supersede(resource.status.incremental, now),
    }
    status = build_status(observed, verdict, now, **done, restarts=_forgive(resource.status.restarts))
    lost, asked = resource.status.lost, "by spec.snapshot.request"
    why = f"because changes were lost: {lost}" if _is_needed(resource) else asked
    event = act.EmitEvent(Reason.SNAPSHOT_REQUESTED, f"the position of the connector was forgotten, {why}")
    return Plan((act.ForgetOffsets(cluster, name), act.RecordStatus(status), event), requeue=True)


def _is_snapshot_requested(observed: CDCSourceObserved) -> bool:
    resource, done = observed.resource, observed.resource.status.snapshot_request
    return done is not None and (done != resource.spec.snapshot.request or _is_needed(resource))


def _is_needed(resource: CDCSourceResource) -> bool:
    """Return whether a loss is followed by a snapshot without asking. Of PostgreSQL the connector does that; of MariaDB it cannot see a loss."""
    is_allowed = resource.spec.snapshot.mode is SnapshotMode.WHEN_NEEDED
    return is_allowed and resource.spec.postgresql is None and resource.status.lost is not None


def create_connector(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Create the connector, in its state."""
    if observed.connector is not None or observed.cluster is None:
        return None
    if observed.failures:
        return _report_failure(observed, now)
    resource, requested = observed.resource, observed.resource.spec.snapshot.request
    try:
        config = _build_config(observed)
    except ValueError as error:
        return report(observed, stalled("Failed", Reason.INVALID_SPEC, str(error)), now, intervals.WAITING)
    create = act.CreateConnector(
        observed.cluster_key, resource.metadata.name, config, _STATES[resource.spec.state]
    )
    known = {
        "snapshot_request": requested,
        "credentials": observed.credentials,
        "incremental": _pass_over(resource),
    }
    status = resource.status.replace(**known)
    record = () if status == resource.status else (act.RecordStatus(status),)
    return Plan((*record, create), requeue_after=intervals.WORKING)


def _pass_over(resource: CDCSourceResource) -> IncrementalStatus | None:
    """Return a request that a source has from its beginning as passed over: it came with the manifest of an earlier one."""
    wanted, status = resource.spec.snapshot.incremental, resource.status
    if wanted is None or status.snapshot_request is not None:
        return status.incremental
    message = "it was in the manifest before the source began; request it again if its rows are needed"
    return IncrementalStatus(request=wanted.request, state=IncrementalState.SUPERSEDED, message=message)


def _build_config(observed: CDCSourceObserved) -> dict[str, str]:
    assert observed.cluster is not None  # noqa: S101 - the steps before wait for it
    check_memory(observed.resource, observed.cluster)
    owns = observed.resource.status.owns_publication is not False
    config = build_config(observed.resource, observed.credentials, observed.cluster, owns_publication=owns)
    return {**config, **describe_tables(observed.resource)}


def report_foreign(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Leave a connector of another owner as it is."""
    if not observed.is_foreign:
        return None
    name = observed.resource.metadata.name
    message = f"connector {name} exists in Kafka Connect and is not of this resource; delete it there, or give this resource another name"
    return report(observed, stalled("Failed", Reason.NAME_TAKEN, message), now, intervals.WAITING)


def change_connector(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Change the configuration where it is another one than the spec's."""
    if observed.connector is None:
        return None
    try:
        config = _build_config(observed)
    except ValueError as error:
        return report(observed, stalled("Failed", Reason.INVALID_SPEC, str(error)), now, intervals.WAITING)
    before = observed.connector.config
    names = sorted(name for name in {*before, *config} if before.get(name) != config.get(name))
    if not names:
        return None
    if observed.failures:
        return _report_failure(observed, now)
    change = act.ChangeConnector(observed.cluster_key, observed.resource.metadata.name, config, tuple(names))
    record = act.RecordStatus(observed.resource.status.replace(credentials=observed.credentials))
    return Plan((record, change), requeue=True)


def set_state(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Have the connector run, pause or stop as the spec has it."""
    if observed.connector is None:
        return None
    wanted = _STATES[observed.resource.spec.state]
    if _is_in(observed.connector, wanted):
        return None
    if observed.failures:
        return _report_failure(observed, now)
    change = act.SetConnectorState(observed.cluster_key, observed.resource.metadata.name, wanted)
    verdict = working("Changing", Reason.CONNECTOR_STARTING, f"the connector becomes {wanted.lower()}")
    return Plan((change,), build_status(observed, verdict, now), intervals.WORKING)


def _is_in(connector: ConnectorView, wanted: str) -> bool:
    """Return whether nothing has to be requested for a state. One that failed was meant to run."""
    at_rest = connector.state in (PAUSED, STOPPED)
    return connector.state == wanted if at_rest or wanted != RUNNING else True


def restart_failed(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Restart what failed, after a pause that is recorded first."""
    resource, restarts = observed.resource, observed.resource.status.restarts
    failures = observed.connector.failures if observed.connector else ()
    if not failures:
        return None
    cause = explain_failure(next((trace for trace in failures if trace), ""), describe_large(observed))
    if cause.is_lost and observed.resource.status.lost is None:
        return _record_loss(observed, cause, now)
    since = (now - restarts.last).total_seconds() if restarts.last else None
    if restarts.next_attempt is None and since is not None and since < _GRACE:
        return Plan(requeue_after=_GRACE - since)
    if restarts.next_attempt is None:
        return _plan_restart(observed, cause, now)
    wait = intervals.wait_until(restarts.next_attempt, now)
    if wait > 0 or observed.failures:
        return Plan(requeue_after=min(intervals.BLOCKED, max(intervals.WORKING, wait)))
    done = restarts.replace(next_attempt=None, last=now.replace(microsecond=0), total=restarts.total + 1)
    message = f"failed tasks were restarted: {cause.message}"
    return Plan(
        (
            act.RestartConnector(observed.cluster_key, resource.metadata.name),
            act.RecordStatus(resource.status.replace(restarts=done)),
            act.EmitEvent(Reason.CONNECTOR_RESTARTED, message),
        ),
        requeue_after=_GRACE,
    )


def _record_loss(observed: CDCSourceObserved, cause: FailureCause, now: datetime) -> Plan:
    lost, slot = cause.message, get_slot(observed.resource)
    if cause.needs_new_slot and slot:
        lost += f"; drop the slot first: SELECT pg_drop_replication_slot({quote_postgresql_text(slot)});"
    record = act.RecordStatus(observed.resource.status.replace(lost=lost))
    return Plan((record,), requeue=True)


def _plan_restart(observed: CDCSourceObserved, cause: FailureCause, now: datetime) -> Plan:
    """Record the failure, and when its restart is due."""
    resource, restarts, spec = observed.resource, observed.resource.status.restarts, observed.resource.spec.restart  # fmt: skip
    quiet = parse_duration(spec.reset_after)
    was_quiet = restarts.last is not None and (now - restarts.last).total_seconds() > quiet
    number = 1 if was_quiet else restarts.failures + 1
    pause = Backoff(parse_duration(spec.initial_delay), parse_duration(spec.max_delay)).pause(
        number, resource.metadata.uid
    )
    due = now.replace(microsecond=0) + timedelta(seconds=round(pause))
    message = f"{cause.message}; failure {number} in a row, the next restart is at {due:%H:%M:%S} UTC"
    verdict = working("Failed", Reason.CONNECTOR_FAILED, message)
    known = restarts.replace(failures=number, next_attempt=due)
    return report(observed, verdict, now, max(intervals.WORKING, pause), restarts=known)


def _forgive(restarts: ConnectorRestarts) -> ConnectorRestarts:
    return restarts.replace(failures=0, next_attempt=None)


def report_source(observed: CDCSourceObserved, now: datetime) -> Plan:
    """Report what the connector does."""
    if observed.failures:
        return _report_failure(observed, now)
    snapshotting = is_snapshotting(observed)
    verdict = _judge(observed, snapshotting=snapshotting)
    restarts = observed.resource.status.restarts
    is_settled = restarts.last is None or (now - restarts.last).total_seconds() > parse_duration(
        observed.resource.spec.restart.reset_after
    )
    if verdict.ready == "True" and (restarts.next_attempt or (restarts.failures and is_settled)):
        restarts = _forgive(restarts) if is_settled else restarts.replace(next_attempt=None)
    reason = Reason.CONNECTOR_SNAPSHOTTING if snapshotting else Reason.CONNECTOR_RUNNING
    text = "the rows that the tables have already are read" if snapshotting else "no snapshot is taken"
    condition = build_condition(
        observed, SNAPSHOTTING, "True" if snapshotting else "False", (reason, text), now
    )
    snapshot, events = follow_snapshot(observed, now)
    fields = {"restarts": restarts, "incremental": snapshot}
    plan = report(observed, verdict, now, _choose_wait(observed, verdict, now), condition, **fields)
    return replace(plan, actions=events)


def _judge(observed: CDCSourceObserved, *, snapshotting: bool) -> Verdict:
    connector, status = observed.connector, observed.resource.status
    if connector is None:
        return working("Starting", Reason.CONNECTOR_STARTING, "the connector does not exist yet")
    if connector.state == PAUSED:
        return Verdict("Paused", Reason.CONNECTOR_PAUSED, "spec.state is Paused; the database keeps its log", settled=True)  # fmt: skip
    if connector.state == STOPPED:
        return Verdict("Stopped", Reason.CONNECTOR_STOPPED, "spec.state is Stopped; the database keeps its log", settled=True)  # fmt: skip
    if not connector.runs:
        return working("Starting", Reason.CONNECTOR_STARTING, "the task of the connector starts")
    count = "the tables" if status.tables is None else f"{status.tables} tables"
    if snapshotting:
        return working(
            "Snapshotting", Reason.CONNECTOR_SNAPSHOTTING, f"the rows that {count} have already are read"
        )
    return ready("Running", Reason.CONNECTOR_RUNNING, f"the changes of {count} are read")


def _choose_wait(observed: CDCSourceObserved, verdict: Verdict, now: datetime) -> float:
    """Return the seconds until the next look: no event reports what happens in Kafka Connect."""
    if observed.pod is not None or verdict.state == "Starting":
        return intervals.WORKING
    snapshot = observed.resource.status.incremental
    if snapshot is not None and snapshot.state in ACTIVE_SNAPSHOTS:
        return intervals.WORKING
    wait = intervals.SAMPLE if verdict.ready == "True" or verdict.settled else intervals.SOON
    return max(intervals.WORKING, min(wait, measure_wait(observed, now)))


def _report_failure(observed: CDCSourceObserved, now: datetime) -> Plan:
    """Report an action that failed. It is repeated soon: most failures are workers that are busy or have no log-in yet."""
    error = observed.failures[-1].error
    state = "Starting" if error.reason is Reason.CONNECTOR_STARTING else "Failed"
    wait = intervals.SOON if error.retryable else intervals.WAITING
    return report(observed, judge_error(state, error), now, wait)
