"""The ranges of topics that are compared: their present bounds, and whether all of their records are available."""

import time

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kappa_crds.comparison import OutputRange
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.errors import LostDataError, SpecError, UnavailableError
from kappa_pipelines.kafka.options import connect_admin

_TIMEOUT_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


class TopicBounds:
    """Bounds of topics, requested from Kafka. Methods raise UnavailableError if it does not respond, or lacks the topic."""

    def __init__(self, kafka: KafkaConnection, *, committed: bool) -> None:
        self._admin: AdminClient = connect_admin(kafka)
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def find_range(self, topic: str) -> OutputRange:
        """Return all present records of a topic; of committed ones up to the first open transaction."""
        partitions = self._list_partitions(topic)
        return OutputRange(
            topic=topic,
            start=self._list(topic, partitions, OffsetSpec.earliest()),  # type: ignore[no-untyped-call]
            end=self._list(topic, partitions, OffsetSpec.latest()),  # type: ignore[no-untyped-call]
        )

    def check(self, wanted: OutputRange) -> None:
        """Raise LostDataError if records of a range were deleted, SpecError if it ends after the log."""
        problem = find_problem(wanted, self.find_range(wanted.topic))
        if problem is not None:
            raise problem

    def clip(self, wanted: OutputRange) -> OutputRange:
        """Return a range without the records at its start that were deleted; SpecError if it ends after the log."""
        present = self.find_range(wanted.topic)
        clipped = clip_range(wanted, present)
        problem = find_problem(clipped, present)
        if problem is not None:
            raise problem
        return clipped

    def _list_partitions(self, topic: str) -> list[int]:
        try:
            found = self._admin.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic]
        except KafkaException as error:
            raise _unavailable(error) from error
        if found.error is not None:
            raise UnavailableError(
                Reason.TOPIC_NOT_FOUND,
                f"topic {topic!r} not found in Kafka (or this user may not describe it): {found.error.str()}",
            )
        return sorted(found.partitions)

    def _list(self, topic: str, partitions: list[int], spec: OffsetSpec) -> dict[int, int]:
        """Return an offset of each partition. While a partition has no leader the request is repeated."""
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                futures = self._admin.list_offsets(
                    wanted, isolation_level=self._isolation, request_timeout=_TIMEOUT_SECONDS
                )
                return {at.partition: future.result().offset for at, future in futures.items()}
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise _unavailable(error) from error
            time.sleep(_PAUSE_SECONDS)


def _unavailable(error: KafkaException) -> UnavailableError:
    return UnavailableError(Reason.KAFKA_UNAVAILABLE, f"Kafka: {error.args[0].str()}")


def find_problem(wanted: OutputRange, present: OutputRange) -> SpecError | LostDataError | None:
    """Return why a range cannot be read whole; None if it can. Pure."""
    where = f"topic {wanted.topic!r}"
    if wanted.start.keys() != wanted.end.keys():
        return SpecError(Reason.INVALID_SPEC, f"{where}: start and end name different partitions")
    unknown = sorted(wanted.end.keys() - present.end.keys())
    if unknown:
        return SpecError(Reason.INVALID_SPEC, f"{where} has no partition {unknown[0]}")
    for part, start in sorted(wanted.start.items()):
        end = wanted.end[part]
        if not 0 <= start <= end:
            return SpecError(Reason.INVALID_SPEC, f"{where}, partition {part}: {start} to {end} is no range")
        if start < min(end, present.start[part]):
            return LostDataError(
                Reason.OFFSETS_LOST,
                f"{where}, partition {part}: records from offset {start} to {min(end, present.start[part]) - 1} were deleted;"
                f" the first available offset is {present.start[part]}",
            )
        if end > present.end[part]:
            return SpecError(
                Reason.INVALID_SPEC,
                f"{where}, partition {part}: the range ends at offset {end}, but the log ends at {present.end[part]}",
            )
    return None


def clip_range(wanted: OutputRange, present: OutputRange) -> OutputRange:
    """Return what is left of a range, which may be nothing. Pure."""
    start = {
        part: max(first, min(wanted.end.get(part, first), present.start.get(part, first)))
        for part, first in wanted.start.items()
    }
    return wanted.replace(start=start)


def find_deleted(wanted: OutputRange, clipped: OutputRange) -> dict[str, int]:
    """Return the first offset that is left in each partition whose start was deleted. Pure."""
    return {
        str(part): clipped.start[part]
        for part, first in sorted(wanted.start.items())
        if clipped.start[part] > first
    }


def count_records(output: OutputRange) -> int:
    """Return the number of offsets of a range."""
    return sum(end - output.start[partition] for partition, end in output.end.items())
