"""Tables that are truncated, without Spark: the topic has partitions that are read at different speeds."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_pipelines.transforms.lookup import LookupStep
from kappa_pipelines.transforms.stored import Kept, decode, encode
from kappa_pipelines.transforms.table_join import FollowStep, MatchStep
from kappa_pipelines.transforms.truncations import TRUNCATED, is_truncated, keep_truncations

PARTITIONS = 3
KEYS = ["a", "b", "c", "d", "e"]
PUT = st.tuples(st.just("put"), st.sampled_from(KEYS), st.sampled_from(["1", "2", "3"]))
DELETE = st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none())
TRUNCATE = st.tuples(st.just("truncate"), st.integers(0, PARTITIONS - 1), st.none())
SNAPSHOT = st.tuples(st.sampled_from(["snapshot", "restore", "another server"]), st.none(), st.none())
RESTART = st.tuples(st.just("restart"), st.integers(1, 6), st.none())
SESSIONS = st.lists(st.one_of(PUT, DELETE, TRUNCATE, SNAPSHOT, RESTART), max_size=25)
TURNS = st.lists(
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 5)), max_size=4), max_size=8
)
"""Batches, each with how many records of which partition it reads. What is left comes in a last batch."""

Event = tuple[int, str | None, dict[str, Any], str | None]
"""The partition, the key, the version without its offset, and the body."""


@dataclass
class Database:
    """A table, and the topic of its changes as a connector writes them.

    A restored one has low positions, later times, and a row for each key: rows that only the lost part of the log had would stay.
    """

    rows: dict[str, str] = field(default_factory=dict)
    topic: list[Event] = field(default_factory=list)
    server: int = 0
    position: int = 0
    time: int = 0

    def apply(self, kind: str, first: Any, second: Any) -> None:
        self.position += 1
        self.time += self.position % 3 == 0  # changes may have the same time
        match kind:
            case "put":
                self.rows[first] = second
                self._write(first, second)
            case "delete" if self.rows.pop(first, None) is not None:
                self._write(first, None)
                self.topic.append((find_partition(first), first, {}, None))
            case "truncate":
                self.rows.clear()
                self.topic.append((first, None, self._version(), None))
            case "restart":
                self.topic += self.topic[-first:]
            case "snapshot" | "restore" | "another server":
                self._begin(kind)
                for key, body in self.rows.items():
                    self._write(key, body, snapshot=True)

    def _begin(self, kind: str) -> None:
        self.time += 1
        if kind == "restore":
            self.position = 0
            self.rows = dict.fromkeys(KEYS, "0")
        self.server += kind == "another server"

    def _version(self, *, snapshot: bool = False) -> dict[str, Any]:
        place = {"server": self.server, "position": self.position, "time": self.time}
        return {**place, "snapshot": snapshot}

    def _write(self, key: str, body: str | None, *, snapshot: bool = False) -> None:
        self.topic.append((find_partition(key), key, self._version(snapshot=snapshot), body))


def find_partition(key: str) -> int:
    return crc32(key.encode()) % PARTITIONS


def build(session: Iterable[Any]) -> Database:
    database = Database()
    for change in session:
        database.apply(*change)
    return database


def batches(
    topic: list[Event], turns: list[list[tuple[int, int]]]
) -> Iterable[list[tuple[str | None, str, str | None]]]:
    """Yield the changes (key, order, body) as batches read them from partitions; in a batch they come in any order."""
    offsets = [count() for _ in range(PARTITIONS)]
    left: list[list[tuple[str | None, str, str | None]]] = [[] for _ in range(PARTITIONS)]
    for partition, key, version, body in topic:
        left[partition].append((key, json.dumps({**version, "offset": next(offsets[partition])}), body))
    for turn in [*turns, [(number, len(topic)) for number in range(PARTITIONS)]]:
        batch = []
        for partition, size in turn:
            batch += left[partition][:size]
            del left[partition][:size]
        yield batch[::-1]


@given(session=SESSIONS, turns=TURNS)
def test_a_table_ends_as_that_of_the_database(session: list[Any], turns: list[Any]) -> None:
    database, kept = build(session), dict[str, Any]()
    for batch in batches(database.topic, turns):
        list(LookupStep().advance(kept, [(key, None, order, body) for key, order, body in batch], 0))
        kept = decode(encode(kept))
    kept.pop(TRUNCATED, None)
    assert {key: body for key, (_, body) in kept.items()} == database.rows


@given(left=SESSIONS, right=SESSIONS, turns=TURNS)
def test_joined_tables_end_as_those_of_the_database(
    left: list[Any], right: list[Any], turns: list[Any]
) -> None:
    """Each row of the left table references the row of the right one with its own key."""
    lefts, rights = build(left), build(right)
    kept: list[Kept] = [{}, {}]
    joined: dict[str, tuple[str, str | None]] = {}
    for batch, other in zip(batches(lefts.topic, turns), batches(rights.topic, turns), strict=True):
        named = [(key, key, order, body and json.dumps([key, body])) for key, order, body in batch]
        messages = list(FollowStep().advance(kept[0], named, 0))
        changes = [(key, None, None, None, body, order) for key, order, body in other]
        rows = [(*message, "0") for message in messages]
        for body, found, deleted in MatchStep(inner=False).advance(kept[1], [*changes, *rows], 0):
            key, value = json.loads(body)
            if deleted:
                del joined[key]
            else:
                joined[key] = value, found
        kept = [decode(encode(each)) for each in kept]
    assert joined == {key: (value, rights.rows.get(key)) for key, value in lefts.rows.items()}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9)), max_size=12), st.data())
def test_truncations_that_another_one_covers_need_not_be_kept(places: list[Any], data: st.DataObject) -> None:
    every = [list(place) for place in places]
    kept: Kept = {}
    for place in every:
        keep_truncations(kept, [place])
    found = kept.get(TRUNCATED, [])
    assert len(found) <= len(every)
    place = list(data.draw(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9))))
    assert is_truncated(place, found) == is_truncated(place, every)


def test_truncations_of_one_history_are_kept_as_one() -> None:
    kept: Kept = {}
    for number in range(50):
        keep_truncations(kept, [[0, number, number]])
    assert kept == {TRUNCATED: [[0, 49, 49]]}


def test_a_row_that_was_stored_without_its_time_is_compared_by_its_position() -> None:
    assert is_truncated([0, 5], [[0, 6, 1]])
    assert not is_truncated([0, 6], [[0, 6, 1]])


def test_a_tombstone_and_a_row_that_is_ordered_by_number_are_before_no_truncation() -> None:
    assert not is_truncated([], [[0, 6, 1]])
    assert not is_truncated(7, [[0, 6, 1]])


def test_a_truncation_without_a_place_is_refused() -> None:
    with pytest.raises(TypeError, match="lacks its position or its time"):
        list(LookupStep().advance({}, [(None, None, '{"server":0,"position":7,"offset":1}', None)], 0))
