"""The deletion of a source: its connector always goes; slot, publication, position and topics by the policies of the spec.

The order keeps changes: the connector is stopped before its position is forgotten, and gone before its slot is dropped. What was done is
recorded in the resource or visible in Kafka Connect, so that a crash at any point continues.
"""

from datetime import datetime

from kappa_crds.cdcsource import CDC_SOURCE_FINALIZER
from kappa_crds.cdcsource_status import DatabaseWork
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_crds.savepoint_work import WorkState
from kappa_crds.topic import DeletionPolicy
from kappa_operator import intervals
from kappa_operator.cdc.quoting import quote_postgresql_text
from kappa_operator.cdc.work import DatabaseTask
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

_RELEASE = "set spec.deletionPolicy to Retain to keep slot and publication"


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
        or _release(observed, now)
    )


def _report_problem(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Report what failed. Without its KafkaCluster there is nothing to delete the connector in."""
    refused = find_refusal(observed)
    problem = refused.error if refused else observed.failures[-1].error if observed.failures else None
    if problem is None and observed.problem is not None and not observed.is_cluster_gone:
        problem = observed.problem
    if problem is None:
        return None
    message = f"{problem.message}; it is retried"
    if observed.resource.spec.deletion_policy is DeletionPolicy.DELETE:
        message += f". To give up, {_RELEASE}"
    return block_deletion(observed.resource, Reason.DELETION_BLOCKED, message, now, intervals.BLOCKED)


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
    if pod is None:
        request = build_database_request(resource, DatabaseTask.DROP)
        return Plan(create_pod(observed, work, request), requeue_after=intervals.WORKING)
    return _follow(observed, work, now)


def _follow(observed: CDCSourceObserved, work: DatabaseWork, now: datetime) -> Plan:
    resource, pod = observed.resource, observed.pod
    result = pod.result if pod else None
    if pod is None or result is None:
        status = _describe(observed, f"a pod drops slot {get_slot(resource)}", now)
        return Plan((), status, intervals.WORKING)
    if not result.problem:
        done = act.RecordStatus(resource.status.replace(work=work.replace(state=WorkState.DONE)))
        dropped = ", ".join(result.dropped) or f"slot {get_slot(resource)} was gone already"
        return Plan((done, act.EmitEvent(Reason.DELETED, f"dropped in the database: {dropped}")), requeue=True)  # fmt: skip
    message = (
        f"slot {get_slot(resource)} was not dropped: {result.problem}; it is retried. To give up, {_RELEASE}"
    )
    if (now - pod.created).total_seconds() < intervals.FAILED:
        return block_deletion(resource, Reason.DELETION_BLOCKED, message, now, intervals.BLOCKED)
    again = number_work(work, DatabaseTask.DROP, "", now)
    verdict = stalled("Deleting", Reason.DELETION_BLOCKED, message)
    status = build_status(observed, verdict, now, work=again)
    delete = act.DeleteObject(pod.ref, pod.uid, "it failed and is repeated")
    return Plan((act.RecordStatus(status), delete), requeue=True)


def _release(observed: CDCSourceObserved, now: datetime) -> Plan:
    resource, cluster = observed.resource, observed.cluster_key
    actions: list[act.Action] = []
    if observed.cluster is not None:
        topics = (*resource.status.topics, *_list_history(resource))
        actions += [act.DeleteTopic(cluster, topic) for topic in topics]
    if cluster.name:
        secret = build_sources_ref(cluster.namespace, cluster.name)
        actions.append(act.DropCredentials(secret, resource.metadata.name))
    event = _explain_rest(observed)
    if event is not None:
        actions.append(event)
    return Plan((*actions, act.RemoveFinalizer(CDC_SOURCE_FINALIZER)))


def _explain_rest(observed: CDCSourceObserved) -> act.EmitEvent | None:
    """Return the Event about what stays: a slot without consumer fills the disk of its database."""
    resource, slot = observed.resource, get_slot(observed.resource)
    parts: list[str] = []
    if observed.is_cluster_gone:
        parts.append(f"connector {resource.metadata.name} was not deleted, because its KafkaCluster is gone")
    if resource.spec.deletion_policy is DeletionPolicy.RETAIN and slot and resource.status.slot is not None:
        drop = f"SELECT pg_drop_replication_slot({quote_postgresql_text(slot)});"
        parts.append(f"slot {slot} stays and keeps the WAL of the database; to drop it, run: {drop}")
    return act.EmitEvent(Reason.RETAINED, "; ".join(parts), True) if parts else None
