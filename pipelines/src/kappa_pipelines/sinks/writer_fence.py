"""Fences off older drivers from the writers of a sink, before the first batch of a new driver.

For each writer of an older driver, Kafka fences the clients with its transactional.id and aborts their open transaction. Then a
transaction with the same id writes the new generation into the commit marker. Tasks of the older driver that have not started read
it there; the broker rejects the others, however long they were paused.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import structlog
from confluent_kafka import KafkaException

from kappa_crds.revision import KafkaConnection
from kappa_pipelines.errors import FencedError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.exceptions import Cause, Failure
from kappa_pipelines.kafka.permissions import check_group
from kappa_pipelines.sinks.client import Client, MarkerKey, MarkerReader, explain_error
from kappa_pipelines.sinks.commit_marker import CommitMarker
from kappa_pipelines.sinks.in_doubt import BatchState
from kappa_pipelines.sinks.publisher import Publisher

_PARALLEL = 16

log = structlog.get_logger()


def fence_writers(
    publisher: Publisher, kafka: KafkaConnection, state: BatchState, previous_topic: str
) -> dict[int, CommitMarker]:
    """Fence off older drivers from all writers of a sink, also on its previous topic, and return the commit markers.

    FencedError if a newer driver has them, DriverError if Kafka fails.
    """
    try:
        check_group(kafka, publisher.group)
        keys = _find_keys(publisher, kafka, previous_topic)
        numbers = sorted({number for _, number in keys})
        with ThreadPoolExecutor(min(_PARALLEL, len(numbers)), "fence") as threads:
            taken = threads.map(lambda number: _acquire(publisher, kafka, state, number, keys), numbers)
            markers = {key: marker for found in taken for key, marker in found.items()}
    except KafkaException as error:
        cause = Cause("PublishError", str(explain_error(publisher, error)))
        raise classify(Failure((cause,)), f"sink {publisher.sink!r}") from error
    log.info("writers acquired", sink=publisher.sink, writers=len(numbers))
    return {number: marker for (topic, number), marker in markers.items() if topic == publisher.topic}


def _find_keys(publisher: Publisher, kafka: KafkaConnection, previous_topic: str) -> set[MarkerKey]:
    """Return the keys of existing and of new markers. Each driver has written those of all its writers before its first batch."""
    with closing(MarkerReader(publisher, kafka, stable=False)) as reader:
        found = reader.find({publisher.topic, previous_topic})
    return {*found, *((publisher.topic, number) for number in range(publisher.writers))}


def _acquire(
    publisher: Publisher, kafka: KafkaConnection, state: BatchState, number: int, keys: Iterable[MarkerKey]
) -> dict[MarkerKey, CommitMarker]:
    """Acquire one writer and write its markers on all topics; return them."""
    with closing(Client(publisher, number, kafka)) as client:
        client.claim()
        found = client.markers.read(key for key in keys if key[1] == number)
        _refuse_newer(publisher, found)
        mine = publisher.generation
        markers = {
            key: (marker or CommitMarker(mine)).taken_over(mine, state.incarnation, state.planned)
            for key, marker in found.items()
        }
        client.producer.begin_transaction()
        client.commit(markers)
        return markers


def _refuse_newer(publisher: Publisher, markers: Mapping[MarkerKey, CommitMarker | None]) -> None:
    newest = max((marker.generation for marker in markers.values() if marker is not None), default=0)
    if newest > publisher.generation:
        raise FencedError(publisher.generation, newest)
