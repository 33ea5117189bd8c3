"""What to do about a topic, from what was observed.

What can be done is done, what cannot is said: a spec that asks for fewer partitions *and* a longer retention gets its
retention. Only configs that the spec declares are touched; the status remembers them, so that one that leaves the
spec returns to its default.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.reasons import Reason
from kappa_crds.topic import HOLD_ANNOTATION, TOPIC_FINALIZER, DeletionPolicy, TopicStatus
from kappa_operator.engine.actions import (
    Action,
    AddFinalizer,
    AlterConfigs,
    CreateTopic,
    EmitEvent,
    GrowPartitions,
    RecordStatus,
    RemoveFinalizer,
    describe_action,
)
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure, Plan, Verdict, build_conditions, ready, stalled, working
from kappa_operator.kafka.model import TopicView
from kappa_operator.topic.checks import GATES, Refusal, TopicObserved, TopicResource, find_refusals
from kappa_operator.topic.configs import (
    CLEANUP,
    RETENTION_TIME,
    build_configs,
    is_same_cleanup,
    is_same_value,
    say_topic,
)
from kappa_operator.topic.deletion import decide_deletion

FIRST_RETRY, LAST_RETRY = 2.0, 300.0
WAITING_POLL = 60.0


@dataclass(frozen=True, slots=True)
class Change:
    """What an existing topic lacks: partitions to grow to, and configs to set or (None) to unset."""

    partitions: int | None
    configs: dict[str, str | None]


def decide_topic(observed: TopicObserved, now: datetime) -> Plan:
    """Bring the topic to its spec as far as Kafka can, and say what is in the way of the rest."""
    if observed.resource.metadata.deletion_timestamp is not None:
        return decide_deletion(observed, now)
    finalizer = decide_finalizer(observed.resource)
    if finalizer is not None:
        return Plan((finalizer,), requeue=True)
    verdict = next((said for check in GATES if (said := check(observed)) is not None), None)
    if verdict is not None:
        return _report(observed, verdict, now)
    assert observed.cluster is not None  # noqa: S101 - check_problem speaks where there is none
    if observed.view is None:
        return _decide_creation(observed, observed.cluster, now)
    return _decide_change(observed, observed.cluster, observed.view, now)


def decide_finalizer(resource: TopicResource) -> AddFinalizer | RemoveFinalizer | None:
    """Hold deletion only where the topic goes with its resource, so that nothing else ever blocks a namespace."""
    held = TOPIC_FINALIZER in resource.metadata.finalizers
    wanted = resource.spec.deletion_policy == DeletionPolicy.DELETE
    if held == wanted:
        return None
    return AddFinalizer(TOPIC_FINALIZER) if wanted else RemoveFinalizer(TOPIC_FINALIZER)


def _decide_creation(observed: TopicObserved, cluster: Key, now: datetime) -> Plan:
    failure = _find_failure(observed, CreateTopic)
    if failure is not None:
        return _report(observed, _judge_failures("Creating", (failure,)), now)
    spec = observed.resource.spec
    create = CreateTopic(cluster, observed.topic, spec.partitions, spec.replication, build_configs(spec))
    return Plan((create,), requeue=True)


def _decide_change(observed: TopicObserved, cluster: Key, view: TopicView, now: datetime) -> Plan:
    refusals = find_refusals(observed.resource.spec, view)
    change = find_change(observed.resource, view, refusals)
    actions = _build_actions(observed, cluster, view, change)
    if actions:
        return Plan(actions, requeue=True)
    return _report(observed, _judge(observed, view, refusals), now, _build_news(observed, view))


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
) -> tuple[Action, ...]:
    actions: list[Action] = []
    if change.partitions is not None and _find_failure(observed, GrowPartitions) is None:
        actions.append(GrowPartitions(cluster, observed.topic, view.partitions, change.partitions))
    if change.configs and _find_failure(observed, AlterConfigs) is None:
        actions += _record_managed(observed.resource)
        actions.append(AlterConfigs(cluster, observed.topic, change.configs))
    said = [describe_action(action) for action in actions if not isinstance(action, RecordStatus)]
    return (*actions, _build_change_event(observed.resource, said, change)) if actions else ()


def _record_managed(resource: TopicResource) -> list[Action]:
    """Remember the configs before they are set: after a crash they must not pass for ones set by hand."""
    known = resource.status.managed_configs
    managed = tuple(sorted({*known, *build_configs(resource.spec)}))
    return [RecordStatus(resource.status.replace(managed_configs=managed))] if managed != known else []


def _build_change_event(resource: TopicResource, said: list[str], change: Change) -> EmitEvent:
    text = "; ".join(said)
    is_held = HOLD_ANNOTATION in resource.metadata.annotations
    if is_held and change.partitions is None and set(change.configs) == {RETENTION_TIME}:
        return EmitEvent(Reason.ALTERED, f"{text}, as its annotation {HOLD_ANNOTATION} says")
    if resource.status.observed_generation == resource.metadata.generation:
        return EmitEvent(Reason.DRIFT_REPAIRED, f"the topic had been changed from outside: {text}", True)
    return EmitEvent(Reason.ALTERED, text)


def _build_news(observed: TopicObserved, view: TopicView) -> tuple[Action, ...]:
    """Tell what happened to the topic as such: found and taken over, or gone and made anew."""
    before = observed.resource.status.topic_id
    if before is None and not view.created_here:
        said = f"topic {view.name} was there already ({say_topic(view)}); it is managed from now on"
        return (EmitEvent(Reason.ADOPTED, said),)
    if before is not None and before != view.topic_id:
        said = f"topic {view.name} had been deleted from outside, with its data; it exists anew, and empty"
        return (EmitEvent(Reason.TOPIC_RECREATED, said, True),)
    return ()


def _judge(observed: TopicObserved, view: TopicView, refusals: tuple[Refusal, ...]) -> Verdict:
    if observed.failures:
        return _judge_failures("Failed", observed.failures, refusals)
    if refusals:
        return stalled("Failed", refusals[0].reason, "; ".join(refusal.message for refusal in refusals))
    return ready("Synced", Reason.SYNCED, f"topic {view.name} is as the spec says: {say_topic(view)}")


def _judge_failures(state: str, failures: tuple[Failure, ...], refusals: tuple[Refusal, ...] = ()) -> Verdict:
    """Report what failed; it is hopeless where nothing failed that could work the next time."""
    errors = [failure.error for failure in failures]
    hopeless = [error for error in errors if not error.retryable]
    message = "; ".join([error.message for error in errors] + [refusal.message for refusal in refusals])
    if len(hopeless) == len(errors):
        return stalled("Failed", hopeless[0].reason, message)
    return working(state, next(error.reason for error in errors if error.retryable), message)


def _find_failure(observed: TopicObserved, kind: type[Action]) -> Failure | None:
    return next((failure for failure in observed.failures if isinstance(failure.action, kind)), None)


def _report(observed: TopicObserved, verdict: Verdict, now: datetime, news: tuple[Action, ...] = ()) -> Plan:
    return Plan(news, build_status(observed, verdict, now), _choose_requeue(observed, verdict, now))


def _choose_requeue(observed: TopicObserved, verdict: Verdict, now: datetime) -> float | None:
    if verdict.ready == "True":
        return None
    if observed.failures or (observed.problem is not None and observed.problem.retryable):
        return choose_delay(observed.resource.status, now)
    return WAITING_POLL


def choose_delay(status: TopicStatus, now: datetime) -> float:
    """Return the seconds until the next try: as long as the trouble lasts already, which doubles each time."""
    since = next((c.last_transition_time for c in status.conditions if c.type == "Ready"), now)
    return min(LAST_RETRY, max(FIRST_RETRY, (now - since).total_seconds()))


def build_status(observed: TopicObserved, verdict: Verdict, now: datetime) -> TopicStatus:
    """Return the status: what was seen, or what was seen last where Kafka could not be asked."""
    resource, view = observed.resource, observed.view
    status, metadata = resource.status, resource.metadata
    fields: dict[str, Any] = {
        "observed_generation": metadata.generation,
        "conditions": build_conditions(verdict, status.conditions, metadata.generation, now),
        "state": verdict.state,
        "topic_name": observed.topic,
        "cluster": observed.cluster.name if observed.cluster else status.cluster,
    }
    if view is not None:
        fields |= {
            "topic_id": view.topic_id,
            "partitions": view.partitions,
            "replication": view.replication,
            "summary": say_topic(view),
            "managed_configs": _list_managed(observed, view),
        }
    return status.replace(**fields)


def _list_managed(observed: TopicObserved, view: TopicView) -> tuple[str, ...]:
    """Return what the spec declares, and what it declared once and is still to be unset."""
    before = observed.resource.status.managed_configs
    if observed.winner is not None or observed.resource.spec.pause:
        return before
    left = {name for name in before if name in view.explicit}
    return tuple(sorted({*build_configs(observed.resource.spec), *left}))
