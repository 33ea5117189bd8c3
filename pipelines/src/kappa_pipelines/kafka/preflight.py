"""Checks Kafka before Spark starts: a clear error within seconds instead of a query that hangs.

Spark's Kafka source retries for minutes and then reports few details. librdkafka distinguishes a wrong password, a wrong CA and an
unreachable broker.
"""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.kafka.options import connect_admin

TIMEOUT_SECONDS = 30.0
_FIRST_PATIENCE = 1.0
_NEW_TOPIC_SECONDS = 2.0  # a new topic is not known to each broker at once


def check_kafka(
    revision: Revision, timeout: float | None = None, *, only_sources: bool = False
) -> dict[str, int]:
    """Return the topics of Kafka with their number of partitions.

    UnavailableError if Kafka does not respond, or lacks a topic of the revision, or one that it reads.
    """
    limit = TIMEOUT_SECONDS if timeout is None else timeout
    seen_until = time.monotonic() + _NEW_TOPIC_SECONDS
    spec = revision.spec
    reads = [(f"source {s.name!r}", topic) for s in spec.sources for topic in s.read_names]
    named = reads if only_sources else [*reads, *spec.written]
    wanted = [(role, revision.topics.get(name, name)) for role, name in named]
    while True:
        topics = fetch_topics(revision, limit)
        missing = [(role, topic) for role, topic in wanted if topic not in topics]
        if not missing:
            return topics
        if time.monotonic() > seen_until:
            role, topic = missing[0]
            raise UnavailableError(
                Reason.TOPIC_NOT_FOUND,
                f"{role}: topic {topic!r} not found in Kafka (or this user may not describe it);"
                " create it, for example with a Topic resource",
            )
        time.sleep(0.2)


def fetch_topics(revision: Revision, timeout: float) -> dict[str, int]:
    """Return the topics of Kafka with their number of partitions; UnavailableError gives the cause if it does not respond."""
    errors: list[KafkaError] = []
    admin = connect_admin(revision.kafka, error_cb=errors.append)
    deadline, patience = time.monotonic() + timeout, _FIRST_PATIENCE
    while True:
        try:
            found = admin.list_topics(timeout=min(patience, max(0.1, deadline - time.monotonic())))
            return {name: len(topic.partitions) for name, topic in found.topics.items()}
        except KafkaException as error:
            patience *= 2  # short at first for early errors, longer for a slow broker
            admin.poll(0)
            errors.append(error.args[0])
            _raise_if_decided(errors, revision, time.monotonic() > deadline)


def _raise_if_decided(errors: list[KafkaError], revision: Revision, is_last: bool) -> None:
    servers = ", ".join(revision.kafka.bootstrap_servers)
    for matches, reason, text in _KINDS:
        for error in errors:
            if matches(error):
                raise UnavailableError(reason, f"{text} ({servers}): {error.str()}")
    if is_last:
        reported = next((e for e in errors if e.code() == KafkaError._TRANSPORT), errors[-1])
        raise UnavailableError(
            Reason.KAFKA_UNAVAILABLE, f"Kafka does not respond at {servers}: {reported.str()}"
        )


def _is(*codes: int) -> Callable[[KafkaError], bool]:
    return lambda error: error.code() in codes


_KINDS: tuple[tuple[Callable[[KafkaError], bool], Reason, str], ...] = (
    (
        _is(KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED),
        Reason.AUTHENTICATION_FAILED,
        "Kafka refused the credentials",
    ),
    (_is(KafkaError._SSL), Reason.TLS_FAILED, "no secure connection to Kafka"),
    (
        _is(KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        Reason.AUTHORIZATION_FAILED,
        "Kafka does not allow this user to list topics",
    ),
)
