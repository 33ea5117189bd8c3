"""Tables that follow a database, without Spark: changes are written once, or again by a connector that starts again."""

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kappa_pipelines.transforms.lookup import LookupStep
from kappa_pipelines.transforms.stored import decode, encode
from kappa_pipelines.transforms.versions import Change, fill_unavailable, replay

KEYS = st.sampled_from(["a", "b", "c"])
INSERT_OR_UPDATE = st.tuples(st.just("put"), KEYS, st.sampled_from(["1", "2", "3"]))
DELETE = st.tuples(st.just("delete"), KEYS, st.none())
RENAME = st.tuples(st.just("rename"), KEYS, KEYS)
SNAPSHOT = st.tuples(st.sampled_from(["snapshot", "incremental"]), st.none(), st.none())
RESTART = st.tuples(st.just("restart"), st.integers(1, 6), st.none())
SESSIONS = st.lists(st.one_of(INSERT_OR_UPDATE, DELETE, RENAME, SNAPSHOT, RESTART), max_size=20)
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=5)

Event = tuple[str, dict[str, Any], str | None]
"""The key, the version without its offset, and the body."""


@dataclass
class Database:
    """A table, and the topic of its changes as a connector writes them."""

    rows: dict[str, str] = field(default_factory=dict)
    topic: list[Event] = field(default_factory=list)
    position: int = 0

    def apply(self, kind: str, first: Any, second: Any) -> None:
        self.position += 1
        match kind:
            case "put":
                self._put(first, second)
            case "delete" if first in self.rows:
                self._delete(first)
            case "rename" if first in self.rows and second not in self.rows:
                body = self.rows[first]
                self._delete(first)
                self._put(second, body)
            case "restart":
                self.topic += self.topic[-first:]  # none of these was noted as written
            case "snapshot" | "incremental":
                version = {**self._version(), "snapshot": kind == "snapshot"}
                self.topic += [(key, version, body) for key, body in self.rows.items()]

    def _version(self) -> dict[str, Any]:
        return {"server": 0, "position": self.position, "snapshot": False}

    def _put(self, key: str, value: str) -> None:
        self.rows[key] = value
        self.topic.append((key, self._version(), value))

    def _delete(self, key: str) -> None:
        del self.rows[key]
        self.topic += [(key, self._version(), None), (key, {"snapshot": False}, None)]


def _order(event: Event, offset: int) -> str:
    return json.dumps({**event[1], "offset": offset})


def _read(topic: list[Event], sizes: list[int]) -> dict[str, str]:
    """Return the table after batches of these sizes, in turn; in a batch the records come in any order."""
    kept: dict[str, Any] = {}
    rows = [(event[0], None, _order(event, offset), event[2]) for offset, event in enumerate(topic)]
    while rows:
        size = sizes[0]
        sizes = [*sizes[1:], size]
        batch, rows = rows[:size], rows[size:]
        list(LookupStep().advance(kept, batch[::-1], 0))
        kept = decode(encode(kept))
    return {key: body for key, (_, body) in kept.items()}


@given(session=SESSIONS, sizes=SIZES)
def test_a_table_ends_as_that_of_the_database(session: list[Any], sizes: list[int]) -> None:
    database = Database()
    for change in session:
        database.apply(*change)
    assert _read(database.topic, sizes) == database.rows


@given(session=st.lists(INSERT_OR_UPDATE, max_size=12), cut=st.integers(1, 12), sizes=SIZES)
def test_a_change_that_is_written_again_never_replaces_a_later_one(
    session: list[Any], cut: int, sizes: list[int]
) -> None:
    database = Database()
    for change in session:
        database.apply(*change)
    for again in range(min(cut, len(session)) + 1):
        assert _read(database.topic + database.topic[-cut:][:again], sizes) == database.rows


def _change(position: int | None, body: str | None, **fields: Any) -> Change:
    return Change(json.dumps({"position": position, **fields}), body)


def test_a_row_of_a_full_snapshot_replaces_one_from_a_later_position() -> None:
    stored = Change([0, 500], "old")
    assert replay(stored, [_change(20, "late", server=0)]) is None
    assert replay(stored, [_change(20, "restored", server=0, snapshot=True)]) == Change([0, 20], "restored")


def test_positions_of_another_server_are_not_compared() -> None:
    assert replay(Change([1, 500], "old"), [_change(20, "new", server=2)]) == Change([2, 20], "new")


def test_a_tombstone_deletes_a_row_whose_deletion_was_compacted_away() -> None:
    assert replay(Change([0, 500], "old"), [Change('{"offset":7}', None)]) == Change([], None)


def test_a_row_that_was_stored_by_offset_gives_way_to_a_version() -> None:
    assert replay(Change(500, "old"), [_change(20, "new", server=0)]) == Change([0, 20], "new")


def test_an_unavailable_value_keeps_the_former_one_exactly() -> None:
    former = '{"id":1,"note":"a \\"long\\" one","total":12345678901234567890.10}'
    changed = '{"id":1,"note":null,"total":null}'
    assert fill_unavailable(changed, former, ["note"]) == former.replace("12345678901234567890.10", "null")
    assert fill_unavailable(changed, former, ["total", "other"]) == (
        '{"id":1,"note":null,"total":12345678901234567890.10}'
    )
    changes = [
        _change(1, '{"note":"x"}', offset=1),
        _change(2, '{"note":null}', offset=2, unavailable=["note"]),
    ]
    assert replay(None, changes[::-1]) == Change([0, 2], '{"note":"x"}')
