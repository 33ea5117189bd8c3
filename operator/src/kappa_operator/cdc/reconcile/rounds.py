"""Compares single rows again, each time in a new snapshot, until each of them is decided."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.reconcile.canonical import split_key
from kappa_operator.cdc.reconcile.compare import RowVerdict, judge_row
from kappa_operator.cdc.reconcile.events import EventReader, Record
from kappa_operator.cdc.reconcile.fold import State, add, advance
from kappa_operator.cdc.reconcile.follow import Follower
from kappa_operator.cdc.reconcile.model import Difference, DifferenceKind, Request, Table
from kappa_operator.cdc.reconcile.snapshot import Snapshot
from kappa_operator.cdc.reconcile.source import FoundRow, Source, View
from kappa_operator.cdc.reconcile.topic import TopicReader

_ROUNDS, _AT_ONCE = 6, 500
_SHOWN = 200
_FOREIGN = "the topic has changes from a position that the log has not reached: the database was restored from a backup"


@dataclass
class Decided:
    """What the rounds have found. `open` are the keys of rows that are not decided."""

    equal: int = 0
    differences: list[Difference] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    open: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Rounds:
    """Runs the rounds over keys with their states in the topic."""

    database: Source
    topic: TopicReader
    events: EventReader
    follower: Follower
    request: Request

    def run(self, table: Table, candidates: dict[str, State]) -> Decided:
        """Return what was decided. `candidates` is used up."""
        decided = Decided()
        for number in range(1, _ROUNDS + 1):
            if not candidates:
                break
            self.follower.report(f"compare {len(candidates):,} rows again, round {number}")
            with self.database.view() as view:
                check_same(table, view.table)
                rows = _read_rows(view, candidates)
                snapshot = view.snapshot
            self._advance(candidates, snapshot, decided)
            if not self.follower.pass_position(
                snapshot.lsn, self._follow(candidates, snapshot), wait=self.request.wait
            ):
                decided.notes.append(self.follower.evidence.explain())
                break
            self._judge(table, candidates, rows, snapshot, decided)
        decided.open = list(candidates)
        return decided

    def _advance(self, candidates: Mapping[str, State], snapshot: Snapshot, decided: Decided) -> None:
        foreign = [advance(each, snapshot) for each in candidates.values()]
        if any(foreign) and _FOREIGN not in decided.notes:
            decided.notes.append(_FOREIGN)

    def _follow(self, candidates: Mapping[str, State], snapshot: Snapshot) -> Any:
        def follow(record: Record) -> None:
            found = self.events.read(record)
            if found is not None and (state := candidates.get(found[0])) is not None:
                add(state, found[1], snapshot)

        return follow

    def _judge(
        self,
        table: Table,
        candidates: dict[str, State],
        rows: Mapping[str, FoundRow],
        snapshot: Snapshot,
        decided: Decided,
    ) -> None:
        """Move the rows that are decided now out of the candidates."""
        read = self._read_topic_rows(candidates, rows)
        unavailable: Counter[str] = Counter()
        for key, state in list(candidates.items()):
            row, (fields, values) = rows.get(key), read.get(key, (None, {}))
            verdict = judge_row(table, state, row.fields if row else None, fields)
            unavailable.update(verdict.unavailable)
            if not verdict.is_decided:
                continue
            del candidates[key]
            if verdict.kind is None:
                decided.equal += 1
                continue
            decided.counts[verdict.kind.value] += 1
            if len(decided.differences) < self.request.listed:
                parts = split_key(key, table.key)
                shown = _show(table, verdict, row, values) if self.request.show_values else {}
                decided.differences.append(
                    Difference(verdict.kind, parts, snapshot.name, verdict.columns, shown)
                )
        decided.notes = [each for each in decided.notes if not each.startswith(_LARGE)]
        decided.notes += [_describe_unavailable(name, count) for name, count in unavailable.items()]

    def _read_topic_rows(
        self, candidates: Mapping[str, State], rows: Mapping[str, FoundRow]
    ) -> dict[str, tuple[list[str] | None, dict[str, Any]]]:
        """Return the fields and values of rows in the topic that are to be described, where their records are still there."""
        places = {
            (state.row.partition, state.row.offset): key
            for key, state in candidates.items()
            if state.row is not None and key in rows
        }
        wanted = dict(islice(places.items(), self.request.listed))
        found: dict[str, tuple[list[str] | None, dict[str, Any]]] = {}
        for record in self.topic.fetch(wanted):
            row = self.events.read_fields(record)
            if row is not None:
                found[wanted[record.partition, record.offset]] = row
        return found


_LARGE = "large values of column "


def _describe_unavailable(name: str, count: int) -> str:
    return (
        f"{_LARGE}{name} are not in the topic for {count} rows: updates left them as they were, and compaction has removed the events with"
        f" them. Set REPLICA IDENTITY FULL, and take an incremental snapshot"
    )


def check_same(table: Table, now: Table) -> None:
    """Raise DatabaseProblem where the columns of the table have changed."""
    if table != now:
        raise DatabaseProblem(
            f"the columns of {table.name} changed while it was compared; run the command again"
        )


def _read_rows(view: View, keys: Iterable[str]) -> dict[str, FoundRow]:
    found: dict[str, FoundRow] = {}
    rest = iter(keys)
    while part := list(islice(rest, _AT_ONCE)):
        found |= view.read_rows(part, [split_key(each, view.table.key) for each in part])
    return found


def _show(
    table: Table, verdict: RowVerdict, row: FoundRow | None, values: Mapping[str, Any]
) -> dict[str, tuple[str | None, str | None]]:
    """Return the first characters of the values that differ, in the database and in the topic."""
    if row is None or verdict.kind is not DifferenceKind.CHANGED:
        return {}
    stored = {each.name: value for each, value in zip(table.columns, row.values, strict=True)}
    return {name: (stored[name], _cut(values.get(name))) for name in verdict.columns}


def _cut(value: Any) -> str | None:
    return None if value is None else str(value)[:_SHOWN]
