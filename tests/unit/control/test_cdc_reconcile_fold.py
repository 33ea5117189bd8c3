"""Random sessions of transactions: the rows that a snapshot has, from the events of all of them, are those of the table."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_operator.cdc.reconcile.canonical import UNAVAILABLE, hash_fields
from kappa_operator.cdc.reconcile.events import Change, Version
from kappa_operator.cdc.reconcile.fold import State, add, advance, fold
from kappa_operator.cdc.reconcile.snapshot import Snapshot, parse_snapshot, widen

FIRST = 2**32 - 3
"""The first transaction, so that ids of 32 bits wrap around in each session."""
KEYS, PARTITIONS, OPEN = 4, 2, 3


@dataclass
class Transaction:
    id: int
    writes: list[tuple[int, int | None, int]] = field(default_factory=list)
    """Key, value or None for a deletion, and position."""


@dataclass
class Session:
    """A database, its log, and the topic that a connector writes."""

    position: int = 100
    next: int = FIRST
    latest_completed: int = FIRST - 1
    table: dict[int, int] = field(default_factory=dict)
    running: dict[int, Transaction] = field(default_factory=dict)
    committed: list[Transaction] = field(default_factory=list)
    topic: list[list[tuple[int, Version]]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])

    def write(self, session: int, key: int, value: int | None) -> None:
        """Write in the transaction of a client, unless another one holds the lock of the row."""
        if any(
            key == each for n, other in self.running.items() if n != session for each, _, _ in other.writes
        ):
            return
        if session not in self.running:
            self.running[session] = Transaction(self.next)
            self.next += 1
        self.position += 10
        self.running[session].writes.append((key, value, self.position))

    def commit(self, session: int) -> None:
        done = self.running.pop(session, None)
        if done is None:
            return
        self.position += 10
        self.latest_completed = max(self.latest_completed, done.id)
        for key, value, _ in done.writes:
            self.table.pop(key, None) if value is None else self.table.update({key: value})
        self.committed.append(done)
        self.emit([done])

    def emit(self, transactions: Iterable[Transaction]) -> None:
        for each in transactions:
            for key, value, position in each.writes:
                self.append(key, value, position, each.id & 0xFFFFFFFF)

    def append(self, key: int, value: int | None, position: int, transaction: int) -> None:
        partition = key % PARTITIONS
        log = self.topic[partition]
        offset = log[-1][1].offset + 1 if log else 0
        if value is None:
            log.append((key, Version(Change.DELETE, position, transaction, partition, offset)))
            log.append((key, Version(Change.TOMBSTONE, None, None, partition, offset + 1)))
        else:
            log.append((key, Version(Change.ROW, position, transaction, partition, offset, bytes([value]))))

    def restart_connector(self, back: int) -> None:
        """Write the last transactions again."""
        self.emit(self.committed[-back:] if back else [])

    def compact(self) -> None:
        """Keep the last record of each key, but of the newest three records keep all, as Kafka does with the active segment."""
        for log in self.topic:
            head, tail = log[:-3], log[-3:]
            last = {key: version.offset for key, version in head}
            log[:] = [each for each in head if last[each[0]] == each[1].offset] + tail

    def take_snapshot(self) -> Snapshot:
        xmax = self.latest_completed + 1
        ids = {each.id for each in self.running.values()}
        return Snapshot(
            self.position + 1, min({xmax, *ids}), xmax, frozenset(each for each in ids if each < xmax)
        )

    def read(self) -> dict[int, list[Version]]:
        found: dict[int, list[Version]] = {}
        for log in self.topic:
            for key, version in log:
                found.setdefault(key, []).append(version)
        return found


WRITE = st.tuples(
    st.just("write"), st.integers(0, OPEN - 1), st.integers(0, KEYS - 1), st.none() | st.integers(0, 255)
)
COMMIT = st.tuples(st.just("commit"), st.integers(0, OPEN - 1))
STEPS = st.lists(
    st.one_of(WRITE, WRITE, COMMIT, st.tuples(st.just("restart_connector"), st.integers(0, 5)), st.tuples(st.just("snapshot")))
)  # fmt: skip
COMPACTED = st.lists(
    st.one_of(WRITE, WRITE, COMMIT, st.tuples(st.just("compact")), st.tuples(st.just("snapshot")))
)


def play(session: Session, steps: Iterable[tuple[object, ...]]) -> list[tuple[Snapshot, dict[int, int]]]:
    """Return each snapshot with the table that it has."""
    taken = []
    for name, *values in steps:
        if name == "snapshot":
            taken.append((session.take_snapshot(), dict(session.table)))
        else:
            getattr(session, str(name))(*values)
    return taken


def read_rows(states: dict[int, State]) -> dict[int, int]:
    return {key: state.row.checksum[0] for key, state in states.items() if state.row is not None}


@given(STEPS)
def test_the_events_of_a_session_give_the_table_of_each_snapshot(steps: list[tuple[object, ...]]) -> None:
    session = Session()
    taken = play(session, [*steps, *(("commit", each) for each in range(OPEN))])
    for snapshot, table in taken:
        states = {key: fold(versions, snapshot) for key, versions in session.read().items()}
        assert read_rows(states) == table


@given(COMPACTED)
def test_after_compaction_a_row_is_right_or_has_later_versions(steps: list[tuple[object, ...]]) -> None:
    session = Session()
    taken = play(session, steps)
    for snapshot, table in taken:
        for key, versions in session.read().items():
            state = fold(versions, snapshot)
            value = state.row.checksum[0] if state.row else None
            has_only_tombstone = state.current is not None and state.current.change is Change.TOMBSTONE
            assert value == table.get(key) or state.later or has_only_tombstone


@given(COMPACTED, COMPACTED)
def test_rows_that_are_compared_again_are_those_of_the_next_snapshot(
    first: list[tuple[object, ...]], second: list[tuple[object, ...]]
) -> None:
    session = Session()
    play(session, first)
    snapshot = session.take_snapshot()
    read = session.read()
    states = {key: fold(versions, snapshot) for key, versions in read.items()}
    play(session, [*second, *(("commit", each) for each in range(OPEN))])
    last = session.take_snapshot()
    for state in states.values():
        assert not advance(state, last)
    ends = {version.partition: version.offset for versions in read.values() for version in versions}
    for key, versions in session.read().items():
        for version in versions:
            if version.offset > ends.get(version.partition, -1):
                add(states.setdefault(key, State()), version, last)
    assert read_rows(states) == session.table


NOW = Snapshot(lsn=1000, xmin=50, xmax=60, in_progress=frozenset({50, 55}))


def version(position: int | None, value: int, transaction: int | None = 10, **more: object) -> Version:
    base = Version(Change.ROW, position, transaction, 0, 0, bytes([value]))
    return base._replace(**more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("position", "transaction", "seen"),
    [
        (900, 49, True),
        (900, 50, False),
        (900, 51, True),
        (900, 55, False),
        (900, 60, False),
        (1000, 51, False),
        (1000, None, True),
        (1001, None, False),
        (None, None, True),
    ],
)
def test_a_snapshot_has_what_committed_before_it(
    position: int | None, transaction: int | None, seen: bool
) -> None:
    assert NOW.has(position, transaction) is seen


def test_ids_of_32_bits_are_those_nearest_to_the_snapshot() -> None:
    assert widen(3, 2**32 + 5) == 2**32 + 3
    assert widen(2**32 - 1, 2**32 + 5) == 2**32 - 1
    assert widen(5, 2**32 - 5) == 2**32 + 5


def test_a_row_of_four_billion_transactions_ago_is_seen_by_its_position() -> None:
    snapshot = parse_snapshot("5000000000:5000000000:", 1000, settled=500)
    ambiguous = (5000000000 + 10) & 0xFFFFFFFF
    assert snapshot.has(499, ambiguous)
    assert not snapshot.has(501, ambiguous)


def test_a_full_snapshot_replaces_changes_of_higher_positions() -> None:
    old, new = version(900, 1), version(800, 2, None, change=Change.SNAPSHOT_ROW, offset=1)
    state = fold([old, version(2000, 3, offset=1), new], NOW)
    assert state.current == new
    assert state.later == []


def test_a_row_of_an_incremental_snapshot_does_not_replace_a_later_change() -> None:
    assert fold([version(900, 1), version(800, 2, None)], NOW).current == version(900, 1)


def test_a_tombstone_alone_deletes_in_its_own_partition_only() -> None:
    tombstone = Version(Change.TOMBSTONE, None, None, 0, 5)
    assert fold([version(900, 1), tombstone], NOW).row is None
    elsewhere = fold([version(900, 1), tombstone._replace(partition=1)], NOW)
    assert elsewhere.row == version(900, 1)


def test_a_deletion_after_the_snapshot_is_not_seen_and_neither_is_its_tombstone() -> None:
    deletion = Version(Change.DELETE, 2000, 70, 0, 1)
    tombstone = Version(Change.TOMBSTONE, None, None, 0, 2)
    state = fold([version(900, 1), deletion, tombstone], NOW)
    assert state.row == version(900, 1)
    assert state.later == [deletion]


def test_a_key_with_rows_in_two_partitions_is_a_duplicate() -> None:
    state = fold([version(900, 1), version(950, 2, partition=1)], NOW)
    assert state.is_duplicate
    assert state.row == version(950, 2, partition=1)
    deleted = Version(Change.DELETE, 960, 10, 1, 7)
    assert not fold([version(900, 1), version(950, 2, partition=1), deleted], NOW).is_duplicate


def test_a_value_that_an_update_left_as_it_was_is_that_before() -> None:
    full = version(900, 1, fields=("1", "#long", "3:old"))
    partial = version(910, 2, fields=("1", UNAVAILABLE, "3:new"))
    row = fold([full, partial], NOW).row
    assert row is not None
    assert row.fields == ("1", "#long", "3:new")
    assert row.checksum == hash_fields(row.fields)
    alone = fold([partial], NOW).row
    assert alone is not None
    assert not alone.is_complete


def test_changes_of_a_database_that_was_restored_count_as_readers_have_them() -> None:
    state = fold([version(900, 1), version(5000, 2)], NOW)
    assert state.row == version(900, 1)
    assert advance(state, Snapshot(1100, 70, 70))
    assert state.row is not None
    assert state.row.checksum == bytes([2])
