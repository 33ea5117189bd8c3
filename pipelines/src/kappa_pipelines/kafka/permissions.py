"""What a pipeline's user may do in Kafka, asked before anything starts, so that all that is missing is named at once.

A broker tells with a topic which operations the asking user may do there (KIP-430); one without an authorizer tells all, an old one none.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, TopicDescription

from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection, Revision
from kappa_crds.sink import Delivery
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.kafka.options import build_librdkafka_config

_TIMEOUT_SECONDS = 20.0

Allowed = Mapping[str, frozenset[AclOperation]]
"""The operations that are allowed on each topic."""


@dataclass(frozen=True)
class Permission:
    """An operation on a topic, and who needs it, in the words of the manifest."""

    operation: AclOperation
    topic: str
    role: str

    def __str__(self) -> str:
        return f"{self.operation.name} on topic {self.topic!r} ({self.role})"


def list_permissions(revision: Revision) -> list[Permission]:
    """Return what the pipeline needs on the topics that it names; those of a pattern are not known here."""
    spec = revision.spec
    reads = [(f"source {source.name!r}", topic) for source in spec.sources for topic in source.topic_names]
    marks = [
        (f"sink {sink.name!r}, delivery ExactlyOnce", sink.topic)
        for sink in spec.sinks
        if sink.delivery is Delivery.EXACTLY_ONCE
    ]
    named = [
        *((AclOperation.READ, each) for each in reads),
        *((AclOperation.WRITE, each) for each in spec.written),
        *((AclOperation.READ, each) for each in marks),
    ]
    return [
        Permission(operation, revision.topics.get(topic, topic), role) for operation, (role, topic) in named
    ]


def find_missing(wanted: Iterable[Permission], allowed: Allowed) -> list[Permission]:
    """Return the rights that are known to be missing: nothing is known of a topic of which no operation was told."""
    return [
        right for right in wanted if right.operation not in (allowed.get(right.topic) or {right.operation})
    ]


def check_permissions(revision: Revision) -> None:
    """Raise UnavailableError that names every right on topics that this user lacks. A broker that does not tell is believed to allow."""
    wanted = list_permissions(revision)
    missing = find_missing(wanted, _fetch_allowed(revision.kafka, {right.topic for right in wanted}))
    if missing:
        said = ", ".join(map(str, missing))
        raise UnavailableError(
            Reason.AUTHORIZATION_FAILED,
            f"Kafka does not allow this user what the pipeline needs; grant {said}",
        )


def check_group(kafka: KafkaConnection, group: str) -> None:
    """Raise KafkaException where this user may not see a consumer group: whoever commits to it then waits for a timeout."""
    admin = _connect(kafka)
    asked = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_SECONDS)
    try:
        asked[group].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise


def _fetch_allowed(kafka: KafkaConnection, topics: Iterable[str]) -> Allowed:
    admin = _connect(kafka)
    asked = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=_TIMEOUT_SECONDS
    )
    return {topic: _read_operations(found) for topic, found in asked.items()}


def _read_operations(found: Future[TopicDescription]) -> frozenset[AclOperation]:
    try:
        told = found.result().authorized_operations or ()
        return frozenset(each for each in told if isinstance(each, AclOperation))
    except KafkaException:
        return frozenset()


def _connect(kafka: KafkaConnection) -> AdminClient:
    """Return a client, to be held until all answers are there: one that nobody holds ends, and what it was asked is never answered."""
    return AdminClient({**build_librdkafka_config(kafka), "log_level": 0})
