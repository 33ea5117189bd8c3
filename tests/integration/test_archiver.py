"""The program that archives a topic, as its pod runs it, against a real broker and on a volume or in a bucket."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from kappa_crds.archive_work import ArchiveRequest, ArchiveResult
from kappa_crds.revision import KafkaConnection
from kappa_crds.stores import BucketConnection
from kappa_pipelines.archive.files import read_slice
from kappa_pipelines.archive.segments import cover, list_segments, name_topic_folder
from kappa_pipelines.archive.source import ArchiveRead, ArchiveSource, build_options
from kappa_pipelines.archiver.work import archive_topic
from kappa_pipelines.checkpoint.location import open_folder
from kappa_pipelines.checkpoint.store.folder import Folder
from lab.broker import Broker
from lab.s3 import ObjectStore
from lab.transactions import end_transaction

pytestmark = pytest.mark.clusterless
PARTITIONS = 3


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    return shared_broker


class Topic:
    """A topic of three partitions, and the request to archive it below a location."""

    def __init__(
        self, broker: Broker, name: str, location: str, bucket: BucketConnection | None = None
    ) -> None:
        self.name, self._bootstrap, self._count = name, broker.bootstrap, 0
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
        kafka = KafkaConnection(bootstrap_servers=(broker.bootstrap,))
        self.request = ArchiveRequest(
            location=location, topic=name, topic_id="id", kafka=kafka, seconds=60, bucket=bucket
        )

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for number in range(self._count, self._count + count):
            producer.produce(self.name, b"%d" % number, b"k", partition=number % PARTITIONS)
        assert producer.flush(20) == 0
        self._count += count

    def truncate(self, before: int) -> None:
        wanted = [TopicPartition(self.name, partition, before) for partition in range(PARTITIONS)]
        for future in self.admin.delete_records(wanted).values():
            future.result()

    @property
    def folder(self) -> Folder:
        place = f"{self.request.location}/{name_topic_folder(self.name, 'id')}"
        return open_folder(place, self.request.connection)

    def read(self) -> list[int]:
        """Return the numbers in the archive, as often as a reading has them."""
        return sorted(
            int(row["value"])
            for segments in list_segments(self.folder).values()
            for part in cover(segments, 0)
            for batch in read_slice(self.folder, part)
            for row in batch.to_pylist()
        )


def run_program(request: ArchiveRequest, folder: Path) -> tuple[int, ArchiveResult]:
    """Run the program in a process of its own, as the pod does."""
    file, message = folder / "request.json", folder / "message"
    file.write_text(request.model_dump_json(by_alias=True, exclude_none=True))
    ended = subprocess.run(
        [sys.executable, "-m", "kappa_pipelines.archiver", str(file)],
        env={**os.environ, "KAPPA_TERMINATION_FILE": str(message)},
        timeout=60,
        check=False,
    )
    return ended.returncode, ArchiveResult.model_validate_json(message.read_text())


def test_the_program_archives_all_of_a_topic_and_continues_after_itself(
    broker: Broker, tmp_path: Path
) -> None:
    topic = Topic(broker, "archiver-program", f"file://{tmp_path}/archive")
    topic.write(30)
    code, result = run_program(topic.request, tmp_path)
    assert (code, result.ranges, result.is_complete) == (0, ((0, 10), (0, 10), (0, 10)), True)
    assert (result.behind, result.segments, result.lost, result.failure) == (0, 3, "", None)
    assert topic.read() == list(range(30))

    topic.write(6)
    topic.truncate(5)
    result = archive_topic(topic.request)
    assert (result.ranges, result.segments) == (((0, 12), (0, 12), (0, 12)), 6)
    result = archive_topic(topic.request)
    assert (result.ranges, result.segments, result.is_complete) == (((0, 12), (0, 12), (0, 12)), 6, True)
    assert topic.read() == list(range(36)), "each record once, also those that the log has lost"


def test_a_topic_that_is_not_there_is_reported_in_the_answer(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archiver-there", f"file://{tmp_path}/archive")
    code, result = run_program(topic.request.model_copy(update={"topic": "not-there"}), tmp_path)
    assert code == 1
    assert result.failure is not None
    assert "topic not-there cannot be read" in result.failure.message


def test_lost_records_are_named_and_the_archive_continues_after_them(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archiver-overtaken", f"file://{tmp_path}/archive")
    topic.write(30)
    archive_topic(topic.request)
    topic.write(30)
    topic.truncate(13)
    result = archive_topic(topic.request)
    assert result.lost == "; ".join(f"partition {number}: offsets 10 to 12" for number in range(PARTITIONS))
    assert (result.ranges, result.is_complete) == (((13, 20), (13, 20), (13, 20)), True)
    assert archive_topic(topic.request).lost == "", "it is reported once"


def test_a_run_that_has_no_more_time_reports_how_much_is_left(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archiver-slow", f"file://{tmp_path}/archive")
    topic.write(30)
    ticks = iter([0.0, 0.0, 100.0])
    result = archive_topic(topic.request, lambda: next(ticks))
    assert (result.ranges, result.behind, result.is_complete) == (((0, 10), (0, 0), (0, 0)), 20, False)
    assert archive_topic(topic.request).is_complete


def test_an_open_transaction_leaves_the_archive_incomplete(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archiver-open", f"file://{tmp_path}/archive")
    topic.write(3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic.name, b"3", partition=0)
    producer.flush(20)
    result = archive_topic(topic.request)
    assert (result.ranges, result.behind, result.is_complete) == (((0, 1), (0, 1), (0, 1)), 1, False)
    end_transaction(producer, topic.admin, topic.name, commit=False)
    result = archive_topic(topic.request)
    assert (result.ranges[0], result.behind, result.is_complete) == ((0, 1), 0, True), "there is no record"


def test_it_is_the_same_in_a_bucket(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with ObjectStore() as server:
        server.create_bucket("state")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
        bucket = BucketConnection(endpoint=server.endpoint, region="us-east-1")
        check_bucket(Topic(broker, "archiver-bucket", "s3a://state/_kappa/archive/shop", bucket))


def check_bucket(topic: Topic) -> None:
    topic.write(30)
    assert archive_topic(topic.request).is_complete
    topic.write(3)
    assert archive_topic(topic.request).ranges == ((0, 11), (0, 11), (0, 11))
    assert topic.read() == list(range(33))
    assert read_as_spark(topic) == list(range(33))


def read_as_spark(topic: Topic) -> list[int]:
    """Return the numbers that the source of Spark reads up to the seams, with nothing but its options."""
    parts = range(PARTITIONS)
    read = ArchiveRead(topic.folder.root, topic.name, dict.fromkeys(parts, 0), dict.fromkeys(parts, 11))
    reader = ArchiveSource(build_options(read, access=topic.request)).streamReader(StructType())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    batches: list[Any] = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return sorted(int(value.as_py()) for batch in batches for value in batch.column("value"))


def test_the_largest_answer_fits_into_a_termination_message() -> None:
    largest = (10**11, 10**12)
    result = ArchiveResult(
        ranges=(largest,) * 100, behind=10**13, segments=10**6, size_bytes=10**15, lost="x" * 800
    )
    assert len(json.dumps(json.loads(result.model_dump_json(by_alias=True)), separators=(",", ":"))) < 4096
