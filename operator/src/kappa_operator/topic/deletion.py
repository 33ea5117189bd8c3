"""What to do when a `Topic` resource is deleted.

Only `deletionPolicy: Delete` holds the deletion. A topic that another resource claims too is never deleted, and what
is in the way is a condition that says what to do.
"""

from datetime import datetime

from kappa_crds.reasons import Reason
from kappa_crds.topic import TOPIC_FINALIZER, DeletionPolicy
from kappa_operator.engine.actions import DeleteTopic, EmitEvent, RemoveFinalizer
from kappa_operator.engine.plan import Plan, build_conditions, stalled
from kappa_operator.topic.checks import TopicObserved

BLOCKED_POLL = 15.0
_WAY_OUT = "or set spec.deletionPolicy to Retain to leave the topic and let this resource go"


def decide_deletion(observed: TopicObserved, now: datetime) -> Plan:
    """Delete the topic and let the resource go, or say what is in the way."""
    metadata, spec = observed.resource.metadata, observed.resource.spec
    if TOPIC_FINALIZER not in metadata.finalizers:
        return Plan()
    if spec.deletion_policy == DeletionPolicy.RETAIN:
        return _retain(observed, "spec.deletionPolicy is Retain")
    if observed.rivals:
        others = ", ".join(f"{rival.namespace}/{rival.name}" for rival in observed.rivals)
        return _retain(observed, f"it is claimed by Topic {others} too")
    if spec.pause:
        return _block(observed, now, f"spec.pause keeps the topic as it is; set it to false, {_WAY_OUT}")
    if observed.problem is not None:
        return _block(observed, now, f"{observed.problem.message}; repair that, {_WAY_OUT}")
    return _delete(observed, now)


def _delete(observed: TopicObserved, now: datetime) -> Plan:
    if observed.view is None:
        return Plan((RemoveFinalizer(TOPIC_FINALIZER),))
    if observed.failures:
        return _block(observed, now, f"{observed.failures[-1].error.message}; repair that, {_WAY_OUT}")
    assert observed.cluster is not None  # noqa: S101 - a view was taken of some cluster
    event = EmitEvent(Reason.DELETED, f"topic {observed.topic} was deleted with its data")
    return Plan((DeleteTopic(observed.cluster, observed.topic), event), requeue=True)


def _retain(observed: TopicObserved, why: str) -> Plan:
    event = EmitEvent(Reason.RETAINED, f"topic {observed.topic} stays in Kafka: {why}")
    return Plan((event, RemoveFinalizer(TOPIC_FINALIZER)))


def _block(observed: TopicObserved, now: datetime, message: str) -> Plan:
    status, generation = observed.resource.status, observed.resource.metadata.generation
    verdict = stalled("Deleting", Reason.DELETION_BLOCKED, message)
    conditions = build_conditions(verdict, status.conditions, generation, now)
    wanted = status.replace(conditions=conditions, state=verdict.state, observed_generation=generation)
    return Plan(status=wanted, requeue_after=BLOCKED_POLL)
