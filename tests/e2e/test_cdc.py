"""A database joins the log by one manifest: a real PostgreSQL with TLS outside of the cluster, Debezium in the operator's workers, and a pipeline
that joins the tables. Worker and database are killed while the application writes; at the end the view equals the database, row for row."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from e2e.place import Place
from e2e.test_network_policies import find_open
from e2e.test_tenants import run_pod
from kappa_crds.cdcsource import DATABASE_READY
from kappa_crds.cdcsource_proof import PROVEN
from kappa_crds.conditions import find_condition
from kappa_crds.kafkacluster import KafkaClusterStatus
from lab import kafka, pki
from lab.network import NODE_IP
from lab.paths import REPOSITORY
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.timeout(900)

PASSWORD = "only-for-the-reader"
HBA = """host all postgres 127.0.0.1/32 trust
hostssl all reader all scram-sha-256
"""
SCHEMA: tuple[LiteralString, ...] = (
    "CREATE ROLE reader LOGIN PASSWORD 'only-for-the-reader'",
    f"GRANT CREATE ON DATABASE {DATABASE} TO reader",
    "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT NOT NULL, city TEXT, joined DATE)",
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT NOT NULL, total NUMERIC(10, 2), placed TIMESTAMPTZ, note TEXT)",
    "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
    "CREATE TABLE items (id INT PRIMARY KEY, order_id BIGINT, product TEXT, quantity INT)",
    "ALTER TABLE customers OWNER TO reader",
    "ALTER TABLE orders OWNER TO reader",
    "ALTER TABLE items OWNER TO reader",
    "INSERT INTO customers SELECT n, 'customer ' || n, 'city ' || n % 7 FROM generate_series(1, 50) n",
    "INSERT INTO orders SELECT n, 1 + n % 60, n, now(), repeat('a large note ', 300) FROM generate_series(1, 500) n",
    "INSERT INTO items SELECT n, 1 + n % 550, 'tea', n % 5 FROM generate_series(1, 1000) n",
)
CHANGES: tuple[LiteralString, ...] = (
    "INSERT INTO orders VALUES (%(n)s, 1 + %(n)s %% 60, %(n)s %% 99, now(), 'new')",
    "UPDATE orders SET total = total + 1 WHERE id = 1 + %(n)s %% 500",
    "UPDATE customers SET city = 'city ' || %(n)s %% 13 WHERE id = 1 + %(n)s %% 50",
    "DELETE FROM items WHERE id = 1 + %(n)s %% 1000",
    "INSERT INTO items VALUES (%(n)s, %(n)s, 'milk', %(n)s %% 9)",
    "DELETE FROM orders WHERE id = %(n)s - 3 AND %(n)s %% 4 = 0",
)
JOINED = "SELECT o.id, o.note, c.name, c.city FROM orders o LEFT JOIN customers c ON c.id = o.customer"
ITEMS = "SELECT i.id, i.product, i.quantity FROM items i JOIN orders o ON o.id = i.order_id"


_REFUSED = """
import socket, ssl, sys
context = ssl._create_unverified_context()
try:
    with context.wrap_socket(socket.create_connection((sys.argv[1], 8443), 5)) as connection:
        connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        print("answer", connection.recv(64))
except ssl.SSLError as error:
    print("refused", error.reason)
"""
"""Over TLS 1.3 a client learns only with the first answer that its certificate is missing."""


@dataclass(frozen=True)
class Shop:
    """A database, and the namespace that follows it."""

    place: Place
    database: Postgres

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database.address) as connection:
            return connection.execute(statement.encode()).fetchall()

    def write(self, stop: threading.Event, first: int, pause: float = 0.1) -> None:
        """Write transactions of all kinds until it is to stop, also after a restart of the database."""
        number = first
        while not stop.wait(0.1):
            with (
                contextlib.suppress(psycopg.OperationalError),
                psycopg.connect(self.database.address) as connection,
            ):
                while not stop.wait(pause):
                    number += 1
                    for statement in CHANGES:
                        connection.execute(statement, {"n": number})
                    if number % 40 == 0:
                        connection.execute(
                            "UPDATE customers SET id = %(n)s WHERE id = 1 + %(n)s %% 50", {"n": number}
                        )
                    connection.commit()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Postgres, Path]]:
    folder = tmp_path_factory.mktemp("database")
    pki.make_authority(folder, "databases")
    pki.make_certificate(folder, "server", "/CN=database", f"IP:{NODE_IP}")
    (folder / "server.key").chmod(0o600)
    (folder / "hba.conf").write_text(HBA)
    files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "hba_file": "hba.conf"}
    settings = {name: str(folder / file) for name, file in files.items()}
    with Postgres(NODE_IP, ssl="on", **settings) as server:
        for statement in SCHEMA:
            server.execute(statement)
        yield server, folder / "ca.crt"


@pytest.fixture(scope="module")
def shop(platform: None, database: tuple[Postgres, Path]) -> Iterator[Shop]:
    server, authority = database
    place = Place.create("cdc")
    values = {"host": NODE_IP, "port": str(server.port), "password": PASSWORD}
    place.apply(place.render("cdc.yaml", **values, authority=json.dumps(authority.read_text())))
    yield Shop(place, server)
    place.empty(connect=True)


def test_the_statement_in_the_condition_makes_the_database_ready(shop: Shop) -> None:
    place = shop.place

    def read_message() -> str:
        found = find_condition(place.get("CDCSource", "shop").status.conditions, DATABASE_READY)
        return found.message if found is not None and found.status == "False" else ""

    place.wait(lambda: "; run: " in read_message(), "the condition has a statement", 240)
    statement = read_message().partition("; run: ")[2].partition(";")[0]
    assert statement == 'ALTER ROLE "reader" REPLICATION'
    with psycopg.connect(shop.database.address, autocommit=True) as admin:
        admin.execute(statement.encode())
    place.await_ready("cdcsource/shop")
    assert len(shop.query("SELECT slot_name FROM pg_replication_slots")) == 1


def test_a_joined_view_equals_the_database_although_processes_are_killed(shop: Shop) -> None:
    place = shop.place
    text = (REPOSITORY / "pipelines" / "examples" / "orders" / "pipeline.yaml").read_text()
    place.apply(_name_topics(text, place.name))
    place.await_ready("pipeline/orders")
    stop = threading.Event()
    writer = threading.Thread(target=shop.write, args=(stop, 10_000))
    writer.start()
    try:
        place.kubectl("delete", "pod", "main-connect-0", "--grace-period=0", "--force")
        place.wait(lambda: _count_workers(place) == "0/1", "the lost worker is noticed", 60)
        place.await_ready("kafkacluster/main")
        place.await_ready("cdcsource/shop")
        shop.database.restart(graceful=False)
        place.wait(lambda: _count_active_slots(shop) == 1, "the connector reads again", 240)
    finally:
        stop.set()
        writer.join()
    wanted = {row[0]: row[1:] for row in shop.query(JOINED)}
    place.wait(
        lambda: _read_table(f"{place.name}-orders", "note", "name", "city") == wanted, "orders are equal", 300
    )
    items = {row[0]: row[1:] for row in shop.query(ITEMS)}
    place.wait(
        lambda: _read_table(f"{place.name}-items", "product", "quantity") == items, "items are equal", 60
    )
    assert len(shop.query("SELECT slot_name FROM pg_replication_slots")) == 1


def _count_workers(place: Place) -> str | None:
    """Return the ready and the wanted workers. The source itself may not be checked before a new worker is ready."""
    status = place.get("KafkaCluster", "main").status
    assert isinstance(status, KafkaClusterStatus)
    return None if status.connect is None else status.connect.workers


def _count_active_slots(shop: Shop) -> int:
    return len(shop.query("SELECT 1 FROM pg_replication_slots WHERE active"))


def _name_topics(text: str, prefix: str) -> str:
    """Return the manifests of the example with topics of this namespace."""
    text = text.replace("topic: shop.public", f"topic: {prefix}.public")
    for name in ("orders", "items"):
        other = "orders-with-customers" if name == "orders" else "items-with-orders"
        text = text.replace(
            f"metadata: {{name: {other}}}\nspec: {{",
            f"metadata: {{name: {other}}}\nspec: {{topicName: {prefix}-{name}, deletionPolicy: Delete, ",
        )
    small = "  resources: {driver: {cpu: 100m, memory: 1200Mi}, executors: {count: 0}}\n  restart: {maxDelay: 5s}\n"
    return text.rstrip() + "\n" + small


def _read_table(topic: str, *columns: str) -> dict[int, tuple[Any, ...]]:
    """Return the last row of each key of a compacted topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.host_bootstrap(),
            "group.id": "table",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: dict[int, tuple[Any, ...]] = {}
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        left = len(partitions)
        while left:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                left -= 1
                continue
            key, value = json.loads(message.key() or b"0"), message.value()
            found.pop(key, None)
            if value is not None:
                row = json.loads(value)
                found[key] = tuple(row.get(name) for name in columns)
        return found
    finally:
        consumer.close()


def test_the_command_proves_that_a_topic_equals_its_table(
    shop: Shop, database: tuple[Postgres, Path]
) -> None:
    server, authority = database
    command = [
        str(Path(sys.executable).with_name("kappa")), "cdc", "reconcile", f"postgresql://reader@{NODE_IP}:{server.port}/{DATABASE}",
        "--ca-file", str(authority), "--table", "orders", "--topic", f"{shop.place.name}.public.orders",
        "--bootstrap", kafka.host_bootstrap(),
    ]  # fmt: skip
    done = subprocess.run(
        command, env={**os.environ, "PGPASSWORD": PASSWORD}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are equal" in done.stdout


def test_a_pod_proves_that_all_topics_equal_their_tables(shop: Shop) -> None:
    """It reaches the database and Kafka through its NetworkPolicy, with their log-ins as files."""
    place = shop.place
    proof = json.dumps({"spec": {"proof": {"request": "now", "wait": "1m"}}})
    place.kubectl("patch", "cdcsource", "shop", "--type=merge", "-p", proof)

    def read() -> tuple[str, str]:
        found = find_condition(place.get("CDCSource", "shop").status.conditions, PROVEN)
        return (found.status, found.message) if found is not None else ("", "")

    place.wait(lambda: read()[0] != "", "there is a proof", 180)
    status, message = read()
    assert status == "True", message
    assert message.startswith("3 tables with ")
    pods = ("get", "pods", "-l", "kappa-platform.io/cdc-task=proof", "-o", "name")
    place.wait(lambda: not place.kubectl(*pods).split(), "its pod is deleted", 60)


def test_a_foreign_pod_reaches_no_port_of_a_worker(shop: Shop) -> None:
    place = shop.place
    address = str(place.find("pods", "kappa-platform.io/connect=main")[0]["status"]["podIP"])
    place.admit_egress(app="foreign")
    targets = [(address, 8443), (address, 8080), ("kafka.kafka.svc", 9092)]
    assert find_open(place, "foreign", targets, app="foreign") == {("kafka.kafka.svc", 9092)}


def test_a_pod_that_has_the_labels_of_a_worker_is_refused_without_a_certificate(shop: Shop) -> None:
    """The NetworkPolicy admits it. The StatefulSet does not adopt it, as its name has no number."""
    place = shop.place
    address = str(place.find("pods", "kappa-platform.io/connect=main")[0]["status"]["podIP"])
    script = f"import time; time.sleep(5)\n{_REFUSED}"
    labels = {"kappa-platform.io/connect": "main"}
    log = run_pod(place, "imitation", "python3", "-c", script, address, **labels)
    cluster = place.get("KafkaCluster", "main").status
    assert isinstance(cluster, KafkaClusterStatus)
    assert cluster.connect is not None
    assert cluster.connect.workers == "1/1"
    place.kubectl("delete", "pod", "imitation", "--wait=false")
    assert "refused" in log
    assert "answer" not in log


def test_a_deleted_source_leaves_no_slot_no_publication_and_no_topic(shop: Shop) -> None:
    shop.place.kubectl("delete", "pipeline", "orders", "--wait=true", timeout=180)
    shop.place.kubectl("delete", "cdcsource", "shop", "--wait=true", timeout=180)
    assert shop.query("SELECT slot_name FROM pg_replication_slots") == []
    assert shop.query("SELECT pubname FROM pg_publication") == []
    consumer = Consumer({"bootstrap.servers": kafka.host_bootstrap(), "group.id": "none", "log_level": 0})
    left = [
        name for name in consumer.list_topics(timeout=20).topics if name.startswith(f"{shop.place.name}.")
    ]
    consumer.close()
    assert [name for name in left if ".public." in name] == []
