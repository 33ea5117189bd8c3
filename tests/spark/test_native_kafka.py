"""Topics read and written by the Java module (ADR 91): the same rows, records and errors as by Spark's own data source."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kappa_crds.batches import NATIVE_KAFKA
from kappa_pipelines.kafka.native import SPARK, find_sink_format, find_source_format
from kappa_pipelines.sinks.kafka import open_producer
from kappa_pipelines.sinks.targets import Targets
from lab.broker import Broker
from lab.transactions import end_transaction
from spark.revisions import build_revision, source

COPY: dict[str, Any] = {
    "sources": [source("events", "k BIGINT")],
    "sinks": [{"name": "out", "from": "events", "kafka": {"topic": "out"}}],
    "deadLetter": "dead",
}
NATIVE_SOURCE, NATIVE_SINK = "kappa.kafka.Source", "kappa.kafka.Sink"
SETTINGS = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}
MARKED: list[tuple[str, str | bytes | None]] = [("note", b"\x00\xff"), ("empty", None)]


def read(
    spark: SparkSession, kind: str, broker: Broker, topic: str, checkpoint: Path, **options: str
) -> list[Any]:
    """Read a topic with a stream to its end, and return all columns of its new records, ordered."""
    for setting, value in SETTINGS.items():  # as drivers of other tests of this process
        spark.conf.set(setting, value)
    read = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    rows = spark.readStream.format(kind).name("events").options(**{**read, **options}).load()
    found: list[Any] = []

    def keep(batch: Any, _: int) -> None:
        found.extend(batch.collect())

    writer = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint / kind)).start()
    query.awaitTermination()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_rows_are_those_of_sparks_source_at_once_and_in_batches(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    topic = topics.make("events", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    written = 0
    # Each end is an offset without a record; the last records are aborted.
    for commit in (True, False, True, False):
        producer.begin_transaction()
        for number in range(10):
            key = None if number % 3 == 0 else f"k{number}"
            value = None if number % 5 == 0 else f"v{written}"
            headers = MARKED if number % 2 else []
            moment = [0, 1, 1_700_000_000_123, -1][number % 4]
            at: dict[str, Any] = {} if moment == -1 else {"timestamp": moment}
            producer.produce(topic, value, key, partition=number % 2, headers=headers, **at)
            written += 1
        end_transaction(producer, topics.admin, topic, commit=commit)
    expected = read(spark, SPARK, broker, topic, checkpoint)
    assert len(expected) == 20
    assert read(spark, NATIVE_SOURCE, broker, topic, checkpoint) == expected
    batches = {"maxOffsetsPerTrigger": "7"}
    assert read(spark, SPARK, broker, topic, checkpoint / "batches", **batches) == expected
    assert read(spark, NATIVE_SOURCE, broker, topic, checkpoint / "batches", **batches) == expected


def test_a_table_of_records_equals_that_of_sparks_source(
    spark: SparkSession, broker: Broker, topics: Any
) -> None:
    topic = topics.make("events", partitions=3)
    for number in range(60):
        topics.write(topic, [f"v{number}"], partition=number % 3, key=f"k{number}")
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "assign": json.dumps({topic: [0, 2]}),
        "startingOffsets": json.dumps({topic: {"0": -2, "2": 5}}),
        "endingOffsets": json.dumps({topic: {"0": 17, "2": 20}}),
        "includeHeaders": "true",
        "minPartitions": "6",
    }
    native, by_spark = (spark.read.format(kind).options(**options).load() for kind in (NATIVE_SOURCE, SPARK))
    assert "BatchScan" in native._jdf.queryExecution().executedPlan().toString()
    assert native.schema == by_spark.schema
    assert sorted(native.collect()) == sorted(by_spark.collect())
    assert native.count() == 17 + 15


def test_a_timestamp_that_no_query_can_read_is_none(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    topic = topics.make("events", partitions=1)
    for moment in (1_700_000_000_123, -(2**62), -62_135_596_800_001, 1):
        topics.write(topic, ["v"], timestamp=moment)
    rows = read(spark, NATIVE_SOURCE, broker, topic, checkpoint)
    table = spark.read.format(NATIVE_SOURCE).options(
        **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    )
    for found in (rows, table.load().orderBy("offset").collect()):
        times = [round(row["timestamp"].timestamp() * 1000) for row in found]
        assert times == [1_700_000_000_123, -1, -1, 1]


@pytest.mark.parametrize("kind", [SPARK, NATIVE_SOURCE])
def test_lost_records_end_a_query_as_with_sparks_source(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path, kind: str
) -> None:
    topic = topics.make("events", partitions=1)
    topics.write(topic, [f"v{n}" for n in range(10)])
    # As in a driver: else the consumer still waits for the next records, and has them before they are deleted.
    waiting = {"kafka.fetch.max.wait.ms": "10"}
    assert len(read(spark, kind, broker, topic, checkpoint, **waiting)) == 10
    topics.write(topic, [f"v{n}" for n in range(10, 50)])
    part = TopicPartition(topic, 0, 30)
    topics.admin.delete_records([part])[part].result(30)
    with pytest.raises(StreamingQueryException, match=r"Could not read records in offset \[10, 50\)"):
        read(spark, kind, broker, topic, checkpoint, **waiting)


def write(spark: SparkSession, kind: str, broker: Broker, topic: str, **options: str) -> None:
    """Write rows with all columns of a sink as a table."""
    headers = "array(struct('note' AS key, X'00FF' AS value))"
    rows = spark.range(12).select(
        f.expr("IF(id % 3 = 0, NULL, concat('k', id))").alias("key"),
        f.expr("IF(id % 5 = 0, NULL, concat('v', id))").alias("value"),
        f.expr(f"IF(id % 2 = 0, NULL, '{topic}')").alias("topic"),
        f.expr(f"IF(id % 4 = 0, NULL, {headers})").alias("headers"),
    )
    rows = rows if kind == NATIVE_SINK else rows.withColumn("topic", f.lit(topic))
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.acks": "all", "topic": topic}
    rows.write.format(kind).mode("append").options(**settings, **options).save()


def test_records_are_those_of_sparks_sink(spark: SparkSession, broker: Broker, topics: Any) -> None:
    found = []
    for kind in (SPARK, NATIVE_SINK, NATIVE_SINK):
        topic = topics.make("out")
        write(spark, kind, broker, topic)
        records = [
            (m.key(), m.value(), tuple(m.headers() or ()), m.partition() if m.key() else None)
            for m in topics.read(topic)
        ]
        found.append(sorted(records, key=repr))
    assert len(found[0]) == 12
    assert found[1] == found[2] == found[0]


def test_an_error_of_kafka_fails_a_write_as_with_sparks_sink(
    spark: SparkSession, broker: Broker, topics: Any
) -> None:
    topic = topics.make("out")
    for kind in (SPARK, NATIVE_SINK):
        with pytest.raises(Exception, match="RecordTooLargeException"):
            write(spark, kind, broker, topic, **{"kafka.max.request.size": "60"})


def test_a_checkpoint_fits_both(run: Any, broker: Broker, topics: Any, checkpoint: Path) -> None:
    names = {name: topics.make(name) for name in ("events", "out", "dead")}
    for generation, native in enumerate(("false", "true", "false", "true"), start=1):
        topics.write(names["events"], [json.dumps({"k": generation * 10 + n}) for n in range(3)] + ["{"])
        revision = build_revision(COPY, checkpoint, broker.bootstrap, topics=names)
        conf = {**revision.spark_conf, NATIVE_KAFKA: native}
        driver = run(revision.model_copy(update={"spark_conf": conf}), generation)
        driver.wait_for_records(4)
        assert driver.stop().graceful
    keys = [row["k"] for row in topics.values(names["out"])]
    assert sorted(keys) == [generation * 10 + n for generation in (1, 2, 3, 4) for n in range(3)]
    assert len(topics.read(names["dead"])) == 4


def test_a_revision_has_the_module_unless_it_is_disabled_or_in_real_time(checkpoint: Path) -> None:
    revision = build_revision(COPY, checkpoint, "nowhere:9092")
    assert (find_source_format(revision), find_sink_format(revision)) == (NATIVE_SOURCE, NATIVE_SINK)
    disabled = revision.model_copy(update={"spark_conf": {NATIVE_KAFKA: "False"}})
    assert (find_source_format(disabled), find_sink_format(disabled)) == (SPARK, SPARK)
    spec = {**COPY, "trigger": {"realTime": {"checkpointInterval": "1m"}}}
    real_time = build_revision(spec, checkpoint, "nowhere:9092")
    assert (find_source_format(real_time), find_sink_format(real_time)) == (SPARK, SPARK)


def test_a_producer_is_open_before_the_first_batch(
    spark: SparkSession, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("events", "out", "dead")}
    # No idle producer of another test has this address.
    revision = build_revision(
        COPY, checkpoint, broker.bootstrap.replace("127.0.0.1", "localhost"), topics=names
    )
    before = find_producers()
    open_producer(spark, Targets(revision))
    assert find_producers() - before


def find_producers() -> set[str]:
    """Return the threads of producers in the JVM."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()  # type: ignore[union-attr]
    names = {each.getName() for each in threads}
    return {name for name in names if name.startswith("kafka-producer-network-thread")}
