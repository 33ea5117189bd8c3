"""A client of Kafka's transactions, for a driver that fences off older ones. Tasks write with that of the Java module (ADR 0080)."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kappa_crds.revision import KafkaConnection
from kappa_pipelines.failures.classify import NOT_WRITTEN
from kappa_pipelines.kafka.options import build_librdkafka_config
from kappa_pipelines.sinks.commit_marker import CommitMarker, parse_marker
from kappa_pipelines.sinks.publisher import MAX_WRITERS, TRANSACTION_SECONDS, Publisher

TIMEOUT_SECONDS = 60.0
_COMMIT_SECONDS = 180.0  # longer than a record may take to be delivered
_ABORT_SECONDS = 5.0
_MARGIN_SECONDS = 5.0  # for a call that observes its own timeout
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
"""Details that Kafka's messages lack."""

MarkerKey = tuple[str, int]
"""Key of a commit marker: a topic, and the number of a writer in place of a partition."""


T = TypeVar("T")


def retry_moving(call: Callable[[], T]) -> T:
    """Return the result of a call of Kafka. Repeat it while the coordinator moves or starts."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].name() not in _MOVING or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def call_within(call: Callable[[], object], seconds: float) -> None:
    """Call a function of librdkafka; raise KafkaException where it has not returned in time, or what it raised.

    `send_offsets_to_transaction` does not observe its timeout: after a restart of the coordinator it may never return
    (librdkafka issues 5456 and 5511, seen with 2.16). Then it stays behind in its thread, and the client is of no use.
    """
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            outcome.append(error)
        else:
            outcome.append(None)

    thread = threading.Thread(target=run, name="kafka-call", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:.0f} s"))
    if outcome[0] is not None:
        raise outcome[0]


class PublishError(Exception):
    """Writers could not be acquired. `name` is an error of Kafka or of this module; `classify` reads it."""

    def __init__(self, publisher: Publisher, name: str, text: str) -> None:
        super().__init__(f"{NOT_WRITTEN}{name}: topic {publisher.topic}: {text}")


class MarkerReader:
    """Reads the commit markers of a sink's writers. Every method raises KafkaException.

    With `stable`, it waits for the markers of an open commit. If its client died, it waits until another client has fenced it off.
    """

    def __init__(self, publisher: Publisher, kafka: KafkaConnection, *, stable: bool = True) -> None:
        self._consumer = Consumer(
            {
                **build_librdkafka_config(kafka),
                "group.id": publisher.group,
                "isolation.level": "read_committed" if stable else "read_uncommitted",
                "enable.auto.commit": False,
                "retry.backoff.ms": 20,  # until a new offset is stable
                "log_level": 0,
            }
        )
        self.group = self._consumer.consumer_group_metadata()

    def read(
        self, keys: Iterable[MarkerKey], timeout: float = TIMEOUT_SECONDS
    ) -> dict[MarkerKey, CommitMarker | None]:
        """Return the markers of some keys; None for a missing one."""
        found = self._fetch(keys, timeout)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {(each.topic, each.partition): parse_marker(each.metadata) for each in found}

    def find(self, topics: Iterable[str]) -> list[MarkerKey]:
        """Return the keys of all markers on some topics, of which one may be deleted.

        It does not list the offsets of the group: in confluent-kafka 2.16 that call ends the process if Kafka returns an error.
        """
        every = ((topic, number) for topic in topics for number in range(MAX_WRITERS))
        found = self._fetch(every, TIMEOUT_SECONDS)
        return [
            (each.topic, each.partition)
            for each in found
            if each.error is None and parse_marker(each.metadata) is not None
        ]

    def _fetch(self, keys: Iterable[MarkerKey], timeout: float) -> list[TopicPartition]:
        wanted = [TopicPartition(topic, number) for topic, number in keys]
        return retry_moving(lambda: list(self._consumer.committed(wanted, timeout=timeout)))

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()


class Client:
    """A producer with a transactional.id, and the reader of its commit markers. Every method raises KafkaException."""

    def __init__(self, publisher: Publisher, number: int, kafka: KafkaConnection) -> None:
        self.markers = MarkerReader(publisher, kafka)
        settings = {
            "transactional.id": publisher.name_writer(number),
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            "log_level": 0,
        }
        self.producer = Producer({**build_librdkafka_config(kafka), **settings})

    def claim(self) -> None:
        """Have Kafka fence off other clients with this transactional.id and abort their transaction."""
        self.producer.init_transactions(TIMEOUT_SECONDS)

    def commit(self, markers: Mapping[MarkerKey, CommitMarker], timeout: float = TIMEOUT_SECONDS) -> None:
        """Commit the transaction with markers. Their offsets are for people only. `timeout` bounds the sending of the markers."""
        offsets = [
            TopicPartition(topic, number, marker.last + 1, marker.to_text())
            for (topic, number), marker in markers.items()
        ]
        self.producer.flush(_COMMIT_SECONDS)  # so that markers are pending for a short time only
        send = partial(self.producer.send_offsets_to_transaction, offsets, self.markers.group, timeout)
        call_within(send, timeout + _MARGIN_SECONDS)
        self.producer.commit_transaction(_COMMIT_SECONDS)

    def close(self) -> None:
        """Abort the transaction and close the connections."""
        with contextlib.suppress(KafkaException, RuntimeError):
            self.producer.abort_transaction(_ABORT_SECONDS)
        with contextlib.suppress(KafkaException, RuntimeError):
            self.producer.purge()
        self.markers.close()


def explain_error(publisher: Publisher, error: KafkaException) -> PublishError:
    """Return the error for a call that failed."""
    found = error.args[0]
    if found.name() not in _TAKEN:
        return PublishError(
            publisher, found.name(), found.str() + _REFUSED.get(found.code(), "").format(publisher.group)
        )
    return PublishError(
        publisher, "FENCED", f"another process uses the same transactional.id ({found.name()})"
    )
