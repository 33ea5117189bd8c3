"""The query of a sink that writes exactly once: a native plan computes the records, and the Java module writes them in transactions.

Each task is a writer: it writes its rows and its commit marker in one transaction. See ADR 0019 for the protocol, ADR 0080 for the module.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.sink import Sink
from kappa_pipelines.kafka.options import prefix_options
from kappa_pipelines.sinks.publisher import TRANSACTION_SECONDS, Publisher
from kappa_pipelines.sinks.rejected_records import route_records
from kappa_pipelines.sinks.targets import Targets

FORMAT = "kappa.kafka.TransactionalSink"
PRODUCER = {
    "acks": "all",
    "enable.idempotence": "true",
    "transaction.timeout.ms": str(TRANSACTION_SECONDS * 1000),
    "max.block.ms": "60000",
}


def write_exactly_once(
    targets: Targets, sink: Sink, records: DataFrame, options: dict[str, str]
) -> DataStreamWriter:
    """Return the query that writes the records, without trigger and checkpoint location; `options` are those of Spark's own sink."""
    target, publisher = targets.find(sink.target.topic), targets.publishers[sink.name]
    distributed = records.repartition(publisher.writers, *(["key"] if sink.target.key is not None else []))
    routed = route_records(distributed, sink, targets.revision.full_name, target, targets.dead)
    # Most records go to the sink's own topic, which is an option: a NULL costs nothing.
    named = routed.withColumn("topic", f.nullif("topic", f.lit(target.topic)))
    described = {**options, **prefix_options(PRODUCER), **describe_publisher(publisher)}
    return named.writeStream.format(FORMAT).options(**described)


def describe_publisher(publisher: Publisher) -> dict[str, str]:
    """Return a publisher as options of the module."""
    names = ("topic", "group", "generation", "checkpoint")
    return {name: str(getattr(publisher, name)) for name in names}
