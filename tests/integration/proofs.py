"""Tables of MariaDB or MySQL, a connector that reads them, writers, and 50 differences, for tests of `kappa cdc reconcile`."""

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pymysql
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from integration.writers import writing
from kappa_operator.cdc.address import Address, parse_address
from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import ConnectAccess
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.debezium import configure_mariadb
from lab.mariadb import MariaDB
from lab.shell import wait_until

PREFIX, HISTORY, OFFSETS = "proof", "proof.history", "connect-offset"
ORDERS = "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, customer INT NOT NULL, total DECIMAL(10, 2), placed TIMESTAMP(6) NULL, note TEXT)"
ODD_TABLE = """CREATE TABLE shop.odd (
    id INT PRIMARY KEY, flag BOOLEAN, tiny TINYINT UNSIGNED, small SMALLINT, medium MEDIUMINT UNSIGNED, filled INT(8) ZEROFILL, big BIGINT,
    huge BIGINT UNSIGNED, single FLOAT, fixed FLOAT(7, 3), `double` DOUBLE, exact DECIMAL(38, 10), whole DECIMAL(8, 0),
    padded DECIMAL(6, 2) UNSIGNED ZEROFILL, bit BIT(1), bits BIT(9), word BIT(64), day DATE, named DATE NOT NULL, clock DATETIME,
    milli DATETIME(3), micro DATETIME(6), needed DATETIME NOT NULL, moment TIMESTAMP NULL, fine TIMESTAMP(6) NULL,
    stamped TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00', span TIME, spans TIME(6), year YEAR, char8 CHAR(8),
    latin CHAR(8) CHARACTER SET latin1, short VARCHAR(20), note TEXT, long_note LONGTEXT CHARACTER SET utf8mb4, bytes6 BINARY(6),
    bytes9 VARBINARY(9), blob_ BLOB, size ENUM('a', 'b|c'), sizes SET('x', 'y', 'z'), document JSON, {own},
    twice INT GENERATED ALWAYS AS (id * 2) STORED, thrice INT GENERATED ALWAYS AS (id * 3) VIRTUAL)"""
"""A table with each type, the last one of them of the server."""
_ODD_ROWS = (
    """(1, true, 200, -3, 16000000, 42, -9223372036854775808, 9223372036854775807, 1.1, 1234.567, 0.1,
    1234567890123456789012345678.0123456789, 1234, 12.50, b'1', b'100000001', 0x8000000000000001, '2026-02-03', '1583-01-01',
    '2026-02-03 04:05:06', '2026-02-03 04:05:06.007', '2026-02-03 04:05:06.000007', '1000-01-01', '2026-02-03 04:05:06',
    '2026-02-03 04:05:06.000007', '2026-02-03 04:05:06', '01:02:03', '-838:59:58.000001', 2026, 'ab ', 'é', 'x|y', 'Ä "\\\\n', 'é\U0001f389',
    0x00ff10, 0x00ff00, 0x0102, 'b|c', 'x,z', '{"a" : 1}', {own})""",
    """(2, false, 0, 0, 0, 0, 0, 0, 16777216, 0, 1e300, -0.0000000001, -99, 0, b'0', b'0', b'0', '0000-00-00', '0000-00-00', '0000-00-00',
    '0000-00-00', '9999-12-31 23:59:59.999999', '0000-00-00', '0000-00-00', '{latest}', '0000-00-00', '838:59:59',
    '00:00:00.5', 1901, '', '', '', '', '', '', '', '', 'a', '', 'null', NULL)""",
    """(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, -1.5e-20, NULL, 1e-7, NULL, NULL, NULL, NULL, NULL, NULL, '2020-00-00', '2020-01-00',
    '2020-00-05', NULL, NULL, '2020-00-00 01:02:03', NULL, NULL, '2026-01-01', NULL, '-00:00:00.5', 2155, NULL, NULL, NULL,
    repeat('w', 600), NULL, NULL, NULL, repeat('a', 700), NULL, NULL, NULL, NULL)""",
)  # fmt: skip
SIGNALS = "CREATE TABLE shop.signals (id VARCHAR(128) PRIMARY KEY, type VARCHAR(64), data TEXT)"


@dataclass
class Shop:
    """The services, and how to plant differences behind the back of the connector."""

    broker: Broker
    database: MariaDB

    def read(self, table: str) -> list[Any]:
        settings = {"group.id": "none", "enable.partition.eof": True, "log_level": "0"}
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, **settings})
        found: list[Any] = []
        try:
            consumer.assign([TopicPartition(f"{PREFIX}.shop.{table}", 0, 0)])
            while (message := consumer.poll(30)) is not None and message.error() is None:
                found.append(message)
        finally:
            consumer.close()
        return found

    def count(self, table: str) -> int:
        return len(self.read(table))

    def insert_odd(self, row: str) -> None:
        columns = "SELECT GROUP_CONCAT(CONCAT('`', column_name, '`') ORDER BY ordinal_position) FROM information_schema.columns WHERE table_name = 'odd' AND extra NOT LIKE '%GENERATED'"
        ((names,),) = self.database.execute(columns)
        self.run(f"INSERT INTO shop.odd ({names}) VALUES {row}")  # noqa: S608 - a row above

    def run(self, *statements: str) -> None:
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            for each in statements:
                cursor.execute(each)

    def run_unlogged(self, *statements: str) -> None:
        """What is written here is in no event."""
        self.run("SET sql_log_bin = 0", "USE shop", *statements)

    @property
    def address(self) -> Address:
        """The address as the commands read it."""
        return replace(parse_address(f"mysql://root@127.0.0.1:{self.database.port}"), tls=False)

    def reconcile(self, table: str, *options: str, user: str = "root") -> "subprocess.CompletedProcess[str]":
        program = [sys.executable, "-c", "from kappa_operator.cli import main; main()", "cdc", "reconcile"]
        fixed = ["--table", f"shop.{table}", "--topic", f"{PREFIX}.shop.{table}", "--bootstrap", self.broker.bootstrap]  # fmt: skip
        return subprocess.run(
            [*program, f"{self.database.name.lower()}://{user}@127.0.0.1:{self.database.port}", *fixed, *options],
            text=True, capture_output=True, check=False, timeout=300,
        )  # fmt: skip

    def prove(self, table: str, *options: str) -> dict[str, Any]:
        done = self.reconcile(table, "-o", "json", "--offsets-topic", OFFSETS, *options)
        assert done.returncode in (0, 1, 4), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == {"equal": 0, "different": 1, "undecided": 4}[found["verdict"]]
        return found


def configure(database: MariaDB, bootstrap: str) -> dict[str, str]:
    return {
        **configure_mariadb(database, bootstrap, "shop", PREFIX),
        "poll.interval.ms": "100",
        "heartbeat.interval.ms": "1000",
        "signal.data.collection": "shop.signals",
    }


def start(shop: Shop, workers: ConnectCluster) -> None:
    """Create the connector, and wait for its snapshot."""
    admin = AdminClient({"bootstrap.servers": shop.broker.bootstrap})
    admin.create_topics([NewTopic(HISTORY, 1, 1, config={"retention.ms": "-1"})])[HISTORY].result(30)
    asyncio.run(_create(workers.url, configure(shop.database, shop.broker.bootstrap)))
    wait_until(lambda: shop.count("orders") >= 3000 and shop.count("odd") >= 1, "the snapshot", seconds=90)


async def _create(url: str, config: dict[str, str]) -> None:
    client = HttpConnect()
    try:
        await client.create(ConnectAccess(url, None, None, None), PREFIX, config)
    finally:
        await client.close()


@contextmanager
def writes(shop: Shop) -> Iterator[None]:
    """Write all the time, in transactions that overlap."""

    def write(seed: int, stop: threading.Event) -> None:
        chance = random.Random(seed)
        with shop.database.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                connection.begin()
                try:
                    for _ in range(chance.randrange(1, 6)):
                        _write_one(cursor, chance)
                        time.sleep(0.01 if chance.random() < 0.5 else 0)
                    connection.rollback() if chance.random() < 0.1 else connection.commit()
                except pymysql.err.OperationalError:  # a deadlock
                    connection.rollback()

    with writing(write):
        yield


def _write_one(cursor: Any, chance: random.Random) -> None:
    key = chance.randrange(2000, 3400)
    match chance.randrange(4):
        case 0:
            cursor.execute("DELETE FROM shop.orders WHERE id = %s", (key,))
        case 1:
            cursor.execute("INSERT IGNORE INTO shop.orders VALUES (%s, 1, 2, NOW(6), 'new')", (key,))
        case _:
            cursor.execute(
                "UPDATE shop.orders SET total = total + 1, note = %s WHERE id = %s", (chance.random(), key)
            )


def produce(shop: Shop, records: list[tuple[int, Any]]) -> None:
    producer = Producer({"bootstrap.servers": shop.broker.bootstrap})
    for key, value in records:
        schema = {
            "type": "struct",
            "fields": [{"type": "int64", "optional": False, "field": "id"}],
            "optional": False,
        }
        text = None if value is None else json.dumps(value).encode()
        producer.produce(
            f"{PREFIX}.shop.orders", text, json.dumps({"schema": schema, "payload": {"id": key}}).encode(), 0
        )
    assert producer.flush(30) == 0


def plant(shop: Shop) -> dict[str, set[int]]:
    """Plant 50 differences, and return their keys by kind: half of them in the topic, half in the table."""
    latest = {}
    for each in shop.read("orders"):
        if each.value() is not None and (value := json.loads(each.value()))["op"] != "d":
            latest[value["after"]["id"]] = value
    shop.run_unlogged(
        *(f"INSERT INTO shop.orders VALUES ({key}, 1, 1, NOW(6), 'unseen')" for key in range(5001, 5008)),  # noqa: S608 - numbers
        "DELETE FROM shop.orders WHERE id BETWEEN 1 AND 7",
        "UPDATE shop.orders SET total = total + 0.01, note = 'unseen' WHERE id BETWEEN 11 AND 21",
    )
    records: list[tuple[int, Any]] = [(key, None) for key in range(101, 108)]
    for key in range(9001, 9008):
        records.append((key, latest[200] | {"after": latest[200]["after"] | {"id": key}}))
    for key in range(111, 122):
        records.append((key, latest[key] | {"after": latest[key]["after"] | {"customer": -1}}))
    produce(shop, records)
    return {
        "only-in-database": {*range(5001, 5008), *range(101, 108)},
        "only-in-topic": {*range(1, 8), *range(9001, 9008)},
        "changed": {*range(11, 22), *range(111, 122)},
    }


def check_concurrent_writes(shop: Shop) -> None:
    """A table to which others write is equal."""
    with writes(shop):
        time.sleep(2)
        found = shop.prove("orders")
    assert found["verdict"] == "equal", found
    assert found["rows"] > 2000
    assert found["records"] > 3000
    assert found["position"].startswith("binlog.0")


def check_key_of_text(shop: Shop) -> None:
    """A table with a key of text is equal, in any collation."""
    found = shop.prove("lines")
    assert (found["verdict"], found["rows"]) == ("equal", 500), found


def check_planted_differences(shop: Shop) -> None:
    """Planted differences are found, and nothing else, and are repaired but for rows that only the topic has."""
    planted = plant(shop)
    with writes(shop):
        found = shop.prove("orders")
        repaired = shop.reconcile(
            "orders", "--offsets-topic", OFFSETS, "--signal-table", "shop.signals", "--repair"
        )
        assert "Written: the connector reads these rows again." in repaired.stdout, repaired
        wait_until(
            lambda: shop.prove("orders")["counts"] == {"only-in-topic": len(planted["only-in-topic"])},
            "the connector has read the rows again",
            seconds=120,
            every=3,
        )
    kinds: dict[str, set[int]] = {kind: set() for kind in planted}
    for each in found["differences"]:
        kinds[each["kind"]].add(int(each["key"][0]))
    assert kinds == planted, found["notes"]
    assert sum(map(len, planted.values())) == 50
    assert found["undecided"] == []


def list_numbers() -> list[float]:
    """Return numbers of every size, with those at their bounds."""
    chance = random.Random(1)
    numbers = [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-25, 25) for _ in range(800)]
    powers = [10.0**power for power in range(-20, 20)]
    return [*numbers, *powers, 1.0, -1.5, 0.1 + 0.2, 5e-324, 1.7976931348623157e308]


def build_odd_rows(own: str, latest: str) -> list[str]:
    """Return values for the table of odd types: those of the server's own type, and its latest timestamp, are given."""
    return [row.replace("{own}", own).replace("{latest}", latest) for row in _ODD_ROWS]
