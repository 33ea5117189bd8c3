"""An archive and the log behind it are one stream of a query: its state, offsets and watermark continue over the seam."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from kappa_pipelines.archive.archiver import CONSUMER, ArchivedTopic, Limits, archive_partition
from kappa_pipelines.archive.seam import find_seams
from kappa_pipelines.archive.segments import list_segments
from kappa_pipelines.archive.source import FORMAT, ArchiveRead, ArchiveSource, build_options
from kappa_pipelines.checkpoint.store.local import LocalFolder
from lab.broker import Broker

TOPIC, PARTITIONS, KEYS = "archived", 2, 7
BEGIN = 1_357_000_000_000


class Log:
    """A topic whose records have a number each; all is counted by key."""

    def __init__(self, broker: Broker) -> None:
        self.bootstrap, self.count = broker.bootstrap, 0
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[
            TOPIC
        ].result()

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for number in range(self.count, self.count + count):
            producer.produce(
                TOPIC, b"%d" % number, b"%d" % (number % KEYS), partition=number % PARTITIONS,
                timestamp=BEGIN + 1000 * number, headers=[("n", b"%d" % number)],
            )  # fmt: skip
        assert producer.flush(20) == 0
        self.count += count

    def archive(self, archived: ArchivedTopic) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "archiver", **CONSUMER})
        for partition in range(PARTITIONS):
            while archive_partition(consumer, archived, partition, Limits(records=60)) is not None:
                pass
        consumer.close()

    def truncate(self, before: int) -> None:
        wanted = [TopicPartition(TOPIC, partition, before) for partition in range(PARTITIONS)]
        for future in self.admin.delete_records(wanted).values():
            future.result()


def run(records: DataFrame, folder: Path, out: Path) -> None:
    """Count by key and hour what is there, and write each result."""
    values = records.selectExpr(
        "CAST(key AS STRING) AS k", "CAST(CAST(value AS STRING) AS BIGINT) AS v",
        "CAST(CAST(headers[0].value AS STRING) AS BIGINT) AS h", "timestamp",
    )  # fmt: skip
    counted = (
        values.withWatermark("timestamp", "10 seconds")
        .groupBy("k")
        .agg({"v": "sum", "h": "sum", "timestamp": "count"})
        .toDF("k", "v", "h", "n")
    )

    def write(batch: DataFrame, number: int) -> None:
        with out.open("a") as file:
            file.writelines(f"{row}\n" for row in batch.toJSON().collect())

    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder))
        .foreachBatch(write)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read_result(out: Path) -> dict[str, tuple[int, int, int]]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    return {row["k"]: (row["v"], row["h"], row["n"]) for row in rows}


@pytest.mark.chaos
def test_a_query_reads_the_archive_and_then_the_log_and_counts_each_record_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    spark = spark.newSession()  # a driver of another test has left settings that demand names of sources
    log = Log(broker)
    archived = ArchivedTopic(LocalFolder(str(tmp_path / "archive")), TOPIC, "id")
    log.write(400)
    log.archive(archived)
    log.write(150)
    log.truncate(120)  # the archive reaches further than the start of the log
    seams = find_seams(TOPIC, list_segments(archived.folder), dict.fromkeys(range(PARTITIONS), 120))
    assert seams == {0: 200, 1: 200}

    spark.dataSource.register(ArchiveSource)
    read = ArchiveRead(archived.folder.root, TOPIC, dict.fromkeys(seams, 0), seams)
    options = build_options(read, max_records=170)
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    run(spark.readStream.format(FORMAT).options(**options).load(), checkpoint, out)
    assert sum(count for *_, count in read_result(out).values()) == 400
    assert len(list((checkpoint / "commits").glob("[0-9]*"))) > 2, "it read more than one batch"

    kafka = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "includeHeaders": "true"}
    stream = spark.readStream.format("kafka").options(
        **kafka, startingOffsets="earliest", failOnDataLoss="true"
    )
    run(stream.load(), checkpoint, out)
    numbers = {str(key): [n for n in range(550) if n % KEYS == key] for key in range(KEYS)}
    expected = {key: (sum(some), sum(some), len(some)) for key, some in numbers.items()}
    assert read_result(out) == expected
