"""Records of ranges of topics, read by Spark, and single records, read by their offsets."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.comparison import OutputRange
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.compare.bounds import count_records
from kappa_pipelines.compare.selection import Selection
from kappa_pipelines.kafka.native import find_table_format
from kappa_pipelines.kafka.options import build_librdkafka_config, build_spark_connection, prefix_options

OLD, NEW = 0, 1
"""The two sides of a comparison."""
_SPLIT_RECORDS = 500_000
"""Records of a task at most: two seconds, so that streaming queries beside it do not wait longer for a core."""
_CONSUMER = {
    "max.poll.records": "10000",
    "fetch.max.bytes": "67108864",
    "max.partition.fetch.bytes": "8388608",
}
_POSITION_BITS = 17
_SEEK_SECONDS = 30.0
_NEAR = 1000
"""Offsets to the next record that are read over rather than sought."""
_SEEK_BYTES = 2**26
"""Values in this process at most; more are read by tasks."""


@dataclass(frozen=True)
class Reader:
    """Reads records of ranges in the session of a comparison."""

    spark: SparkSession
    kafka: KafkaConnection
    committed: bool
    group: str
    """Prefix of the consumer groups."""
    selection: Selection | None = None
    """The rows that are compared, where not all are."""
    source: str = find_table_format({})
    """The format of Spark by which topics are read."""

    def read_rows(self, output: OutputRange) -> DataFrame:
        """Return the records of a range that are compared."""
        records = self.read(output)
        return records if self.selection is None else self.selection.select(records)

    def read(self, output: OutputRange) -> DataFrame:
        """Return the records of a range, with the columns of Spark's Kafka source."""
        splits = math.ceil(count_records(output) / _SPLIT_RECORDS)
        options = {
            **build_spark_connection(self.kafka),
            **prefix_options(_CONSUMER),
            "kafka.isolation.level": "read_committed" if self.committed else "read_uncommitted",
            "assign": json.dumps({output.topic: sorted(output.end)}),
            "startingOffsets": json.dumps({output.topic: output.start}),
            "endingOffsets": json.dumps({output.topic: output.end}),
            "minPartitions": str(max(splits, len(output.end))),
            "groupIdPrefix": self.group,
            "failOnDataLoss": "true",
        }
        return self.spark.read.format(self.source).options(**options).load()

    def fetch(self, topic: str, positions: Iterable[int]) -> dict[int, Message | None] | None:
        """Return single records of a topic by their packed positions, None for one that compaction has removed.

        Return None if they have too many bytes for this process.
        """
        consumer = Consumer(
            {
                **build_librdkafka_config(self.kafka),
                "group.id": f"{self.group}-fetch",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 65536,
                "fetch.queue.backoff.ms": 10,
                # A request at the end of the log would delay the next place by the default of half a second.
                "fetch.wait.max.ms": 1,
                "log_level": 0,
            }
        )
        try:
            return _fetch(consumer, topic, positions)
        finally:
            consumer.close()


def pack_position(side: int) -> Column:
    """Return one number for the place of a record, in the order of the offsets of a partition."""
    offset, partition = f.col("offset"), f.col("partition").cast("bigint")
    return f.shiftleft(offset, _POSITION_BITS).bitwiseOR(f.shiftleft(partition, 1)).bitwiseOR(f.lit(side))


def unpack_position(position: int) -> tuple[int, int]:
    """Return partition and offset."""
    return (position & (2**_POSITION_BITS - 1)) >> 1, position >> _POSITION_BITS


def show_position(position: int | None) -> str | None:
    """Return a position as partition/offset."""
    return None if position is None else "{}/{}".format(*unpack_position(position))


def write_position(position: Column) -> Column:
    """Return packed positions as partition/offset."""
    partition = f.shiftright(position.bitwiseAND(f.lit(2**_POSITION_BITS - 1)), 1)
    return f.concat_ws("/", partition, f.shiftright(position, _POSITION_BITS))


def _fetch(consumer: Consumer, topic: str, positions: Iterable[int]) -> dict[int, Message | None] | None:
    found: dict[int, Message | None] = {}
    size = 0
    message: Message | None = None
    for position in sorted(positions, key=unpack_position):
        message = _find(consumer, topic, unpack_position(position), message)
        found[position] = None
        if message is not None and (message.partition(), message.offset()) == unpack_position(position):
            found[position] = message
            size += len(message.value() or b"")
        if size > _SEEK_BYTES:
            return None
    return found


def _find(consumer: Consumer, topic: str, place: tuple[int, int], message: Message | None) -> Message | None:
    """Return the first record at a place or after it; None at the end of its partition. `message` is the last one that was read."""
    partition, offset = place
    if message is None or message.partition() != partition or offset - (message.offset() or 0) > _NEAR:
        consumer.assign([TopicPartition(topic, partition, offset)])
        message = _poll(consumer)
    while message is not None and (message.offset() or 0) < offset:
        message = _poll(consumer)
    return message


def _poll(consumer: Consumer) -> Message | None:
    message = consumer.poll(_SEEK_SECONDS)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    error = message.error()
    if error is None:
        return message
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    raise KafkaException(error)
