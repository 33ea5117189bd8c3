"""The query of a sink that writes exactly once: a native plan computes the records, and Python tasks write them in transactions.

For Spark it is a `noop` sink, so batches, progress and checkpoints are Spark's own.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_pipelines.kafka.limits import Target
from kappa_pipelines.sinks.publisher import TRANSACTION_SECONDS, Connection, Publisher
from kappa_pipelines.sinks.rejected_records import route_records
from kappa_pipelines.sinks.targets import Targets
from kappa_pipelines.sinks.transaction import write_rows

_COUNTED = "written BOOLEAN"
_DELIVERY_SECONDS = 120  # as of Spark's producer (Kafka: delivery.timeout.ms)
_QUEUE_RECORDS = 1_000_000
_QUEUE_KIBIBYTES = 65_536


def write_exactly_once(targets: Targets, sink: Sink, records: DataFrame) -> DataStreamWriter:
    """Return the query that writes the records, without trigger and checkpoint location."""
    revision, target, publisher = (
        targets.revision,
        targets.find(sink.target.topic),
        targets.publishers[sink.name],
    )
    distributed = records.repartition(publisher.writers, *(["key"] if sink.target.key is not None else []))
    routed = route_records(distributed, sink, revision.full_name, target, targets.dead)
    # Most records go to the sink's own topic: a NULL costs nothing to transfer.
    named = routed.withColumn("topic", f.nullif("topic", f.lit(target.topic)))
    write = _build_task(publisher, build_connection(targets, sink))
    return named.mapInArrow(write, _COUNTED).writeStream.format("noop")


def _build_task(
    publisher: Publisher, connection: Connection
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from write_rows(publisher, connection, batches)

    return write


def build_connection(targets: Targets, sink: Sink) -> Connection:
    """Return the connection of a sink's writers to Kafka."""
    revision = targets.revision
    return Connection(
        revision.kafka, build_producer_config(revision, targets.find(sink.target.topic), targets.dead)
    )


def build_producer_config(revision: Revision, target: Target, dead: Target | None) -> dict[str, str]:
    """Return the client settings of writers without secrets: those of Spark's producer under librdkafka's names.

    librdkafka does not split a batch of records that is too large for its topic, so batches are no larger than the smallest limit.
    """
    sizes = [each.limits.message_bytes for each in (target, dead) if each is not None]
    tuned = {"batch.size": "131072", **revision.tuning.producer}
    return {
        **tuned,
        "acks": "all",
        "batch.size": str(min(int(tuned["batch.size"]), *sizes, 2**31 - 1)),
        "message.max.bytes": str(max(sizes)),
        "partitioner": "murmur2_random",
        "transaction.timeout.ms": str(TRANSACTION_SECONDS * 1000),
        "message.timeout.ms": str(_DELIVERY_SECONDS * 1000),
        "queue.buffering.max.messages": str(_QUEUE_RECORDS),
        "queue.buffering.max.kbytes": str(_QUEUE_KIBIBYTES),
        "log_level": "0",
    }
