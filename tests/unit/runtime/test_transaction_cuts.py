"""Cuts between transactions: random logs of a connector that starts again, compaction, and any order of reading."""

import json
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kappa_pipelines.checkpoint.format.offsets import Offsets, TopicPartition
from kappa_pipelines.driver.transactions.events import Change, End, parse_change, parse_end
from kappa_pipelines.driver.transactions.ledger import GRACE_SECONDS, Ledger

ENDS = "shop.transaction"
TABLES = ("shop.public.orders", "shop.public.items")
TOPICS = {ENDS: TABLES}
MAX_WAIT = 60.0
START = 1_700_000_000_000
HOUR = 3_600_000

Record = Change | End | None


@dataclass
class Log:
    """Partitions as Kafka has them: offset, time and record; compaction leaves gaps."""

    partitions: dict[TopicPartition, list[tuple[int, int, Record]]] = field(default_factory=dict)
    time: int = START

    def write(self, at: TopicPartition, record: Record) -> None:
        self.time += 1
        records = self.partitions.setdefault(at, [])
        records.append((len(records), self.time, record))

    def ends(self) -> Offsets:
        return {at: records[-1][0] + 1 if records else 0 for at, records in self.partitions.items()}


@dataclass
class Reading:
    """A ledger that reads a log, at a time of its own."""

    log: Log
    ledger: Ledger = field(default_factory=lambda: Ledger(TOPICS, MAX_WAIT))
    now: float = 0.0
    read: dict[TopicPartition, int] = field(default_factory=dict)

    def begin(self) -> None:
        for at in self.log.partitions:
            self.ledger.begin(at, 0)

    def take(self, at: TopicPartition, count: int = 1_000_000) -> None:
        """Read so many records of a partition, and learn at its end where it ends."""
        records, begin = self.log.partitions[at], self.read.get(at, 0)
        self.read[at] = min(len(records), begin + count)
        for offset, time, record in records[begin : begin + count]:
            if isinstance(record, Change):
                self.ledger.add_change(at, offset, time, record, self.now)
            elif isinstance(record, End):
                self.ledger.add_end(at, offset, time, record, self.now)
            else:
                self.ledger.pass_by(at, offset + 1, time)
        if begin + count >= len(records):
            self.ledger.pass_by(at, self.log.ends()[at])

    def take_all(self) -> None:
        for at in self.log.partitions:
            self.take(at)

    def wait(self, seconds: float) -> None:
        """Let time pass, and learn that nothing has come meanwhile."""
        self.now += seconds
        self.ledger.sample(self.log.ends(), self.now)
        self.take_all()


def list_before(log: Log, cut: Offsets) -> dict[str, set[tuple[TopicPartition, int]]]:
    """Return the changes of each transaction before a cut."""
    found: dict[str, set[tuple[TopicPartition, int]]] = {}
    for at, records in log.partitions.items():
        for offset, _, record in records:
            if isinstance(record, Change):
                changes = found.setdefault(record.transaction, set())
                if offset < cut[at]:
                    changes.add((at, record.order))
    return found


def expect_whole(log: Log, cut: Offsets) -> None:
    every = list_before(log, log.ends())
    for transaction, changes in list_before(log, cut).items():
        assert not changes or changes == every[transaction], transaction


transactions = st.lists(
    st.lists(st.tuples(st.sampled_from(TABLES), st.integers(0, 1)), max_size=5), min_size=1, max_size=8
)


@st.composite
def build_logs(draw: st.DrawFn, *, compacted: bool) -> Log:
    """A log of transactions, with rows of snapshots between them, by a connector that starts again at any record."""
    log = Log({(topic, part): [] for topic in (*TABLES, ENDS) for part in (0, 1)})
    records: list[tuple[TopicPartition, Record]] = []
    for number, rows in enumerate(draw(transactions)):
        counts: dict[str, int] = {}
        for topic, part in rows:
            counts[topic] = counts.get(topic, 0) + 1
            records.append(((topic, part), Change(str(number), counts[topic])))
        changes = {topic.removeprefix("shop."): count for topic, count in counts.items()}
        records.append(((ENDS, number % 2), End(str(number), {**changes, "public.unread": 3})))
        if draw(st.booleans()):
            records.append(((TABLES[0], number % 2), None))
    position = 0
    restarts = draw(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6)), max_size=3))
    for steps, back in (*restarts, (len(records), 0)):
        for at, record in records[position : position + steps]:
            log.write(at, record)
        position = max(0, min(len(records), position + steps) - back)
    if compacted:
        kept = {at: draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))) for at, rows in log.partitions.items()}  # fmt: skip
        log.partitions = {
            at: [row for row, is_kept in zip(rows, kept[at], strict=True) if is_kept or at[0] == ENDS]
            for at, rows in log.partitions.items()
        }
    return log


@settings(deadline=None, max_examples=100)
@given(st.data(), st.booleans())
def test_no_cut_divides_a_transaction_and_all_records_are_released(
    data: st.DataObject, compacted: bool
) -> None:
    log = data.draw(build_logs(compacted=compacted))
    reading = Reading(log)
    reading.begin()
    released: Offsets = dict.fromkeys(log.partitions, 0)
    steps = data.draw(
        st.lists(st.tuples(st.sampled_from(sorted(log.partitions)), st.integers(1, 5)), max_size=20)
    )
    for at, count in steps:
        reading.take(at, count)
        cut = reading.ledger.find_cut()
        expect_whole(log, cut)
        assert all(cut[each] >= released[each] for each in cut)
        if data.draw(st.booleans()):
            reading.ledger.release(cut)
            released |= cut
    reading.take_all()
    reading.wait(GRACE_SECONDS + 1)
    cut = reading.ledger.find_cut()
    assert cut == {at: end for at, end in log.ends().items() if at[0] != ENDS}
    assert reading.ledger.divided == 0
    reading.ledger.release(cut)
    assert not reading.ledger._transactions


def build_reading(*records: tuple[str, int, Record]) -> Reading:
    log = Log({(topic, part): [] for topic in (*TABLES, ENDS) for part in (0, 1)})
    for topic, part, record in records:
        log.write((topic, part), record)
    reading = Reading(log)
    reading.begin()
    return reading


ORDERS, ITEMS = TABLES


def test_a_transaction_without_an_end_waits_and_then_appears_as_it_is() -> None:
    reading = build_reading((ORDERS, 0, Change("1", 1)), (ORDERS, 0, Change("2", 1)))
    reading.log.write((ENDS, 0), End("2", {"public.orders": 1}))
    reading.take_all()
    assert reading.ledger.find_cut()[ORDERS, 0] == 0
    reading.wait(MAX_WAIT - 1)
    assert reading.ledger.find_cut()[ORDERS, 0] == 0
    reading.wait(2)
    assert reading.ledger.find_cut()[ORDERS, 0] == 2
    assert reading.ledger.divided == 1


def test_time_without_kafka_releases_nothing() -> None:
    reading = build_reading((ORDERS, 0, Change("1", 1)))
    reading.take((ORDERS, 0))
    reading.now += 10 * MAX_WAIT
    assert reading.ledger.find_cut()[ORDERS, 0] == 0


def test_ends_that_retention_has_deleted_are_not_waited_for() -> None:
    reading = build_reading((ORDERS, 0, Change("1", 1)))
    reading.log.time += HOUR
    for part in (0, 1):
        reading.log.write((ENDS, part), End("9", {"public.unread": 1}))
    reading.take_all()
    assert reading.ledger.find_cut()[ORDERS, 0] == 1
    assert reading.ledger.divided == 0


def test_changes_that_compaction_has_removed_are_not_waited_for() -> None:
    reading = build_reading((ORDERS, 0, Change("1", 2)), (ENDS, 0, End("1", {"public.orders": 2})))
    reading.take_all()
    assert reading.ledger.find_cut()[ORDERS, 0] == 0
    reading.log.time += HOUR
    for part in (0, 1):
        reading.log.write((ORDERS, part), None)
    reading.take_all()
    assert reading.ledger.find_cut()[ORDERS, 0] == 2


def test_a_cut_may_end_before_a_transaction_that_others_follow() -> None:
    reading = build_reading(
        (ORDERS, 0, Change("1", 1)),
        (ENDS, 0, End("1", {"public.orders": 1})),
        (ITEMS, 0, Change("2", 1)),
        (ORDERS, 0, Change("2", 1)),
        (ITEMS, 1, Change("2", 2)),
        (ENDS, 0, End("2", {"public.orders": 1, "public.items": 2})),
    )
    for at in ((ORDERS, 0), (ITEMS, 0), (ENDS, 0)):
        reading.take(at)
    cut = reading.ledger.find_cut()
    assert (cut[ORDERS, 0], cut[ITEMS, 0]) == (1, 0)
    reading.take((ITEMS, 1))
    cut = reading.ledger.find_cut()
    assert (cut[ORDERS, 0], cut[ITEMS, 0], cut[ITEMS, 1]) == (2, 1, 1)


def test_a_change_that_is_written_again_after_its_transaction_was_released_holds_nothing_back() -> None:
    reading = build_reading((ORDERS, 0, Change("1", 1)), (ENDS, 0, End("1", {"public.orders": 1})))
    reading.take_all()
    reading.ledger.release(reading.ledger.find_cut())
    reading.log.write((ORDERS, 0), Change("1", 1))
    reading.log.write((ENDS, 0), End("1", {"public.orders": 1}))
    reading.take((ORDERS, 0))
    assert reading.ledger.find_cut()[ORDERS, 0] == 2
    assert reading.ledger.divided == 0


def test_too_many_open_transactions_are_released_from_the_oldest_on() -> None:
    reading = build_reading(*((ORDERS, 0, Change(str(number), 1)) for number in range(8)))
    reading.ledger = Ledger(TOPICS, MAX_WAIT, most_open=5)
    reading.begin()
    reading.take_all()
    assert reading.ledger.find_cut()[ORDERS, 0] == 3
    assert reading.ledger.divided == 3


def test_records_of_debezium_name_their_transaction() -> None:
    block = {"id": "746:22318776", "total_order": 3, "data_collection_order": 2}
    value = {"op": "c", "after": {"id": 1}, "transaction": block}
    assert parse_change(json.dumps(value).encode()) == Change("746", 2)
    assert parse_change(json.dumps({"schema": {}, "payload": value}).encode()) == Change("746", 2)
    gtid = {**value, "transaction": {**block, "id": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"}}
    assert parse_change(json.dumps(gtid).encode()) == Change("3e11fa47-71ca-11e1-9e33-c80aa9429562:23", 2)
    counts = [{"data_collection": "public.orders", "event_count": 2}]
    end = {"status": "END", "id": "746:22318999", "event_count": 2, "data_collections": counts}
    assert parse_end(json.dumps(end).encode()) == End("746", {"public.orders": 2})
    for other in (None, b"", b"{", b"[]", b'{"transaction": null}', b'{"transaction": {"id": 1}}', b'{"status": "BEGIN", "id": "7:1"}'):  # fmt: skip
        assert parse_change(other) is None
        assert parse_end(other) is None
