"""Transactions of a database over two topics, in batches of real Spark and Kafka: no batch has a part of one, though the driver is killed."""

import itertools
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from kappa_crds.progress import DriverRole, DriverState, InputVector, TopicOffsets, find_common_cut
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import Offsets, parse_entry
from lab.broker import Broker
from spark.conftest import wait_for
from spark.processes import DriverProcess
from spark.revisions import build_revision, source
from spark.topics import Topics
from spark.versions import HeldDriver, is_before, value

TABLES = ("orders", "items")
SEED = 73


@dataclass
class Writer:
    """Writes transactions as Debezium does, with pauses inside of them. `changes` are the places of the changes of each."""

    topics: Topics
    prefix: str = field(default_factory=lambda: f"shop{uuid.uuid4().hex[:8]}")
    changes: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    random: Random = field(default_factory=lambda: Random(SEED))

    def __post_init__(self) -> None:
        for topic, partitions in ((self.name("public.orders"), 2), (self.name("public.items"), 3), (self.name("transaction"), 2)):  # fmt: skip
            self.topics.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        self._producer = Producer({"bootstrap.servers": self.topics.bootstrap, "linger.ms": 0})

    def name(self, suffix: str) -> str:
        return f"{self.prefix}.{suffix}"

    def write(self, number: int, size: int, *, pause: float = 0.0) -> None:
        """Write a transaction with so many changes. Its records arrive one by one."""
        counts = dict.fromkeys(TABLES, 0)
        for order in range(size):
            table = self.random.choice(TABLES)
            counts[table] += 1
            block = {
                "id": f"{number}:{order}",
                "total_order": order + 1,
                "data_collection_order": counts[table],
            }
            row = {"id": self.random.randrange(1000), "transaction": number}
            self._send(
                table, row["id"], {"op": "c", "after": row, "source": {}, "transaction": block}, number
            )
            time.sleep(pause * self.random.random())
        tables = [
            {"data_collection": f"public.{name}", "event_count": count} for name, count in counts.items()
        ]
        end = {"status": "END", "id": f"{number}:999", "event_count": size, "data_collections": tables}
        self._producer.produce(self.name("transaction"), json.dumps(end), key=str(number))
        assert self._producer.flush(30) == 0

    def _send(self, table: str, key: int, event: dict[str, Any], number: int) -> None:
        places = self.changes.setdefault(number, [])
        self._producer.produce(
            self.name(f"public.{table}"),
            json.dumps(event),
            key=str(key),
            on_delivery=lambda _, at: places.append((str(at.topic()), at.partition() or 0, at.offset() or 0)),
        )
        assert self._producer.flush(30) == 0

    @contextmanager
    def open(self, begin: int) -> Iterator[None]:
        """Write transactions beside the test."""
        stopping = threading.Event()

        def run() -> None:
            number = begin
            while not stopping.is_set():
                self.write(number, self.random.randint(1, 6), pause=0.05)
                number += 1

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()


def build(
    writer: Writer, folder: Path, out: str, bootstrap: str, limit: int, op: str = "op", **changes: Any
) -> Revision:
    transactions = {"topic": writer.name("transaction")}
    envelope = {"debezium": {"columns": {"op": "op"}, "transactions": transactions}}
    sources = [
        source(table, "id INT, transaction INT", envelope=envelope)
        | {"topic": writer.name(f"public.{table}")}
        for table in TABLES
    ]
    both = "SELECT transaction, {op} AS op, 'orders' AS table FROM orders UNION ALL SELECT transaction, {op} AS op, 'items' AS table FROM items"
    spec = {
        "sources": sources,
        "views": [{"name": "both", "sql": both.format(op=op)}],
        "sinks": [{"name": "out", "from": "both", "kafka": {"topic": out, "delivery": "ExactlyOnce"}}],
        "trigger": {"maxRecords": limit},
    }
    return build_revision(spec, f"file://{folder}", bootstrap, **changes)


def read_batches(folder: Path) -> list[Offsets]:
    """Return where each batch ends, over both sources."""
    found = []
    for file in sorted(folder.glob("out/offsets/[0-9]*"), key=lambda each: int(each.name)):
        ends = parse_entry(file.read_text()).offsets
        found.append({at: offset for offsets in ends.values() for at, offset in offsets.items()})
    return found


def check_whole(writer: Writer, batches: list[Offsets]) -> None:
    """Fail where a transaction is in two batches."""
    for ends in batches:
        for number, places in writer.changes.items():
            sides = {offset < ends.get((topic, part), 0) for topic, part, offset in places}
            assert len(sides) == 1, f"transaction {number} is in two batches"


@pytest.mark.chaos  # two drivers as processes; `test_transaction_cuts` has random logs without Spark
def test_no_batch_has_a_part_of_a_transaction_though_the_driver_is_killed(
    start: Any, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    writer, out = Writer(topics), topics.make("out")
    for number in range(40):
        writer.write(number, 5)
    writer.write(40, 150)  # more than a batch has room for
    folder = tmp_path / "checkpoint"
    revision = build(writer, folder, out, broker.bootstrap, limit=60)
    with writer.open(begin=41):
        first = start(revision, 1)
        first.wait_for("batches", lambda p: p.queries and p.queries[0].batch_id >= 8)
        first.kill()
        second = start(revision, 2)
        second.wait_for("more batches", lambda p: p.queries and p.queries[0].batch_id >= 20)
    second.wait_for("no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0)
    expected = sorted(number for number, places in writer.changes.items() for _ in places)

    def is_written() -> bool:
        found = [json.loads(each.value() or b"")["transaction"] for each in topics.read_committed(out)]
        return sorted(found) == expected

    wait_for("all rows, once each", is_written)
    second.kill()
    batches = read_batches(folder)
    assert len(batches) > 20
    check_whole(writer, batches)
    sizes = [sum(after.values()) - sum(before.values()) for before, after in itertools.pairwise(batches)]
    backlog = 40 * 5 + 150
    assert 150 <= max(sizes) < backlog, "the large transaction is one batch, and not all of the backlog is"


@dataclass
class Versioned(HeldDriver):
    """A version of the pipeline: its driver, the topic of its output, and its checkpoint."""

    driver: DriverProcess
    out: str
    folder: Path

    def rows(self, topics: Topics, ends: TopicOffsets | None = None) -> list[tuple[int, str]]:
        """Return transaction and operation of each committed row, or of those before these ends."""
        found = [
            value(each)
            for each in topics.read_committed(self.out)
            if ends is None or is_before(each, ends[self.out])
        ]
        return sorted((row["transaction"], row["op"]) for row in found)

    def has_rows(self, topics: Topics, wanted: list[tuple[int, str]]) -> bool:
        return self.rows(topics) == wanted


def list_before(writer: Writer, cut: InputVector) -> list[int]:
    """Return the transaction of each change before a cut; fail where the cut divides one."""
    found = []
    for number, places in sorted(dict(writer.changes).items()):
        sides = [offset < cut.offsets[topic].get(part, 0) for topic, part, offset in tuple(places)]
        assert len(set(sides)) == 1, f"the cut divides transaction {number}"
        found += [number] * sum(sides)
    return found


@pytest.mark.chaos  # two drivers as processes
def test_two_versions_of_a_reprocessing_are_at_one_cut_between_transactions(
    start: Any, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    writer = Writer(topics)
    for number in range(40):
        writer.write(number, 5)
    versions = []
    with writer.open(begin=40):
        for outputs, (op, limit) in enumerate((("op", 60), ("upper(op)", 25))):
            out, folder = topics.make("out"), tmp_path / f"checkpoint-{outputs}"
            revision = build(writer, folder, out, broker.bootstrap, limit, op, outputs=outputs)
            # The operator gives a profile to each new version; slices of time would divide transactions.
            options = {"role": DriverRole.SHADOW, "replay": ReplayProfile()} if outputs else {}
            versions.append(Versioned(start(revision, outputs + 1, **options), out, folder))
            versions[-1].driver.wait_for("batches", lambda p: p.queries and p.queries[0].batch_id >= 4)
        for _ in range(3):
            cut = find_common_cut([version.hold() for version in versions])
            for version in versions:
                version.ask(cut)
            ends = [version.reach(cut) for version in versions]
            expected = list_before(writer, cut)
            for version, at, op in zip(versions, ends, "cC", strict=True):
                assert version.rows(topics, at) == [(number, op) for number in expected]
                assert version.driver.post("/continue") == 202
            for version in versions:
                version.driver.wait_for("it reads on", lambda p: p.hold is None)
    expected = sorted(number for number, places in writer.changes.items() for _ in places)
    for version, op in zip(versions, "cC", strict=True):
        version.driver.wait_for("no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0)
        wanted = [(number, op) for number in expected]
        wait_for("all rows, once each", partial(version.has_rows, topics, wanted))
        assert version.driver.post("/stop") == 202
        assert version.driver.wait().graceful
        check_whole(writer, read_batches(version.folder))
