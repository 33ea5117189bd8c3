"""A CDCSource of MySQL from a manifest to its deletion, with real Debezium in a real Kafka Connect, a real MySQL and a real broker."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from fakes.context import build_secret
from integration.captures import REF, SOURCE, MySQLCapture
from lab import pki
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.mariadb import MariaDB
from lab.mysql import MySQL
from lab.shell import wait_until

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos, pytest.mark.timeout(600)]

EXPIRED = "after it expired"
POLICIES: dict[str, Any] = {"deletionPolicy": "Delete", "topicDeletionPolicy": "Delete"}


def fill(database: MariaDB, first: int, last: int, item: str) -> None:
    """Insert rows in one transaction."""
    with database.connect() as connection, connection.cursor() as cursor:
        rows = [(number, item) for number in range(first, last + 1)]
        cursor.executemany("INSERT INTO shop.orders (id, item) VALUES (%s, %s)", rows)


def cut_connections(database: MariaDB) -> None:
    """End all connections of the connector."""
    query = "SELECT processlist_id FROM performance_schema.threads WHERE processlist_user = 'reader'"
    for (number,) in database.execute(query):
        with contextlib.suppress(pymysql.MySQLError):  # it has ended meanwhile
            database.execute("KILL %s", number)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the certificate of the server and its authority."""
    folder = tmp_path_factory.mktemp("pki")
    pki.make_authority(folder, "databases")
    pki.make_certificate(folder, "server", "/CN=database", "IP:127.0.0.1,DNS:localhost")
    return folder


@pytest.fixture(params=["ON", "OFF"], ids=["with GTIDs", "without GTIDs"])
def gtid_mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lab(files: Path, gtid_mode: str) -> Iterator[tuple[MySQL, ConnectCluster, Broker]]:
    tls = {"ssl_cert": "server.crt", "ssl_key": "server.key", "ssl_ca": "ca.crt"}
    settings = {name: str(files / file) for name, file in tls.items()}
    settings |= {"gtid_mode": gtid_mode, "enforce_gtid_consistency": gtid_mode}
    with (
        Broker() as broker,
        MySQL(**settings) as database,
        ConnectCluster(broker.bootstrap, plugins=("mysql",)) as workers,
    ):
        yield database, workers, broker


@pytest.fixture
async def capture(lab: tuple[MySQL, ConnectCluster, Broker]) -> AsyncIterator[MySQLCapture]:
    database = lab[0]
    database.execute("CREATE DATABASE shop")
    database.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY, item TEXT)")
    fill(database, 1, 500, "tea")
    database.execute("CREATE USER reader IDENTIFIED BY 'geheim'")
    database.execute("GRANT SELECT ON shop.* TO reader")
    database.execute("GRANT REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO reader")
    async with MySQLCapture(*lab) as capture:
        yield capture


async def test_the_life_of_a_source(capture: MySQLCapture) -> None:
    """One test, as each part needs what the one before has left."""
    await _become_ready(capture)
    await _follow_changes(capture)
    await _follow_a_new_column(capture)
    await _survive_a_worker(capture)
    await _notice_an_expired_log(capture)
    await _notice_a_reset_log(capture)
    await _be_deleted(capture)


async def _become_ready(capture: MySQLCapture) -> None:
    """The check names the statement that the server lacks; once it was run, the rows arrive, and once only."""
    capture.write(**POLICIES)
    message = await capture.until_reason("DatabaseNotReady")
    statement = message.partition("; run: ")[2].partition(";")[0]
    assert statement == "GRANT REPLICATION CLIENT ON *.* TO `reader`@`%`"
    capture.database.execute(statement)
    await capture.until_reason("ConnectorRunning", seconds=90)
    await capture.until_equal()
    assert capture.count_operations("r") == 500


async def _follow_changes(capture: MySQLCapture) -> None:
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


async def _follow_a_new_column(capture: MySQLCapture) -> None:
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


async def _survive_a_worker(capture: MySQLCapture) -> None:
    """A worker or a server that is killed, and a connection that is cut: no change is lost, and no snapshot is taken again."""
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
    database.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    database.restart(graceful=False)
    database.execute("INSERT INTO shop.orders VALUES (NULL, 3001, 'after the crash')")
    await capture.until_equal()
    await capture.until_reason("ConnectorRunning", seconds=90)
    assert capture.count_operations("r") == 500


async def _stop(capture: MySQLCapture, **fields: Any) -> None:
    """Stop the connector, once a check has seen the log with its position."""
    capture.write(**POLICIES, **fields, state="Stopped")
    await capture.until_reason("ConnectorStopped")
    file, position = capture.database.execute("SHOW BINARY LOG STATUS")[0][:2]
    await capture.until(
        lambda it: read_log(it).get("end", {}).get("position") == position, "the log is checked"
    )
    binlog = read_log(capture)
    assert binlog["end"]["file"] == file
    assert binlog["server"] == capture.database.execute("SELECT @@server_uuid")[0][0]
    assert capture.get_condition(SOURCE)[1] == "ConnectorStopped", "a log that is as it was is no loss"


def read_log(capture: MySQLCapture) -> dict[str, Any]:
    """Return the log in the status."""
    found: dict[str, Any] = (capture.get(SOURCE) or {})["status"].get("binlog") or {}
    return found


async def _recover(capture: MySQLCapture, request: str) -> None:
    """A new snapshot has all rows once more, and the changes after it follow."""
    before = capture.count_operations("r")
    capture.write(**POLICIES, snapshot={"request": request})
    await capture.until_reason("ConnectorRunning", seconds=90)
    await capture.until_equal()
    assert capture.count_operations("r") == before + len(capture.read_table())
    ((number,),) = capture.database.execute("SELECT max(id) + 1 FROM shop.orders")
    capture.database.execute("INSERT INTO shop.orders VALUES (NULL, %s, 'after the loss')", number)
    await capture.until_equal()


async def _notice_an_expired_log(capture: MySQLCapture) -> None:
    """The server removed the file with the position while the connector was stopped."""
    await _stop(capture)
    database = capture.database
    database.execute("INSERT INTO shop.orders VALUES (NULL, 4000, 'lost')")
    database.execute("FLUSH BINARY LOGS")
    newest = database.execute("SHOW BINARY LOG STATUS")[0][0]

    def purge() -> bool:
        """Remove the files, as soon as the server has noticed that nobody reads them any more."""
        cut_connections(database)
        database.execute("PURGE BINARY LOGS TO %s", newest)
        return bool(database.execute("SHOW BINARY LOGS")[0][0] == newest)

    wait_until(purge, "the files are removed", seconds=20)
    message = await capture.until_reason("ChangesLost")
    assert f"the binary log begins with {newest}" in message
    await _recover(capture, EXPIRED)


async def _notice_a_reset_log(capture: MySQLCapture) -> None:
    """The log begins again, with files and transactions of the same names, and is longer than it was."""
    await _stop(capture, snapshot={"request": EXPIRED})
    database = capture.database
    before = database.execute("SHOW BINARY LOG STATUS")[0]
    database.execute("RESET BINARY LOGS AND GTIDS")
    while database.execute("SHOW BINARY LOG STATUS")[0][0] < before[0]:
        database.execute("FLUSH BINARY LOGS")
    number = 5000
    while database.execute("SHOW BINARY LOG STATUS")[0][1] <= before[1] + 500:
        number += 1
        database.execute(
            "INSERT INTO shop.orders VALUES (NULL, %s, %s)", number, "another log " + "-" * (number % 17)
        )
    message = await capture.until_reason("ChangesLost")
    assert "it was reset, or is that of another server" in message
    await _recover(capture, "after the reset")


async def _be_deleted(capture: MySQLCapture) -> None:
    capture.cluster.remove(REF)
    await capture.until(lambda it: it.get(SOURCE) is None, "it is deleted")
    await capture.until_no_connector()
    assert capture.read_records(capture.topic) == []


async def test_the_certificate_of_the_server_is_verified_by_check_and_connector(
    capture: MySQLCapture, files: Path
) -> None:
    capture.database.execute("GRANT REPLICATION CLIENT ON *.* TO reader")
    capture.database.execute("ALTER USER reader REQUIRE SSL")
    capture.cluster.put(build_secret("ca", ca_crt=(files / "ca.crt").read_text()))
    capture.write(tls=True, **POLICIES)
    await capture.until_reason("ConnectorRunning", seconds=120)
    fill(capture.database, 1001, 1006, "milk")
    await capture.until_equal()
