"""An outbox in MySQL and in MariaDB: events are published if and only if their transaction commits, in order, and once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from integration.captures import MariaDBCapture, MySQLCapture
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.mariadb import MariaDB
from lab.mysql import MySQL

# A database, workers and their crash: half a minute of processor time for each kind.
pytestmark = [pytest.mark.clusterless, pytest.mark.chaos, pytest.mark.timeout(600)]

OUTBOX = """
    CREATE TABLE shop.outbox (id CHAR(36) PRIMARY KEY DEFAULT (UUID()), aggregatetype VARCHAR(60) NOT NULL, aggregateid VARCHAR(60) NOT NULL,
        type VARCHAR(60) NOT NULL, payload JSON NOT NULL)
"""
EVENT = "INSERT INTO shop.outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', %s, 'OrderPlaced', JSON_OBJECT('number', %s))"
FIELDS: dict[str, Any] = {
    "tables": {"include": ["shop.orders", "shop.outbox"]},
    "outbox": {"table": "shop.outbox"},
    "delivery": "ExactlyOnce",
}


@pytest.fixture(params=[MySQL, MariaDB], ids=["MySQL", "MariaDB"])
async def capture(request: pytest.FixtureRequest) -> AsyncIterator[MariaDBCapture]:
    kind = MySQLCapture if request.param is MySQL else MariaDBCapture
    with (
        Broker() as broker,
        request.param() as database,
        ConnectCluster(broker.bootstrap, plugins=(kind.kind,)) as workers,
    ):
        for statement in (
            "CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, item TEXT)", OUTBOX,
            "CREATE USER reader IDENTIFIED BY 'geheim'", "GRANT SELECT ON shop.* TO reader",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO reader",
        ):  # fmt: skip
            database.execute(statement)
        async with kind(database, workers, broker) as capture:
            yield capture


def order(database: MariaDB, number: int, *, is_rolled_back: bool = False) -> None:
    """Insert an order with its event in one transaction; the row of the event is deleted in it."""
    with database.connect() as connection, connection.cursor() as cursor:
        connection.begin()
        cursor.execute("INSERT INTO shop.orders VALUES (%s, 'tea')", (number,))
        cursor.execute(EVENT, (str(number % 7), number))
        cursor.execute("DELETE FROM shop.outbox")
        connection.rollback() if is_rolled_back else connection.commit()


async def test_events_are_where_the_transactions_are(capture: MariaDBCapture) -> None:
    database = capture.database
    database.execute(EVENT, "0", 0)
    capture.write(**FIELDS)
    await capture.until_reason("ConnectorRunning", seconds=90)
    database.execute("DELETE FROM shop.outbox")
    for number in range(1, 50):
        order(database, number)
        order(database, -number, is_rolled_back=True)
    capture.workers.kill()
    for number in range(50, 100):
        order(database, number)
    capture.workers.start()
    await capture.until_reason("ConnectorRunning", seconds=120)
    await capture.until(
        lambda it: len(it.read_records("orders.order")) >= 100, "all events are there", seconds=90
    )
    order(database, 100)
    await capture.until(
        lambda it: it.read_records("orders.order")[-1][1] == {"number": 100}, "the last event", seconds=60
    )
    assert capture.read_records("orders.order") == [
        (str(number % 7), {"number": number}) for number in range(101)
    ]
    assert capture.read_records("orders.shop.outbox") == []
    await capture.until_equal()
