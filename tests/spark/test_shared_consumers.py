"""Tasks that read several partitions by one consumer (ADR 99): the rows and errors of Spark's reader, by consumers whose number has a bound."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from bench.scale import count_live
from kappa_pipelines.kafka.native import SPARK
from lab.broker import Broker
from lab.transactions import end_transaction

NATIVE = "kappa.kafka.Source"
PARTITIONS, TASKS = 11, 3
SHARED = {"kappaTasks": str(TASKS), "kappaConsumers": "4"}
SETTINGS = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}
Keep = Callable[[DataFrame, int], None]


class Reader:
    """Reads a topic to its end, with a query that continues at each call."""

    def __init__(
        self, spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, kind: str = NATIVE
    ) -> None:
        for setting, value in SETTINGS.items():  # as drivers of other tests of this process
            spark.conf.set(setting, value)
        self._spark, self._kind, self._checkpoint = spark, kind, checkpoint / kind
        self._options = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": "10",
            **(SHARED if kind == NATIVE else {}),
        }

    def read(self, keep: Keep, **options: str) -> None:
        """Have each new batch given to `keep`."""
        source = self._spark.readStream.format(self._kind).name("events")
        rows = source.options(**{**self._options, **options}).load()
        writer = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        query.awaitTermination()

    def rows(self, **options: str) -> list[Any]:
        """Return the new rows in their order, of one partition after another."""
        found: list[Any] = []
        self.read(lambda batch, _: found.extend(batch.collect()), **options)
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def write_transactions(broker: Broker, topics: Any, topic: str, partitions: int = PARTITIONS) -> int:
    """Write records in transactions, of which some are aborted, also the last one; return how many are committed."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    topics.ends(topic)  # waits until all partitions have a leader
    committed = 0
    for number, commit in enumerate((True, False, True, True, False)):
        producer.begin_transaction()
        for at in range(7 * partitions):
            # Partitions have different numbers of records, one of them only those that are aborted.
            if at % partitions > 2 * number + 2 or (at % partitions == 0 and commit):
                continue
            producer.produce(topic, f"{number}-{at}", partition=at % partitions)
            committed += commit
        end_transaction(producer, topics.admin, topic, commit=commit)
    return committed


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kafka.max.poll.records": "3"},
        {"maxOffsetsPerTrigger": "70", "kafka.max.poll.records": "4"},
        {"minPartitions": "24"},
        {"maxOffsetsPerTrigger": "50", "kafka.max.partition.fetch.bytes": "100"},
    ],
    ids=["at once", "in several polls", "in batches", "in parts of partitions", "by small fetches"],
)
def test_rows_are_those_of_sparks_reader(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path, options: dict[str, str]
) -> None:
    topic = topics.make("events", PARTITIONS)
    native, by_spark = (Reader(spark, broker, topic, checkpoint, kind) for kind in (NATIVE, SPARK))
    for _ in range(2):  # a query continues with the consumers that the one before has left
        count = write_transactions(broker, topics, topic)
        expected = by_spark.rows()
        assert len(expected) == count
        assert native.rows(**options) == expected


def test_so_many_tasks_read_a_batch_by_as_many_consumers(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    topic, partitions = topics.make("events", 40), 40
    # No idle consumer of another test has these settings.
    reader = Reader(spark, broker, topic, checkpoint)
    own, before = {"kafka.fetch.max.bytes": "12345678"}, count_consumers(spark)
    tasks: list[int] = []
    found: list[Any] = []

    def keep(batch: DataFrame, _: int) -> None:
        tasks.append(batch.rdd.getNumPartitions())
        found.extend(row["value"] for row in batch.collect())

    for touched in (range(partitions), (5,), range(20, 22), range(partitions)):
        for number in touched:
            topics.write(topic, [f"{number}"], partition=number)
        reader.read(keep, **own)
    assert tasks == [TASKS, 1, 2, TASKS]
    assert len(found) == 2 * partitions + 3
    assert count_consumers(spark) - before <= 4


def count_consumers(spark: SparkSession) -> int:
    """Return the number of consumers that live in the JVM."""
    own = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    return count_live(psutil.Process(own))["consumers"]


def test_a_task_that_ends_early_leaves_nothing_behind(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    topic = topics.make("events", PARTITIONS)
    topics.write(topic, [f"v{n}" for n in range(40 * PARTITIONS)])
    reader = Reader(spark, broker, topic, checkpoint)
    counts: list[int] = []

    def keep(batch: DataFrame, _: int) -> None:
        assert len(batch.limit(1).collect()) == 1
        counts.append(len({row["value"] for row in batch.collect()}))

    reader.read(keep, **{"kafka.max.poll.records": "5", "maxOffsetsPerTrigger": "100"})
    assert sum(counts) == 40 * PARTITIONS
    assert len(counts) > 1


@pytest.mark.parametrize("fails", ["true", "false"])
def test_lost_records_of_one_partition_are_those_of_sparks_reader(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path, fails: str
) -> None:
    topic = topics.make("events", PARTITIONS)
    native, by_spark = (Reader(spark, broker, topic, checkpoint, kind) for kind in (NATIVE, SPARK))
    for number in range(PARTITIONS):
        topics.write(topic, [f"v{n}" for n in range(10)], partition=number)
    assert native.rows() == by_spark.rows()
    for number in range(PARTITIONS):
        topics.write(topic, [f"v{n}" for n in range(10, 50)], partition=number)
    part = TopicPartition(topic, 4, 30)
    topics.admin.delete_records([part])[part].result(30)
    if fails == "true":
        with pytest.raises(StreamingQueryException, match=r"Could not read records in offset \[10, 50\)"):
            native.rows()
        return
    expected = by_spark.rows(failOnDataLoss="false")
    assert len(expected) == 40 * PARTITIONS - 20
    assert native.rows(failOnDataLoss="false") == expected


def test_two_queries_with_one_pool_have_their_own_offsets(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    topic = topics.make("events", PARTITIONS)
    readers = [Reader(spark, broker, topic, checkpoint / name) for name in ("one", "two")]
    found: list[list[Any]] = [[], []]
    for turn in range(4):
        for number in range(PARTITIONS):
            topics.write(topic, [f"{turn}-{n}" for n in range(6)], partition=number)
        if turn % 2 == 0:
            found[0] += readers[0].rows(maxOffsetsPerTrigger="20")
        found[1] += readers[1].rows(maxOffsetsPerTrigger="13")
    found[0] += readers[0].rows()
    values = [sorted((row["partition"], row["offset"]) for row in rows) for rows in found]
    assert values[0] == values[1] == [(part, at) for part in range(PARTITIONS) for at in range(24)]
