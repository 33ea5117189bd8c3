"""A CDCSource of MariaDB from a manifest to its deletion, with real Debezium in a real Kafka Connect, a real MariaDB and a real broker."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from fakes.context import build_secret
from integration.captures import REF, SOURCE, MariaDBCapture
from integration.connect_servers import ConnectServers, leave_nothing
from lab import pki
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.mariadb import MariaDB
from lab.shell import wait_until

pytestmark = [pytest.mark.clusterless, pytest.mark.timeout(400)]

EXPIRED, HISTORY = "after it expired", "connect.shop.main.orders.schemas"
POLICIES: dict[str, Any] = {"deletionPolicy": "Delete", "topicDeletionPolicy": "Delete"}


def fill(database: MariaDB, first: int, last: int, item: str) -> None:
    """Insert rows in one transaction."""
    with database.connect() as connection, connection.cursor() as cursor:
        rows = [(number, item) for number in range(first, last + 1)]
        cursor.executemany("INSERT INTO shop.orders VALUES (%s, %s)", rows)


def cut_connections(database: MariaDB) -> None:
    """End all connections of the connector."""
    for (number,) in database.execute("SELECT id FROM information_schema.processlist WHERE user = 'reader'"):
        with contextlib.suppress(pymysql.MySQLError):  # it has ended meanwhile
            database.execute("KILL %s", number)


@pytest.fixture(scope="module")
def lab(connect_servers: ConnectServers) -> Iterator[tuple[MariaDB, ConnectCluster, Broker]]:
    with MariaDB(sql_mode="NO_ZERO_DATE") as database, leave_nothing(connect_servers):
        yield database, *connect_servers


@pytest.fixture
async def capture(lab: tuple[MariaDB, ConnectCluster, Broker]) -> AsyncIterator[MariaDBCapture]:
    database = lab[0]
    database.execute("CREATE DATABASE shop")
    database.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY, item TEXT)")
    fill(database, 1, 500, "tea")
    database.execute("CREATE USER reader IDENTIFIED BY 'geheim'")
    database.execute("GRANT SELECT ON shop.* TO reader")
    database.execute("GRANT REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO reader")
    async with MariaDBCapture(*lab) as capture:
        yield capture


@pytest.mark.chaos  # 30 s of processor time; `make test` has the life of a PostgreSQL source, and a MariaDB one below
async def test_the_life_of_a_source(capture: MariaDBCapture) -> None:
    """One test, as each part needs what the one before has left."""
    await _become_ready(capture)
    await _follow_changes(capture)
    await _follow_a_new_column(capture)
    await _survive_a_worker(capture)
    await _prove_the_table(capture)
    await _notice_an_expired_log(capture)
    await _notice_a_reset_log(capture)
    await _be_deleted(capture)


async def _become_ready(capture: MariaDBCapture) -> None:
    """The check names the statement that the server lacks; once it was run, the rows arrive, and once only."""
    capture.write(**POLICIES)
    message = await capture.until_reason("DatabaseNotReady")
    statement = message.partition("; run: ")[2].partition(";")[0]
    assert statement == "GRANT BINLOG MONITOR ON *.* TO `reader`@`%`"
    capture.database.execute(statement)
    await capture.until_reason("ConnectorRunning", seconds=90)
    await capture.until_equal()
    assert capture.count_operations("r") == 500
    topic = (capture.get(SOURCE) or {})["status"]["schemaTopic"]
    assert topic["name"] == HISTORY
    admin = AdminClient({"bootstrap.servers": capture.broker.bootstrap})
    (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, HISTORY)]).values()
    configs = {name: each.value for name, each in found.result(10).items()}
    assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", "-1")


async def _follow_changes(capture: MariaDBCapture) -> None:
    database = capture.database
    fill(database, 501, 600, "milk")
    database.execute("UPDATE shop.orders SET item = 'bread' WHERE id % 7 = 0")
    database.execute("DELETE FROM shop.orders WHERE id % 11 = 0")
    await capture.until_equal()
    capture.write(**POLICIES, state="Stopped")
    await capture.until_reason("ConnectorStopped")
    fill(database, 701, 800, "while stopped")
    database.execute("FLUSH BINARY LOGS")
    capture.write(**POLICIES)
    await capture.until_reason("ConnectorRunning")
    await capture.until_equal()


async def _follow_a_new_column(capture: MariaDBCapture) -> None:
    """Rows of before the change are decoded by the schema of before, rows after it have the column."""
    database = capture.database
    capture.write(**POLICIES, state="Stopped")
    await capture.until_reason("ConnectorStopped")
    database.execute("INSERT INTO shop.orders VALUES (1001, 'before')")
    database.execute("ALTER TABLE shop.orders ADD COLUMN price DECIMAL(8, 2) FIRST")
    database.execute("INSERT INTO shop.orders VALUES (12.5, 1002, 'after')")
    capture.write(**POLICIES, decimals="Text")
    await capture.until_equal()
    values = {key["id"]: value for key, value in capture.read_records(capture.topic) if value is not None}
    assert "price" not in values[1001]["after"]
    assert values[1002]["after"] == {"id": 1002, "item": "after", "price": "12.50"}


async def _survive_a_worker(capture: MariaDBCapture) -> None:
    """A worker that is killed, and a connection that is cut: no change is lost, and no snapshot is taken again."""
    database = capture.database
    database.execute("INSERT INTO shop.orders SELECT NULL, id + 2000, 'x' FROM shop.orders WHERE id < 100")
    capture.workers.kill()
    await capture.until_reason("ConnectUnavailable")
    database.execute("UPDATE shop.orders SET item = 'y' WHERE id > 2050")
    capture.workers.start()
    await capture.until_reason("ConnectorRunning", seconds=90)
    cut_connections(database)
    database.execute("INSERT INTO shop.orders VALUES (NULL, 3000, 'after the cut')")
    await capture.until_equal()
    await capture.until_reason("ConnectorRunning", seconds=90)
    assert capture.count_operations("r") == 500


async def _stop(capture: MariaDBCapture, **fields: Any) -> None:
    """Stop the connector, once a check has seen the log with its position."""
    capture.write(**POLICIES, **fields, state="Stopped")
    await capture.until_reason("ConnectorStopped")
    file, position = capture.database.execute("SHOW MASTER STATUS")[0][:2]
    await capture.until(
        lambda it: read_log(it).get("end", {}).get("position") == position, "the log is checked"
    )
    binlog = read_log(capture)
    assert binlog["end"]["file"] == file
    assert binlog["end"]["gtids"].startswith("0-1-")
    assert binlog["retainedBytes"] > 500
    assert capture.get_condition(SOURCE)[1] == "ConnectorStopped", "a log that is as it was is no loss"


def read_log(capture: MariaDBCapture) -> dict[str, Any]:
    """Return the log in the status."""
    found: dict[str, Any] = (capture.get(SOURCE) or {})["status"].get("binlog") or {}
    return found


async def _recover(capture: MariaDBCapture, request: str) -> None:
    """A new snapshot has all rows once more, and the changes after it follow."""
    before = capture.count_operations("r")
    capture.write(**POLICIES, snapshot={"request": request})
    await capture.until_reason("ConnectorRunning", seconds=90)
    await capture.until_equal()
    assert capture.count_operations("r") == before + len(capture.read_table())
    ((number,),) = capture.database.execute("SELECT max(id) + 1 FROM shop.orders")
    capture.database.execute("INSERT INTO shop.orders VALUES (NULL, %s, 'after the loss')", number)
    await capture.until_equal()


async def _prove_the_table(capture: MariaDBCapture) -> None:
    """By the program of the pod, with the user of the connector."""
    capture.write(**POLICIES, decimals="Text", proof={"request": "now", "wait": "30s"})
    await capture.until(
        lambda it: it.get_condition(SOURCE, "Proven")[1] not in ("", "NotProvenYet"), "a proof", seconds=90
    )
    status, reason, message = capture.get_condition(SOURCE, "Proven")
    assert (status, reason) == ("True", "TablesEqual"), message
    assert "at position binlog.0" in message


async def _notice_an_expired_log(capture: MariaDBCapture) -> None:
    """The server removed the file with the position while the connector was stopped."""
    await _stop(capture)
    database = capture.database
    database.execute("INSERT INTO shop.orders VALUES (NULL, 4000, 'lost')")
    database.execute("FLUSH BINARY LOGS")
    newest = database.execute("SHOW MASTER STATUS")[0][0]

    def purge() -> bool:
        """Remove the files, as soon as the server has noticed that nobody reads them any more."""
        cut_connections(database)
        database.execute("PURGE BINARY LOGS TO %s", newest)
        return bool(database.execute("SHOW BINARY LOGS")[0][0] == newest)

    wait_until(purge, "the files are removed", seconds=20)
    message = await capture.until_reason("ChangesLost")
    assert f"the binary log begins with {newest}" in message
    await _recover(capture, EXPIRED)


async def _notice_a_reset_log(capture: MariaDBCapture) -> None:
    """The log begins again, with files and transactions of the same names: Debezium itself would continue, and miss what is between."""
    await _stop(capture, snapshot={"request": EXPIRED})
    database = capture.database
    before = database.execute("SHOW MASTER STATUS")[0]
    database.execute("RESET MASTER")
    last = int(database.execute("SELECT count(*) FROM shop.orders")[0][0])
    while database.execute("SHOW MASTER STATUS")[0][0] < before[0]:
        database.execute("FLUSH BINARY LOGS")
    for number in range(5000, 5000 + last):
        database.execute("INSERT INTO shop.orders VALUES (NULL, %s, 'of another log')", number)
    message = await capture.until_reason("ChangesLost")
    assert "it was reset, or is that of another server" in message
    await _recover(capture, "after the reset")


async def _be_deleted(capture: MariaDBCapture) -> None:
    capture.cluster.remove(REF)
    await capture.until(lambda it: it.get(SOURCE) is None, "it is deleted")
    await capture.until_no_connector()
    assert capture.read_records(capture.topic) == []
    topics = AdminClient({"bootstrap.servers": capture.broker.bootstrap}).list_topics(timeout=10).topics
    assert HISTORY not in topics


async def test_the_certificate_of_the_server_is_verified_by_check_and_connector(
    lab: tuple[MariaDB, ConnectCluster, Broker], tmp_path: Path
) -> None:
    _, workers, broker = lab
    pki.make_authority(tmp_path, "databases")
    # Debezium verifies the name that the address resolves to when it reads the binary log.
    pki.make_certificate(tmp_path, "server", "/CN=database", "IP:127.0.0.1,DNS:localhost")
    files = {"ssl_cert": "server.crt", "ssl_key": "server.key", "ssl_ca": "ca.crt"}
    settings = {name: str(tmp_path / file) for name, file in files.items()}
    with MariaDB(**settings) as database:
        database.execute("CREATE DATABASE shop")
        database.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY, item TEXT)")
        fill(database, 1, 3, "tea")
        database.execute("CREATE USER reader IDENTIFIED BY 'geheim' REQUIRE SSL")
        database.execute("GRANT SELECT ON shop.* TO reader")
        grants = "BINLOG MONITOR, REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES"
        database.execute(f"GRANT {grants} ON *.* TO reader")
        async with MariaDBCapture(database, workers, broker) as capture:
            capture.cluster.put(build_secret("ca", ca_crt=(tmp_path / "ca.crt").read_text()))
            capture.write(tls=True, **POLICIES)
            await capture.until_reason("ConnectorRunning", seconds=120)
            fill(database, 4, 6, "milk")
            await capture.until_equal()
            capture.cluster.remove(REF)
            await capture.until(lambda it: it.get(SOURCE) is None, "it is deleted")
