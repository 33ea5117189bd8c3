"""A driver takes over the writers of the drivers before it, so that they can publish nothing more. In the driver, before its first batch.

For each writer that an older driver may still have: Kafka shuts out whoever has its transactional.id, ends what that one has left
open, and the mark is given the new generation in a transaction of the same id. Tasks of the older driver that have not begun
find that in the mark; those that have begun are refused by the broker, however long they slept.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog
from confluent_kafka import KafkaException

from kappa_pipelines.errors import FencedError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.exceptions import Cause, Failure
from kappa_pipelines.kafka.permissions import check_group
from kappa_pipelines.sinks.client import Client, MarkerReader, Place, explain_error
from kappa_pipelines.sinks.commit_marker import CommitMarker
from kappa_pipelines.sinks.in_doubt import BatchState
from kappa_pipelines.sinks.publisher import Connection, Publisher

_THREADS = 16

log = structlog.get_logger()


def take_over(
    publisher: Publisher, connection: Connection, begun: BatchState, topic_before: str
) -> dict[int, CommitMarker]:
    """Take over all writers of a sink, also of the topic that it had before, and return their marks.

    FencedError where a newer driver has them, DriverError where Kafka does not do it.
    """
    try:
        check_group(connection.kafka, publisher.group)
        places = _find_places(publisher, connection, topic_before)
        numbers = sorted({number for _, number in places})
        with ThreadPoolExecutor(min(_THREADS, len(numbers)), "takeover") as threads:
            taken = threads.map(lambda number: _take(publisher, connection, begun, number, places), numbers)
            marks = {place: mark for found in taken for place, mark in found.items()}
    except KafkaException as error:
        cause = Cause("PublishError", str(explain_error(publisher, error, 0)))
        raise classify(Failure((cause,)), f"sink {publisher.sink!r}") from error
    log.info("writers are taken over", sink=publisher.sink, writers=len(numbers))
    return {number: mark for (topic, number), mark in marks.items() if topic == publisher.topic}


def _find_places(publisher: Publisher, connection: Connection, topic_before: str) -> set[Place]:
    """Return where there are marks or are to be: each driver has made those of all its writers before its first batch."""
    reader = MarkerReader(publisher, connection.kafka, stable=False)
    try:
        found = reader.find({publisher.topic, topic_before})
    finally:
        reader.close()
    return {*found, *((publisher.topic, number) for number in range(publisher.writers))}


def _take(
    publisher: Publisher, connection: Connection, begun: BatchState, number: int, places: Iterable[Place]
) -> dict[Place, CommitMarker]:
    """Take over one writer, with its marks in all topics, and return them."""
    client = Client(publisher, number, connection)
    try:
        client.claim()
        found = client.marks.read(place for place in places if place[1] == number)
        _refuse_newer(publisher, found)
        mine = publisher.generation
        marks = {
            place: (mark or CommitMarker(mine)).taken_over(mine, begun.life, begun.planned)
            for place, mark in found.items()
        }
        client.producer.begin_transaction()
        client.commit(marks)
        return marks
    finally:
        client.close()


def _refuse_newer(publisher: Publisher, marks: Mapping[Place, CommitMarker | None]) -> None:
    newest = max((mark.generation for mark in marks.values() if mark is not None), default=0)
    if newest > publisher.generation:
        raise FencedError(publisher.generation, newest)
