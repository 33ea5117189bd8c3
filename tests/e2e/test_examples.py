"""Every example runs in a namespace with restricted Pod Security whose pods have no connection by default.

A few run at a time, as memory permits. `test_flights` and `make demo` compare the results of one; the tests of the laptop those of all.
"""

import json
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition

from e2e.examples import (
    FOLDER,
    NOT_APPLIED,
    SHARED,
    Example,
    Record,
    find_examples,
    name_topic,
    write_records,
)
from e2e.place import Place
from lab import kafka

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

BOOTSTRAP = kafka.host_bootstrap()
EXAMPLES = find_examples()
GROUPS = (
    ("delays", "punctuality", "congestion", "rotations"),
    ("weather", "cancelled", "late-records", "corrections"),
    ("yesterday", "favourites", "enriched", "sketches"),
    ("worsening", "auction-winners", "auction-hot", "auction-bidders"),
    ("auction-alerts", "auction-standing", "orders", "timelines"),
    ("shop", "sold"),
    ("local-hours",),
    ("tiers",),
    ("auction-commands",),
    ("auction-standings",),
)
"""Examples of a group have no topic with different records."""
_START_SECONDS, _PROCESS_SECONDS = 420, 240


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("examples")
    for name in SHARED:
        place.apply((FOLDER / name).read_text())
    yield place
    place.empty()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_examples_process_records_in_a_restricted_namespace(group: tuple[str, ...], place: Place) -> None:
    examples = [EXAMPLES[name] for name in group]
    items = {
        (each["kind"], each["metadata"]["name"]): each
        for example in examples
        for each in example.build(place)
    }
    try:
        place.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items.values())}))
        for kind, name in items:
            if kind == "Topic":
                place.await_ready(f"topics.kappa-platform.io/{name}", 60)
        written = write_records(BOOTSTRAP, read_records(examples), place)
        assert written > 0
        for example in examples:
            check_example(example, place)
    finally:
        place.empty()


def read_records(
    examples: list[Example],
) -> dict[str, list[Record]]:
    """Return the records of all source topics, once each."""
    return {topic: rows for example in examples for topic, rows in example.read_records().items()}


def check_example(example: Example, place: Place) -> None:
    """Wait until the pipeline is Ready and has processed all of its records, and check that it wrote results and never failed."""
    place.await_ready(f"pipeline/{example.name}", _START_SECONDS)
    wanted = sum(map(len, example.read_records().values()))
    status = place.await_pipeline(
        lambda status: (status.records or 0) >= wanted and status.lag_records == 0,
        f"has processed {wanted} records",
        _PROCESS_SECONDS,
        example.name,
    )
    assert not status.dead_lettered
    assert status.restarts.total == 0
    for topic in example.results:
        place.wait(partial(has_record, name_topic(topic, place)), f"topic {topic} has a result", 120)


def has_record(topic: str) -> bool:
    """Whether a reader of committed records finds one in the topic."""
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "none", "log_level": 0})
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        message = consumer.poll(3)
        return message is not None and message.error() is None
    finally:
        consumer.close()


def test_every_manifest_is_applied_or_left_out_with_a_reason() -> None:
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.yaml")}
    applied = {str(example.path.relative_to(FOLDER)) for example in EXAMPLES.values()} | set(SHARED)
    assert there == applied | NOT_APPLIED.keys()
    assert not applied & NOT_APPLIED.keys()
    assert sorted(EXAMPLES) == sorted(name for group in GROUPS for name in group)
