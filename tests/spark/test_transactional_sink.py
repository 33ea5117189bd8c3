"""The transactional sink of the Java module: what it makes of commit markers and of Kafka's errors, and what it writes."""

import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.errors import DriverError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.exceptions import read_query_failure
from kappa_pipelines.kafka.options import build_spark_connection, prefix_options
from kappa_pipelines.sinks.client import Client, MarkerReader
from kappa_pipelines.sinks.commit_marker import CommitMarker, parse_marker
from kappa_pipelines.sinks.exactly_once import FORMAT, PRODUCER, describe_publisher
from kappa_pipelines.sinks.publisher import Publisher
from lab.broker import Broker

ROWS = 20
MARK = CommitMarker(7, "client", {"old/q": 40, "new/q": 12})


def load(spark: SparkSession, marker: CommitMarker | None) -> Any:
    """Return the marker as the module reads it."""
    jvm: Any = spark._jvm
    return jvm.kappa.kafka.CommitMarker.parse(None if marker is None else marker.to_text())


@pytest.mark.parametrize(
    ("case", "mark", "life", "batch", "decision"),
    [
        ("the next batch", MARK, "new/q", 13, "TO_WRITE"),
        ("a batch that is repeated", MARK, "new/q", 12, "WRITTEN"),
        ("an older batch", MARK, "new/q", 3, "WRITTEN"),
        ("the first batch of a restored checkpoint", MARK, "restored/q", 12, "TO_WRITE"),
        ("a repeated batch of the checkpoint that is gone back to", MARK, "old/q", 40, "WRITTEN"),
        ("a newer driver has taken over", CommitMarker(8), "new/q", 13, "FENCED"),
        ("a newer driver has taken over, and the batch was written", CommitMarker(8, "", {"new/q": 13}), "new/q", 13, "FENCED"),
        ("Kafka has forgotten the mark", None, "new/q", 13, "LOST"),
        ("nobody has taken over", CommitMarker(6, "", {"new/q": 13}), "new/q", 13, "LOST"),
    ],
)  # fmt: skip
def test_a_task_knows_by_the_marker_whether_to_write(
    spark: SparkSession, case: str, mark: CommitMarker | None, life: str, batch: int, decision: str
) -> None:
    jvm: Any = spark._jvm
    found = jvm.kappa.kafka.CommitMarker.decide(load(spark, mark), 7, life, batch)
    assert found.toString() == decision, case


@pytest.mark.parametrize(
    "text",
    [None, "", "by hand", "{}", "[]", "null", '{"generation":1,"producer":"","written":3}',
     '{"generation":1,"producer":"","written":{"a":"b"}}', '{"generation":1,"written":{}}'],
)  # fmt: skip
def test_what_the_runtime_did_not_write_is_no_marker_for_the_module_either(
    spark: SparkSession, text: str | None
) -> None:
    jvm: Any = spark._jvm
    assert jvm.kappa.kafka.CommitMarker.parse(text) is None
    assert parse_marker(text) is None


def test_driver_and_module_read_each_others_markers(spark: SparkSession) -> None:
    assert load(spark, MARK).toText() == MARK.to_text() + "\0"
    after = load(spark, MARK).after("old/q", 41, "other")
    found = parse_marker(after.toText().removesuffix("\0"))
    assert found is not None
    assert (found.generation, found.producer, found.last) == (7, "other", 41)
    assert list(found.written.items()) == [("new/q", 12), ("old/q", 41)], (
        "the last one is the last to be dropped"
    )


def test_of_many_lives_the_last_ones_are_remembered_within_what_kafka_takes(spark: SparkSession) -> None:
    marker = load(spark, CommitMarker(1))
    lives = [
        f"00000000-0000-0000-0000-000000000000-{n}/00000000-0000-0000-0000-000000000000" for n in range(40)
    ]
    for batch, life in enumerate(lives):
        marker = marker.after(life, batch, "client")
    found = parse_marker(marker.toText().removesuffix("\0"))
    assert found is not None
    assert list(found.written) == lives[-8:]
    assert len(marker.toText()) < 4096


class Sink:
    """A sink with one writer, whose commit marker has this generation; a query writes `ROWS` rows in one batch."""

    def __init__(self, spark: SparkSession, broker: Broker, topic: str, folder: Path) -> None:
        self._spark, self._checkpoint = spark, folder / uuid.uuid4().hex
        self._kafka = KafkaConnection(bootstrap_servers=(broker.bootstrap,))
        self.publisher = Publisher("out", topic, uuid.uuid4().hex, 7, "checkpoint", 1, "these views")

    def acquire(self, generation: int) -> None:
        client = Client(self.publisher, 0, self._kafka)
        client.claim()
        client.producer.begin_transaction()
        client.commit({(self.publisher.topic, 0): CommitMarker(generation)})
        client.close()

    def read_marker(self) -> CommitMarker:
        """Return the marker as a driver reads it."""
        with closing(MarkerReader(self.publisher, self._kafka)) as reader:
            found = reader.read([(self.publisher.topic, 0)])[self.publisher.topic, 0]
        assert found is not None
        return found

    @property
    def numbers(self) -> DataFrame:
        options = {"rowsPerBatch": str(ROWS), "numPartitions": "1"}
        rows = self._spark.readStream.format("rate-micro-batch").options(**options).load()
        return rows.select(f.col("value").cast("string").alias("value"))

    def write(self, rows: DataFrame, **producer: str) -> DriverError | None:
        """Write a batch; return the error of the query as the driver classifies it."""
        options = {
            **build_spark_connection(self._kafka),
            **prefix_options({**PRODUCER, **producer}),
            **describe_publisher(self.publisher),
        }
        writer = rows.writeStream.format(FORMAT).options(**options)
        query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(once=True).start()
        try:
            query.awaitTermination(60)
        except StreamingQueryException:
            failure = read_query_failure(query)
            assert failure is not None
            return classify(failure, "sink 'out'")
        return None


@pytest.fixture
def sink(spark: SparkSession, broker: Broker, topics: Any, tmp_path: Path) -> Sink:
    # The shared session may have the settings of a driver, which requires names of sources.
    return Sink(spark.newSession(), broker, topics.make("out", partitions=1), tmp_path)


def test_rows_are_committed_with_the_marker_and_named_topics_and_headers_are_used(
    sink: Sink, topics: Any
) -> None:
    other = topics.make("other", partitions=1)
    header = f.struct(f.lit("why").alias("key"), f.lit("odd").cast("binary").alias("value"))
    is_odd = f.col("value") % 2 == 1
    rows = sink.numbers.withColumn("topic", f.when(is_odd, other)).withColumn(
        "headers", f.when(is_odd, f.array(header))
    )
    sink.acquire(7)
    assert sink.write(rows) is None
    written_by = sink.read_marker()
    assert (written_by.generation, list(written_by.written.values())) == (7, [0])
    written = [topics.read_committed(topic) for topic in (sink.publisher.topic, other)]
    assert [[int(r.value()) for r in found] for found in written] == [
        list(range(0, ROWS, 2)), list(range(1, ROWS, 2)),
    ]  # fmt: skip
    assert {str(r.headers()) for r in written[1]} == {"[('why', b'odd')]"}
    assert all(record.key() is None and not record.headers() for record in written[0])


@pytest.mark.parametrize(
    ("generation", "words"),
    [(None, "MARKER_LOST"), (6, "MARKER_LOST"), (8, "FENCED: topic {}: a newer driver has acquired")],
)
def test_a_task_without_the_writers_of_its_driver_writes_nothing(
    sink: Sink, topics: Any, generation: int | None, words: str
) -> None:
    if generation is not None:
        sink.acquire(generation)
    ends = topics.ends(sink.publisher.topic)
    error = sink.write(sink.numbers)
    assert error is not None
    assert (error.reason, error.retryable) == (Reason.QUERY_FAILED, True)
    assert "another process aborted a transaction" in error.message
    assert words.format(sink.publisher.topic) in error.message
    assert topics.ends(sink.publisher.topic) == ends


def test_a_task_that_is_repeated_after_it_sent_a_part_writes_each_row_once(sink: Sink, topics: Any) -> None:
    sink.acquire(7)
    is_last = f.col("value").cast("int") == ROWS - 1
    fails = sink.numbers.select(
        f.when(is_last, f.raise_error(f.lit("stop"))).otherwise(f.col("value")).alias("value")
    )
    error = sink.write(fails)
    assert error is not None
    assert "stop" in error.message
    assert topics.read_committed(sink.publisher.topic) == []
    assert sink.write(sink.numbers) is None
    assert [int(record.value()) for record in topics.read_committed(sink.publisher.topic)] == list(
        range(ROWS)
    )


def test_a_record_that_is_too_large_and_a_kafka_that_is_away_have_names(sink: Sink, topics: Any) -> None:
    sink.acquire(7)
    large = sink.numbers.select(f.repeat("value", 5000).alias("value"))
    error = sink.write(large, **{"max.request.size": "1000"})
    assert error is not None
    assert f"PublishError: MESSAGE_TOO_LARGE: topic {sink.publisher.topic}" in error.message
    away = {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": "500"}
    error = sink.write(sink.numbers, **away)
    assert error is not None
    assert error.reason is Reason.KAFKA_UNAVAILABLE, error.message
    assert topics.read_committed(sink.publisher.topic) == []


# Chaos because the broker looks for old transactions every ten seconds only.
@pytest.mark.chaos
def test_a_transaction_that_kafka_ended_for_its_age_is_told_from_one_of_another_process(
    sink: Sink, topics: Any
) -> None:
    sink.acquire(7)
    late = f.col("value").cast("int") == ROWS - 1
    waits = f.expr("reflect('java.lang.Thread', 'sleep', 25000L)")
    slow = sink.numbers.select(
        f.when(late, f.coalesce(waits, "value")).otherwise(f.col("value")).alias("value")
    )
    error = sink.write(slow, **{"transaction.timeout.ms": "1000"})
    assert error is not None
    assert "bound it with trigger.maxRecords" in error.message
    assert "Kafka ends a transaction after 1 s" in error.message
    assert topics.read_committed(sink.publisher.topic) == []
