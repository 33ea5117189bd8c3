"""The reader of an output over a broker that librdkafka simulates: what it delivers before, at and after a cut."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer

from kappa_client import (
    Alias,
    Move,
    NoPathError,
    OutputReader,
    Position,
    ReadBeyondCutError,
    ResolveError,
    parse_alias,
)
from kappa_client.alias import find_next_move

AT = datetime(2026, 1, 1, tzinfo=UTC)
THERE = Move(AT, "out", "out.r1", until={}, begin={})
BACK = Move(AT + timedelta(hours=1), "out.r1", "out", until={}, begin={})


class Pipeline:
    """Writes numbered results of two versions, and moves readers from one to the other."""

    def __init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": "mocked", "test.mock.num.brokers": 1, "log_level": 0})
        brokers = self.producer.list_topics(timeout=10).brokers.values()
        servers = ",".join(f"{each.host}:{each.port}" for each in brokers)
        self.config = {"bootstrap.servers": servers, "log_level": 0, "fetch.wait.max.ms": 10}
        self.alias = Alias("out")
        self.ends: dict[str, dict[int, int]] = {"out": {}, "out.r1": {}}
        for topic in self.ends:
            partitions = self.producer.list_topics(topic, timeout=10).topics[topic].partitions
            self.ends[topic] = dict.fromkeys(partitions, 0)
        self.is_away = False

    def write(self, numbers: range, *topics: str) -> None:
        for number in numbers:
            for topic in topics:
                partition = number % len(self.ends[topic])
                self.producer.produce(topic, f"{number}".encode(), partition=partition)
                self.ends[topic][partition] += 1
        assert self.producer.flush(10) == 0

    def cut(self, move: Move) -> Move:
        """Return the move with the present ends."""
        return replace(move, until=dict(self.ends[move.old]), begin=dict(self.ends[move.new]))

    def resolve(self) -> Alias:
        if self.is_away:
            raise ResolveError("the API server is away")
        return self.alias

    def open(self, position: Position | None = None) -> OutputReader:
        return OutputReader(self.config, self.resolve, position=position, interval=0.05)


def read(reader: OutputReader, seconds: float = 0.6, most: int = 10_000) -> list[tuple[str, int]]:
    """Return topic and number of what comes until nothing has come for some time."""
    found: list[tuple[str, int]] = []
    while len(found) < most and (message := reader.poll(seconds)) is not None:
        found.append((message.topic() or "", int(message.value() or b"")))
    return found


@pytest.fixture(scope="module")
def broker() -> Iterator[Pipeline]:
    yield Pipeline()


@pytest.fixture
def pipeline(broker: Pipeline) -> Pipeline:
    broker.alias, broker.is_away = Alias("out"), False
    return broker


def test_each_result_is_read_once_there_and_back_while_both_versions_go_on(pipeline: Pipeline) -> None:
    pipeline.write(range(40), "out", "out.r1")
    reader = pipeline.open()
    found = read(reader)
    there = pipeline.cut(THERE)
    pipeline.alias = Alias("out", pending=there)
    pipeline.write(range(40, 60), "out", "out.r1")
    assert read(reader) == [], "nothing after a recorded cut is delivered before the move is made"
    pipeline.alias = Alias("out.r1", (there,))
    found += read(reader, most=10)
    stored = Position.from_data(reader.position.to_data())
    reader.close()
    reader = pipeline.open(stored)
    found += read(reader)
    back = pipeline.cut(BACK)
    pipeline.write(range(60, 80), "out", "out.r1")
    pipeline.alias = Alias("out", (there, back))
    found += read(reader)
    reader.close()
    assert sorted(number for _, number in found) == list(range(80))
    versions = {topic: {number for name, number in found if name == topic} for topic in ("out", "out.r1")}
    assert versions == {"out": {*range(40), *range(60, 80)}, "out.r1": set(range(40, 60))}


def test_a_reader_that_stays_open_reads_the_first_topic_again_after_a_rollback(
    pipeline: Pipeline,
) -> None:
    begin = Position("out", dict(pipeline.ends["out"]))
    reader = pipeline.open(begin)
    pipeline.write(range(40), "out", "out.r1")
    found = read(reader)
    there = pipeline.cut(THERE)
    pipeline.alias = Alias("out", pending=there)
    pipeline.write(range(40, 60), "out", "out.r1")
    assert read(reader) == []
    pipeline.alias = Alias("out.r1", (there,))
    found += read(reader)
    back = pipeline.cut(BACK)
    pipeline.write(range(60, 80), "out", "out.r1")
    pipeline.alias = Alias("out", (there, back))
    found += read(reader)
    reader.close()
    assert sorted(number for _, number in found) == list(range(80))


def test_a_cut_that_is_made_just_after_the_alias_was_read_is_known_before_its_records_are_delivered(
    pipeline: Pipeline,
) -> None:
    begin = dict(pipeline.ends["out"])
    pipeline.write(range(10), "out", "out.r1")
    calls = []

    def resolve() -> Alias:
        found = pipeline.alias
        calls.append(found)
        if len(calls) == 3:
            pipeline.alias = Alias("out.r1", (pipeline.cut(THERE),))
            pipeline.write(range(10, 20), "out", "out.r1")
        return found

    reader = OutputReader(pipeline.config, resolve, position=Position("out", begin), interval=0.05)
    found = read(reader)
    reader.close()
    assert sorted(number for _, number in found) == list(range(20))
    assert {number for topic, number in found if topic == "out"} == set(range(10))


def test_a_reader_of_a_table_reads_the_new_version_from_its_start(pipeline: Pipeline) -> None:
    ends, there = dict(pipeline.ends["out"]), pipeline.cut(THERE)
    reader = OutputReader(
        pipeline.config, pipeline.resolve, position=Position("out", ends), rebuild=True, interval=0.05
    )
    found, states = [], []
    for most in (1, 1, 10_000):
        found += read(reader, most=most)
        states.append(reader.is_rebuilding)
        pipeline.alias = Alias("out.r1", (there,))
    assert states == [False, True, False]
    assert len(found) == sum(pipeline.ends["out.r1"].values())
    reader.close()


def test_a_cut_that_is_withdrawn_holds_nothing_back(pipeline: Pipeline) -> None:
    reader = pipeline.open(Position("out", dict(pipeline.ends["out"])))
    pipeline.alias = Alias("out", pending=pipeline.cut(THERE))
    pipeline.write(range(5), "out")
    assert read(reader) == []
    pipeline.alias = Alias("out")
    assert sorted(number for _, number in read(reader)) == list(range(5))
    reader.close()


def test_without_the_alias_nothing_new_is_delivered_and_the_position_stays(pipeline: Pipeline) -> None:
    reader = pipeline.open(Position("out", dict(pipeline.ends["out"])))
    assert read(reader, 0.2) == []
    pipeline.is_away = True
    pipeline.write(range(5), "out")
    with pytest.raises(ResolveError):
        read(reader)
    pipeline.is_away = False
    assert len(read(reader)) == 5
    reader.close()


def test_a_position_without_an_exact_continuation_is_an_error(pipeline: Pipeline) -> None:
    there = pipeline.cut(THERE)
    pipeline.alias = Alias("out.r1", (there,))
    beyond = {**there.until, 0: there.until[0] + 1}
    reader = pipeline.open(Position("out", beyond))
    with pytest.raises(ReadBeyondCutError, match="its readers moved at"):
        reader.poll(0.1)
    reader.close()
    for alias in (Alias("out.r1"), Alias("out.r1", (replace(there, until={}),))):
        pipeline.alias = alias
        reader = pipeline.open(Position("out", dict(pipeline.ends["out"])))
        with pytest.raises(NoPathError):
            reader.poll(0.1)
        reader.close()


def test_a_reader_follows_the_moves_after_the_last_one_that_it_has_followed() -> None:
    alias = Alias("out", (THERE, BACK))
    assert find_next_move(alias, Position("out")) is THERE
    assert find_next_move(alias, Position("out.r1", moved=THERE.at)) is BACK
    assert find_next_move(alias, Position("out", moved=BACK.at)) is None


def test_any_interleaving_of_writes_and_reads_delivers_each_result_once(pipeline: Pipeline) -> None:
    """The cut comes at a random moment between the reader's polls."""
    random_ = random.Random(7)
    begin = dict(pipeline.ends["out"])
    first = {topic: sum(ends.values()) for topic, ends in pipeline.ends.items()}
    assert first
    reader = pipeline.open(Position("out", begin))
    found, cut_at, number = [], random_.randrange(20, 60), 0
    for step in range(80):
        pipeline.write(range(number, number + 3), "out", "out.r1")
        number += 3
        if step == cut_at:
            pipeline.alias = Alias("out.r1", (pipeline.cut(THERE),))
        found += read(reader, 0.01, most=random_.randrange(1, 5))
    found += read(reader)
    reader.close()
    assert sorted(each for _, each in found) == list(range(number))
    assert {topic for topic, _ in found} == {"out", "out.r1"}


def test_the_alias_is_parsed_from_what_the_command_prints() -> None:
    move = {"at": AT.isoformat(), "old": "out", "new": "out.r1", "until": {"0": 3}, "begin": {"0": 2}}
    alias = parse_alias({"name": "out", "topic": "out.r1", "moves": [{**move, "reprocessing": "a"}]})
    assert alias == Alias("out.r1", (replace(THERE, until={0: 3}, begin={0: 2}),))
    assert parse_alias({"topic": "out", "moves": [], "pending": move}).pending is not None
