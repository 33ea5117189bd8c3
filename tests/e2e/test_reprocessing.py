"""A bug is fixed by a reprocessing while records come in: readers that follow the cut lose nothing, and see nothing twice or of both versions."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from e2e.place import START_SECONDS, Place
from kappa_client import OutputReader, ReaderError
from kappa_crds.pipeline_status import RunRole, UpgradePhase
from kappa_crds.reprocessing import Cut, ReprocessingPhase, ReprocessingStatus, TopicPosition
from lab import kafka
from lab.resolve import build_resolver

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]
WRONG, RIGHT = 2, 3
FIXED = [{"name": "priced", "sql": "SELECT k, seq, seq * 3 AS price FROM events"}]
_PAUSE = 0.01


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("reprocess")
    place.apply(place.render("reprocessed.yaml"))
    place.await_ready("topics.kappa-platform.io/events", 60)
    yield place
    place.empty()


@contextmanager
def writing(
    topic: str, bootstrap: str | None = None, pause: float = _PAUSE, first: int = 0
) -> Iterator[list[int]]:
    """Write numbered records all the time, each once; the list has how many were written."""
    written, ending = [first], threading.Event()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap or kafka.host_bootstrap(),
            "enable.idempotence": True,
            "log_level": 0,
        }
    )

    def run() -> None:
        while not ending.wait(pause):
            seq = written[0]
            producer.produce(topic, json.dumps({"k": f"k{seq % 12}", "seq": seq}).encode(), f"k{seq % 12}")
            written[0] += 1
            producer.poll(0)
        producer.flush(60)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        ending.set()
        thread.join(60)


def read(topic: str, starts: dict[str, int], ends: dict[str, int] | None = None) -> list[tuple[int, int]]:
    """Return number and price of each record of a topic from these offsets up to others, or to the present ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.host_bootstrap(),
            "group.id": "none",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[tuple[int, int]] = []
    for partition in (0, 1):
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
        position, end = starts.get(str(partition), 0), high if ends is None else ends[str(partition)]
        consumer.assign([TopicPartition(topic, partition, position)])
        while position < end:
            message = consumer.poll(10)
            assert message is not None, f"{topic}/{partition} ends at {position}, not at {end}"
            assert message.error() is None
            position = (message.offset() or 0) + 1
            row = json.loads(message.value() or b"")
            found.append((row["seq"], row["price"]))
    consumer.close()
    return found


class PollingReader:
    """Polls an output all the time, as an application does with the client, and notes two columns and the topic of each record."""

    def __init__(
        self,
        place: Place,
        bootstrap: str | None = None,
        *,
        output: tuple[str, str] = ("counts", "prices"),
        columns: tuple[str, str] = ("seq", "price"),
    ) -> None:
        self.found: list[tuple[Any, Any, str]] = []
        self._columns = columns
        self.errors: list[Exception] = []
        self._ending = threading.Event()
        resolve = build_resolver(place.name, *output)
        config = {"bootstrap.servers": bootstrap or kafka.host_bootstrap(), "log_level": 0}
        self._reader = OutputReader(config, resolve)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                message = self._reader.poll(0.5)
            except (ReaderError, KafkaException) as error:
                self.errors.append(error)
                self._ending.wait(0.5)
                continue
            if message is not None:
                row = json.loads(message.value() or b"")
                first, second = self._columns
                self.found.append((row[first], row[second], message.topic() or ""))

    def end(self) -> list[tuple[Any, Any, str]]:
        """Stop, and return what was read."""
        self._ending.set()
        self._thread.join(60)
        self._reader.close()
        return self.found


def find_reprocessing(place: Place) -> ReprocessingStatus:
    (body,) = place.find("reprocessings")
    status = place.get("Reprocessing", body["metadata"]["name"]).status
    assert isinstance(status, ReprocessingStatus)
    return status


def request(place: Place, action: str) -> None:
    (body,) = place.find("reprocessings")
    place.patch(
        f"reprocessings.kappa-platform.io/{body['metadata']['name']}", {"request": {"action": action}}
    )


def await_phase(place: Place, phase: ReprocessingPhase, seconds: float = START_SECONDS) -> ReprocessingStatus:
    def is_there() -> bool:
        return bool(place.find("reprocessings")) and find_reprocessing(place).phase is phase

    place.wait(is_there, f"the reprocessing is {phase}", seconds)
    return find_reprocessing(place)


def get_offsets(positions: tuple[TopicPosition, ...]) -> tuple[str, dict[str, int]]:
    (position,) = positions
    return position.topic, position.offsets


def follow(cut: Cut) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return what a reader sees that follows a cut: the old topic up to its end there, and the new one from its end there."""
    (old, old_ends), (new, new_ends) = get_offsets(cut.old), get_offsets(cut.new)
    return read(old, {}, old_ends), read(new, new_ends)


def test_a_bug_is_fixed_by_a_reprocessing_and_a_rollback_takes_it_back(place: Place) -> None:
    with writing(f"{place.name}-events") as written:
        place.await_ready("pipeline/counts", START_SECONDS)
        reader = PollingReader(place)
        time.sleep(5)
        place.patch(
            "kpp/counts",
            {"views": FIXED},
        )
        await_phase(place, ReprocessingPhase.READY_TO_CUT, 300)
        status = place.pipeline()
        assert {run.role for run in status.runs} == {RunRole.ACTIVE, RunRole.SHADOW}
        drivers = {run.driver for run in status.runs}
        request(place, "Cut")
        done = await_phase(place, ReprocessingPhase.SOAKING, 120)
        status = place.await_pipeline(
            lambda found: found.upgrade is not None and found.upgrade.phase is UpgradePhase.SOAKING, "soaks"
        )
        assert [each.topic for each in status.outputs] == [f"{place.name}-prices.r1"]
        assert {run.driver for run in status.runs} == drivers, "no driver was started or stopped"
        time.sleep(5)
        assert done.cut is not None
        before, after = follow(done.cut)
        check_exact(before, after, written[0])
        check_topic(f"{place.name}-prices.r1")

        request(place, "Rollback")
        rolled = await_phase(place, ReprocessingPhase.ROLLED_BACK, 120)
        assert rolled.rollback_cut is not None
        status = place.await_pipeline(lambda found: len(found.runs) == 1, "has only its old version", 120)
        assert [each.topic for each in status.outputs] == [f"{place.name}-prices"]
        assert status.active.driver in drivers
        time.sleep(5)
        (_, _), (old, ends) = get_offsets(rolled.rollback_cut.old), get_offsets(rolled.rollback_cut.new)
        later = read(old, ends)
        assert later
        assert {price for seq, price in later} == {seq * WRONG for seq, _ in later}
        place.wait(
            lambda: (
                "prices.r1"
                not in {each["metadata"]["name"] for each in place.find("topics.kappa-platform.io")}
            ),
            "the topic is gone",
            60,
        )
        seen = reader.end()
    check_reader(place, seen, reader.errors)
    everything = read(f"{place.name}-prices", {})
    assert sorted(seq for seq, _ in everything) == sorted({seq for seq, _ in everything}), "none is repeated"


def check_reader(place: Place, seen: list[tuple[int, int, str]], errors: list[Exception]) -> None:
    """Fail where a reader that polled all the time had an error, lost or repeated a record, or has one of a version that was not active."""
    assert errors == []
    base = f"{place.name}-prices"
    versions = [topic for topic, _ in groupby(topic for _, _, topic in seen)]
    assert versions == [base, f"{base}.r1", base], "it moved there and back, once each"
    assert all(price == seq * (WRONG if topic == base else RIGHT) for seq, price, topic in seen)
    for key in range(12):  # the end of each partition was read at another time
        seqs = sorted(seq for seq, _, _ in seen if seq % 12 == key)
        assert seqs == [key + 12 * number for number in range(len(seqs))], (
            "none is lost, and none is repeated"
        )


def check_exact(before: list[tuple[int, int]], after: list[tuple[int, int]], written: int) -> None:
    """Fail where a reader that follows the cut has lost a record, has one twice, or one of the other version."""
    assert all(price == seq * WRONG for seq, price in before)
    assert all(price == seq * RIGHT for seq, price in after)
    assert before
    assert after
    seen = sorted(seq for seq, _ in (*before, *after))
    assert seen == sorted(set(seen)), "a record was seen twice"
    last = max(seen)
    missing = set(range(last - 200)) - set(seen)
    assert not missing, f"of {written} records {len(missing)} were not seen"


def check_topic(topic: str) -> None:
    """Fail where the new topic is not what the new version computes of the whole log."""
    rows = read(topic, {})
    assert all(price == seq * RIGHT for seq, price in rows)
    seqs = sorted(seq for seq, _ in rows)
    assert seqs == sorted(set(seqs))
    assert set(range(seqs[-1] - 200)) <= set(seqs)
