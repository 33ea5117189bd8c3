"""Writes the rows of a task in one transaction of Kafka, with the mark that says so. Runs in Python's workers, on executors.

A task looks at its writer's mark, has Kafka shut out whoever has the writer's transactional.id, and looks again: from then on nobody
else can write under it, and what is marked is all that was written. A client stays open in its worker and is used again by later
tasks, as long as the mark says that it was the last to write: to open one takes longer than to write a small batch. See ADR 0019.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat

import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark import TaskContext

from kappa_pipelines.sinks.client import TIMEOUT_SECONDS, Client, MarkerReader, PublishError, explain_error
from kappa_pipelines.sinks.commit_marker import CommitMarker, WriteDecision, judge
from kappa_pipelines.sinks.publisher import Connection, Publisher

# By these properties Spark 4.2 says what a task belongs to (StreamExecution, MicroBatchExecution).
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_FULL_SECONDS = 0.02
_KEPT_CLIENTS = 4
_KEPT_SECONDS = 5.0  # for a mark that this worker wrote last, or that another process has shut it out of

_kept: OrderedDict[str, Client] = OrderedDict()
"""The open clients of this worker by transactional.id, that of the latest use last."""


@dataclass(frozen=True)
class Task:
    """Which rows a task has: of what life of the checkpoint, what batch and what writer."""

    life: str
    batch: int
    number: int


def write_rows(
    publisher: Publisher, connection: Connection, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write a task's records and give as many empty rows, for Spark to count; a batch that was written before gives none.

    PublishError where they could not be written: then none of them was.
    """
    filled = (rows for rows in batches if rows.num_rows > 0)
    first = next(filled, None)
    if first is None:
        return  # a task without rows needs no mark: when it is repeated, there is nothing to write either
    task, begin = _read_task(publisher), time.monotonic()
    try:
        begun = _begin(publisher, connection, task)
        if begun is None:
            for _ in filled:  # Spark ends a worker that leaves its input
                pass
            return
        begin = time.monotonic()
        yield from _write(publisher, task, *begun, chain((first,), filled))
    except KafkaException as error:
        raise explain_error(publisher, error, time.monotonic() - begin) from error


def _read_task(publisher: Publisher) -> Task:
    context = TaskContext.get()
    query, batch = (context.getLocalProperty(name) if context else None for name in (_QUERY, _BATCH))
    if context is None or not query or batch is None:
        raise AssertionError("rows are written by tasks of a streaming query only")
    return Task(publisher.name_incarnation(query), int(batch), context.partitionId())


def _begin(publisher: Publisher, connection: Connection, task: Task) -> tuple[Client, CommitMarker] | None:
    """Return the client that is to write, in a transaction that has begun, and its mark; None where the batch was written."""
    client = _kept.pop(publisher.name_writer(task.number), None)
    if client is None:
        return _open(publisher, connection, task)
    try:
        mark = _look(publisher, task, client.marks, _KEPT_SECONDS)
    except KafkaException:  # such as where another process was about to commit and died
        client.close()
        return _open(publisher, connection, task)
    if mark is None:
        _keep(publisher, task, client)
        return None
    if mark.producer != client.name:
        client.close()
        return _open(publisher, connection, task)
    client.producer.begin_transaction()
    return client, mark


def _open(publisher: Publisher, connection: Connection, task: Task) -> tuple[Client, CommitMarker] | None:
    if _glance(publisher, connection, task) is None:
        return None
    client = Client(publisher, task.number, connection)
    try:
        client.claim()
        mark = _look(publisher, task, client.marks)
        if mark is not None:
            client.producer.begin_transaction()
            return client, mark
    except BaseException:
        client.close()
        raise
    client.close()
    return None


def _glance(publisher: Publisher, connection: Connection, task: Task) -> CommitMarker | None:
    """Look at the mark before anybody is shut out: a task of a driver that was taken over from claims nothing."""
    reader = MarkerReader(publisher, connection.kafka, stable=False)
    try:
        return _look(publisher, task, reader)
    finally:
        reader.close()


def _look(
    publisher: Publisher, task: Task, marks: MarkerReader, timeout: float = TIMEOUT_SECONDS
) -> CommitMarker | None:
    """Return the mark of a task's writer where the batch is to be written, None where it was; PublishError where it may not be."""
    place = (publisher.topic, task.number)
    mark = marks.read([place], timeout)[place]
    standing = judge(mark, publisher.generation, task.life, task.batch)
    if standing is WriteDecision.FENCED:
        raise PublishError(publisher, "FENCED", "a newer driver has taken over its writers")
    if standing is WriteDecision.LOST:
        said = f"Kafka has forgotten what the group {publisher.group} has written"
        raise PublishError(publisher, "MARK_LOST", said)
    return mark if standing is WriteDecision.TO_WRITE else None


def _write(
    publisher: Publisher, task: Task, client: Client, mark: CommitMarker, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    try:
        for rows in batches:
            _produce(client, publisher.topic, rows)
            yield _count(rows.num_rows)
        client.commit({(publisher.topic, task.number): mark.after(task.life, task.batch, client.name)})
    except BaseException:  # also where Spark gives the task up
        client.close()
        raise
    _keep(publisher, task, client)


def _keep(publisher: Publisher, task: Task, client: Client) -> None:
    _kept[publisher.name_writer(task.number)] = client
    while len(_kept) > _KEPT_CLIENTS:
        _kept.popitem(last=False)[1].close()


def _produce(client: Client, topic: str, rows: pa.RecordBatch) -> None:
    """Hand the records to the client, which sends them while more come; those with a `topic` of their own go there, with headers."""
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
    """Return the topics and headers of records that do not go to the sink's own topic."""
    if "topic" not in rows.schema.names or rows.column("topic").null_count == rows.num_rows:
        return repeat(None), repeat(None)
    return iter(rows.column("topic").to_pylist()), iter(rows.column("headers").to_pylist())


def _count(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, pa.bool_())], ["written"])
