"""What to do when a `Topic` resource is deleted.

Only `deletionPolicy: Delete` holds the deletion. A topic that another resource claims too is never deleted. A condition
reports what blocks the deletion and what to do.
"""

from datetime import datetime

from kappa_crds.reasons import Reason
from kappa_crds.topic import TOPIC_FINALIZER, DeletionPolicy
from kappa_operator import intervals
from kappa_operator.engine.actions import DeleteTopic, EmitEvent, RemoveFinalizer
from kappa_operator.engine.plan import Plan, block_deletion
from kappa_operator.topic.checks import TopicObserved

_WAY_OUT = "or set spec.deletionPolicy to Retain to keep the topic and delete only this resource"


def delete_topic(observed: TopicObserved, now: datetime) -> Plan | None:
    """Delete the topic and release the resource, or report what blocks that; None while the resource is not deleted."""
    metadata, spec = observed.resource.metadata, observed.resource.spec
    if metadata.deletion_timestamp is None:
        return None
    if TOPIC_FINALIZER not in metadata.finalizers:
        return Plan()
    if spec.deletion_policy == DeletionPolicy.RETAIN:
        return _retain(observed, "spec.deletionPolicy is Retain")
    if observed.rivals:
        others = ", ".join(f"{rival.namespace}/{rival.name}" for rival in observed.rivals)
        return _retain(observed, f"it is claimed by Topic {others} too")
    if spec.suspend:
        return _block(observed, now, f"spec.suspend keeps the topic as it is; set it to false, {_WAY_OUT}")
    if observed.problem is not None:
        return _block(observed, now, f"{observed.problem.message}; fix that, {_WAY_OUT}")
    return _delete(observed, now)


def _delete(observed: TopicObserved, now: datetime) -> Plan:
    if observed.view is None:
        return Plan((RemoveFinalizer(TOPIC_FINALIZER),))
    if observed.failures:
        return _block(observed, now, f"{observed.failures[-1].error.message}; fix that, {_WAY_OUT}")
    assert observed.cluster is not None  # noqa: S101 - a view was taken of some cluster
    event = EmitEvent(Reason.DELETED, f"topic {observed.topic} was deleted with its data")
    return Plan((DeleteTopic(observed.cluster, observed.topic), event), requeue=True)


def _retain(observed: TopicObserved, why: str) -> Plan:
    event = EmitEvent(Reason.RETAINED, f"topic {observed.topic} stays in Kafka: {why}")
    return Plan((event, RemoveFinalizer(TOPIC_FINALIZER)))


def _block(observed: TopicObserved, now: datetime, message: str) -> Plan:
    return block_deletion(observed.resource, Reason.DELETION_BLOCKED, message, now, intervals.BLOCKED)
