"""One run of the archiver: all that is in the log of a topic when it starts, or as much as its time allows.

The archive is the only state. A run lists it, continues each partition after its last segment, and reports what is archived then. One
segment of each partition in turn, so that none waits for another. Records that were removed unarchived are reported, and the archive
continues at the start of the log: a reading names the gap, and newer records are not lost with it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import structlog
from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kappa_crds.archive_work import REASON_BYTES, ArchiveRequest, ArchiveResult
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.archive.archiver import CONSUMER, ArchivedTopic, Limits, archive_from
from kappa_pipelines.archive.segments import Segment, find_last_range, list_segments, name_topic_folder
from kappa_pipelines.checkpoint.location import open_folder
from kappa_pipelines.errors import LostDataError, UnavailableError, shorten
from kappa_pipelines.kafka.options import build_librdkafka_config, connect_admin

_TIMEOUT = 30.0
_LIMITS = Limits(records=100_000, bytes=32 * 2**20)
"""A pod has 768 MiB."""
_NAMED = 5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Part:
    """A partition in a run: its archived range, the end of its log at the start, and how far the run came.

    It is done at that end, or at an open transaction.
    """

    number: int
    first: int
    end: int
    log_end: int
    seen: int
    lost: str = ""
    is_done: bool = False

    @property
    def is_complete(self) -> bool:
        """Return whether all that was in the log at the start is archived, or is no committed record."""
        return self.seen >= self.log_end


def archive_topic(request: ArchiveRequest, clock: Callable[[], float] = time.monotonic) -> ArchiveResult:
    """Archive the topic and return what is archived then; DriverError where nothing could be."""
    deadline = clock() + request.seconds
    place = f"{request.location}/{name_topic_folder(request.topic, request.topic_id)}"
    archived = ArchivedTopic(open_folder(place, request.connection), request.topic, request.topic_id)
    settings = {**build_librdkafka_config(request.kafka), **CONSUMER, "group.id": "unused", "log_level": 0}
    consumer = Consumer(settings)
    try:
        parts = _begin(archived, read_logs(request.kafka, request.topic))
        while left := [number for number, each in parts.items() if not each.is_done]:
            for number in left:
                if clock() > deadline:
                    return _report(archived, parts)
                parts[number] = _advance(consumer, archived, parts[number])
        return _report(archived, parts)
    finally:
        consumer.close()


def _begin(archived: ArchivedTopic, logs: dict[int, tuple[int, int]]) -> dict[int, Part]:
    """Return the partitions where the archive ends, or at the start of the log where that is later."""
    segments, parts = list_segments(archived.folder), {}
    for number, (start, log_end) in sorted(logs.items()):
        first, end = find_last_range(segments.get(number, ()))
        if end > log_end:
            raise LostDataError(
                Reason.OFFSETS_LOST,
                f"topic {archived.topic}, partition {number}: the archive ends at offset {end:,} and the log at {log_end:,}, so the log"
                " lost records, or it is another topic of that name",
            )
        lost = f"partition {number}: offsets {end:,} to {start - 1:,}" if first < end < start else ""
        seen = max(start, end)
        parts[number] = Part(number, first, end, log_end, seen, lost, seen >= log_end)
    return parts


def read_logs(kafka: KafkaConnection, topic: str) -> dict[int, tuple[int, int]]:
    """Return the start and the end of the log of each partition, open transactions included; UnavailableError where one is unknown."""
    admin = connect_admin(kafka)
    try:
        found = admin.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        starts = _list_offsets(admin, topic, found.partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = _list_offsets(admin, topic, found.partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except KafkaException as error:
        raise UnavailableError(
            Reason.BROKER_UNREACHABLE, f"topic {topic} cannot be read: {error.args[0].str()}"
        ) from error
    return {number: (starts[number], ends[number]) for number in found.partitions}


def _list_offsets(
    admin: AdminClient, topic: str, partitions: Iterable[int], wanted: OffsetSpec
) -> dict[int, int]:
    asked = {TopicPartition(topic, number): wanted for number in partitions}
    answers = admin.list_offsets(
        asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=_TIMEOUT
    )
    return {each.partition: answer.result().offset for each, answer in answers.items()}


def _advance(consumer: Consumer, archived: ArchivedTopic, part: Part) -> Part:
    """Archive the next segment of a partition. What comes after an open transaction waits for a later run."""
    step = archive_from(consumer, archived, part.number, part.seen, _LIMITS)
    if step.segment is None:
        return replace(part, seen=step.end, is_done=True)
    log.info("segment written", partition=part.number, first=step.segment.first, end=step.segment.end)
    first = part.first if part.first < part.end == step.segment.first else step.segment.first
    return replace(part, first=first, end=step.end, seen=step.end, is_done=step.end >= part.log_end)


def _report(archived: ArchivedTopic, parts: dict[int, Part]) -> ArchiveResult:
    files = [each.size for each in archived.folder.list_files("") if Segment.parse(each.path) is not None]
    lost = [each.lost for each in parts.values() if each.lost]
    more = f"; and {len(lost) - _NAMED} more partitions" if len(lost) > _NAMED else ""
    return ArchiveResult(
        ranges=tuple((each.first, each.end) for _, each in sorted(parts.items())),
        behind=sum(max(0, each.log_end - each.seen) for each in parts.values()),
        is_complete=all(each.is_complete for each in parts.values()),
        segments=len(files),
        size_bytes=sum(files),
        lost=shorten("; ".join(lost[:_NAMED]) + more, REASON_BYTES),
    )
