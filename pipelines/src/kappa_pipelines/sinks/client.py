"""A client of Kafka's transactions: for tasks that write, and for a driver that takes their writers over."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kappa_crds.revision import KafkaConnection
from kappa_pipelines.failures.classify import NOT_WRITTEN
from kappa_pipelines.kafka.options import build_librdkafka_config
from kappa_pipelines.sinks.commit_marker import CommitMarker, parse_marker
from kappa_pipelines.sinks.publisher import MOST_WRITERS, TRANSACTION_SECONDS, Connection, Publisher

TIMEOUT_SECONDS = 60.0
_COMMIT_SECONDS = 180.0  # longer than a record may take to be delivered
_ABORT_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_MOVING = (
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "_WAIT_COORD",
    "_TRANSPORT",
)
_TAKEN = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING")  # fmt: skip
_REFUSED = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: " (group {})",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: " (transactional ids {}.*)",
}
"""What Kafka's words do not name."""

Place = tuple[str, int]
"""Where a mark is: a topic, and the number of a writer, which Kafka takes for one of its partitions."""


T = TypeVar("T")


def persist(ask: Callable[[], T]) -> T:
    """Return what a call of Kafka gives; while a coordinator moves, or begins, it is asked again."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].name() not in _MOVING or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


class PublishError(Exception):
    """Rows could not be written; `classify` knows the names, which are Kafka's own in capitals and others of this module."""

    def __init__(self, publisher: Publisher, name: str, text: str) -> None:
        super().__init__(f"{NOT_WRITTEN}{name}: topic {publisher.topic}: {text}")


class MarkerReader:
    """Reads the marks of a sink's writers. KafkaException from each method.

    One that is `stable` waits for marks that a transaction is about to commit. Who died just then is waited for until somebody has shut it out.
    """

    def __init__(self, publisher: Publisher, kafka: KafkaConnection, *, stable: bool = True) -> None:
        self._consumer = Consumer(
            {
                **build_librdkafka_config(kafka),
                "group.id": publisher.group,
                "isolation.level": "read_committed" if stable else "read_uncommitted",
                "enable.auto.commit": False,
                "retry.backoff.ms": 20,  # until an offset that was just committed is stable
                "log_level": 0,
            }
        )
        self.group = self._consumer.consumer_group_metadata()

    def read(
        self, places: Iterable[Place], timeout: float = TIMEOUT_SECONDS
    ) -> dict[Place, CommitMarker | None]:
        """Return the marks at some places; None where there is none."""
        found = self._fetch(places, timeout)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {(each.topic, each.partition): parse_marker(each.metadata) for each in found}

    def find(self, topics: Iterable[str]) -> list[Place]:
        """Return where there are marks in some topics, of which one may be gone.

        The call that lists a group's offsets would not need to be told where: in confluent-kafka 2.16 it ends the process where Kafka answers with an error.
        """
        every = ((topic, number) for topic in topics for number in range(MOST_WRITERS))
        found = self._fetch(every, TIMEOUT_SECONDS)
        return [
            (each.topic, each.partition)
            for each in found
            if each.error is None and parse_marker(each.metadata) is not None
        ]

    def _fetch(self, places: Iterable[Place], timeout: float) -> list[TopicPartition]:
        asked = [TopicPartition(topic, number) for topic, number in places]
        return persist(lambda: list(self._consumer.committed(asked, timeout=timeout)))

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()


class Client:
    """A producer with a transactional.id, and what reads its marks. KafkaException from each method."""

    def __init__(self, publisher: Publisher, number: int, connection: Connection) -> None:
        self.name = uuid.uuid4().hex[:12]
        self.marks = MarkerReader(publisher, connection.kafka)
        identity = {"transactional.id": publisher.name_writer(number), "delivery.report.only.error": True}
        self.producer = Producer(
            {**build_librdkafka_config(connection.kafka), **connection.producer, **identity}
        )

    def claim(self) -> None:
        """Have Kafka shut out all who have the same transactional.id, and end what they have left open."""
        self.producer.init_transactions(TIMEOUT_SECONDS)

    def commit(self, marks: Mapping[Place, CommitMarker]) -> None:
        """Commit what was produced since the transaction began, with marks; the offset of each is there for people."""
        offsets = [
            TopicPartition(topic, number, mark.last + 1, mark.to_text())
            for (topic, number), mark in marks.items()
        ]
        self.producer.flush(_COMMIT_SECONDS)  # so that marks are pending for as short a time as can be
        self.producer.send_offsets_to_transaction(offsets, self.marks.group, TIMEOUT_SECONDS)
        self.producer.commit_transaction(_COMMIT_SECONDS)

    def close(self) -> None:
        """Drop what was not committed, and close both ends."""
        with contextlib.suppress(KafkaException, RuntimeError):
            self.producer.abort_transaction(_ABORT_SECONDS)
        with contextlib.suppress(KafkaException, RuntimeError):
            self.producer.purge()
        self.marks.close()


def explain_error(publisher: Publisher, error: KafkaException, seconds: float) -> PublishError:
    """Return what Kafka's error means for a transaction that has lasted so long."""
    found = error.args[0]
    if found.name() not in _TAKEN:
        return PublishError(
            publisher, found.name(), found.str() + _REFUSED.get(found.code(), "").format(publisher.group)
        )
    if seconds >= TRANSACTION_SECONDS:
        said = f"writing took {seconds:.0f} s, and Kafka ends a transaction after {TRANSACTION_SECONDS} s"
        return PublishError(publisher, "TRANSACTION_TIMED_OUT", said)
    return PublishError(publisher, "FENCED", f"another process writes under the same name ({found.name()})")
