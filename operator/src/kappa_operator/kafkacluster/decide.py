"""What to report about a Kafka cluster: nothing in it is changed, only the connection is checked."""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.conditions import merge_conditions
from kappa_crds.kafkacluster import KafkaClusterSpec, KafkaClusterStatus, LagSampled, RefusedLogIn
from kappa_crds.quantities import format_count, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource, ResourceStatus
from kappa_operator import backoff, intervals
from kappa_operator.connect.decide import (
    announce_connect,
    build_connect_condition,
    build_connect_status,
    is_settled,
    keep_workers,
    remove_workers,
)
from kappa_operator.connect.observed import ConnectObserved
from kappa_operator.engine.actions import DeleteUser, Disconnect, Reconnect, RecordStatus
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import Failure, Plan, Verdict, find_failure, judge_error, ready, update_status
from kappa_operator.errors import AuthenticationFailed, KappaError
from kappa_operator.kafka.model import ClusterView, KafkaAccess
from kappa_operator.lag.model import ClusterSample

MOST_ADVERTISED, MOST_ORPHANS = 64, 100
_ADDRESS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?:[0-9]{1,5}", re.ASCII | re.IGNORECASE)
_WITHDRAWN = (Reason.SECRET_NOT_ALLOWED, Reason.CLEAR_TEXT_CREDENTIALS)
KafkaClusterResource = Resource[KafkaClusterSpec, KafkaClusterStatus]


@dataclass(frozen=True, slots=True)
class KafkaClusterObserved:
    """The cluster as it answered, or the error instead, and the last sample of consumer lag.

    `access` is there where the client that there is was made with other settings or Secrets. `version` changes with the spec and the
    Secrets. Where it `waits`, nothing was asked: Kafka refused the log-in, and the next one is due at that time.
    `orphans` are users of pipelines whose deletion waits for them, which the status does not list.
    """

    resource: KafkaClusterResource
    view: ClusterView | None = None
    sampled: ClusterSample | None = None
    access: KafkaAccess | None = None
    problem: KappaError | None = None
    version: str = ""
    waits: datetime | None = None
    has_client: bool = False
    orphans: tuple[str, ...] = ()
    connect: ConnectObserved | None = None
    failures: tuple[Failure, ...] = ()


def list_orphans(observed: KafkaClusterObserved, _now: datetime) -> Plan | None:
    """List users that pipelines could not delete, so that these can be released."""
    status = observed.resource.status
    listed = tuple(dict.fromkeys((*status.orphaned_users, *observed.orphans)))[:MOST_ORPHANS]
    if listed == status.orphaned_users:
        return None
    return Plan((RecordStatus(status.replace(orphaned_users=listed)),), requeue=True)


def delete_orphans(observed: KafkaClusterObserved, _now: datetime) -> Plan | None:
    """Delete the users of deleted pipelines, once Kafka can be reached again."""
    status = observed.resource.status
    if observed.view is None or not status.orphaned_users or _find_undeleted(observed) is not None:
        return None
    key = Key.of(observed.resource)
    deletions = (DeleteUser(key, name) for name in status.orphaned_users)
    return Plan((*deletions, RecordStatus(status.replace(orphaned_users=()))), requeue=True)


def _find_undeleted(observed: KafkaClusterObserved) -> Failure | None:
    return find_failure(observed.failures, DeleteUser)


def wait_for_log_in(observed: KafkaClusterObserved, now: datetime) -> Plan | None:
    """Wait after a refused log-in. Secrets are read meanwhile, as no event reports that one changed."""
    if observed.waits is None:
        return None
    return Plan(requeue_after=min(intervals.SOON, max(1.0, intervals.wait_until(observed.waits, now))))


def disconnect(observed: KafkaClusterObserved, _now: datetime) -> Plan | None:
    """Close the client where its log-in is not allowed any more."""
    if not observed.has_client or observed.problem is None or observed.problem.reason not in _WITHDRAWN:
        return None
    return Plan((Disconnect(Key.of(observed.resource)),), requeue=True)


def reconnect(observed: KafkaClusterObserved, _now: datetime) -> Plan | None:
    """Replace a client whose settings or Secrets changed."""
    if observed.access is None or observed.problem is not None:
        return None
    return Plan((Reconnect(Key.of(observed.resource), observed.access),), requeue=True)


def remove_connect(observed: KafkaClusterObserved, _now: datetime) -> Plan | None:
    """Remove the workers of Kafka Connect that the spec does not declare any more."""
    return remove_workers(observed.resource, observed.connect, observed.failures)


def keep_connect(observed: KafkaClusterObserved, _now: datetime) -> Plan | None:
    """Keep the workers of Kafka Connect as the spec declares them."""
    return keep_workers(observed.resource, observed.connect, observed.failures)


def report_connection(observed: KafkaClusterObserved, now: datetime) -> Plan:
    """Report what the check found, and check again: after `spec.checkInterval`, or sooner after a failure."""
    every = parse_duration(observed.resource.spec.check_interval)
    status = _build_status(observed, every, now)
    is_quiet = observed.problem is None and is_settled(observed.resource, observed.connect)
    events = announce_connect(observed.resource, observed.connect, observed.failures)
    return Plan(events, status, every if is_quiet else min(every, intervals.SOON))


KAFKA_CLUSTER_STEPS: tuple[Step[KafkaClusterObserved], ...] = (
    list_orphans,
    wait_for_log_in,
    disconnect,
    reconnect,
    delete_orphans,
    remove_connect,
    keep_connect,
    report_connection,
)


def _build_status(observed: KafkaClusterObserved, every: float, now: datetime) -> ResourceStatus:
    resource, view, status = observed.resource, observed.view, observed.resource.status
    fields: dict[str, Any] = {}
    verdict = build_verdict(observed)
    if isinstance(observed.problem, AuthenticationFailed):
        refused = _count_refusal(observed, now)
        fields["refused_log_in"] = refused
        until = (
            f"the next log-in is at {refused.next_attempt:%H:%M:%S} UTC, or when the spec or a Secret changes"
        )
        verdict = replace(verdict, message=f"{verdict.message}; {until}")
    if view is not None:
        fields |= {
            "cluster_id": view.cluster_id,
            "brokers": view.brokers,
            "controller": view.controller,
            "topics": view.topics,
            "advertised": choose_advertised(resource, view),
            "last_seen": _choose_last_seen(status.last_seen, every, now),
            "refused_log_in": None,
        }
        if fields["last_seen"] != status.last_seen or status.lag is None or not resource.spec.lag.enabled:
            fields["lag"] = _describe_sample(observed)
    fields["connect"] = build_connect_status(resource, observed.connect, observed.failures)
    updated = update_status(resource, verdict, now, **fields)
    own = build_connect_condition(resource, observed.connect, observed.failures, now)
    return updated.replace(conditions=(*updated.conditions, *merge_conditions(status.conditions, own)))


def _count_refusal(observed: KafkaClusterObserved, now: datetime) -> RefusedLogIn:
    """Return the refusals in a row with these settings, and when to try again."""
    before = observed.resource.status.refused_log_in
    is_same = before is not None and before.settings == observed.version
    attempts = before.attempts + 1 if before is not None and is_same else 1
    pause = round(backoff.LOG_IN.pause(attempts, observed.resource.metadata.uid))
    due = now.replace(microsecond=0) + timedelta(seconds=pause)
    return RefusedLogIn(attempts=attempts, next_attempt=due, settings=observed.version)


def choose_advertised(resource: KafkaClusterResource, view: ClusterView) -> tuple[str, ...]:
    """Return the addresses of brokers to admit: those of now, and those of before, as a broker may be away for a while.

    What is no address is left out. A changed spec may be that of another cluster, so it starts with none.
    """
    status = resource.status
    is_same = status.observed_generation == resource.metadata.generation
    known = {*(status.advertised if is_same else ()), *view.advertised[:MOST_ADVERTISED]}
    return tuple(sorted(filter(_is_address, known)))[:MOST_ADVERTISED]


def _is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None and 0 < int(text.rpartition(":")[2]) < 65536


def _describe_sample(observed: KafkaClusterObserved) -> LagSampled | None:
    """Return the last sample of lag; it is reported as rarely as the time of the last check, so that samples write no status."""
    sampled = observed.sampled
    if sampled is None or not observed.resource.spec.lag.enabled:
        return None
    return LagSampled(
        at=sampled.at.replace(microsecond=0),
        milliseconds=round(sampled.seconds * 1000),
        groups=len(sampled.groups),
        partitions=len(sampled.logs),
        unknown=len(sampled.unknown) + len(sampled.unread) + len(sampled.unavailable),
        rate=_describe_rate(sampled),
        failure=sampled.failure,
    )


def _describe_rate(sampled: ClusterSample) -> str | None:
    if not sampled.rates:
        return None
    sign = "" if len(sampled.rates) == len(sampled.written) else "≥"
    return f"{sign}{format_count(sum(sampled.rates.values()))}/s"


def _choose_last_seen(before: datetime | None, every: float, now: datetime) -> datetime:
    """Keep a recent time, so that an extra check writes no status."""
    if before is not None and timedelta(0) <= now - before < timedelta(seconds=every / 2):
        return before
    return now.replace(microsecond=0)


def build_verdict(observed: KafkaClusterObserved) -> Verdict:
    """Return the state of the connection, with the broker's own message where there is one."""
    problem, view = observed.problem, observed.view
    if problem is not None:
        return judge_error("Failed", problem)
    assert view is not None  # noqa: S101 - observe returns one of the two
    brokers = "1 broker" if view.brokers == 1 else f"{view.brokers} brokers"
    message = f"connected to cluster {view.cluster_id} with {brokers}"
    undeleted = _find_undeleted(observed)
    if undeleted is not None:
        count = len(observed.resource.status.orphaned_users)
        message += (
            f"; {count} users of deleted pipelines (status.orphanedUsers) remain: {undeleted.error.message}"
        )
    return ready("Connected", Reason.CONNECTED, message)
