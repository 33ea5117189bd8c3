"""Reads a topic: all of its committed records up to known ends, and single records again.

Partitions are assigned, so no consumer group is joined and no offset is committed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kappa_operator.cdc.reconcile.events import Record
from kappa_operator.errors import KafkaFailure, TopicMissing
from kappa_operator.kafka.errors import ClientErrors

_TIMEOUT, _SLICE = 20.0, 2.0
_STALLED = 60.0
"""Seconds without any record or end after which the brokers are given up."""
_BATCH, _POLL = 10_000, 0.2
CLIENT_SETTINGS = {
    "group.id": "kappa-reconcile",
    "client.id": "kappa-reconcile",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": "false",
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": "32768",
    "fetch.queue.backoff.ms": "10",
    "fetch.message.max.bytes": "4194304",
    "socket.connection.setup.timeout.ms": "5000",
    "log_level": "0",
}
_SINGLE = {"fetch.wait.max.ms": "10", "queued.min.messages": "1", "fetch.message.max.bytes": "65536"}
"""Settings to fetch one record, which would otherwise wait for more."""
Ends = Mapping[int, int]
"""Offsets behind the last record, by partition."""


class TopicReader:
    """A context manager over one topic. `settings` are those of the client library. Raises KafkaFailure."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._settings, self._topic = {**CLIENT_SETTINGS, **settings}, topic
        self._errors = ClientErrors(
            [value for name, value in settings.items() if "password" in name or "key" in name]
        )
        self._consumer = self._open()
        self._reached: dict[int, int] = {}

    def __enter__(self) -> "TopicReader":
        try:
            self._consumer.assign(
                [TopicPartition(self._topic, each, OFFSET_BEGINNING) for each in self._list_partitions()]
            )
        except KafkaException as error:
            self._consumer.close()
            raise self._errors.explain(error.args[0]) from None
        except KafkaFailure:
            self._consumer.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _open(self, more: Mapping[str, str] | None = None) -> Consumer:
        try:
            return Consumer({**self._settings, **(more or {}), "error_cb": self._errors.record})
        except (KafkaException, ValueError) as error:
            raise KafkaFailure(f"the settings of Kafka cannot be used: {error}", retryable=False) from None

    def _list_partitions(self) -> list[int]:
        found = self._describe()
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicMissing(f"topic {self._topic} does not exist, or the user may not see it")
        if found.error is not None:
            raise self._errors.explain(found.error)
        return sorted(found.partitions)

    def _describe(self) -> Any:
        """Ask for a while; a refused log-in or certificate ends the wait early, which the library does not."""
        until = time.monotonic() + _TIMEOUT
        while True:
            try:
                return self._consumer.list_topics(self._topic, timeout=_SLICE).topics[self._topic]
            except KafkaException:
                self._consumer.poll(0)
                if self._errors.is_final or time.monotonic() > until:
                    raise

    def find_ends(self) -> dict[int, int]:
        """Return the present ends, also of partitions that were added; those are read from their beginnings."""
        try:
            partitions = self._list_partitions()
            added = [
                each
                for each in partitions
                if each not in {at.partition for at in self._consumer.assignment()}
            ]
            if added:
                self._consumer.incremental_assign(
                    [TopicPartition(self._topic, each, OFFSET_BEGINNING) for each in added]
                )
            return {each: self._find_end(each) for each in partitions}
        except KafkaException as error:
            raise self._errors.explain(error.args[0]) from None

    def _find_end(self, partition: int) -> int:
        first, end = self._consumer.get_watermark_offsets(
            TopicPartition(self._topic, partition), timeout=_TIMEOUT
        )
        return 0 if first == end else int(end)

    def read(self, ends: Ends, add: Callable[[Record], None], tick: Callable[[], None]) -> None:
        """Read up to these ends at least; call `tick` after each batch."""
        since = time.monotonic()
        while any(self._reached.get(partition, 0) < end for partition, end in ends.items()):
            if self.poll(add):
                since = time.monotonic()
            elif time.monotonic() - since > _STALLED:
                raise KafkaFailure(f"topic {self._topic}: no record was read for {_STALLED:.0f} s")
            tick()

    def poll(self, add: Callable[[Record], None]) -> int:
        """Read what is there now; return the number of messages."""
        messages = self._consumer.consume(_BATCH, _POLL)
        for message in messages:
            self._accept(message, add)
        return len(messages)

    def _accept(self, message: Message, add: Callable[[Record], None]) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        if _is_about_group(error):
            return
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise self._errors.explain(error)
        if partition is None or offset is None:
            return
        if error is None:
            add(Record(partition, offset, message.key(), message.value()))
            self._reached[partition] = offset + 1
        else:
            self._reached[partition] = max(offset, self._reached.get(partition, 0))

    def fetch(self, places: Iterable[tuple[int, int]]) -> Iterator[Record]:
        """Yield records by partition and offset; one that compaction has removed is left out."""
        consumer = self._open(_SINGLE)
        try:
            for partition, offset in sorted(places):
                consumer.assign([TopicPartition(self._topic, partition, offset)])
                message = _find_first(consumer)
                if message is not None and message.offset() == offset:
                    yield Record(partition, offset, message.key(), message.value())
        finally:
            consumer.close()


def _is_about_group(error: KafkaError | None) -> bool:
    """Return whether an error only means that the user may not use the group: the library looks for it, although nothing here does."""
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def _find_first(consumer: Any) -> Message | None:
    until = time.monotonic() + _TIMEOUT
    while time.monotonic() < until:
        message: Message | None = consumer.poll(_POLL)
        if message is not None and not _is_about_group(message.error()):
            return message if message.error() is None else None
    return None
