"""Permissions of a pipeline's user in Kafka, checked before anything starts, so that one message names all missing ones.

A broker reports the operations that the user may do on a topic (KIP-430). Without an authorizer it reports all, and an old broker none.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, TopicDescription

from kappa_crds.permissions import KafkaResource, Operation, Permission
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection, Revision
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.kafka.options import connect_admin

_TIMEOUT_SECONDS = 20.0

Allowed = Mapping[str, frozenset[AclOperation]]
"""The operations that are allowed on each topic."""
_OPERATIONS = {
    Operation.READ: AclOperation.READ,
    Operation.WRITE: AclOperation.WRITE,
    Operation.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}


def list_checked(revision: Revision) -> list[Permission]:
    """Return the permissions that a driver checks: those on topics that the pipeline names and cannot work without."""
    return [
        each
        for each in revision.permissions
        if each.kind is KafkaResource.TOPIC and not each.is_prefix and not each.optional
    ]


def find_missing(wanted: Iterable[Permission], allowed: Allowed) -> list[Permission]:
    """Return the missing permissions. A topic without any reported operation counts as allowed."""
    return [
        each
        for each in wanted
        if allowed.get(each.name) and _OPERATIONS[each.operation] not in allowed[each.name]
    ]


def check_permissions(revision: Revision) -> None:
    """Raise UnavailableError that names each missing permission on topics. A broker that reports none is assumed to allow all."""
    wanted = list_checked(revision)
    missing = find_missing(wanted, _fetch_allowed(revision.kafka, {each.name for each in wanted}))
    if missing:
        permissions = ", ".join(map(str, missing))
        raise UnavailableError(
            Reason.AUTHORIZATION_FAILED,
            f"the Kafka user lacks permissions that the pipeline needs; grant {permissions}",
        )


def check_group(kafka: KafkaConnection, group: str) -> None:
    """Raise KafkaException if this user may not describe a consumer group: a commit to it would wait for a timeout."""
    admin = connect_admin(kafka)
    futures = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_SECONDS)
    try:
        futures[group].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise


def _fetch_allowed(kafka: KafkaConnection, topics: Iterable[str]) -> Allowed:
    admin = connect_admin(kafka)
    futures = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=_TIMEOUT_SECONDS
    )
    return {topic: _read_operations(found) for topic, found in futures.items()}


def _read_operations(found: Future[TopicDescription]) -> frozenset[AclOperation]:
    try:
        operations = found.result().authorized_operations or ()
        return frozenset(each for each in operations if isinstance(each, AclOperation))
    except KafkaException:
        return frozenset()
