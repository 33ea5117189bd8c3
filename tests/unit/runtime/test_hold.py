"""How a driver comes to a point of its input: queries in memory that Spark would run, and a clock that tests turn."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from kappa_crds.progress import Hold, HoldPhase, InputVector
from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets
from kappa_pipelines.driver.bound import QueryBusyError, Vector
from kappa_pipelines.driver.hold import HoldContext, Holding
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.sources.idle import IDLE_SUFFIX, find_watermark_file, read_watermark, write_watermark

IDLE = f"flights{IDLE_SUFFIX}"


@dataclass
class FakeQuery:
    """A query of one partition. `work` runs a batch; `rests` are the batches without records that are left after the last one."""

    committed: int
    planned: int
    mark: int = 0
    bound: int | None = None
    rests: int = 0
    busy: int = 0
    is_done: bool = True

    def _read(self, offset: int) -> Vector:
        return {"flights": {"flights": {"0": offset}}, IDLE: {"time": self.mark}}

    def _enter(self) -> None:
        self.busy -= 1
        if self.busy >= 0:
            raise QueryBusyError

    def bind(self) -> Vector:
        self._enter()
        self.bound = self.planned
        return self._read(self.planned)

    def move(self, ends: Mapping[str, Offsets]) -> None:
        self._enter()
        assert self.committed == self.bound, "a batch may be reading up to the bound"
        self.bound, self.is_done = ends["flights"]["flights", 0], False

    def release(self) -> None:
        self._enter()
        assert self.committed == self.bound, "a batch may be reading up to the bound"
        self.bound = None

    def read_committed(self) -> Vector:
        return self._read(self.committed)

    def has_finished(self) -> bool:
        return self.is_done

    def work(self, most: int = 1000) -> None:
        end = self.committed + most
        self.planned = end if self.bound is None else min(end, self.bound)
        if self.planned == self.committed:
            self.rests -= 1
            self.is_done = self.rests < 0
        self.committed = self.planned


@dataclass
class FakeLog:
    """Kafka: the end of the source, and of the output; None while a transaction is open."""

    end: int = 1000
    output: int | None = 7
    fails: bool = False

    def current_ends(self) -> Offsets:
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return {("flights", 0): self.end}

    def settled_ends(self, topics: Iterable[str]) -> Offsets | None:
        return None if self.output is None else {(topic, 0): self.output for topic in topics}


@dataclass
class Drive:
    """A driver that holds."""

    folder: Path
    queries: dict[str, FakeQuery]
    log: FakeLog = field(default_factory=FakeLog)
    now: float = 0.0
    hold: Hold | None = None

    def __post_init__(self) -> None:
        reads = {sink: {"flights": Subscription(("flights",))} for sink in self.queries}
        self.holding = Holding(
            HoldContext(reads, ("out",), self.folder, ("flights",), self.log, self._report, lambda: self.now)
        )

    def _report(self, hold: Hold | None) -> None:
        self.hold = hold

    def step(self, times: int = 1) -> Hold | None:
        for _ in range(times):
            self.holding.step(lambda: dict(self.queries))
        return self.hold

    def be_held(self) -> Hold:
        self.holding.hold(60)
        found = self.step()
        assert found is not None
        return found

    @property
    def bounds(self) -> list[int | None]:
        return [query.bound for query in self.queries.values()]


def at(offset: int, idle: int = 0) -> InputVector:
    return InputVector(offsets=nest_offsets({("flights", 0): offset}), idle={"flights": idle})


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    return Drive(tmp_path, {"one": FakeQuery(10, 10), "two": FakeQuery(5, 8)})


def test_without_a_request_nothing_is_bound(drive: Drive) -> None:
    assert drive.step() is None
    assert drive.bounds == [None, None]
    assert not drive.holding.advance(at(20))


def test_queries_hold_at_the_end_of_their_planned_batches(drive: Drive) -> None:
    held = drive.be_held()
    assert (held.phase, held.position.offsets) == (HoldPhase.ENDING, {"flights": {0: 10}})
    drive.queries["two"].work()
    held = drive.be_held()
    assert (held.phase, drive.queries["two"].committed) == (HoldPhase.HOLDING, 8)
    for query in drive.queries.values():
        query.work()
    assert [query.committed for query in drive.queries.values()] == [10, 8]


def test_a_target_is_reached_when_no_batch_is_left_and_no_transaction_is_open(drive: Drive) -> None:
    drive.queries["two"].work(3)
    drive.be_held()
    drive.queries["one"].rests, drive.log.output = 1, None
    drive.holding.advance(at(20))
    phases = []
    for _ in range(6):
        held = drive.step()
        assert held is not None
        phases.append(held.phase)
        assert not held.has_reached(at(20))
        for query in drive.queries.values():
            query.work(5)
    assert set(phases) == {HoldPhase.ADVANCING}
    assert [query.committed for query in drive.queries.values()] == [20, 20]
    drive.log.output = 9
    held = drive.step()
    assert held is not None
    assert (held.has_reached(at(20)), held.outputs) == (True, {"out": {0: 9}})
    drive.log.output = 11
    drive.holding.advance(at(20))
    assert drive.step() == held, "the same request again changes nothing"


def test_after_a_reached_target_the_next_one_is_another(drive: Drive) -> None:
    drive.queries["two"].work(3)
    drive.be_held()
    for offset in (20, 30):
        drive.holding.advance(at(offset))
        drive.step()
        for _ in range(2):
            for query in drive.queries.values():
                query.work()
        held = drive.step()
        assert held is not None
        assert held.has_reached(at(offset))


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (at(9), "is at offset 9 of partition 0 of topic flights, and sink 'one' has read up to 10"),
        (InputVector(), "no offset for partition 0 of topic flights, which sink 'one' reads"),
        (at(1001), "at offset 1001 of partition 0 of topic flights, and the log ends at 1000"),
        (
            InputVector(offsets={"flights": {0: 10, 7: 3}}),
            "names partition 7 of topic flights, which Kafka does not have",
        ),
    ],
)
def test_a_target_that_cannot_be_reached_is_refused_and_the_driver_holds(
    drive: Drive, target: InputVector, why: str
) -> None:
    drive.queries["two"].work(3)
    drive.be_held()
    drive.holding.advance(target)
    held = drive.step()
    assert held is not None
    assert (held.phase, held.target, held.outputs) == (HoldPhase.HOLDING, target, {})
    assert why in held.refusal
    assert drive.bounds == [10, 8]
    drive.holding.advance(at(10))
    drive.step()
    for _ in range(2):
        for query in drive.queries.values():
            query.work()
    held = drive.step()
    assert held is not None
    assert held.has_reached(at(10))


def test_a_refused_target_is_checked_again_on_request(drive: Drive) -> None:
    drive.queries["two"].work(3)
    drive.be_held()
    drive.log.end = 15
    for end, is_refused in ((15, True), (20, False)):
        drive.log.end = end
        drive.holding.advance(at(20))
        held = drive.step()
        assert held is not None
        assert bool(held.refusal) is is_refused


def test_topics_of_another_version_do_not_matter(drive: Drive) -> None:
    drive.queries["two"].work(3)
    drive.be_held()
    drive.holding.advance(InputVector(offsets={"flights": {0: 12}, "weather": {0: 99}}, idle={"../x": 5}))
    drive.step()
    assert drive.bounds == [12, 12]
    assert list(drive.folder.iterdir()) == []


def test_idle_watermarks_are_part_of_the_point(drive: Drive) -> None:
    file = find_watermark_file(drive.folder, "flights")
    write_watermark(file, 30)
    drive.queries["two"].mark = 40
    drive.queries["two"].work(3)
    assert drive.be_held().position.idle == {"flights": 40}
    drive.holding.advance(at(10, idle=50))
    drive.step()
    assert read_watermark(file) == 50
    drive.holding.advance(at(10, idle=45))
    drive.step()
    assert read_watermark(file) == 50


@pytest.mark.parametrize("how", ["request", "time"])
@pytest.mark.parametrize("is_advancing", [False, True])
def test_a_hold_ends_when_the_queries_are_at_their_bound(
    drive: Drive, how: str, *, is_advancing: bool
) -> None:
    drive.be_held()
    if is_advancing:
        drive.queries["two"].work(3)
        drive.holding.advance(at(20))
        drive.step()
    if how == "time":
        drive.now = 60.0
    else:
        drive.holding.resume()
    drive.step(3)
    assert None not in drive.bounds, "a batch may be reading up to the bound"
    for query in drive.queries.values():
        query.work()
    assert drive.step() is None
    assert drive.bounds == [None, None]
    assert not drive.holding.is_wanted


def test_a_repeated_request_prolongs_the_hold_and_a_new_one_begins_anew(drive: Drive) -> None:
    drive.queries["two"].work(3)
    drive.be_held()
    drive.now = 50.0
    drive.be_held()
    drive.now = 70.0
    assert drive.step() is not None
    drive.holding.advance(at(10))
    drive.step()
    drive.holding.resume()
    for _ in range(2):
        for query in drive.queries.values():
            query.work(100)
        drive.step()
    held = drive.be_held()
    assert (held.target, held.position) == (None, at(110).replace(idle={"flights": 0}))


def test_a_busy_query_and_a_silent_kafka_are_tried_again(drive: Drive) -> None:
    drive.queries["two"].work(3)
    drive.queries["one"].busy = drive.queries["two"].busy = 2
    drive.holding.hold(60)
    drive.step(6)
    assert drive.bounds == [10, 8]
    drive.log.fails = True
    drive.holding.advance(at(20))
    drive.step(3)
    assert drive.bounds == [10, 8]
    drive.log.fails, drive.queries["two"].busy = False, 2
    drive.step(1)
    assert drive.bounds == [20, 8]
    drive.queries["one"].work()
    drive.step(3)
    assert drive.bounds == [20, 20]
    drive.queries["two"].work()
    drive.queries["two"].busy = 1
    drive.holding.resume()
    drive.step()
    drive.holding.hold(60)
    drive.step(2)
    assert drive.bounds == [20, 20], "the next hold begins when the last one has ended"
