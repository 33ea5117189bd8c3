"""Runs a proof: the topic, the table in one snapshot, the rest of the topic; then rounds over the rows that differ.

A difference counts only if it is there in a later snapshot too, once the connector has passed its position. So neither a connector that
is behind, nor a transaction that commits meanwhile, nor compaction looks like a difference. Rows that are equal need no connector at all.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.reconcile.buckets import GROUPS, find_bucket, find_group
from kappa_operator.cdc.reconcile.canonical import hash_text, split_key
from kappa_operator.cdc.reconcile.compare import (
    Checksum,
    find_candidates,
    find_differing,
    fold_group,
    sum_states,
)
from kappa_operator.cdc.reconcile.database import Database
from kappa_operator.cdc.reconcile.events import Change, EventReader, Record, Version
from kappa_operator.cdc.reconcile.fold import State
from kappa_operator.cdc.reconcile.follow import Follower, Report
from kappa_operator.cdc.reconcile.heartbeat import Heartbeats
from kappa_operator.cdc.reconcile.mariadb.database import MariaDBDatabase
from kappa_operator.cdc.reconcile.mariadb.offsets import OffsetEvidence
from kappa_operator.cdc.reconcile.model import Proof, Request, Table
from kappa_operator.cdc.reconcile.rounds import Decided, Rounds, check_same
from kappa_operator.cdc.reconcile.slot import SlotEvidence
from kappa_operator.cdc.reconcile.snapshot import Snapshot
from kappa_operator.cdc.reconcile.source import Evidence, Source, View
from kappa_operator.cdc.reconcile.spill import Spill
from kappa_operator.cdc.reconcile.topic import TopicReader

MOST_CANDIDATES = 10_000
"""Rows that are compared again; the others that differ are only counted."""
_PATIENCE = 3.0
"""Seconds that the first comparison waits for a connector where rows differ, so that fewer have to be compared again."""


def reconcile(
    address: Address, request: Request, kafka: Mapping[str, str], report: Report
) -> tuple[Table, Proof]:
    """Return the table and the proof; raise DatabaseProblem or KafkaFailure. `kafka` are settings of the client library."""
    started = time.monotonic()
    with _open(address, request, kafka) as (database, evidence):
        with database.view() as view:
            table, notes = view.table, view.notes
        proof = _prove(database, table, request, kafka, Watch(evidence, report))
    return table, replace(proof, notes=notes + proof.notes, seconds=time.monotonic() - started)


@contextmanager
def _open(address: Address, request: Request, kafka: Mapping[str, str]) -> Iterator[tuple[Source, Evidence]]:
    """Connect to the database, and to what shows how far its connector has come."""
    with ExitStack() as opened:
        if address.kind is DatabaseKind.MYSQL:
            stored = opened.enter_context(OffsetEvidence(kafka, request.offsets))
            yield opened.enter_context(MariaDBDatabase(address, request)), stored
        else:
            database = opened.enter_context(Database(address, request))
            heartbeats = opened.enter_context(Heartbeats(kafka, request.heartbeats))
            yield database, SlotEvidence(database, heartbeats)


def has_rows(address: Address, request: Request) -> tuple[str, str, bool]:
    """Return whether a table has rows, after the position and the time of the snapshot; raise DatabaseProblem."""
    with _open(address, request, {}) as (database, _), database.view() as view:
        return view.snapshot.name, view.at, view.has_rows()


@dataclass(frozen=True)
class Watch:
    """How far the connector has come, and where lines about progress go."""

    evidence: Evidence
    report: Report


def _prove(database: Source, table: Table, request: Request, kafka: Mapping[str, str], watch: Watch) -> Proof:
    events = EventReader(table)
    with TopicReader(kafka, request.topic) as topic, Spill() as spill:
        follower = Follower(watch.evidence, topic, events, watch.report)
        first = FirstPass(database, follower, events, spill).run(table)
        decided = Rounds(database, topic, events, follower, request).run(table, first.candidates)
    return _build_proof(request, first, decided, events)


@dataclass
class First:
    """What the first comparison has found. `excess` rows differ, but are not among the candidates."""

    snapshot: Snapshot
    at: str
    rows: int
    candidates: dict[str, State] = field(default_factory=dict)
    excess: int = 0


@dataclass
class FirstPass:
    """Compares all rows in one snapshot."""

    database: Source
    follower: Follower
    events: EventReader
    spill: Spill

    def run(self, table: Table) -> First:
        """Return the rows that differ."""
        self.follower.read_all(self._keep)
        _check_topic(table, self.events)
        with self.database.view() as view:
            check_same(table, view.table)
            sums = self._read_checksums(view)
            first = First(view.snapshot, view.at, sum(count for count, _ in sums.values()))
            self._compare(view, sums, first)
        return first

    def _keep(self, record: Record) -> None:
        found = self.events.read(record)
        if found is not None:
            key, version = found
            self.spill.add(key, hash_text(key), version)

    def _read_checksums(self, view: View) -> dict[int, Checksum]:
        """Return the checksums of the table; meanwhile the rest of the topic is read."""
        with ThreadPoolExecutor(1, thread_name_prefix="checksums") as threads:
            future = threads.submit(view.read_checksums)
            try:
                while not future.done():
                    self.follower.report("compute checksums in the database")
                    self.follower.topic.poll(self._keep)
            except BaseException:
                view.cancel()
                raise
            return future.result()

    def _compare(self, view: View, sums: Mapping[int, Checksum], first: First) -> None:
        differing = self._find_differing(sums, view.snapshot)
        if differing and self.events.latest < view.snapshot.lsn:
            self.follower.pass_position(view.snapshot.lsn, self._keep, wait=_PATIENCE)
            differing = self._find_differing(sums, view.snapshot)
        if not differing:
            return
        with Spill() as stored:
            for key, checksum in view.read_hashes(sorted(differing)):
                stored.add(key, hash_text(key), Version(Change.ROW, None, None, 0, 0, checksum))
            for group in sorted({find_group(each) for each in differing}):
                self.follower.report(f"compare rows of {len(differing):,} buckets that differ")
                rows = {key: version.checksum for key, version in stored.read(group)}
                states = fold_group(self.spill.read(group), view.snapshot)
                wanted = {
                    key: each for key, each in states.items() if find_bucket(hash_text(key)) in differing
                }
                found = find_candidates(wanted, rows)
                for key, state in found.items():
                    if len(first.candidates) < MOST_CANDIDATES:
                        first.candidates[key] = state
                    else:
                        first.excess += 1

    def _find_differing(self, sums: Mapping[int, Checksum], snapshot: Snapshot) -> set[int]:
        topic: dict[int, Checksum] = {}
        suspect: set[int] = set()
        for group in range(GROUPS):
            self.follower.report(f"compare checksums, part {group + 1} of {GROUPS}")
            found, more = sum_states(fold_group(self.spill.read(group), snapshot))
            topic |= found
            suspect |= more
        return find_differing(sums, topic) | suspect


def _check_topic(table: Table, events: EventReader) -> None:
    """Raise DatabaseProblem where the topic cannot be that of the table, as its rows would all differ."""
    if events.wrong_keys and not events.rows:
        raise DatabaseProblem(
            f"no record of the topic has the key ({_list_key(table)}) of {table.name}: name another topic, or its key with --key"
        )
    if events.unreadable and not events.rows:
        raise DatabaseProblem(
            "no record of the topic is a change event in JSON: Avro, and events that were flattened, cannot be compared"
        )
    missing = [each.name for each in table.columns if each.name not in events.seen]
    if events.rows and missing:
        raise DatabaseProblem(
            f"no event of the topic has column {', '.join(missing)} of {table.name}; if the connector leaves it out on purpose, add"
            f" --ignore-column {missing[0]}"
        )


def _list_key(table: Table) -> str:
    return ", ".join(each.name for each in table.key)


def _build_proof(request: Request, first: First, decided: Decided, events: EventReader) -> Proof:
    table = events.table
    unusable = events.unreadable + events.wrong_keys
    return Proof(
        table=request.table,
        topic=request.topic,
        position=first.snapshot.name,
        at=first.at,
        rows=first.rows,
        records=events.records,
        later=decided.equal,
        differences=tuple(decided.differences),
        counts=decided.counts,
        undecided=tuple(split_key(each, table.key) for each in decided.open[: request.listed]),
        undecided_count=len(decided.open) + first.excess + unusable,
        notes=tuple(chain(decided.notes, _list_notes(table, first, events))),
    )


def _list_notes(table: Table, first: First, events: EventReader) -> list[str]:
    found = {
        f"{first.excess:,} more rows differed and were not compared again": first.excess,
        f"{events.truncations} truncations are in the topic, whose rows from before stay in it": events.truncations,
        f"{events.unreadable} records of the topic are no change events in JSON": events.unreadable,
        f"{events.wrong_keys} records of the topic have another key than ({_list_key(table)}); see --key": events.wrong_keys,
    }
    tables = [
        f"the topic has events of table {each}" for each in sorted(events.tables) if each != str(table.name)
    ]
    return [*(text for text, count in found.items() if count), *tables]
