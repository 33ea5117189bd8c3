"""Snapshots of some tables of MariaDB and MySQL, requested of a CDCSource that runs, with real Debezium, servers and Kafka."""

import re
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import pytest

from integration.captures import SOURCE, MariaDBCapture, MySQLCapture
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.mariadb import MariaDB
from lab.mysql import MySQL

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos, pytest.mark.timeout(600)]

ROWS = 3000
GRANTS = "REPLICATION CLIENT, REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES"
PREPARE = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, item VARCHAR(100))",
    "CREATE TABLE shop.`lines$2` (a INT, b VARCHAR(20), item VARCHAR(20), PRIMARY KEY (a, b))",
    "CREATE TABLE shop.`no key` (item VARCHAR(20))",
    "CREATE USER reader IDENTIFIED BY 'geheim'",
    "GRANT SELECT ON shop.* TO reader",
    f"GRANT {GRANTS} ON *.* TO reader",
)
SLOW = (
    "CREATE TRIGGER shop.wait BEFORE INSERT ON shop.kappa_signals FOR EACH ROW"
    " BEGIN IF NEW.type = 'snapshot-window-open' THEN DO SLEEP(1); END IF; END"
)
"""Each chunk of rows takes a moment, so that a snapshot can be seen while it runs."""
BASE: dict[str, Any] = {
    "tables": {"include": ["shop.orders", "shop.lines$2"]},
    "config": {"poll.interval.ms": 100, "incremental.snapshot.chunk.size": 100},
}
WITH_SIGNALS = {**BASE, "signalTable": "shop.kappa_signals"}


@pytest.fixture(params=["mariadb", "mysql"])
async def capture(request: pytest.FixtureRequest) -> AsyncIterator[MariaDBCapture]:
    is_mysql = request.param == "mysql"
    with ExitStack() as stack:
        broker = stack.enter_context(Broker())
        database = stack.enter_context(MySQL() if is_mysql else MariaDB())
        workers = stack.enter_context(ConnectCluster(broker.bootstrap, plugins=(request.param,)))
        for statement in PREPARE:
            database.execute(statement)
        with database.connect() as connection, connection.cursor() as cursor:
            orders = [(number, "100%") for number in range(1, ROWS + 1)]
            cursor.executemany("INSERT INTO shop.orders VALUES (%s, %s)", orders)
            lines = [(number, f"it's \\{number}", "tea") for number in range(500)]
            cursor.executemany("INSERT INTO shop.`lines$2` VALUES (%s, %s, %s)", lines)
        kind = MySQLCapture if is_mysql else MariaDBCapture
        async with kind(database, workers, broker) as capture:
            yield capture


def incremental(capture: MariaDBCapture) -> dict[str, Any]:
    status: dict[str, Any] = (capture.get(SOURCE) or {}).get("status", {})
    found: dict[str, Any] = status.get("incremental") or {}
    return found


def ask(capture: MariaDBCapture, request: str, *tables: dict[str, Any], **fields: Any) -> None:
    asked = {"request": request, "tables": list(tables), **fields}
    capture.write(**WITH_SIGNALS, snapshot={"incremental": asked})


async def until_state(capture: MariaDBCapture, request: str, state: str) -> dict[str, Any]:
    await capture.until(
        lambda it: (incremental(it).get("request"), incremental(it).get("state")) == (request, state),
        f"{request} is {state}",
        seconds=120.0,
    )
    return incremental(capture)


def count_read(capture: MariaDBCapture, table: str) -> int:
    """Return how many events of incremental snapshots there are."""
    records = capture.read_records(f"orders.shop.{table}")
    return sum(value is not None and value["source"].get("snapshot") == "incremental" for _, value in records)


async def test_the_life_of_requests(capture: MariaDBCapture) -> None:
    """One test, as each part needs what the one before has left."""
    capture.write(**BASE)
    await capture.until_reason("ConnectorRunning", seconds=120)
    await capture.until_equal()
    await _add_a_signal_table(capture)
    await _read_some_rows(capture)
    await _survive_a_worker(capture)
    await _be_stopped(capture)
    await _survive_two_deaths(capture)
    await _refuse_a_change_until_it_is_accepted(capture)
    await _refuse_what_debezium_would_pass_over(capture)


async def _add_a_signal_table(capture: MariaDBCapture) -> None:
    """To a source that runs: the connector knows no table that was created while it did not read it."""
    capture.write(**WITH_SIGNALS)
    await capture.until(
        lambda it: it.get_condition(SOURCE, "DatabaseReady")[1] == "DatabaseNotReady", "no table", seconds=60
    )
    message = capture.get_condition(SOURCE, "DatabaseReady")[2]
    for statement in message.partition("; run: ")[2].split(";"):
        if statement.strip():
            capture.database.execute(statement)
    capture.database.execute(SLOW)
    await capture.until(
        lambda it: it.get_condition(SOURCE, "DatabaseReady")[0] == "True", "a table", seconds=60
    )


async def _read_some_rows(capture: MariaDBCapture) -> None:
    """Conditions reach the database as values, also with signs that formats or lists use."""
    where = [
        {"column": "id", "operator": "Greater", "value": "2500"},
        {"column": "item", "operator": "Equal", "value": "100%"},
    ]
    odd = [{"column": "b", "operator": "Equal", "value": "it's \\7"}]
    ask(capture, "some", {"table": "shop.orders", "where": where}, {"table": "shop.lines$2", "where": odd})
    capture.database.execute("UPDATE shop.orders SET item = 'new' WHERE id = %s", ROWS)
    await until_state(capture, "some", "Done")
    assert (count_read(capture, "orders"), count_read(capture, "lines_2")) == (499, 1)
    await capture.until_equal()


async def _survive_a_worker(capture: MariaDBCapture) -> None:
    """A worker is killed while rows are read and change: all are read, and each row is the last one."""
    database = capture.database
    ask(capture, "all", {"table": "shop.orders"})
    await until_state(capture, "all", "Running")
    database.execute("UPDATE shop.orders SET item = 'before the death' WHERE id % 3 = 0")
    capture.workers.kill()
    database.execute("UPDATE shop.orders SET item = 'meanwhile' WHERE id % 5 = 0")
    database.execute("DELETE FROM shop.orders WHERE id % 7 = 0")
    capture.workers.start()
    await until_state(capture, "all", "Done")
    await capture.until_equal()
    records = capture.read_records(capture.topic)
    read = {key["id"] for key, value in records if value and value["source"].get("snapshot") == "incremental"}
    assert read >= capture.read_table().keys()
    positions = [
        (value["source"]["server_id"], value["source"]["file"], value["source"]["pos"])
        for _, value in records
        if value is not None and value["op"] != "r"
    ]
    assert positions == sorted(positions)


async def _be_stopped(capture: MariaDBCapture) -> None:
    capture.database.execute("DROP TRIGGER shop.wait")
    capture.database.execute(SLOW.replace("SLEEP(1)", "SLEEP(5)"))
    before = count_read(capture, "orders")
    ask(capture, "stopped", {"table": "shop.orders"})
    await until_state(capture, "stopped", "Running")
    ask(capture, "stopped", {"table": "shop.orders"}, stop=True)
    await until_state(capture, "stopped", "Stopped")
    assert count_read(capture, "orders") < before + len(capture.read_table())
    await capture.until_equal()


async def _survive_two_deaths(capture: MariaDBCapture) -> None:
    """The second one before the connector has read rows again, when Debezium stores a position without the tables that are left."""
    before, database = len(capture.read_records(capture.topic)), capture.database
    ask(capture, "twice", {"table": "shop.orders"})
    await capture.until(lambda it: (incremental(it)["request"], incremental(it).get("rowsDone", 0) > 0) == ("twice", True), "rows were read", seconds=120.0)  # fmt: skip
    capture.workers.kill()
    for number in range(20):
        database.execute("UPDATE shop.orders SET item = %s", f"round {number}")
    capture.workers.start()
    await capture.until(lambda it: "after a restart" in incremental(it)["message"], "no tables", seconds=90.0)
    capture.workers.kill()
    database.execute("DROP TRIGGER shop.wait")
    capture.workers.start()
    await capture.until(lambda it: incremental(it)["state"] == "Done", "twice is done", seconds=240.0)
    assert any("is requested again" in each for each in capture.list_events("IncrementalSnapshot"))
    records = capture.read_records(capture.topic)[before:]
    read = {key["id"] for key, value in records if value and value["source"].get("snapshot") == "incremental"}
    assert read >= capture.read_table().keys()
    await capture.until_equal()


async def _refuse_a_change_until_it_is_accepted(capture: MariaDBCapture) -> None:
    """The connector is stopped meanwhile, and reads what was written then by the new names."""
    database = capture.database
    capture.write(**WITH_SIGNALS, schemaChanges={"policy": "Refuse"})
    database.execute("ALTER TABLE shop.`lines$2` CHANGE item label VARCHAR(30)")
    message = await capture.until_reason("SchemaRefused", seconds=60)
    assert "table shop.lines$2: column item was renamed to label" in message
    database.execute("INSERT INTO shop.`lines$2` VALUES (1000, 'new', 'bread')")
    (accepted,) = re.findall(r"spec\.schemaChanges\.accept to (\w+)", message)
    capture.write(**WITH_SIGNALS, schemaChanges={"policy": "Refuse", "accept": accepted}, offsets={"request": "list"})  # fmt: skip
    await capture.until_reason("ConnectorRunning", seconds=120)
    wanted = {"a": 1000, "b": "new", "label": "bread"}

    def list_rows(it: MariaDBCapture) -> list[Any]:
        return [value and value["after"] for _, value in it.read_records("orders.shop.lines_2")]

    await capture.until(lambda it: wanted in list_rows(it), "the row with the new name", seconds=60)
    await capture.until(lambda it: it.read_offsets("list"), "the position is reported")
    assert capture.read_offsets("list")["position"]["file"].startswith("binlog.0")


async def _refuse_what_debezium_would_pass_over(capture: MariaDBCapture) -> None:
    where = [{"column": "gone", "operator": "Equal", "value": "1"}]
    ask(capture, "bad", {"table": "shop.orders", "where": where})
    assert "cannot evaluate the condition" in (await until_state(capture, "bad", "Failed"))["message"]
    capture.database.execute("REVOKE INSERT ON shop.kappa_signals FROM reader")
    ask(capture, "denied", {"table": "shop.orders"})
    assert (
        "may not write to shop.kappa_signals" in (await until_state(capture, "denied", "Failed"))["message"]
    )


async def test_a_signal_table_from_before_its_field_fails_until_a_new_snapshot(
    capture: MariaDBCapture,
) -> None:
    """The connector has not recorded its schema, as it did not capture the table when that was created."""
    capture.write(**BASE)
    await capture.until_reason("ConnectorRunning", seconds=120)
    capture.database.execute(
        "CREATE TABLE shop.kappa_signals (id VARCHAR(128) PRIMARY KEY, type VARCHAR(64) NOT NULL, data TEXT)"
    )
    capture.database.execute("GRANT SELECT, INSERT, DELETE ON shop.kappa_signals TO reader")
    capture.database.execute("INSERT INTO shop.orders VALUES (4000, 'behind the table')")
    await capture.until_equal()
    capture.write(**WITH_SIGNALS)
    await capture.until_reason("ConnectorRunning", seconds=120)
    ask(capture, "one", {"table": "shop.orders"})
    await capture.until_reason("ConnectorFailed", seconds=120)
    capture.write(**WITH_SIGNALS, snapshot={"request": "again"})
    await capture.until_reason("ConnectorRunning", seconds=120)
    two = {"request": "two", "tables": [{"table": "shop.orders"}]}
    capture.write(**WITH_SIGNALS, snapshot={"request": "again", "incremental": two})
    await until_state(capture, "two", "Done")
    await capture.until_equal()
