"""A sink is added under live load: its topic gets the history and each later record, while the first sink goes on."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from e2e.faults import kill_processes
from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing import WRONG, writing
from kappa_crds.pipeline_status import UpgradePhase
from lab import kafka

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]
TOPIC = """
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {{name: more}}
spec: {{topicName: {namespace}-more, partitions: 2, deletionPolicy: Delete}}
"""
MORE = {
    "name": "more",
    "from": "tripled",
    "kafka": {"topic": "more", "key": ["k"], "delivery": "ExactlyOnce"},
}


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("reprocess")
    place.apply(place.render("reprocessed.yaml"))
    place.apply(TOPIC.format(namespace=place.name))
    place.await_ready("topics.kappa-platform.io/events", 60)
    yield place
    place.empty()


def read_rows(topic: str) -> list[tuple[int, int]]:
    """Return number and price of each committed record of a topic; its ends have markers of transactions."""
    consumer = Consumer(
        {"bootstrap.servers": kafka.host_bootstrap(), "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    found: list[tuple[int, int]] = []
    while (message := consumer.poll(5)) is not None:
        assert message.error() is None
        row = json.loads(message.value() or b"")
        found.append((row["seq"], row["price"]))
    consumer.close()
    return found


def test_an_added_sink_has_each_record_of_the_log_once_also_after_a_killed_driver(place: Place) -> None:
    """The sources start at `latest` from the change on, so only the backfill can read the history."""
    with writing(f"{place.name}-events"):
        place.await_ready("pipeline/counts", START_SECONDS)
        time.sleep(5)
        (body,) = [each for each in place.find("kpp") if each["metadata"]["name"] == "counts"]
        spec = body["spec"]
        (source,), views, sinks = spec["sources"], spec["views"], spec["sinks"]
        tripled = {"name": "tripled", "sql": "SELECT k, seq, seq * 3 AS price FROM events"}
        place.patch(
            "kpp/counts",
            {
                "sources": [{**source, "startingOffsets": "latest"}],
                "views": [*views, tripled],
                "sinks": [*sinks, MORE],
            },
        )
        status = place.await_pipeline(
            lambda found: found.upgrade is not None and found.upgrade.phase is UpgradePhase.DONE, "is changed"
        )
        assert status.active.backfill == ("more",)
        assert place.find("reprocessings") == []
        driver = status.active.driver
        assert driver is not None
        kill_processes(driver, place.name)
        place.await_pipeline(
            lambda found: found.active.driver not in (None, driver) and found.lag_records is not None,
            "has another driver",
        )
        place.await_ready("pipeline/counts", START_SECONDS)
        time.sleep(10)
    rows: list[tuple[int, int]] = []

    def is_complete() -> bool:
        rows[:] = read_rows(f"{place.name}-more")
        first = read_rows(f"{place.name}-prices")
        return len({seq for seq, _ in rows}) == len({seq for seq, _ in first}) == max(s for s, _ in first) + 1

    place.wait(is_complete, "both sinks have all records", 120)
    seqs = sorted(seq for seq, _ in rows)
    assert seqs == list(range(len(seqs))), "none is lost, and none is repeated"
    assert all(price == seq * 3 for seq, price in rows)
    assert all(price == seq * WRONG for seq, price in read_rows(f"{place.name}-prices"))
