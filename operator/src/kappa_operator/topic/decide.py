"""What to do about a topic, from what was observed.

What can be applied is applied, and the rest is reported: a spec with fewer partitions *and* a longer retention gets its
retention. Only configs that the spec declares are touched; the status remembers them, so that one that leaves the
spec returns to its default.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.conditions import ConditionType, find_condition, merge_conditions
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_crds.topic import TOPIC_FINALIZER, DeletionPolicy
from kappa_operator import backoff, intervals
from kappa_operator.archive.decide import begin_archive, choose_wait, follow_archive, report_archive
from kappa_operator.engine import actions as act
from kappa_operator.engine.descriptions import describe_action
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import (
    Failure,
    Plan,
    Verdict,
    find_failure,
    hold_deletion,
    judge_error,
    ready,
    stalled,
    update_status,
    working,
)
from kappa_operator.kafka.model import TopicView
from kappa_operator.topic.checks import Refusal, TopicObserved, TopicResource, find_refusals
from kappa_operator.topic.configs import (
    CLEANUP,
    RETENTION_TIME,
    build_configs,
    describe_topic,
    is_same_cleanup,
    is_same_value,
)
from kappa_operator.topic.deletion import delete_topic
from kappa_operator.topic.retention import is_hold


@dataclass(frozen=True, slots=True)
class Change:
    """What an existing topic lacks: partitions to grow to, and configs to set or (None) to unset."""

    partitions: int | None
    configs: dict[str, str | None]


def hold_topic(observed: TopicObserved, _now: datetime) -> Plan | None:
    """Hold deletion only where the topic is deleted with its resource, so that nothing else ever blocks a namespace."""
    wanted = observed.resource.spec.deletion_policy == DeletionPolicy.DELETE
    return hold_deletion(observed.resource, TOPIC_FINALIZER, wanted=wanted)


def report_conflict(observed: TopicObserved, now: datetime) -> Plan | None:
    """Leave the topic to the oldest resource that claims it."""
    if observed.winner is None:
        return None
    _, namespace, name = observed.winner
    message = f"topic {observed.topic} belongs to the older Topic {namespace}/{name}; delete this resource or that one"
    return _report(observed, stalled("Conflict", Reason.TOPIC_CONFLICT, message), now)


def report_problem(observed: TopicObserved, now: datetime) -> Plan | None:
    """Wait where Kafka was not reached."""
    if observed.problem is None:
        return None
    state = "Creating" if observed.resource.status.topic_id is None else "Failed"
    return _report(observed, judge_error(state, observed.problem), now)


def report_suspended(observed: TopicObserved, now: datetime) -> Plan | None:
    """Leave a suspended topic as it is."""
    if not observed.resource.spec.suspend:
        return None
    if observed.view is None:
        message = "spec.suspend keeps the topic from being created; set it to false"
        return _report(observed, stalled("Suspended", Reason.SUSPENDED, message), now)
    message = "spec.suspend is set; the topic in Kafka is left as it is"
    return _report(observed, ready("Suspended", Reason.SUSPENDED, message), now)


def create_topic(observed: TopicObserved, now: datetime) -> Plan | None:
    """Create a topic that is missing."""
    if observed.view is not None or observed.cluster is None:
        return None
    failure = find_failure(observed.failures, act.CreateTopic)
    if failure is not None:
        return _report(observed, _judge_failures("Creating", (failure,)), now)
    spec = observed.resource.spec
    create = act.CreateTopic(
        observed.cluster, observed.topic, spec.partitions, spec.replication, build_configs(spec)
    )
    return Plan((create,), requeue=True)


def change_topic(observed: TopicObserved, _now: datetime) -> Plan | None:
    """Apply what can be applied to an existing topic."""
    cluster, view = observed.cluster, observed.view
    if cluster is None or view is None:
        return None
    change = find_change(observed.resource, view, find_refusals(observed.resource.spec, view))
    actions = _build_actions(observed, cluster, view, change)
    return Plan(actions, requeue=True) if actions else None


def report_topic(observed: TopicObserved, now: datetime) -> Plan | None:
    """Report the topic, and what cannot be applied to it."""
    view = observed.view
    if view is None:
        return None
    refusals = find_refusals(observed.resource.spec, view)
    return _report(observed, _judge(observed, view, refusals), now, _build_news(observed, view))


TOPIC_STEPS: tuple[Step[TopicObserved], ...] = (
    delete_topic,
    hold_topic,
    follow_archive,
    report_conflict,
    report_problem,
    begin_archive,
    report_suspended,
    create_topic,
    change_topic,
    report_topic,
)


def find_change(resource: TopicResource, view: TopicView, refusals: tuple[Refusal, ...] = ()) -> Change:
    """Return what is to be changed, leaving out what is refused."""
    spec = resource.spec
    declared = build_configs(spec)
    if any(refusal.reason == Reason.CLEANUP_CHANGE_UNSAFE for refusal in refusals):
        del declared[CLEANUP]
    configs: dict[str, str | None] = {
        name: value for name, value in declared.items() if not _is_in_effect(name, value, view)
    }
    for name in resource.status.managed_configs:
        if name in view.explicit and name not in build_configs(spec):
            configs[name] = None
    return Change(spec.partitions if spec.partitions > view.partitions else None, configs)


def _is_in_effect(name: str, value: str, view: TopicView) -> bool:
    shown = view.configs.get(name)
    return is_same_cleanup(shown, value) if name == CLEANUP else is_same_value(shown, value)


def _build_actions(
    observed: TopicObserved, cluster: Key, view: TopicView, change: Change
) -> tuple[act.Action, ...]:
    actions: list[act.Action] = []
    if change.partitions is not None and find_failure(observed.failures, act.GrowPartitions) is None:
        actions.append(act.GrowPartitions(cluster, observed.topic, view.partitions, change.partitions))
    if change.configs and find_failure(observed.failures, act.AlterConfigs) is None:
        actions += _record_managed(observed.resource)
        actions.append(act.AlterConfigs(cluster, observed.topic, change.configs))
    changes = [describe_action(action) for action in actions if not isinstance(action, act.RecordStatus)]
    return (*actions, _build_change_event(observed.resource, "; ".join(changes), change)) if actions else ()


def _record_managed(resource: TopicResource) -> list[act.Action]:
    """Record the configs before they are set: after a crash they must not be taken for configs set by hand."""
    known = resource.status.managed_configs
    managed = tuple(sorted({*known, *build_configs(resource.spec)}))
    return [act.RecordStatus(resource.status.replace(managed_configs=managed))] if managed != known else []


def _build_change_event(resource: TopicResource, text: str, change: Change) -> act.EmitEvent:
    holders = [name for name in resource.metadata.annotations if is_hold(name)]
    if holders and change.partitions is None and set(change.configs) == {RETENTION_TIME}:
        return act.EmitEvent(Reason.ALTERED, f"{text}, by its annotation {', '.join(sorted(holders))}")
    if resource.spec.archive is not None and set(change.configs) == {RETENTION_TIME}:
        return act.EmitEvent(Reason.ALTERED, f"{text}, as its archive needs it")
    if resource.status.observed_generation == resource.metadata.generation:
        return act.EmitEvent(Reason.DRIFT_REPAIRED, f"the topic had been changed from outside: {text}", True)
    return act.EmitEvent(Reason.ALTERED, text)


def _build_news(observed: TopicObserved, view: TopicView) -> tuple[act.Action, ...]:
    """Return the Event of a topic that was found and adopted, or deleted and created again."""
    before = observed.resource.status.topic_id
    if before is None and not view.created_here:
        message = f"topic {view.name} existed already ({describe_topic(view)}); it is managed from now on"
        return (act.EmitEvent(Reason.ADOPTED, message),)
    if before is not None and before != view.topic_id:
        message = f"topic {view.name} was deleted from outside, with its data; it was created again, empty"
        return (act.EmitEvent(Reason.TOPIC_RECREATED, message, True),)
    return ()


def _judge(observed: TopicObserved, view: TopicView, refusals: tuple[Refusal, ...]) -> Verdict:
    if observed.kafka_failures:
        return _judge_failures("Failed", observed.kafka_failures, refusals)
    if refusals:
        return stalled("Failed", refusals[0].reason, "; ".join(refusal.message for refusal in refusals))
    return ready("Synced", Reason.SYNCED, f"topic {view.name} matches its spec: {describe_topic(view)}")


def _judge_failures(state: str, failures: tuple[Failure, ...], refusals: tuple[Refusal, ...] = ()) -> Verdict:
    """Report what failed; it is stalled where a retry helps none of it."""
    errors = [failure.error for failure in failures]
    final = [error for error in errors if not error.retryable]
    message = "; ".join([error.message for error in errors] + [refusal.message for refusal in refusals])
    if len(final) == len(errors):
        return stalled("Failed", final[0].reason, message)
    return working(state, next(error.reason for error in errors if error.retryable), message)


def _report(
    observed: TopicObserved, verdict: Verdict, now: datetime, news: tuple[act.Action, ...] = ()
) -> Plan:
    waits = (_choose_requeue(observed, verdict, now), choose_wait(observed, now))
    requeue = min((each for each in waits if each is not None), default=None)
    return Plan(news, build_status(observed, verdict, now), requeue)


def _choose_requeue(observed: TopicObserved, verdict: Verdict, now: datetime) -> float | None:
    if verdict.ready == "True":
        return None
    if observed.kafka_failures or (observed.problem is not None and observed.problem.retryable):
        return choose_delay(observed.resource, now)
    return intervals.WAITING


def choose_delay(resource: TopicResource, now: datetime) -> float:
    """Return the seconds until the next try, by how long the topic has not been ready."""
    unready = find_condition(resource.status.conditions, ConditionType.READY)
    elapsed = 0.0 if unready is None else (now - unready.last_transition_time).total_seconds()
    return backoff.TOPIC.pause_since(elapsed, resource.metadata.uid)


def build_status(observed: TopicObserved, verdict: Verdict, now: datetime) -> ResourceStatus:
    """Return the status: what was observed, or what was observed last where Kafka was not reached."""
    resource, view = observed.resource, observed.view
    fields: dict[str, Any] = {
        "topic_name": observed.topic,
        "cluster": observed.cluster.name if observed.cluster else resource.status.cluster,
    }
    if view is not None:
        fields |= {
            "topic_id": view.topic_id,
            "partitions": view.partitions,
            "replication": view.replication,
            "summary": describe_topic(view),
            "managed_configs": _list_managed(observed, view),
        }
    updated = update_status(resource, verdict, now, **fields)
    archived = merge_conditions(resource.status.conditions, report_archive(observed, now))
    return updated.replace(conditions=(*updated.conditions, *archived))


def _list_managed(observed: TopicObserved, view: TopicView) -> tuple[str, ...]:
    """Return what the spec declares, and what it declared once and is still to be unset."""
    before = observed.resource.status.managed_configs
    if observed.winner is not None or observed.resource.spec.suspend:
        return before
    left = {name for name in before if name in view.explicit}
    return tuple(sorted({*build_configs(observed.resource.spec), *left}))
