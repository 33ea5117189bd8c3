"""Real MySQL and MariaDB with TLS outside of the cluster, followed by the operator's workers: requests, proofs by pods during writes after a
worker, the database and the operator died, a refused change of a table, and rows that are too large."""

import contextlib
import itertools
import json
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pymysql
import pytest
from confluent_kafka import Consumer

from demo.compare import read_topic
from e2e.faults import kill_processes, lose_pod
from e2e.place import Place
from integration.writers import writing
from kappa_crds.cdcsource import DATABASE_READY
from kappa_crds.cdcsource_proof import PROVEN
from kappa_crds.conditions import find_condition
from lab import kafka, pki
from lab.mariadb import MariaDB
from lab.mysql import MySQL
from lab.network import NODE_IP
from platform_switch import NAMESPACE, find_pods

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]  # four minutes; MySQL is from a release that moves

KINDS = ("mysql", "mariadb")
NAMES = f"IP:{NODE_IP},DNS:{NODE_IP},DNS:*.kubernetes.default.svc.cluster.local,DNS:*.kube-dns.kube-system.svc.cluster.local"
"""Debezium verifies the name that an address resolves to: that of the node is of two Services."""
ROWS = 2000
HUGE = 100_000_000
"""Characters of a row that no record of Kafka can have; servers refuse it by default."""
HUGE_ROWS = {
    "mysql": {"max_allowed_packet": "268435456", "innodb_redo_log_capacity": "2147483648"},
    "mariadb": {"max_allowed_packet": "268435456", "innodb_log_file_size": "1073741824"},
}
CUT = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError)
PREPARE = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, item LONGTEXT)",
    "CREATE USER reader IDENTIFIED BY 'only-for-the-reader'",
    "GRANT SELECT ON shop.* TO reader",
    "GRANT REPLICATION CLIENT, REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO reader",
)


@dataclass(frozen=True)
class Shops:
    """The databases by kind, and the namespace that follows them."""

    place: Place
    databases: dict[str, MariaDB]

    def topic(self, kind: str) -> str:
        return f"{self.place.name}-{kind}.shop.orders"

    def read(self, kind: str, condition: str) -> tuple[str, str]:
        """Return status and message of a condition of a source."""
        found = find_condition(self.place.get("CDCSource", kind).status.conditions, condition)
        return (found.status, found.message) if found is not None else ("", "")

    def write(self, kind: str, number: int, stop: threading.Event) -> None:
        """Write in transactions that overlap with those of other threads, also after a restart of the database."""
        while not stop.wait(0.2):
            with contextlib.suppress(*CUT), self.databases[kind].connect() as connection:
                for row in itertools.cycle(range(number * 300, number * 300 + 300)):
                    if stop.is_set():
                        return
                    self._write_row(connection, row + 1)

    def _write_row(self, connection: "pymysql.Connection[pymysql.cursors.Cursor]", row: int) -> None:
        """Change a row; each third one is deleted and inserted again before."""
        item = f"{row} {time.monotonic()}"
        connection.begin()
        with connection.cursor() as cursor:
            if row % 3 == 0:
                cursor.execute("DELETE FROM shop.orders WHERE id = %s", (row,))
                cursor.execute("INSERT INTO shop.orders VALUES (%s, %s)", (row, item))
            cursor.execute("UPDATE shop.orders SET item = %s WHERE id = %s", (item, row))
            time.sleep(0.05)
        connection.commit()

    def find_last(self, kind: str, key: int) -> str:
        """Return the item of the last event of a row."""
        records = read_topic(self.topic(kind), kafka.host_bootstrap())
        found = [each.value() for each in records if json.loads(each.key() or b"")["id"] == key]
        row = json.loads(found[-1] or b"{}").get("after") or {} if found else {}
        return str(row.get("item", ""))


@pytest.fixture(scope="module")
def shops(platform: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    folder = tmp_path_factory.mktemp("databases")
    pki.make_authority(folder, "databases")
    pki.make_certificate(folder, "server", "/CN=database", NAMES)
    files = {"ssl_cert": "server.crt", "ssl_key": "server.key", "ssl_ca": "ca.crt"}
    settings = {name: str(folder / file) for name, file in files.items()}
    settings |= {"bind_address": "0.0.0.0", "innodb_flush_log_at_trx_commit": "1"}  # noqa: S104 - in a test; a crash keeps what was committed
    with ExitStack() as stack:
        servers: dict[str, MariaDB] = {
            "mysql": MySQL(**settings, **HUGE_ROWS["mysql"]),
            "mariadb": MariaDB(**settings, **HUGE_ROWS["mariadb"]),
        }
        for server in servers.values():
            stack.enter_context(server)
            fill(server)
        place = Place.create("binlog")
        ports = {kind: str(server.port) for kind, server in servers.items()}
        authority = json.dumps((folder / "ca.crt").read_text())
        place.apply(
            place.render(
                "cdc-binlog.yaml", host=NODE_IP, password="only-for-the-reader", authority=authority, **ports
            )
        )
        yield Shops(place, servers)
        place.empty(connect=True)


def fill(server: MariaDB) -> None:
    for statement in PREPARE:
        server.execute(statement)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO shop.orders VALUES (%s, 'tea')", [(number,) for number in range(1, ROWS + 1)])  # fmt: skip


def count(topic: str, snapshot: str = "") -> int:
    """Return how many rows of snapshots of a kind, or of all, a topic has."""
    values = (message.value() for message in read_topic(topic, kafka.host_bootstrap()))
    events = (json.loads(value) for value in values if value is not None)
    return sum(each["op"] == "r" and snapshot in str(each["source"].get("snapshot")) for each in events)


@pytest.mark.parametrize("kind", KINDS)
def test_the_statements_of_the_condition_make_the_database_ready(shops: Shops, kind: str) -> None:
    place = shops.place
    place.wait(lambda: "; run: " in shops.read(kind, DATABASE_READY)[1], "the condition has statements", 240)
    text = shops.read(kind, DATABASE_READY)[1].partition("; run: ")[2]
    assert "kappa_signals" in text, text
    for statement in map(str.strip, text.split(";")):
        if statement.startswith(("CREATE", "GRANT")):
            shops.databases[kind].execute(statement)
    place.await_ready(f"cdcsource/{kind}", 240)
    topic = shops.topic(kind)
    assert sum(1 for _ in read_topic(topic, kafka.host_bootstrap())) >= ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_100_megabytes_is_refused_until_its_column_is_truncated(shops: Shops, kind: str) -> None:
    place, database = shops.place, shops.databases[kind]
    database.execute("INSERT INTO shop.orders VALUES (6000, REPEAT('x', %s))", HUGE)
    refused = "no more than 90 MiB are possible"
    place.wait(lambda: refused in place.ready("CDCSource", kind).message, "the row is refused", 180)
    truncate = {"columns": ["shop.orders.item"], "length": 1000}
    place.patch(f"cdcsource/{kind}", {"columns": {"truncate": [truncate]}})
    place.wait(lambda: shops.find_last(kind, 6000) == "x" * 1000, "the shortened row arrives", 180)
    database.execute("DELETE FROM shop.orders WHERE id = 6000")
    place.wait(lambda: shops.find_last(kind, 6000) == "", "its deletion arrives", 120)
    place.patch(f"cdcsource/{kind}", {"columns": None})
    place.await_ready(f"cdcsource/{kind}", 120)


@pytest.mark.parametrize("kind", KINDS)
def test_some_rows_are_read_again_on_request_and_the_position_is_shown(shops: Shops, kind: str) -> None:
    place = shops.place
    shown = place.kappa(
        "cdc", "snapshot", kind, "--table", "shop.orders", "--where", "id > 1900", "--wait", "--timeout", "3m"
    )
    assert "the rows of shop.orders were read" in shown
    assert count(shops.topic(kind), "incremental") == 100
    offsets = place.kappa("cdc", "offsets", kind)
    assert "file" in offsets
    assert "binlog.0" in offsets


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_proves_the_topic_during_writes_after_all_died(shops: Shops, kind: str) -> None:
    place, database = shops.place, shops.databases[kind]
    with writing(lambda number, stop: shops.write(kind, number, stop)):
        time.sleep(1)
        kill_processes("main-connect-0", place.name)
        database.restart(graceful=False)
        lose_pod(random.choice(find_pods()).removeprefix("pod/"), NAMESPACE)
        database.execute("UPDATE shop.orders SET item = 'after the crash' WHERE id = %s", ROWS)
        place.wait(lambda: shops.find_last(kind, ROWS) == "after the crash", "changes arrive again", 240)
        place.await_ready(f"cdcsource/{kind}", 120)
        place.patch(f"cdcsource/{kind}", {"proof": {"request": "now", "wait": "1m"}})
        place.wait(lambda: shops.read(kind, PROVEN)[0] != "", "there is a proof", 240)
    status, message = shops.read(kind, PROVEN)
    assert status == "True", message
    assert message.startswith(f"1 tables with {ROWS:,} rows equal their topics")
    assert count(shops.topic(kind)) == ROWS + 100, "all rows are read once"


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_a_column_is_refused_until_it_is_accepted(shops: Shops, kind: str) -> None:
    place, database = shops.place, shops.databases[kind]
    place.patch(f"cdcsource/{kind}", {"schemaChanges": {"policy": "Refuse"}, "checkInterval": "5s"})
    place.wait(lambda: place.get("CDCSource", kind).status.tables_schema is not None, "columns are known", 60)
    database.execute("ALTER TABLE shop.orders MODIFY item MEDIUMTEXT")
    message = place.await_reason("CDCSource", kind, "SchemaRefused", 120).message
    assert "table shop.orders: column item was longtext and is mediumtext" in message
    database.execute("UPDATE shop.orders SET item = 'after the change' WHERE id = %s", ROWS)
    (accepted,) = re.findall(r"spec\.schemaChanges\.accept to (\w+)", message)
    place.patch(f"cdcsource/{kind}", {"schemaChanges": {"accept": accepted}, "checkInterval": "5m"})
    place.wait(lambda: shops.find_last(kind, ROWS) == "after the change", "it is read", 120)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_too_large_is_named_by_its_topic_and_arrives_once_it_is_allowed(
    shops: Shops, kind: str
) -> None:
    """The operator reads the log of the worker with its own permissions."""
    place, topic = shops.place, shops.topic(kind)
    with shops.databases[kind].connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO shop.orders VALUES (5000, %s)", ("large " * 500_000,))
    wanted = f"a row of topic {topic} is "
    place.wait(lambda: wanted in place.ready("CDCSource", kind).message, "the topic is named", 120)
    place.patch(f"cdcsource/{kind}", {"maxRecordSize": "8Mi"})
    place.wait(lambda: place.ready("CDCSource", kind).status == "True", "the connector runs", 240)
    place.wait(
        lambda: any(json.loads(each.key() or b"")["id"] == 5000 for each in read_topic(topic, kafka.host_bootstrap())),
        "the row has arrived", 60,
    )  # fmt: skip


def test_deleted_sources_leave_no_topic_and_no_schemas(shops: Shops) -> None:
    shops.place.kubectl("delete", "cdcsources", *KINDS, "--wait=true", timeout=180)
    consumer = Consumer({"bootstrap.servers": kafka.host_bootstrap(), "group.id": "none", "log_level": 0})
    left = [name for name in consumer.list_topics(timeout=20).topics if shops.place.name in name]
    consumer.close()
    assert [name for name in left if ".shop." in name or name.endswith(".schemas")] == []
