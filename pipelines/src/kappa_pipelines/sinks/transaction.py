"""Writes the rows of a task and its commit marker in one transaction of Kafka. Runs in Python's workers, on executors.

A task reads its writer's marker, has Kafka fence off other clients with the writer's transactional.id, and reads the marker again. Then
no other client can write with that id, and the marker is final. A client stays open in its worker for later tasks while the marker
names it as the last one to write: opening a client takes longer than writing a small batch. See ADR 0019.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, repeat

import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark import TaskContext

from kappa_pipelines.sinks.client import TIMEOUT_SECONDS, Client, MarkerReader, PublishError, explain_error
from kappa_pipelines.sinks.commit_marker import CommitMarker, WriteDecision, decide_write
from kappa_pipelines.sinks.publisher import Connection, Publisher

# Local properties of a task in Spark 4.2 (StreamExecution, MicroBatchExecution).
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_FULL_SECONDS = 0.02
_KEPT_CLIENTS = 4
_KEPT_SECONDS = (
    5.0  # for a marker that this worker wrote last, or whose writer another process has fenced off
)

_kept: OrderedDict[str, Client] = OrderedDict()
"""The open clients of this worker by transactional.id, the last used one last."""


@dataclass(frozen=True)
class Task:
    """Identity of a task's rows: checkpoint incarnation, batch and writer."""

    incarnation: str
    batch: int
    number: int


def write_rows(
    publisher: Publisher, connection: Connection, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write a task's records and yield as many empty rows for Spark to count; none for a batch that was written before.

    PublishError if they could not be written: then none of them was.
    """
    filled = (rows for rows in batches if rows.num_rows > 0)
    first = next(filled, None)
    if first is None:
        return  # a task without rows needs no marker: its repetition has no rows either
    task, begin = _read_task(publisher), time.monotonic()
    try:
        started = _begin(publisher, connection, task)
        if started is None:
            for _ in filled:  # Spark kills a worker that leaves its input
                pass
            return
        begin = time.monotonic()
        yield from _write(publisher, task, *started, chain((first,), filled))
    except KafkaException as error:
        raise explain_error(publisher, error, time.monotonic() - begin) from error


def _read_task(publisher: Publisher) -> Task:
    context = TaskContext.get()
    query, batch = (context.getLocalProperty(name) if context else None for name in (_QUERY, _BATCH))
    if context is None or not query or batch is None:
        raise AssertionError("only tasks of a streaming query write rows")
    return Task(publisher.name_incarnation(query), int(batch), context.partitionId())


def _begin(publisher: Publisher, connection: Connection, task: Task) -> tuple[Client, CommitMarker] | None:
    """Return the client, with an open transaction, and its marker; None if the batch is written."""
    client = _kept.pop(publisher.name_writer(task.number), None)
    if client is None:
        return _open(publisher, connection, task)
    try:
        marker = _read_marker(publisher, task, client.markers, _KEPT_SECONDS)
    except KafkaException:  # for example another process died during its commit
        client.close()
        return _open(publisher, connection, task)
    if marker is None:
        _keep(publisher, task, client)
        return None
    if marker.producer != client.name:
        client.close()
        return _open(publisher, connection, task)
    client.producer.begin_transaction()
    return client, marker


def _open(publisher: Publisher, connection: Connection, task: Task) -> tuple[Client, CommitMarker] | None:
    if _read_before_fencing(publisher, connection, task) is None:
        return None
    client = Client(publisher, task.number, connection)
    try:
        client.claim()
        marker = _read_marker(publisher, task, client.markers)
        if marker is not None:
            client.producer.begin_transaction()
            return client, marker
    except BaseException:
        client.close()
        raise
    client.close()
    return None


def _read_before_fencing(publisher: Publisher, connection: Connection, task: Task) -> CommitMarker | None:
    """Read the marker before any client is fenced off: a task of a fenced driver must not fence off a newer one."""
    with closing(MarkerReader(publisher, connection.kafka, stable=False)) as reader:
        return _read_marker(publisher, task, reader)


def _read_marker(
    publisher: Publisher, task: Task, markers: MarkerReader, timeout: float = TIMEOUT_SECONDS
) -> CommitMarker | None:
    """Return the marker of a task's writer, None if the batch is written; PublishError if it must not be written."""
    key = (publisher.topic, task.number)
    marker = markers.read([key], timeout)[key]
    decision = decide_write(marker, publisher.generation, task.incarnation, task.batch)
    if decision is WriteDecision.FENCED:
        raise PublishError(publisher, "FENCED", "a newer driver has acquired the writers")
    if decision is WriteDecision.LOST:
        message = f"Kafka has deleted the commit markers of the group {publisher.group}"
        raise PublishError(publisher, "MARKER_LOST", message)
    return marker if decision is WriteDecision.TO_WRITE else None


def _write(
    publisher: Publisher, task: Task, client: Client, marker: CommitMarker, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    try:
        for rows in batches:
            _produce(client, publisher.topic, rows)
            yield _count(rows.num_rows)
        client.commit(
            {(publisher.topic, task.number): marker.after(task.incarnation, task.batch, client.name)}
        )
    except BaseException:  # also if Spark cancels the task
        client.close()
        raise
    _keep(publisher, task, client)


def _keep(publisher: Publisher, task: Task, client: Client) -> None:
    _kept[publisher.name_writer(task.number)] = client
    while len(_kept) > _KEPT_CLIENTS:
        _kept.popitem(last=False)[1].close()


def _produce(client: Client, topic: str, rows: pa.RecordBatch) -> None:
    """Produce the records. Those with their own `topic` go there, with headers."""
    produce = client.producer.produce
    for key, value, own, headers in zip(
        _read_bytes(rows, "key"), _read_bytes(rows, "value"), *_read_routes(rows), strict=False
    ):
        while True:
            try:
                if own is None:
                    produce(topic, value, key)
                else:
                    produce(own, value, key, headers=[(each["key"], each["value"]) for each in headers or ()])
                break
            except BufferError:
                client.producer.poll(_FULL_SECONDS)


def _read_bytes(rows: pa.RecordBatch, name: str) -> Iterator[bytes | None]:
    if name not in rows.schema.names:
        return repeat(None)
    return iter(rows.column(name).cast(pa.binary()).to_pylist())


def _read_routes(rows: pa.RecordBatch) -> tuple[Iterator[str | None], Iterator[list[dict[str, str]] | None]]:
    """Return topics and headers of the records; None for those of the sink's own topic."""
    if "topic" not in rows.schema.names or rows.column("topic").null_count == rows.num_rows:
        return repeat(None), repeat(None)
    return iter(rows.column("topic").to_pylist()), iter(rows.column("headers").to_pylist())


def _count(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, pa.bool_())], ["written"])
