"""A driver of a new version whose log has lost its head: it reads the archive, then the log from the seam on, and counts each record once."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kappa_crds.archive_work import ArchiveRequest
from kappa_crds.progress import DriverRole, DriverState, Progress
from kappa_crds.replay import ArchivedSource, ReplayProfile
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.archiver.work import archive_topic
from lab.broker import Broker
from spark.revisions import build_revision, source
from spark.topics import Topics

pytestmark = pytest.mark.chaos
PARTITIONS, ARCHIVED, RECORDS, LOST = 2, 600, 900, 250
START = datetime(2026, 1, 1, tzinfo=UTC)
HOURLY = {"name": "hourly", "window": {"from": "orders", "tumbling": "1h", "aggregates": {"n": "count(*)"}}}
TIMED: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "30m"}}


def list_moments(count: int) -> list[datetime]:
    return [START + timedelta(minutes=number) for number in range(count)]


def write(bootstrap: str, topic: str, begin: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, moment in enumerate(list_moments(end)):
        if number >= begin:
            value = json.dumps({"k": number, "v": 1.0, "ts": moment.isoformat()})
            stamp = int(moment.timestamp() * 1000)
            producer.produce(topic, value, partition=number % PARTITIONS, timestamp=stamp)
    assert producer.flush(30) == 0


def count_hours(count: int) -> Counter[str]:
    return Counter(moment.strftime("%Y-%m-%dT%H:00") for moment in list_moments(count))


def read_hours(topics: Topics, topic: str) -> Counter[str]:
    """The last count of each window."""
    found: Counter[str] = Counter()
    for message in topics.read(topic):
        row = json.loads(message.value() or b"")
        found[row["window_start"][:16]] = row["n"]
    return found


def truncate(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition(topic, part, before) for part in range(PARTITIONS)]
    for future in admin.delete_records(wanted).values():
        future.result()


def test_a_new_version_reads_the_archive_and_then_the_log_and_counts_each_record_once(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    names = {
        "orders": topics.make("orders", partitions=PARTITIONS, **{"retention.ms": "-1"}),
        "out": topics.make("out", partitions=1),
    }
    spec = {
        "sources": [source("orders", **TIMED)],
        "views": [HOURLY],
        "sinks": [
            {
                "name": "out",
                "from": "hourly",
                "mode": "update",
                "kafka": {"topic": "out", "key": ["window_start"]},
            }
        ],
    }
    kafka = KafkaConnection(bootstrap_servers=(broker.bootstrap,))
    location = f"file://{tmp_path}/_kappa/archive/shop"
    request = ArchiveRequest(location=location, topic=names["orders"], topic_id="id", kafka=kafka, seconds=60)
    write(broker.bootstrap, names["orders"], 0, ARCHIVED)
    assert archive_topic(request).is_complete
    write(broker.bootstrap, names["orders"], ARCHIVED, RECORDS)
    truncate(broker.bootstrap, names["orders"], LOST)

    archive = ArchivedSource(source="orders", location=location, topic=names["orders"], topic_id="id")
    revision = build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="archived")
    driver = run(revision, role=DriverRole.SHADOW, replay=ReplayProfile(max_records=170, archives=(archive,)))
    positions: set[int] = set()

    def has_read(progress: Progress) -> bool:
        ends = [source.end_offsets.get(names["orders"], {}) for q in progress.queries for source in q.sources]
        positions.update(end for each in ends for end in each.values())
        return not progress.replaying and any(sum(each.values()) == RECORDS for each in ends)

    driver.wait_for("all is read", has_read, 300)
    assert read_hours(topics, names["out"]) == count_hours(RECORDS)
    assert min(positions) < LOST, "the head came from the archive"
    write(broker.bootstrap, names["orders"], RECORDS, RECORDS + 60)
    driver.wait_for("live records", lambda p: any(q.input_rows == 60 for q in p.queries))
    driver.wait_for("the rest", lambda p: read_hours(topics, names["out"]) == count_hours(RECORDS + 60))
    assert driver.stop().graceful

    again = run(revision, 2, role=DriverRole.SHADOW, replay=ReplayProfile(archives=(archive,)))
    again.wait_for("it runs", lambda p: p.state is DriverState.RUNNING and not p.replaying)
    write(broker.bootstrap, names["orders"], RECORDS + 60, RECORDS + 120)
    again.wait_for("it continues", lambda p: read_hours(topics, names["out"]) == count_hours(RECORDS + 120))
    assert again.stop().graceful
