"""A CDCSource from a manifest to its deletion, with real Debezium in a real Kafka Connect, a real PostgreSQL and a real broker."""

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from fakes.context import build_secret
from integration.captures import REF, SOURCE, Capture, run_postgres_lab
from integration.connect_servers import ConnectServers
from kappa_operator.engine.keys import ObjectRef
from lab import pki
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.clusterless

READY: tuple[LiteralString, ...] = (
    "CREATE ROLE reader LOGIN",
    f"GRANT CREATE ON DATABASE {DATABASE} TO reader",
    "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)",
    "ALTER TABLE orders OWNER TO reader",
    "INSERT INTO orders SELECT number, 'tea' FROM generate_series(1, 500) AS number",
)


@pytest.fixture(scope="module")
def lab(connect_servers: ConnectServers) -> Iterator[tuple[Postgres, ConnectCluster, Broker]]:
    with run_postgres_lab(READY, connect_servers) as lab:
        yield lab


@pytest.fixture
async def capture(lab: tuple[Postgres, ConnectCluster, Broker]) -> AsyncIterator[Capture]:
    async with Capture(*lab) as capture:
        yield capture


def run_statements(database: Postgres, message: str) -> None:
    """Do what the condition says, as the administrator."""
    statements = message.partition("; run: ")[2].rpartition(";")[0]
    with psycopg.connect(database.address, autocommit=True) as admin:
        admin.execute(statements.encode())


async def test_the_life_of_a_source(capture: Capture) -> None:
    """One test, as each part needs what the one before has left."""
    await _become_ready(capture)
    await _follow_changes(capture)
    await _survive_a_worker(capture)
    await _notice_a_lost_slot(capture)
    await _be_deleted(capture)


async def _become_ready(capture: Capture) -> None:
    """The check names the statement that the database lacks; once it was run, the rows arrive, and once only."""
    capture.write(deletionPolicy="Delete", topicDeletionPolicy="Delete")
    message = await capture.until_reason("DatabaseNotReady")
    assert 'run: ALTER ROLE "reader" REPLICATION;' in message
    run_statements(capture.database, message)
    await capture.until_reason("ConnectorRunning", seconds=90)
    await capture.until_equal()
    assert capture.count_operations("r") == 500
    assert capture.list_slots() == [(await capture.rest.get_config(capture.access, "orders"))["slot.name"]]


async def _follow_changes(capture: Capture) -> None:
    database = capture.database
    database.execute("INSERT INTO orders SELECT n, 'milk' FROM generate_series(501, 600) AS n")
    database.execute("UPDATE orders SET item = 'bread' WHERE id % 7 = 0")
    database.execute("DELETE FROM orders WHERE id % 11 = 0")
    await capture.until_equal()
    capture.write(deletionPolicy="Delete", topicDeletionPolicy="Delete", state="Stopped")
    await capture.until_reason("ConnectorStopped")
    database.execute("INSERT INTO orders SELECT n, 'while stopped' FROM generate_series(701, 800) AS n")
    capture.write(deletionPolicy="Delete", topicDeletionPolicy="Delete")
    await capture.until_reason("ConnectorRunning")
    await capture.until_equal()
    slot = (capture.get(SOURCE) or {})["status"]["slot"]
    assert slot["name"] == capture.list_slots()[0]
    assert slot["system"]
    assert slot["timeline"] == 1


async def _survive_a_worker(capture: Capture) -> None:
    """A worker that is killed, and a connection that is cut: no change is lost, and no snapshot is taken again."""
    capture.database.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(801, 900) AS n")
    capture.workers.kill()
    await capture.until_reason("ConnectUnavailable")
    capture.database.execute("UPDATE orders SET item = 'y' WHERE id > 850")
    capture.workers.start()
    await capture.until_reason("ConnectorRunning", seconds=90)
    capture.database.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
    capture.database.execute("INSERT INTO orders VALUES (1000, 'after the cut')")
    await capture.until_equal()
    await capture.until_reason("ConnectorRunning", seconds=90)
    assert capture.count_operations("r") == 500


async def _notice_a_lost_slot(capture: Capture) -> None:
    policies: dict[str, Any] = {"deletionPolicy": "Delete", "topicDeletionPolicy": "Delete"}
    capture.write(**policies, state="Stopped")
    await capture.until_reason("ConnectorStopped")
    (slot,) = capture.list_slots()
    capture.database.execute("SELECT pg_drop_replication_slot(%s)", slot)
    capture.database.execute("INSERT INTO orders VALUES (2000, 'lost')")
    capture.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", slot)
    message = await capture.until_reason("ChangesLost")
    assert "it was created again or moved" in message
    capture.write(**policies, snapshot={"request": "after the loss"})
    await capture.until_reason("ConnectorRunning", seconds=90)
    await capture.until_equal()
    assert capture.count_operations("r") == 500 + len(capture.read_table())


async def _be_deleted(capture: Capture) -> None:
    capture.cluster.remove(REF)
    await capture.until(lambda it: it.get(SOURCE) is None, "it is deleted")
    assert capture.list_slots() == []
    assert capture.database.query("SELECT pubname FROM pg_publication") == []
    await capture.until_no_connector()
    assert capture.read_records("orders.public.orders") == []


HBA = """host all postgres 127.0.0.1/32 trust
hostssl all reader 127.0.0.1/32 scram-sha-256
"""
LOGIN = ObjectRef("v1", "Secret", "shop", "login")


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Postgres]:
    """Yield a server that admits the user of the connector only with TLS and its password."""
    pki.make_authority(tmp_path, "databases")
    pki.make_certificate(tmp_path, "server", "/CN=database", "IP:127.0.0.1")
    (tmp_path / "server.key").chmod(0o600)
    (tmp_path / "hba.conf").write_text(HBA)
    files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "hba_file": "hba.conf"}
    settings = {name: str(tmp_path / file) for name, file in files.items()}
    with Postgres(ssl="on", **settings) as database:
        database.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'geheim'")
        database.execute(f"GRANT CREATE ON DATABASE {DATABASE} TO reader")
        database.execute("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT, email TEXT, phone TEXT)")
        database.execute("ALTER TABLE orders OWNER TO reader")
        database.execute("INSERT INTO orders VALUES (1, 'tea', 'a@example.com', '0123456789')")
        yield database


async def test_tls_a_password_and_columns_that_are_hidden(
    lab: tuple[Postgres, ConnectCluster, Broker], secured: Postgres, tmp_path: Path
) -> None:
    _, workers, broker = lab
    async with Capture(secured, workers, broker) as capture:
        capture.cluster.put(build_secret("ca", ca_crt=(tmp_path / "ca.crt").read_text()))
        wrong = base64.b64encode(b"wrong").decode()
        right = (capture.cluster.read(LOGIN) or {})["data"]["password"]
        capture.cluster.patch(LOGIN, data={"password": wrong})
        columns = {
            "mask": [{"columns": ["public.orders.phone"], "length": 4}],
            "hash": [{"columns": ["*.orders.email"], "salt": "some-salt"}],
        }
        fields: dict[str, Any] = {"columns": columns, "topicPrefix": "secured"}
        capture.write(tls=True, deletionPolicy="Delete", topicDeletionPolicy="Delete", **fields)
        message = await capture.until_reason("DatabaseUnreachable")
        assert "refused the user or the password" in message
        capture.cluster.patch(LOGIN, data={"password": right})
        await capture.until_reason("ConnectorRunning", seconds=150)
        ((_, value),) = capture.read_records("secured.public.orders")
        row = value["after"]
        assert (row["item"], row["phone"]) == ("tea", "****")
        assert row["email"] != "a@example.com"
        assert len(row["email"]) == 64
        uses_tls = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)"
        await capture.until(lambda it: secured.query(uses_tls), "it reads the log after its snapshot")
        assert set(secured.query(uses_tls)) == {(True,)}
        capture.cluster.remove(REF)
        await capture.until(lambda it: it.get(SOURCE) is None, "it is deleted")
        assert capture.list_slots() == []
