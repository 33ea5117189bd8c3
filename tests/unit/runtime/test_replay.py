"""How a driver replays: queries in memory that Spark would run, and a log whose partitions have other times."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException

from kappa_crds.replay import ReplayProfile
from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.driver.bound import QueryBusyError, Vector
from kappa_pipelines.driver.replay import Pace, Replay
from kappa_pipelines.kafka.subscription import Subscription

LIVE = Pace(50, 2000)
AT = [("flights", 0), ("flights", 1)]


@dataclass
class FakeQuery:
    """A query that starts with a limit of no records. Partition 1 has a record a second from 900 s on, partition 0 from the start."""

    committed: Offsets = field(default_factory=lambda: dict.fromkeys(AT, 0))
    bound: Offsets | None = None
    paces: list[tuple[int | None, int]] = field(default_factory=list)
    busy: int = 0

    def _enter(self) -> None:
        self.busy -= 1
        if self.busy >= 0:
            raise QueryBusyError

    def bind(self) -> Vector:
        self._enter()
        self.bound = dict(self.committed)
        return self.read_committed()

    def move(self, ends: Mapping[str, Offsets]) -> None:
        self._enter()
        assert self.committed == self.bound, "a batch may be reading up to the bound"
        self.bound = ends["flights"]

    def release(self) -> None:
        self._enter()
        assert self.committed == self.bound, "a batch may be reading up to the bound"
        self.bound = None

    def pace(self, records: int | None, interval: int) -> None:
        self._enter()
        self.paces.append((records, interval))

    def read_committed(self) -> Vector:
        return {"flights": dict(nest_offsets(self.committed))}

    def work(self) -> None:
        assert self.bound is not None and self.paces, "it would read what comes first"
        self.committed = self.bound


@dataclass
class FakeLog:
    """Kafka with two partitions."""

    fails: bool = False

    def current_ends(self) -> Offsets:
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return {AT[0]: 1000, AT[1]: 100}

    def find_times(self, milliseconds: int) -> Offsets:
        second = -(-milliseconds // 1000)
        found = {AT[0]: max(0, second), AT[1]: max(0, second - 900)}
        return {at: offset for at, offset in found.items() if offset < self.current_ends()[at]}


def build(log: FakeLog, *sinks: str, most: int = 300) -> Replay:
    reads = {sink: {"flights": Subscription(("flights",))} for sink in sinks}
    return Replay(ReplayProfile(max_records=most), reads, LIVE, log, lambda: 2000.0)


def run(replay: Replay, query: FakeQuery, steps: int = 30) -> list[tuple[int, ...]]:
    """Step and read by turns; return the offsets after each batch."""
    found = []
    for _ in range(steps):
        replay.step({"out": query})
        if query.bound is None:
            break
        query.work()
        found.append(tuple(query.committed.values()))
    return found


def test_a_query_reads_slices_of_time_up_to_the_end_and_then_has_the_pace_of_the_spec() -> None:
    query, replay = FakeQuery(), build(FakeLog(), "out")
    read = run(replay, query)
    assert not replay.is_active
    assert read[-1] == (1000, 100)
    assert all(second == max(0, first - 900) for first, second in read)
    assert query.bound is None
    assert query.paces == [(300, 0), (LIVE.records, LIVE.interval)]


def test_a_query_that_is_near_the_end_leaves_after_one_batch() -> None:
    query = FakeQuery({AT[0]: 900, AT[1]: 20})
    replay = build(FakeLog(), "out")
    assert run(replay, query) == [(1000, 100)]
    assert query.paces[-1] == (LIVE.records, LIVE.interval)


def test_a_replay_is_long_from_its_second_slice_on_until_its_end() -> None:
    query, replay = FakeQuery(), build(FakeLog(), "out")
    seen = [replay.is_long]  # what is left is not known yet
    replay.step({"out": query})
    seen.append(replay.is_long)
    run(replay, query)
    seen.append(replay.is_long)
    assert seen == [False, True, False]
    near = build(FakeLog(), "out")
    near.step({"out": FakeQuery({AT[0]: 900, AT[1]: 20})})
    assert near.is_active and not near.is_long, "a driver that starts again at the end of the log"


def test_a_busy_query_and_a_kafka_that_does_not_answer_are_asked_again() -> None:
    query, log = FakeQuery(busy=1), FakeLog(fails=True)
    replay = build(log, "out")
    for _ in range(3):
        replay.step({"out": query})
    assert parse_kafka_offsets(query.read_committed()["flights"]) == dict.fromkeys(AT, 0)
    log.fails = False
    assert run(replay, query)[-1] == (1000, 100)
    assert not replay.is_active


def test_each_query_has_slices_of_its_own_and_one_that_has_not_started_follows() -> None:
    first, second, replay = FakeQuery(), FakeQuery(), build(FakeLog(), "out", "late")
    run(replay, first)
    assert first.bound is None
    for _ in range(30):
        replay.step({"out": first, "late": second})
        if second.bound is not None:
            second.work()
    assert second.committed == {AT[0]: 1000, AT[1]: 100}
    assert not replay.is_active


def test_a_hold_ends_the_replay_with_the_pace_of_the_spec_and_keeps_the_bound() -> None:
    query, replay = FakeQuery(), build(FakeLog(), "out")
    replay.step({"out": query})
    bound = query.bound
    query.busy = 1
    for _ in range(2):  # the query is busy at the first time
        replay.leave({"out": query})
    assert not replay.is_active
    assert (query.bound, query.paces[-1]) == (bound, (LIVE.records, LIVE.interval))


def test_without_a_profile_nothing_is_replayed() -> None:
    replay = build(FakeLog())
    assert not replay.is_active


def test_only_the_queries_of_sinks_that_were_added_read_slices() -> None:
    """The others start without records and get the pace of the spec at once; they have no bound."""
    added, other = FakeQuery(), FakeQuery(busy=1)
    replay = build(FakeLog(), "added", "other")
    replay = dataclasses.replace(replay, profile=ReplayProfile(max_records=300, sinks=("added",)))
    for _ in range(30):
        replay.step({"added": added, "other": other})
        if added.bound is not None:
            added.work()
    assert (other.bound, other.paces) == (None, [(LIVE.records, LIVE.interval)])
    assert added.paces == [(300, 0), (LIVE.records, LIVE.interval)]
    assert added.committed == {AT[0]: 1000, AT[1]: 100}
    assert not replay.is_active
