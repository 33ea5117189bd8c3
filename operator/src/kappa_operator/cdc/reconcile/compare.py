"""Compares the table and the topic: first the checksums of buckets, then those of rows in buckets that differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kappa_operator.cdc.reconcile.buckets import find_bucket
from kappa_operator.cdc.reconcile.canonical import SEPARATOR, UNAVAILABLE, hash_text
from kappa_operator.cdc.reconcile.events import Version
from kappa_operator.cdc.reconcile.fold import State, add
from kappa_operator.cdc.reconcile.model import DifferenceKind, Table
from kappa_operator.cdc.reconcile.snapshot import Snapshot

Checksum = tuple[int, int]
"""The number of rows, and the sum of the first 64 bits of their checksums as signed numbers."""
EMPTY: Checksum = (0, 0)


def fold_group(versions: Iterable[tuple[str, Version]], snapshot: Snapshot) -> dict[str, State]:
    """Return the states of a group by key."""
    states: dict[str, State] = {}
    for key, version in versions:
        state = states.get(key)
        if state is None:
            state = states[key] = State()
        add(state, version, snapshot)
    return states


def sum_states(states: Mapping[str, State]) -> tuple[dict[int, Checksum], set[int]]:
    """Return the checksum of each bucket that has a row, and the buckets that need a comparison by rows in any case."""
    sums: dict[int, Checksum] = {}
    suspect: set[int] = set()
    for key, state in states.items():
        row, bucket = state.row, find_bucket(hash_text(key))
        if state.is_duplicate:
            suspect.add(bucket)
        if row is not None:
            count, total = sums.get(bucket, EMPTY)
            sums[bucket] = count + 1, total + int.from_bytes(row.checksum[:8], "big", signed=True)
    return sums, suspect


def find_differing(database: Mapping[int, Checksum], topic: Mapping[int, Checksum]) -> set[int]:
    """Return the buckets whose checksums differ."""
    return {each for each in {*database, *topic} if database.get(each, EMPTY) != topic.get(each, EMPTY)}


def find_candidates(states: Mapping[str, State], rows: Mapping[str, bytes]) -> dict[str, State]:
    """Return the keys whose rows differ, from the states of the topic and the checksums of the database, of the same buckets."""
    found = {key: State() for key in rows.keys() - states.keys()}
    for key, state in states.items():
        row = state.row
        if (row.checksum if row else None) != rows.get(key) or state.is_duplicate:
            found[key] = state
    return found


@dataclass(frozen=True)
class RowVerdict:
    """What is known of a row. `kind` is None for one that is equal or undecided."""

    kind: DifferenceKind | None = None
    columns: tuple[str, ...] = ()
    is_decided: bool = True
    unavailable: tuple[str, ...] = ()


def judge_row(
    table: Table, state: State, fields: list[str] | None, topic_fields: list[str] | None
) -> RowVerdict:
    """Return whether a row is equal to that of the database, of which `fields` are None where there is none.

    `topic_fields` are those of the row in the topic, None where its record is gone. A row that differs, but has later versions, is not
    decided: compaction may have removed the one that the snapshot has.
    """
    row = state.row
    if row is None:
        equal = fields is None
        return _finish(state, None if equal else DifferenceKind.ONLY_IN_DATABASE)
    if fields is None:
        return _finish(state, DifferenceKind.ONLY_IN_TOPIC)
    if hash_text(SEPARATOR.join(fields)) == row.checksum:
        return _finish(state, DifferenceKind.DUPLICATE if state.is_duplicate else None)
    known = topic_fields if row.fields is None else list(row.fields)
    if known is None:
        return _finish(state, DifferenceKind.CHANGED)
    names = [each.name for each in table.columns]
    triples = list(zip(names, fields, known, strict=True))
    missing = tuple(name for name, _, new in triples if new == UNAVAILABLE)
    changed = tuple(name for name, old, new in triples if new not in (old, UNAVAILABLE))
    if not changed:
        return RowVerdict(is_decided=False, unavailable=missing) if missing else _finish(state, None)
    return _finish(state, DifferenceKind.CHANGED, changed)


def _finish(state: State, kind: DifferenceKind | None, columns: tuple[str, ...] = ()) -> RowVerdict:
    if kind is None or kind is DifferenceKind.DUPLICATE:
        return RowVerdict(kind)
    return RowVerdict(is_decided=False) if state.later else RowVerdict(kind, columns)
