"""One call of the client library for many topics, in the order of the request; each topic gets its result or its own error.

These block and run in threads. An error that concerns the whole call is raised.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from kappa_operator.engine.actions import AlterConfigs, CreateTopic, DeleteTopic, GrowPartitions
from kappa_operator.errors import AuthorizationFailed, KafkaFailure
from kappa_operator.kafka.errors import ClientErrors
from kappa_operator.kafka.metadata import FoundTopic
from kappa_operator.kafka.model import ClusterView, TopicView

TIMEOUT = 20.0
CHECK_TIMEOUT, CHECK_SLICE = 10.0, 2.0
_ONE_TOPIC = "__consumer_offsets"
"""The library would make an object of each partition of all topics."""

Outcome = KafkaFailure | bool
"""Whether the call did it (False: there was nothing to do), or why it could not."""
Gone = KafkaError.UNKNOWN_TOPIC_OR_PART


class Admin(NamedTuple):
    """The client of the library, and the errors of its connections."""

    client: AdminClient
    errors: ClientErrors


def describe_cluster(admin: Admin) -> ClusterView:
    """Return the cluster as it answers now, without its topics; a refused log-in or certificate ends the wait early."""
    answer = _ask_for_metadata(*admin)
    return ClusterView(
        cluster_id=answer.cluster_id or "",
        brokers=len(answer.brokers),
        controller=answer.controller_id if answer.controller_id >= 0 else None,
        topics=0,
        advertised=tuple(sorted(f"{each.host}:{each.port}" for each in answer.brokers.values())),
    )


def _ask_for_metadata(client: AdminClient, errors: ClientErrors) -> Any:
    """Ask repeatedly for a while: the library itself waits for the whole time, whatever its errors are."""
    deadline = time.monotonic() + CHECK_TIMEOUT
    while True:
        try:
            answer = client.list_topics(_ONE_TOPIC, timeout=CHECK_SLICE)
        except KafkaException as error:
            client.poll(0)
            if errors.is_final or time.monotonic() > deadline:
                raise errors.explain(error.args[0]) from None
        else:
            client.poll(0)
            errors.forget()
            return answer


def build_view(admin: Admin, name: str, found: FoundTopic) -> TopicView | KafkaFailure | None:
    """Return a topic without its configs, None where it is not there."""
    if found.error == Gone:
        return None
    if found.error:
        return admin.errors.explain(KafkaError(found.error))
    return TopicView(name, found.topic_id, found.partitions, found.replication)


def create_topics(admin: Admin, actions: Sequence[CreateTopic]) -> list[Outcome]:
    """Create the topics; False for one that is there already."""
    topics = {
        action.topic: NewTopic(
            action.topic,
            num_partitions=action.partitions,
            replication_factor=-1 if action.replication is None else action.replication,
            config=action.configs,
        )
        for action in actions
    }
    futures = _call(
        admin,
        lambda: admin.client.create_topics(
            list(topics.values()), request_timeout=TIMEOUT, operation_timeout=TIMEOUT
        ),
    )
    return _settle(admin, futures, actions, "Create", benign=KafkaError.TOPIC_ALREADY_EXISTS)


def grow_partitions(admin: Admin, actions: Sequence[GrowPartitions]) -> list[Outcome]:
    """Raise the partition counts."""
    wanted = [NewPartitions(name, count) for name, count in {a.topic: a.partitions for a in actions}.items()]
    futures = _call(
        admin,
        lambda: admin.client.create_partitions(wanted, request_timeout=TIMEOUT, operation_timeout=TIMEOUT),
    )
    return _settle(admin, futures, actions, "Alter")


def alter_configs(admin: Admin, actions: Sequence[AlterConfigs]) -> list[Outcome]:
    """Set and unset configs, leaving all others alone."""
    resources = {action.topic: _build_alteration(action.topic, action.configs) for action in actions}
    futures = _call(
        admin,
        lambda: admin.client.incremental_alter_configs(list(resources.values()), request_timeout=TIMEOUT),
    )
    by_topic = {name: futures[resource] for name, resource in resources.items()}
    return _settle(admin, by_topic, actions, "AlterConfigs")


def _build_alteration(topic: str, configs: Mapping[str, str | None]) -> ConfigResource:
    entries = [
        ConfigEntry(
            name,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in configs.items()
    ]
    return ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)


def delete_topics(admin: Admin, actions: Sequence[DeleteTopic]) -> list[Outcome]:
    """Delete the topics; False for one that is gone already."""
    names = list(dict.fromkeys(action.topic for action in actions))
    futures = _call(
        admin, lambda: admin.client.delete_topics(names, request_timeout=TIMEOUT, operation_timeout=TIMEOUT)
    )
    return _settle(admin, futures, actions, "Delete", benign=Gone)


def _call(admin: Admin, request: Callable[[], dict[Any, "Future[Any]"]]) -> dict[Any, "Future[Any]"]:
    try:
        return request()
    except KafkaException as error:
        raise admin.errors.explain(error.args[0]) from None


def _settle(
    admin: Admin,
    futures: Mapping[str, "Future[Any]"],
    actions: Sequence[CreateTopic | GrowPartitions | AlterConfigs | DeleteTopic],
    needs: str,
    *,
    benign: int | None = None,
) -> list[Outcome]:
    """Return what came of the call; `needs` is the operation on the topic that the user must be allowed."""
    outcomes: dict[str, Outcome] = {}
    for name, future in futures.items():
        try:
            future.result(timeout=TIMEOUT + 5)
            outcomes[name] = True
        except KafkaException as error:
            outcomes[name] = _name_right(_explain(admin, error, benign), needs, name) or False
    return [outcomes[action.topic] for action in actions]


def _name_right(failure: KafkaFailure | None, needs: str, topic: str) -> KafkaFailure | None:
    if not isinstance(failure, AuthorizationFailed):
        return failure
    return AuthorizationFailed(f"{failure.message} The user needs {needs} on topic {topic}.", retryable=False)


def _explain(admin: Admin, error: KafkaException, benign: int | None = None) -> KafkaFailure | None:
    if error.args[0].code() == benign:
        return None
    admin.client.poll(0)
    return admin.errors.explain(error.args[0])
