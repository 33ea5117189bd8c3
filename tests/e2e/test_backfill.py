"""A sink is added under live load: its topic gets the history and each later record, while the first sink continues.

Its driver is killed within the history.
"""

import json
import time
from collections.abc import Iterator

import pytest

from demo.compare import read_topic
from e2e.faults import kill_processes
from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing import WRONG, writing
from kappa_crds.pipeline_status import UpgradePhase
from lab import kafka

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]  # drivers start three times
HISTORY, SLICE = 50_000, 500
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
    place = Place.create("backfill")
    place.apply(place.render("reprocessed.yaml"))
    place.apply(TOPIC.format(namespace=place.name))
    for topic in ("events", "prices", "more"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    yield place
    place.empty()


def read_prices(topic: str) -> list[tuple[int, int]]:
    """Return number and price of each committed record of a topic."""
    rows = (json.loads(each.value() or b"") for each in read_topic(topic, kafka.host_bootstrap()))
    return [(row["seq"], row["price"]) for row in rows]


def add_sink(place: Place) -> None:
    """Add a sink, whose query reads slices of the history. The sources start at `latest` from this change on."""
    (body,) = place.find("pipelines.kappa-platform.io")
    spec = body["spec"]
    (source,), views, sinks = spec["sources"], spec["views"], spec["sinks"]
    changed = {
        "sources": [{**source, "startingOffsets": "latest"}],
        "views": [*views, {"name": "tripled", "sql": "SELECT k, seq, seq * 3 AS price FROM events"}],
        "sinks": [*sinks, MORE],
        "upgrade": {"reprocessing": {"replay": {"maxRecords": SLICE}}},
    }
    place.patch("kpp/counts", changed)


def test_an_added_sink_has_each_record_of_the_log_once_also_after_a_killed_driver(place: Place) -> None:
    events, first, added = (f"{place.name}-{name}" for name in ("events", "prices", "more"))
    with writing(events, pause=0.0001) as history:
        place.wait(lambda: history[0] >= HISTORY, "the history is written", 120)
    with writing(events, first=history[0]) as written:
        place.await_ready("pipeline/counts", START_SECONDS)
        place.wait(lambda: len(read_prices(first)) >= HISTORY, "the first sink has the history", 120)
        add_sink(place)
        status = place.await_pipeline(
            lambda found: found.upgrade is not None and found.upgrade.phase is UpgradePhase.DONE,
            "is changed", 2 * START_SECONDS,
        )  # fmt: skip
        assert status.active.backfill == ("more",)
        driver = status.active.driver
        assert driver is not None
        kill_processes(driver, place.name)
        done = len(read_prices(added))
        print(f"  killed with {done} of {written[0]} records in the topic of the added sink")
        assert done < written[0], "it was killed within the history"
        place.await_pipeline(
            lambda found: found.active.driver not in (None, driver) and found.active.running_since is not None,
            "has another driver",
        )  # fmt: skip
        place.await_ready("pipeline/counts", START_SECONDS)
        time.sleep(10)
    place.wait(lambda: len(read_prices(added)) >= written[0], "the added sink has all records", 240)
    assert place.find("reprocessings") == []
    check(read_prices(added), written[0], 3)
    prices = read_prices(first)
    assert all(price == seq * WRONG for seq, price in prices)
    assert {seq for seq, _ in prices} == set(range(written[0]))


def check(rows: list[tuple[int, int]], written: int, factor: int) -> None:
    """Fail where a record has no price, two prices or a wrong one."""
    assert sorted(seq for seq, _ in rows) == list(range(written)), "none is lost, and none is repeated"
    assert all(price == seq * factor for seq, price in rows)
