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
            while (message := consumer.poll(10)) is not None and message.error() is None:
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
