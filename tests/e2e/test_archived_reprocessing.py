"""The head of a log is deleted: without an archive a reprocessing is refused with the offsets, with one it computes each record once."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from e2e.place import START_SECONDS, Place
from kappa_crds.archive import ARCHIVED
from kappa_crds.conditions import find_condition
from kappa_crds.reprocessing import ReprocessingPhase, ReprocessingStatus
from kappa_crds.topic import TopicStatus
from lab import kafka

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]
FIXED = [{"name": "priced", "sql": "SELECT k, seq, seq * 3 AS price FROM events"}]
FACTOR, PARTITIONS = 3, 2
ARCHIVED_RECORDS, RECORDS, LOST = 600, 1000, 200


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("archive")
    place.apply(place.render("archived.yaml"))
    for topic in ("kept", "bare"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    yield place
    place.empty()


def write(topic: str, begin: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.host_bootstrap(), "acks": "all"})
    for seq in range(begin, end):
        value = json.dumps({"k": f"k{seq % 12}", "seq": seq}).encode()
        producer.produce(topic, value, partition=seq % PARTITIONS)
    assert producer.flush(60) == 0


def delete_head(topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.host_bootstrap()})
    wanted = [TopicPartition(topic, partition, LOST) for partition in range(PARTITIONS)]
    for future in admin.delete_records(wanted).values():
        future.result()


def read(topic: str) -> list[tuple[int, int]]:
    """Return number and price of each record of a topic up to its present end."""
    settings = {"bootstrap.servers": kafka.host_bootstrap(), "group.id": "none", "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    found: list[tuple[int, int]] = []
    for partition in range(PARTITIONS):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
        consumer.assign([TopicPartition(topic, partition, 0)])
        position = 0
        while position < end:
            message = consumer.poll(10)
            assert message is not None, f"{topic}/{partition} ends at {position}, not at {end}"
            assert message.error() is None
            position = (message.offset() or 0) + 1
            row = json.loads(message.value() or b"")
            found.append((row["seq"], row["price"]))
    consumer.close()
    return found


def read_archived(place: Place) -> tuple[list[tuple[int, int]], str]:
    """Return the archived offsets of each partition, and the message of the condition."""
    status = place.get("Topic", "kept").status
    assert isinstance(status, TopicStatus)
    condition = find_condition(status.conditions, ARCHIVED)
    ranges = [] if status.archive is None else [(each.first, each.end) for each in status.archive.partitions]
    return ranges, "" if condition is None else condition.message


def await_records(place: Place, topic: str, count: int) -> None:
    place.wait(lambda: len(read(topic)) == count, f"{topic} has all", START_SECONDS)


def find_reprocessing(place: Place, pipeline: str) -> ReprocessingStatus | None:
    for body in place.find("reprocessings"):
        if body["spec"]["pipelineRef"] == pipeline:
            status = place.get("Reprocessing", body["metadata"]["name"]).status
            assert isinstance(status, ReprocessingStatus)
            return status
    return None


def test_without_an_archive_a_reprocessing_names_the_missing_offsets_and_with_one_it_is_complete(
    place: Place,
) -> None:
    kept, bare = f"{place.name}-kept", f"{place.name}-bare"
    write(kept, 0, ARCHIVED_RECORDS)
    write(bare, 0, ARCHIVED_RECORDS)
    half = ARCHIVED_RECORDS // PARTITIONS
    place.wait(
        lambda: read_archived(place)[0] == [(0, half)] * PARTITIONS, "the topic is archived", START_SECONDS
    )
    assert "are archived" in read_archived(place)[1]
    for pipeline in ("counts", "plain"):
        place.await_ready(f"pipeline/{pipeline}", START_SECONDS)
    write(kept, ARCHIVED_RECORDS, RECORDS)
    await_records(place, f"{place.name}-prices", RECORDS)
    await_records(place, f"{place.name}-others", ARCHIVED_RECORDS)
    for topic in (kept, bare):
        delete_head(topic)

    place.patch("kpp/plain", {"views": FIXED})
    place.wait(
        lambda: (found := find_reprocessing(place, "plain")) is not None and bool(found.gaps),
        "the missing offsets are named",
        60,
    )
    refused = find_reprocessing(place, "plain")
    assert refused is not None
    assert refused.phase is ReprocessingPhase.PROVING
    assert sorted((each.partition, each.first, each.end) for each in refused.gaps) == [
        (partition, 0, LOST) for partition in range(PARTITIONS)
    ]

    place.patch("kpp/counts", {"views": FIXED})

    def is_compared() -> bool:
        found = find_reprocessing(place, "counts")
        return found is not None and found.phase is ReprocessingPhase.READY_TO_CUT

    place.wait(is_compared, "both versions are compared", 400)
    rows = read(f"{place.name}-prices.r1")
    assert sorted(rows) == [(seq, seq * FACTOR) for seq in range(RECORDS)], "each record once, as in a batch"
