"""Transactions of a real PostgreSQL by a real Debezium: the cuts of a driver divide none, though a worker is killed in between."""

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from integration.captures import Capture, run_postgres_lab
from integration.connect_servers import ConnectServers
from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.driver.transactions.reader import ReaderContext, TransactionReader
from lab.postgres import DATABASE

pytestmark = [
    pytest.mark.clusterless,
    pytest.mark.chaos,
]  # four servers; test_transaction_cuts has random logs

TABLES = ("orders.public.orders", "orders.public.items")
ENDS = "orders.transaction"
READY = (
    "CREATE ROLE reader LOGIN REPLICATION",
    f"GRANT CREATE ON DATABASE {DATABASE} TO reader",
    "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)",
    "CREATE TABLE items (id INT PRIMARY KEY, order_id INT)",
    "CREATE TABLE others (id INT PRIMARY KEY)",
    "ALTER TABLE orders OWNER TO reader",
    "ALTER TABLE items OWNER TO reader",
    "ALTER TABLE others OWNER TO reader",
    "INSERT INTO orders SELECT number, 'tea' FROM generate_series(1, 200) AS number",
)
LIMIT = 40
SEED = 73


@dataclass
class Reads:
    """What Kafka has of topics, for readers of committed records."""

    bootstrap: str
    values: dict[tuple[str, int, int], bytes | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "reads",
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer({**config, "enable.partition.eof": True, "log_level": 0})
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def _list(self, topics: Iterable[str]) -> list[tuple[str, int]]:
        known = self._admin.list_topics(timeout=10).topics
        wanted = list(topics)
        if not all(topic in known for topic in wanted):
            raise KafkaException("a topic is missing")
        return [(topic, part) for topic in wanted for part in known[topic].partitions]

    def first(self, topics: Iterable[str]) -> Offsets:
        """Return the first offset of each partition: nothing is deleted here."""
        return dict.fromkeys(self._list(topics), 0)

    def ends(self, topics: Iterable[str]) -> Offsets:
        return {
            at: self._consumer.get_watermark_offsets(TopicPartition(*at), 10)[1] for at in self._list(topics)
        }

    def read_all(self) -> None:
        left = set(self._list(TABLES))
        self._consumer.assign([TopicPartition(*at, 0) for at in left])
        while left:
            message = self._consumer.poll(10)
            assert message is not None
            at = str(message.topic()), message.partition() or 0
            if message.error() is not None:
                left.discard(at)
            else:
                self.values[*at, message.offset() or 0] = message.value()

    def expect_whole(self, cut: Offsets) -> int:
        """Expect that each transaction is before or behind a cut; return how many are before it."""
        before: dict[int, set[tuple[str, int]]] = {}
        every: dict[int, set[tuple[str, int]]] = {}
        for (topic, part, offset), value in self.values.items():
            event = json.loads(value) if value else {}
            block, number = event.get("transaction"), event.get("source", {}).get("txId")
            if block:
                change = topic, block["data_collection_order"]
                every.setdefault(number, set()).add(change)
                if offset < cut[topic, part]:
                    before.setdefault(number, set()).add(change)
        for number, changes in before.items():
            assert changes == every[number], f"transaction {number} is divided at {cut}"
        return len(before)


def write_transaction(address: str, number: int, random: Random) -> None:
    """Insert, update, delete and change keys in both tables, and in one that nobody reads."""
    with psycopg.connect(address) as connection:
        for row in range(random.randint(1, 6)):
            key = 1000 + 10 * number + row
            connection.execute("INSERT INTO orders VALUES (%s, 'milk')", (key,))
            connection.execute("INSERT INTO items VALUES (%s, %s)", (key, number))
        connection.execute("INSERT INTO others VALUES (%s)", (number,))
        connection.execute("UPDATE orders SET item = 'bread' WHERE id = %s", (random.randint(1, 200),))
        connection.execute("DELETE FROM items WHERE id = %s", (1000 + 10 * random.randint(0, number),))
        connection.execute("UPDATE items SET id = -id WHERE id = %s", (1000 + 10 * number,))


def write_many(address: str, numbers: range, size: int, text: str) -> None:
    """Write transactions with pauses; the last one has so many new rows, and changes all orders to have this text."""
    random = Random(SEED)
    for number in numbers:
        write_transaction(address, number, random)
        time.sleep(0.03)
    with psycopg.connect(address) as connection:
        rows = numbers.stop * 10_000, numbers.stop * 10_000 + size - 1
        connection.execute("INSERT INTO items SELECT n, n FROM generate_series(%s, %s) AS n", rows)
        connection.execute("UPDATE orders SET item = %s", (text,))


def follow(reader: TransactionReader, is_over: threading.Event, ends: Offsets) -> list[Offsets]:
    """Take all cuts until the last one is at the ends, which are filled when everything is written."""
    cuts: list[Offsets] = []
    deadline = time.monotonic() + 400
    while not (is_over.is_set() and cuts and all(cuts[-1][at] >= end for at, end in ends.items())):
        assert time.monotonic() < deadline, (cuts[-1:], ends)
        cut = reader.find_cut()
        if cut is not None:
            cuts.append(cut)
            reader.release(cut)
        time.sleep(0.02)
    return cuts


async def test_no_cut_divides_a_transaction_of_postgresql_though_a_worker_is_killed(
    connect_servers: ConnectServers,
) -> None:
    with run_postgres_lab(READY, connect_servers) as (database, workers, broker):
        async with Capture(database, workers, broker) as capture:
            capture.write(transactions=True, topics={"partitions": 2})
            await capture.until_reason("ConnectorRunning", seconds=120)
            write_transaction(database.address, 0, Random(SEED))
            reads = Reads(broker.bootstrap)
            await capture.until(lambda _: _has_all(reads), "the topics exist")
            assert len(reads.first([ENDS])) == 1, "transactions are in order"
            context = ReaderContext(
                topics={ENDS: TABLES},
                max_wait=60,
                limit=LIMIT,
                config={"bootstrap.servers": broker.bootstrap, "group.id": "cuts"},
                find_ends=reads.ends,
                find_first=reads.first,
            )
            reader = TransactionReader(context, reads.first(TABLES))
            ends: Offsets = {}
            is_over = threading.Event()

            def work() -> None:
                write_many(database.address, range(1, 60), 10, "first")
                workers.kill()
                write_many(database.address, range(60, 90), 300, "last")
                workers.start()

            thread = threading.Thread(target=work)
            thread.start()
            found: list[Offsets] = []
            taker = threading.Thread(target=lambda: found.extend(follow(reader, is_over, ends)))
            taker.start()
            await capture.until(lambda _: not thread.is_alive(), "all is written", seconds=240)
            await capture.until(lambda _: _has_last(reads), "all is in Kafka", seconds=240)
            ends |= reads.ends(TABLES)
            is_over.set()
            taker.join(240)
            reader.close()
        reads.read_all()
        counts = [reads.expect_whole(cut) for cut in found]
        assert len(found) > 20
        assert counts[-1] >= 92
        assert reader.divided == 0


def _has_all(reads: Reads) -> bool:
    try:
        return all(reads.ends([topic]) for topic in (*TABLES, ENDS))
    except KafkaException:
        return False


def _has_last(reads: Reads) -> bool:
    """Whether the last row of the last transaction has arrived for each order."""
    reads.read_all()
    events = [json.loads(value) for value in reads.values.values() if value]
    return (
        len({event["after"]["id"] for event in events if (event["after"] or {}).get("item") == "last"}) > 200
    )
