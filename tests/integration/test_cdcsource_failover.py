"""A failover of PostgreSQL 17 with a failover slot, with the operator, real Debezium, Kafka Connect and Kafka: the source continues at the new primary."""

import threading
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from integration.captures import SOURCE, Capture
from integration.connect_servers import ConnectServers, leave_nothing
from integration.writers import writing
from lab.postgres import DATABASE, Postgres17, Standby

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos, pytest.mark.timeout(400)]  # a minute

READY: tuple[LiteralString, ...] = (
    "CREATE ROLE reader LOGIN REPLICATION",
    f"GRANT CREATE ON DATABASE {DATABASE} TO reader",
    "CREATE TABLE orders (id SERIAL PRIMARY KEY, item TEXT)",
    "ALTER TABLE orders OWNER TO reader",
    "INSERT INTO orders (item) SELECT 'tea' FROM generate_series(1, 500)",
)
SYNCED: LiteralString = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE synced AND NOT temporary AND slot_name LIKE 'kappa%'"


@pytest.fixture
def servers(connect_servers: ConnectServers) -> Iterator[tuple[Postgres17, Standby]]:
    with Postgres17(synchronized_standby_slots="standby") as primary:
        for statement in READY:
            primary.execute(statement)
        with Standby(primary) as standby, leave_nothing(connect_servers):
            yield primary, standby


def write(database: Postgres17, stop: threading.Event) -> None:
    """Insert, change and delete rows, each in a transaction, until the server is gone."""
    try:
        with psycopg.connect(database.address, autocommit=True) as connection:
            while not stop.is_set():
                ((last,),) = connection.execute("INSERT INTO orders (item) VALUES ('milk') RETURNING id").fetchall()  # fmt: skip
                connection.execute("UPDATE orders SET item = 'bread' WHERE id = %s", (last - 7,))
                connection.execute("DELETE FROM orders WHERE id = %s AND id %% 3 = 0", (last - 20,))
    except psycopg.OperationalError:
        return


def read_status(capture: Capture) -> dict[str, Any]:
    found: dict[str, Any] = (capture.get(SOURCE) or {}).get("status", {})
    return found


def is_synchronized(primary: Postgres17, standby: Standby) -> bool:
    """Return whether the standby has the slot. It gets one that is behind it only once the connector has read further."""
    primary.execute("INSERT INTO orders (item) VALUES ('on the way')")
    primary.execute("SELECT pg_log_standby_snapshot()")
    return bool(standby.query(SYNCED))


def read_ready(capture: Capture) -> str:
    return capture.get_condition(SOURCE, "DatabaseReady")[2]


async def test_a_source_continues_at_a_standby_that_is_promoted_during_writes(
    connect_servers: ConnectServers, servers: tuple[Postgres17, Standby]
) -> None:
    primary, standby = servers
    async with Capture(primary, *connect_servers) as capture:
        capture.write(failover=True)
        await capture.until_reason("ConnectorRunning", seconds=90)
        await capture.until(lambda _: is_synchronized(primary, standby), "the standby has the slot")
        await capture.until(lambda it: "slot" in read_status(it), "a check saw the slot")
        before = read_status(capture)
        assert before["slot"]["failover"] is True
        with writing(lambda _, stop: write(primary, stop)):
            await capture.until(lambda it: it.count_operations("c") > 100, "changes arrive")
            primary.kill()
        await capture.until(lambda it: it.get_condition(SOURCE)[0] == "False", "the failure is noticed", 60)
        standby.promote()
        capture.database = standby
        awaited = "It names slot standby, which does not exist."
        await capture.until(
            lambda it: awaited in read_ready(it), "the setting of the former primary is found"
        )
        for statement in read_ready(capture).partition("; run: ")[2].split(";")[:2]:
            with psycopg.connect(standby.address, autocommit=True) as admin:
                admin.execute(statement.encode())
        standby.execute("INSERT INTO orders (item) VALUES ('after the failover')")
        await capture.until_reason("ConnectorRunning", seconds=120)
        await capture.until_equal()
        standby.execute("UPDATE orders SET item = 'again' WHERE id % 5 = 0")
        await capture.until_equal()
        await capture.until(
            lambda it: read_status(it)["slot"]["timeline"] == 2, "a check saw the new primary"
        )
        after = read_status(capture)
        assert after["slot"]["system"] == before["slot"]["system"]
        assert after.get("lost") is None
        assert capture.count_operations("r") == 500
        assert standby.query("SELECT slot_name FROM pg_replication_slots WHERE failover AND active") == [
            (before["slot"]["name"],)
        ]
