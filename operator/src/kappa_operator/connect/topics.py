"""The internal topics of Kafka Connect: what they must be, and what is wrong with those that exist."""

from collections.abc import Mapping
from typing import NamedTuple

from kappa_crds.connect import ConnectStatus
from kappa_operator.connect.names import KafkaClusterResource, name_group
from kappa_operator.engine.actions import CreateTopic
from kappa_operator.engine.keys import Key
from kappa_operator.kafka.model import TopicView

CLEANUP = "cleanup.policy"
MOST_REPLICAS = 3


class InternalTopic(NamedTuple):
    """A topic of the workers: `setting` is the worker's setting for its name."""

    setting: str
    name: str
    partitions: int


def list_topics(resource: KafkaClusterResource) -> tuple[InternalTopic, ...]:
    """Return the topics of configurations, offsets and states. Configurations are read in order, so they have one partition."""
    group = name_group(resource)
    return (
        InternalTopic("config.storage.topic", f"{group}.configs", 1),
        InternalTopic("offset.storage.topic", f"{group}.offsets", 5),
        InternalTopic("status.storage.topic", f"{group}.status", 3),
    )


def create_missing(
    resource: KafkaClusterResource, found: Mapping[str, TopicView | None], brokers: int
) -> tuple[CreateTopic, ...]:
    """Return the actions that create the topics that are missing, with a replica on each broker, at most three."""
    replicas = max(1, min(MOST_REPLICAS, brokers))
    return tuple(
        CreateTopic(Key.of(resource), each.name, each.partitions, replicas, {CLEANUP: "compact"})
        for each in list_topics(resource)
        if found.get(each.name) is None
    )


def find_unsuitable(resource: KafkaClusterResource, found: Mapping[str, TopicView | None]) -> str | None:
    """Return what is wrong with a topic, and what to do; None where nothing is. A topic that was never seen may be missing."""
    known = (resource.status.connect or ConnectStatus()).topics
    for topic in list_topics(resource):
        view = found.get(topic.name)
        if topic.name in known and (view is None or view.topic_id != known[topic.name]):
            return (
                f"topic {topic.name} was deleted in Kafka, and with it what connectors had done; remove spec.connect and add it again to"
                " start from empty topics"
            )
        if view is None:
            continue
        if view.partitions != topic.partitions and topic.partitions == 1:
            return f"topic {topic.name} has {view.partitions} partitions and must have 1; delete it and it is created"
        policy = view.configs.get(CLEANUP)
        if policy != "compact":
            return f"topic {topic.name} has {CLEANUP}={policy}, which loses records; set it to compact"
    return None


def list_ids(resource: KafkaClusterResource, found: Mapping[str, TopicView | None]) -> dict[str, str]:
    """Return the ids of the topics by name, as the status keeps them."""
    views = ((each.name, found.get(each.name)) for each in list_topics(resource))
    return {name: view.topic_id for name, view in views if view is not None}
