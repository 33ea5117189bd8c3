"""An archive of a real topic: with transactions, from run to run, and what it notices when the log was faster."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kappa_pipelines.archive.archiver import CONSUMER, ArchivedTopic, Limits, archive_partition
from kappa_pipelines.archive.files import read_slice
from kappa_pipelines.archive.seam import find_seams
from kappa_pipelines.archive.segments import Segment, cover, list_segments
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError
from lab.broker import Broker
from lab.transactions import end_transaction

pytestmark = pytest.mark.clusterless


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    return shared_broker


class Topic:
    """A topic, its archive, and what a consumer of committed records reads of partition 0."""

    def __init__(self, broker: Broker, name: str, folder: Path) -> None:
        self.name = name
        self._settings: dict[str, str | int | float] = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        self.admin = AdminClient({**self._settings})
        # The records are years old, and the broker may be older than its first search for such.
        self.admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "-1"})])[name].result()
        self.archived = ArchivedTopic(LocalFolder(str(folder)), name, "id")

    def write(self, *values: bytes, commit: bool | None = None) -> None:
        """Write records: without a transaction, or in one that is committed or aborted."""
        settings = {} if commit is None else {"transactional.id": f"{self.name}-{commit}"}
        producer = Producer({**self._settings, **settings})
        if commit is not None:
            producer.init_transactions(20)
            producer.begin_transaction()
        for value in values:
            producer.produce(
                self.name, value, b"key", headers=[("h", b"1"), ("h", None)], timestamp=1_357_000_000_123
            )
        producer.flush(20)
        if commit is not None:
            end_transaction(producer, self.admin, self.name, commit=commit)

    def truncate(self, before: int) -> None:
        for future in self.admin.delete_records([TopicPartition(self.name, 0, before)]).values():
            future.result()

    def _open(self) -> Consumer:
        return Consumer({**self._settings, **CONSUMER, "group.id": "archiver"})

    def archive(self, **limits: int) -> Segment | None:
        consumer = self._open()
        try:
            return archive_partition(consumer, self.archived, 0, Limits(**limits))
        finally:
            consumer.close()

    def read_log(self, begin: int = 0) -> list[tuple[Any, ...]]:
        """Return offset, key, value, headers and timestamp of each committed record in the log."""
        consumer = self._open()
        consumer.assign([TopicPartition(self.name, 0, begin)])
        found: list[tuple[Any, ...]] = []
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(
                (message.offset(), message.key(), message.value(), message.headers(), message.timestamp()[1])
            )
        consumer.close()
        return found

    def read_archive(self, begin: int, end: int) -> list[tuple[Any, ...]]:
        """Return the same of the archive."""
        segments = list_segments(self.archived.folder).get(0, [])
        return [
            (
                row["offset"], row["key"], row["value"],
                [(each["key"], each["value"]) for each in row["headers"]] if row["headers"] else None,
                round(row["timestamp"].timestamp() * 1000),
            )
            for part in cover(segments, begin, end)
            for batch in read_slice(self.archived.folder, part)
            for row in batch.to_pylist()
        ]  # fmt: skip


def test_archive_and_log_are_one_sequence_although_the_head_of_the_log_is_gone(
    broker: Broker, tmp_path: Path
) -> None:
    topic = Topic(broker, "archive-sequence", tmp_path)
    topic.write(*(b"plain-%d" % n for n in range(20)))
    topic.write(b"committed-1", b"committed-2", commit=True)
    topic.write(*(b"aborted-%d" % n for n in range(5)), commit=False)
    whole = topic.read_log()
    assert len(whole) == 22
    segments = [topic.archive(records=15), topic.archive(records=15), topic.archive()]
    assert segments[2] is None, "there is nothing new"
    assert segments[0] == Segment(0, 0, 15)
    assert segments[1] is not None
    assert segments[1].end == 29, (
        "the aborted records and the markers behind the last record count as archived"
    )

    topic.write(*(b"later-%d" % n for n in range(7)))
    whole = topic.read_log()
    topic.truncate(25)
    seams = find_seams(topic.name, list_segments(topic.archived.folder), {0: 25})
    assert seams == {0: 29}
    assert [*topic.read_archive(0, 29), *topic.read_log(29)] == whole


def test_two_archivers_and_a_crash_leave_each_record_once(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archive-twice", tmp_path)
    topic.write(*(b"%d" % n for n in range(30)))
    topic.archive(records=10)
    other = Topic.__new__(Topic)
    other.__dict__ = {
        **topic.__dict__,
        "archived": ArchivedTopic(LocalFolder(str(tmp_path / "other")), "archive-twice", "id"),
    }
    other.archive(records=17)
    other.archived.folder.copy(Segment(0, 0, 17).path, topic.archived.folder, Segment(0, 0, 17).path)
    (tmp_path / "00000" / ".part").write_bytes(b"half of a file")
    assert topic.archive() == Segment(0, 17, 30)
    assert topic.read_archive(0, 30) == topic.read_log()


def test_records_that_were_removed_before_they_were_archived_are_named(
    broker: Broker, tmp_path: Path
) -> None:
    topic = Topic(broker, "archive-late", tmp_path)
    topic.write(*(b"%d" % n for n in range(30)))
    assert topic.archive(records=10) == Segment(0, 0, 10)
    topic.truncate(14)
    with pytest.raises(LostDataError, match="offsets 10 to 13 were removed before they were archived"):
        topic.archive()


def test_an_archive_begins_where_the_log_begins(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archive-begun", tmp_path)
    topic.write(*(b"%d" % n for n in range(10)))
    topic.truncate(4)
    assert topic.archive() == Segment(0, 4, 10)
    with pytest.raises(LostDataError, match="partition 0: offsets 0 to 3"):
        find_seams(topic.name, list_segments(topic.archived.folder), {0: 4})


def test_few_new_records_wait_for_more(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archive-few", tmp_path)
    topic.write(b"1", b"2")
    assert topic.archive(least=3) is None
    topic.write(b"3")
    assert topic.archive(least=3) == Segment(0, 0, 3)


def test_an_open_transaction_is_not_archived(broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "archive-open", tmp_path)
    topic.write(b"before")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": topic.name, "log_level": 0}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic.name, b"open")
    producer.flush(20)
    topic.write(b"after")
    assert topic.archive() == Segment(0, 0, 1)
    end_transaction(producer, topic.admin, topic.name, commit=True)
    assert topic.archive() == Segment(0, 1, 4)
    assert topic.read_archive(0, 4) == topic.read_log()
