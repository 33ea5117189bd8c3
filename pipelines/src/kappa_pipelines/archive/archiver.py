"""Copies the committed records of a partition from the log to the archive, one segment at a time.

It has no state but the archive: the next segment begins where the last one ends. So a crash leaves a whole segment or none, and two
archivers write the same records.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kappa_crds.reasons import Reason
from kappa_pipelines.archive.files import Row, write_segment
from kappa_pipelines.archive.segments import Segment, find_end, find_first, list_segments
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError, UnavailableError

_TIMEOUT = 30.0
_AT_ONCE, _PAUSE = 5000, 0.2
"""Messages of one call of the library, and the seconds that it waits for so many."""
CONSUMER = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
}
"""Settings that a consumer of an archiver needs besides the connection and a group.id, which it does not use."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The size of a segment: at most so many records and bytes of keys and values. Without `least` records none is written."""

    records: int = 500_000
    bytes: int = 64 * 2**20
    least: int = 1


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """A topic in an archive. `root` is the folder of all topics."""

    folder: Folder
    topic: str
    topic_id: str

    @property
    def identity(self) -> Mapping[str, str]:
        """Return what a file has about its topic."""
        return {"topic": self.topic, "topicId": self.topic_id}


@dataclass(frozen=True, slots=True)
class Archived:
    """A step in a partition: the segment that it wrote, if any, and the offset up to which nothing is left to write."""

    segment: Segment | None
    end: int


def archive_partition(
    consumer: Consumer, archived: ArchivedTopic, partition: int, limits: Limits | None = None
) -> Segment | None:
    """Write the next segment of a partition; None where there are too few new records.

    Raises LostDataError where the log has lost records that were not archived, with their offsets.
    """
    begin = _find_begin(consumer, archived, partition)
    return archive_from(consumer, archived, partition, begin, limits).segment


def archive_from(
    consumer: Consumer, archived: ArchivedTopic, partition: int, begin: int, limits: Limits | None = None
) -> Archived:
    """Write the segment of a partition that begins at an offset, unless there are too few records from there on."""
    limits = limits or Limits()
    consumer.assign([TopicPartition(archived.topic, partition, begin)])
    try:
        rows, end = _read(consumer, begin, limits)
    finally:
        consumer.unassign()
    if len(rows) < limits.least or end <= begin:
        return Archived(None, begin if rows else end)
    segment = Segment(partition, begin, end)
    write_segment(archived.folder, segment, rows, archived.identity)
    return Archived(segment, end)


def _find_begin(consumer: Consumer, archived: ArchivedTopic, partition: int) -> int:
    """Return the first offset that is not archived, which is the start of the log for an empty archive."""
    try:
        start, _ = consumer.get_watermark_offsets(TopicPartition(archived.topic, partition), timeout=_TIMEOUT)
    except KafkaException as error:
        raise _explain(archived.topic, partition, error.args[0]) from error
    segments = list_segments(archived.folder)
    first = find_first(segments, partition)
    if first is None:
        return start
    begin = find_end(segments[partition], first)
    if begin < start:
        raise LostDataError(
            Reason.OFFSETS_LOST,
            f"topic {archived.topic}, partition {partition}: offsets {begin:,} to {start - 1:,} were removed before they were archived",
        )
    return begin


def _read(consumer: Consumer, begin: int, limits: Limits) -> tuple[list[Row], int]:
    """Return records from `begin` on, and the offset up to which they are all. At the end of the log that is after the last commit marker."""
    rows: list[Row] = []
    size, end = 0, begin
    for message in _poll(consumer):
        error = message.error()
        if error is not None:
            return rows, max(end, message.offset() or end)
        rows.append(_build_row(message))
        end = (message.offset() or 0) + 1
        size += len(message.value() or b"") + len(message.key() or b"")
        if len(rows) >= limits.records or size >= limits.bytes:
            break
    return rows, end


def _poll(consumer: Consumer) -> Iterator[Message]:
    """Yield messages; the last one is the end of the partition."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        messages = consumer.consume(_AT_ONCE, _PAUSE)
        if messages:
            deadline = time.monotonic() + _TIMEOUT
        elif time.monotonic() > deadline:
            raise UnavailableError(
                Reason.BROKER_UNREACHABLE,
                f"no record and no end of the partition came within {_TIMEOUT:.0f} s",
            )
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise _explain(message.topic() or "", message.partition() or 0, error)
            yield message


def _explain(topic: str, partition: int, error: KafkaError) -> UnavailableError:
    return UnavailableError(
        Reason.BROKER_UNREACHABLE, f"topic {topic}, partition {partition} cannot be read: {error.str()}"
    )


def _build_row(message: Message) -> Row:
    kind, stamp = message.timestamp()
    headers = [{"key": name, "value": value} for name, value in _list_headers(message)]
    return Row(
        offset=message.offset() or 0,
        timestamp=stamp if kind else None,
        timestamp_type=kind - 1,  # the library counts from 1, Kafka from 0
        key=_to_bytes(message.key()),
        value=_to_bytes(message.value()),
        headers=headers or None,
    )


def _to_bytes(held: bytes | str | None) -> bytes | None:
    """Return bytes; the types of the library allow a text."""
    return held.encode() if isinstance(held, str) else held


def _list_headers(message: Message) -> list[tuple[str, Any]]:
    """Return the headers in their order; the library gives a list, and its types allow a dict."""
    found = message.headers() or []
    return list(found.items()) if isinstance(found, dict) else [(name, value) for name, value in found]
