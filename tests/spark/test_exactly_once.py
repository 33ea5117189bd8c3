"""Sinks that write exactly once, on real Spark and Kafka: what a reader of committed records finds, whatever died in between."""

import json
import random
import shutil
import time
import uuid
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from kappa_crds.progress import DriverState
from kappa_crds.reasons import Reason
from lab.broker import Broker
from spark.conftest import wait_for
from spark.revisions import build_revision, source

SINK: dict[str, Any] = {
    "name": "out", "from": "events", "kafka": {"topic": "out", "key": ["k"], "delivery": "ExactlyOnce"},
}  # fmt: skip
APPEND: dict[str, Any] = {
    "sources": [source("events", "k BIGINT, v BIGINT, text STRING")],
    "sinks": [SINK],
    "trigger": {"maxRecords": 500},
}
COUNTS = {"name": "counts", "sql": "SELECT k, count(*) AS n FROM events GROUP BY k"}
UPDATE = {
    **APPEND,
    "views": [{**COUNTS, "allowUnboundedState": True}],
    "sinks": [{**SINK, "from": "counts", "mode": "update"}],
}
KEYS = 7


class Place:
    """Topics and a checkpoint of one pipeline, and the rows that were written to it."""

    def __init__(self, topics: Any, broker: Broker, folder: Path) -> None:
        self.topics = topics
        self.names = {"events": topics.make("events", partitions=1), "out": topics.make("out", partitions=3)}
        self.checkpoint = folder / "checkpoint"
        self.count = 0
        self._bootstrap = broker.bootstrap
        self._uid = str(uuid.uuid4())

    def build(self, spec: dict[str, Any], checkpoint: Path | None = None, **changes: Any) -> Any:
        at = f"file://{checkpoint or self.checkpoint}"
        return build_revision(spec, at, self._bootstrap, topics=self.names, uid=self._uid, **changes)

    def write(self, count: int, text: str = "") -> None:
        numbers = range(self.count, self.count + count)
        rows = [json.dumps({"k": number % KEYS, "v": number, "text": text}) for number in numbers]
        self.topics.write(self.names["events"], rows)
        self.count += count

    @property
    def records(self) -> list[Message]:
        found: list[Message] = self.topics.read_committed(self.names["out"])
        return found

    @property
    def ends(self) -> dict[int, int]:
        """Where the topic ends for a reader that takes uncommitted records, too."""
        found: dict[int, int] = self.topics.ends(self.names["out"])
        return found

    def list_batches(self, log: str) -> list[int]:
        folder = self.checkpoint / "out" / log
        return [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.exists() else []

    @property
    def is_amid_a_batch(self) -> bool:
        return max(self.list_batches("offsets"), default=-1) > max(self.list_batches("commits"), default=-1)


@pytest.fixture
def place(topics: Any, broker: Broker, tmp_path: Path) -> Place:
    return Place(topics, broker, tmp_path)


def by_key(records: list[Message], column: str) -> dict[int, list[int]]:
    """The values of a column for each key, in the order of the topic."""
    found: dict[int, list[int]] = defaultdict(list)
    for record in records:
        row = json.loads(record.value() or b"")
        assert record.key() == str(row["k"]).encode()
        found[row["k"]].append(row[column])
    return found


def expect_once(place: Place) -> None:
    """Each row is there once, and those of a key are in their order."""
    wanted = {key: list(range(key, place.count, KEYS)) for key in range(KEYS)}
    assert by_key(place.records, "v") == wanted


def all_read(place: Place) -> Any:
    return lambda p: p.state is DriverState.RUNNING and p.lag == 0 and p.queries[0].batch_id >= 0


def test_a_batch_that_is_repeated_is_not_written_again_and_one_of_a_restored_checkpoint_is(
    run: Any, place: Place
) -> None:
    place.write(1200)
    first = run(place.build(APPEND), 1)
    first.wait_for("no lag", all_read(place))
    assert first.stop().graceful
    assert first.progress.queries[0].total_input_rows == 1200
    assert first.progress.queries[0].total_written_rows == 1200
    expect_once(place)
    ends = place.ends

    copy = place.checkpoint.with_name("restored")
    shutil.copytree(place.checkpoint, copy, symlinks=True)
    last = max(place.list_batches("commits"))
    for checkpoint in (place.checkpoint, copy):  # as if the driver had died before Spark's commit
        for file in (checkpoint / "out/commits").glob(f"*{last}*"):
            file.unlink()
    again = run(place.build(APPEND), 2)
    again.wait_for("the batch is committed again", lambda p: p.queries and p.queries[0].batch_id >= last)
    assert again.stop().graceful
    assert place.ends == ends
    place.write(100)
    more = run(place.build(APPEND), 3)
    wait_for("the rest is written", lambda: len(place.records) >= 1300)
    assert more.stop().graceful
    expect_once(place)

    rewound = run(place.build(APPEND, copy), 4)
    wait_for("what came after is written again", lambda: len(place.records) >= 1600)
    assert rewound.stop().graceful
    counts = Counter(v for values in by_key(place.records, "v").values() for v in values)
    assert counts == {v: 1 if v < 1000 else 2 for v in range(1300)}


def test_partitions_are_those_that_the_producer_of_spark_chooses(run: Any, place: Place) -> None:
    place.write(300)
    plain = place.topics.make("plain", partitions=3)
    sinks = [
        SINK,
        {**SINK, "name": "plain", "kafka": {**SINK["kafka"], "topic": plain, "delivery": "AtLeastOnce"}},
    ]
    driver = run(place.build({**APPEND, "sinks": sinks}), 1)
    driver.wait_for_records(300)
    driver.wait_for("no lag", all_read(place))
    assert driver.stop().graceful
    found = [
        {(record.key(), record.partition()) for record in place.topics.read_committed(topic)}
        for topic in (place.names["out"], plain)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == KEYS


@pytest.mark.chaos
def test_a_driver_that_hangs_during_a_batch_adds_no_record_when_it_continues(
    start: Any, place: Place
) -> None:
    old = start(place.build(APPEND), 1)
    place.write(400)
    old.wait_for("a batch", lambda p: p.queries and p.queries[0].batch_id >= 0)
    place.write(12_000, text="x" * 1000)

    def hangs() -> bool:
        before, deadline = place.ends, time.monotonic() + 30
        while place.ends == before:
            assert time.monotonic() < deadline, "nothing more is published"
        old.pause()
        if place.is_amid_a_batch:
            return True
        old.go_on()
        return False

    wait_for("it hangs amid a batch", hangs)
    new = start(place.build(APPEND), 2)
    place.write(300)
    wait_for("all is written", lambda: len(place.records) >= place.count)
    expect_once(place)
    ends = place.ends

    old.go_on()
    ended = old.wait()
    assert (ended.reason, ended.retryable) == (Reason.GENERATION_FENCED, False), ended.message
    assert place.ends == ends, "no record, not even one that is not committed"
    place.write(50)
    wait_for("it goes on", lambda: len(place.records) >= place.count)
    new.process.terminate()
    assert new.wait().graceful
    expect_once(place)


@pytest.mark.chaos
@pytest.mark.parametrize("mode", ["append", "update"])
def test_each_row_is_there_once_though_drivers_are_killed_at_any_moment(
    start: Any, place: Place, mode: str
) -> None:
    spec, dice, kills = (APPEND if mode == "append" else UPDATE), random.Random(7), 5
    for generation in range(1, kills + 1):
        place.write(4000, text="x" * 500)
        driver = start(place.build(spec), generation)
        batch = max(place.list_batches("commits"), default=-1)
        driver.wait_for("a batch", lambda p, last=batch: p.queries and p.queries[0].batch_id > last)
        time.sleep(dice.uniform(0, 0.8))
        driver.kill()
    last = start(place.build(spec), kills + 1)
    last.wait_for("no lag", all_read(place), seconds=180)
    last.process.terminate()
    assert last.wait().graceful
    if mode == "append":
        expect_once(place)
        return
    for key, counts in by_key(place.records, "n").items():
        assert counts == sorted(set(counts)), f"each count of key {key} is there once, in order"
        assert counts[-1] == len(range(key, place.count, KEYS))
