"""The deletion of a source: its connector always goes; slot, publication, position and topics by the policies of the spec.

The order keeps changes: the connector is stopped before its position is forgotten, and gone before its slot is dropped. What was done is
recorded in the resource or visible in Kafka Connect, so that a crash at any point continues.

A database may be gone for good, so a slot that cannot be dropped holds the resource for a day. In a namespace that is deleted, no pod can be
created, so nothing waits there.
"""

from datetime import datetime, timedelta

from kappa_crds.cdcsource import CDC_SOURCE_FINALIZER
from kappa_crds.cdcsource_status import DatabaseWork
from kappa_crds.quantities import format_duration
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_crds.savepoint_work import WorkState
from kappa_crds.topic import DeletionPolicy
from kappa_operator import backoff, intervals
from kappa_operator.cdc.quoting import quote_postgresql, quote_postgresql_text
from kappa_operator.cdc.work import DatabaseResult, DatabaseTask
from kappa_operator.cdcsource.check import LONGEST
from kappa_operator.cdcsource.model import CDCSourceObserved, ConnectorView, build_status
from kappa_operator.cdcsource.objects import (
    CDCSourceResource,
    build_database_request,
    build_sources_ref,
    get_slot,
    select_topics,
)
from kappa_operator.cdcsource.pods import create_pod, find_refusal
from kappa_operator.cdcsource.works import number_work
from kappa_operator.connect.model import STOPPED
from kappa_operator.engine import actions as act
from kappa_operator.engine.plan import Plan, block_deletion, stalled, working
from kappa_operator.engine.work_pods import WorkPod, is_namespace_deleted

_PATIENCE = timedelta(days=1)
"""How long it is tried to drop a slot."""


def deletes_topics(resource: CDCSourceResource) -> bool:
    """Return whether topics go with the resource: those of the tables, or the history of the schemas, which goes with the position."""
    return resource.spec.topic_deletion_policy is DeletionPolicy.DELETE or bool(_list_history(resource))


def _list_history(resource: CDCSourceResource) -> tuple[str, ...]:
    topic = resource.status.schema_topic
    if topic is None or resource.spec.deletion_policy is DeletionPolicy.RETAIN:
        return ()
    return (topic.name,)


def delete_source(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Undo what the source made, and release the resource, or report what blocks that; None while the resource is not deleted."""
    metadata = observed.resource.metadata
    if metadata.deletion_timestamp is None:
        return None
    if CDC_SOURCE_FINALIZER not in metadata.finalizers:
        return Plan()
    return (
        _report_problem(observed, now)
        or _delete_connector(observed, now)
        or _drop_replication(observed, now)
        or _release(observed)
    )


def _report_problem(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Report what failed, but for the pod in the database. Without its KafkaCluster there is nothing to delete the connector in."""
    problem = None if observed.is_cluster_gone else observed.problem
    if observed.failures and find_refusal(observed) is None:
        problem = observed.failures[-1].error
    if problem is None:
        return None
    message = f"{problem.message}; it is retried{_name_ways_out(observed)}"
    return block_deletion(observed.resource, Reason.DELETION_BLOCKED, message, now, intervals.BLOCKED)


def _name_ways_out(observed: CDCSourceObserved) -> str:
    """Return how to release a source whose Kafka or Kafka Connect is gone for good."""
    text, cluster = "", observed.cluster
    if deletes_topics(observed.resource):
        text += ". To keep topics, set spec.topicDeletionPolicy and spec.deletionPolicy to Retain"
    if cluster is not None:
        text += f". If Kafka Connect is gone for good, delete KafkaCluster {cluster.metadata.name}: that releases its sources"
    return text


def _delete_connector(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    connector, resource = observed.connector, observed.resource
    if connector is None or observed.is_foreign:
        return None
    cluster, name = observed.cluster_key, resource.metadata.name
    topics = _choose_topics(observed, connector)
    if topics != resource.status.topics:
        return Plan((act.RecordStatus(resource.status.replace(topics=topics)),), requeue=True)
    if resource.spec.deletion_policy is DeletionPolicy.RETAIN:
        return Plan((act.DeleteConnector(cluster, name),), requeue_after=intervals.WORKING)
    if connector.state != STOPPED or connector.status.tasks:
        stop = act.SetConnectorState(cluster, name, STOPPED)
        return Plan((stop,), _describe(observed, "the connector stops", now), intervals.WORKING)
    if connector.offset is not None:
        return Plan((act.ForgetOffsets(cluster, name),), requeue_after=intervals.WORKING)
    return Plan((act.DeleteConnector(cluster, name),), requeue_after=intervals.WORKING)


def _choose_topics(observed: CDCSourceObserved, connector: ConnectorView) -> tuple[str, ...]:
    """Return the topics to delete: those that the connector has written, and only below its prefix."""
    resource = observed.resource
    if resource.spec.topic_deletion_policy is DeletionPolicy.RETAIN:
        return ()
    return tuple(sorted({*select_topics(resource, connector.topics), *resource.status.topics}))


def _describe(observed: CDCSourceObserved, message: str, now: datetime) -> ResourceStatus:
    return build_status(observed, working("Deleting", Reason.RECONCILING, message), now)


def _drop_replication(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Have a pod drop slot and publication, where the policy is Delete."""
    resource, pod, work = observed.resource, observed.pod, observed.resource.status.work
    is_wanted = resource.spec.deletion_policy is DeletionPolicy.DELETE and bool(get_slot(resource))
    if not is_wanted:
        return None
    is_dropping = work is not None and work.task == DatabaseTask.DROP
    if pod is not None and not is_dropping:
        return Plan((act.DeleteObject(pod.ref, pod.uid, "the source is deleted"),), requeue=True)
    if work is None or not is_dropping:
        begun = number_work(work, DatabaseTask.DROP, "", now)
        return Plan((act.RecordStatus(resource.status.replace(work=begun)),), requeue=True)
    if work.state is not WorkState.RUNNING:
        return None
    if (refused := find_refusal(observed)) is not None:
        return _retry(observed, work, refused.error.message, now)
    if pod is None:
        request = build_database_request(resource, DatabaseTask.DROP)
        return Plan(create_pod(observed, work, request), requeue_after=intervals.WORKING)
    return _follow(observed, work, pod, now)


def _follow(
    observed: CDCSourceObserved, work: DatabaseWork, pod: WorkPod[DatabaseResult], now: datetime
) -> Plan:
    resource, result, slot = observed.resource, pod.result, get_slot(observed.resource)
    if result is None:
        waits = pod.waits or "no reason given"
        if (now - pod.created).total_seconds() > LONGEST:
            return _retry(
                observed, work, f"its pod did not end within {format_duration(LONGEST)}: {waits}", now
            )
        text = f"a pod drops slot {slot}" + (f"; it waits: {pod.waits}" if pod.waits else "")
        return Plan((), _describe(observed, text, now), intervals.WORKING)
    if result.problem:
        return _retry(observed, work, result.problem, now)
    done = act.RecordStatus(resource.status.replace(work=work.replace(state=WorkState.DONE)))
    dropped = ", ".join(result.dropped) or f"slot {slot} was gone already"
    return Plan((done, act.EmitEvent(Reason.DELETED, f"dropped in the database: {dropped}")), requeue=True)


def _retry(observed: CDCSourceObserved, work: DatabaseWork, problem: str, now: datetime) -> Plan:
    """Try again after a pause, which grows; from an attempt that began a day after the first one, leave the slot behind."""
    resource, pod = observed.resource, observed.pod
    first, tried = work.first or work.at, pod.created if pod else now
    if is_namespace_deleted(problem) or tried - first >= _PATIENCE:
        return _release(observed, f"what the source made in the database was not dropped: {problem}")
    message = (
        f"slot {get_slot(resource)} was not dropped: {problem}; it is retried until {first + _PATIENCE:%Y-%m-%d %H:%M} UTC, then slot and"
        " publication stay. To release the resource now, set spec.deletionPolicy to Retain"
    )
    pause = backoff.DATABASE.pause_since((tried - first).total_seconds(), resource.metadata.uid)
    wait = pause - (now - tried).total_seconds()
    if pod is None or wait > 0:
        return block_deletion(resource, Reason.DELETION_BLOCKED, message, now, max(intervals.WORKING, wait))
    again = number_work(work, DatabaseTask.DROP, "", now).replace(first=first)
    verdict = stalled("Deleting", Reason.DELETION_BLOCKED, message)
    status = build_status(observed, verdict, now, work=again)
    delete = act.DeleteObject(pod.ref, pod.uid, "it failed and is repeated")
    return Plan((act.RecordStatus(status), delete), requeue=True)


def _release(observed: CDCSourceObserved, problem: str = "") -> Plan:
    """Delete the topics and the log-in, and release the resource. `problem` is why slot and publication stay against its policy."""
    resource, cluster = observed.resource, observed.cluster_key
    actions: list[act.Action] = []
    if observed.cluster is not None:
        is_kept = resource.spec.topic_deletion_policy is DeletionPolicy.RETAIN
        topics = (*(() if is_kept else resource.status.topics), *_list_history(resource))
        actions += [act.DeleteTopic(cluster, topic) for topic in topics]
    if cluster.name:
        secret = build_sources_ref(cluster.namespace, cluster.name)
        actions.append(act.DropCredentials(secret, resource.metadata.name))
    event = _explain_rest(observed, problem)
    if event is not None:
        actions.append(event)
    return Plan((*actions, act.RemoveFinalizer(CDC_SOURCE_FINALIZER)))


def _explain_rest(observed: CDCSourceObserved, problem: str) -> act.EmitEvent | None:
    """Return the Event about what stays: a slot without consumer fills the disk of its database."""
    resource = observed.resource
    parts: list[str] = []
    if observed.is_cluster_gone:
        parts.append(f"connector {resource.metadata.name} was not deleted, because its KafkaCluster is gone")
    is_kept = resource.spec.deletion_policy is DeletionPolicy.RETAIN and resource.status.slot is not None
    if problem:
        parts.append(problem)
    if get_slot(resource) and (problem or is_kept):
        parts.append(_describe_replication(resource))
    return act.EmitEvent(Reason.RETAINED, "; ".join(parts), True) if parts else None


def _describe_replication(resource: CDCSourceResource) -> str:
    """Return what stays in the database, and the statements that drop it."""
    request = build_database_request(resource, DatabaseTask.DROP)
    drop = f"SELECT pg_drop_replication_slot({quote_postgresql_text(request.slot)});"
    if not request.drop_publication:
        return f"slot {request.slot} stays and keeps the WAL of the database; to drop it, run: {drop}"
    return (
        f"slot {request.slot} and publication {request.publication} stay, and the slot keeps the WAL of the database; to drop them, run:"
        f" {drop} DROP PUBLICATION {quote_postgresql(request.publication)};"
    )
