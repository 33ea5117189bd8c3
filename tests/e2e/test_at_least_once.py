"""Executors are killed while they write a topic at least once (ADR 91): each record of the input is in the output, and none is wrong.

What a killed executor had written of its tasks is there twice, as another one repeats them. The driver continues.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer

from demo.compare import read_topic
from e2e.driver_watch import DriverWatch
from e2e.faults import kill_processes
from e2e.place import START_SECONDS, Place
from lab.kafka import host_bootstrap
from spark.topics import Topics

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]  # a driver, and five executors one after another
BATCH, KILLS = 10_000, 3
_WAITING = 5 * BATCH
"""Records that are not copied yet, so that both executors always have tasks."""
_COPY_SECONDS = 180


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("copies")
    place.apply(place.render("at_least_once.yaml", batch=str(BATCH)))
    for topic in ("events", "copies"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    yield place
    place.empty()


@dataclass
class Load:
    """Writes as many records as two executors need to have tasks all the time, on any machine."""

    place: Place
    written: int = 0
    topics: Topics = field(default_factory=lambda: Topics(host_bootstrap()))
    producer: Producer = field(
        default_factory=lambda: Producer({"bootstrap.servers": host_bootstrap(), "log_level": 0})
    )

    def count_rows(self) -> int:
        return sum(self.topics.ends(f"{self.place.name}-copies").values())

    def fill(self) -> None:
        """Write records until enough of them wait."""
        for seq in range(self.written, self.count_rows() + _WAITING):
            self.producer.produce(f"{self.place.name}-events", json.dumps({"seq": seq}), str(seq))
            self.written += 1
        assert self.producer.flush(60) == 0

    def wait(self, check: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until it is so, and have records written meanwhile."""

        def is_so() -> bool:
            self.fill()
            return check()

        self.place.wait(is_so, what, seconds)

    def kill_an_executor(self) -> None:
        """Kill an executor after a batch, among many that follow, and wait until there are two again."""
        before = self.count_rows()
        self.wait(lambda: self.count_rows() >= before + BATCH, "a batch is written", _COPY_SECONDS)
        killed = min(list_executors(self.place))
        kill_processes(killed, self.place.name)
        self.wait(
            lambda: len(list_executors(self.place) - {killed}) == 2, "another executor runs", START_SECONDS
        )


def list_executors(place: Place) -> set[str]:
    """Return the names of the executors that run."""
    found = place.find("pods", "spark-role=executor", fields="status.phase=Running")
    return {each["metadata"]["name"] for each in found}


def count_copies(place: Place) -> Counter[int]:
    """Return how often each record is in the output; fail where one is wrong."""
    found: Counter[int] = Counter()
    for message in read_topic(f"{place.name}-copies", host_bootstrap()):
        seq = int(message.key() or b"")
        assert json.loads(message.value() or b"") == {"seq": seq, "value": seq * 3}
        found[seq] += 1
    return found


def test_no_record_is_lost_when_executors_that_write_at_least_once_are_killed(place: Place) -> None:
    load = Load(place)
    load.fill()
    with DriverWatch(place.name) as drivers:
        place.await_ready("pipeline/counts", START_SECONDS)
        before = place.pipeline().active
        for _ in range(KILLS):
            load.kill_an_executor()
        expected = set(range(load.written))
        place.wait(
            lambda: load.count_rows() >= load.written and set(count_copies(place)) == expected,
            f"all of {load.written} records are in the output",
            _COPY_SECONDS,
        )
        assert place.pipeline().active.generation == before.generation, "the driver continues"
        drivers.check()
    repeated = sum(count_copies(place).values()) - load.written
    assert repeated > 0, "no executor had written a part of a task when it was killed"
    assert repeated <= KILLS * BATCH, "more was repeated than a batch for each executor"
    print(f"  {load.written} records, {repeated} of them written again after {KILLS} kills")
