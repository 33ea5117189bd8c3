"""Proofs of a CDCSource, by the program of their pod, with real Debezium in a real Kafka Connect, a real PostgreSQL and a real broker."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from confluent_kafka import Producer

from integration.captures import SOURCE, Capture, run_postgres_lab
from integration.connect_servers import ConnectServers
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.clusterless

READY: tuple[LiteralString, ...] = (
    "CREATE ROLE reader LOGIN REPLICATION",
    f"GRANT CREATE ON DATABASE {DATABASE} TO reader",
    "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT, email TEXT)",
    "CREATE TABLE empty (id INT PRIMARY KEY)",
    "CREATE TABLE log (at INT NOT NULL, line TEXT)",
    "ALTER TABLE log REPLICA IDENTITY FULL",
    "ALTER TABLE orders OWNER TO reader",
    "ALTER TABLE empty OWNER TO reader",
    "ALTER TABLE log OWNER TO reader",
    "INSERT INTO orders SELECT number, 'tea', 'a@example.com' FROM generate_series(1, 500) AS number",
    "INSERT INTO log VALUES (1, 'begin')",
)
SPEC: dict[str, Any] = {
    "keys": [{"table": "public.log", "columns": ["at"]}],
    "columns": {"hash": [{"columns": ["public.orders.email"], "salt": "some-salt"}]},
}


@pytest.fixture(scope="module")
def lab(connect_servers: ConnectServers) -> Iterator[tuple[Postgres, ConnectCluster, Broker]]:
    with run_postgres_lab(READY, connect_servers) as lab:
        yield lab


@pytest.fixture
async def capture(lab: tuple[Postgres, ConnectCluster, Broker]) -> AsyncIterator[Capture]:
    async with Capture(*lab) as capture:
        yield capture


def change_topic(capture: Capture, number: int) -> None:
    """Write a record that the connector has not written: the row is another one in the topic."""
    records = {
        key["id"]: (key, value) for key, value in capture.read_records("orders.public.orders") if value
    }
    key, value = records[number]
    value["after"]["item"] = "not in the database"
    producer = Producer({"bootstrap.servers": capture.broker.bootstrap})
    producer.produce("orders.public.orders", key=json.dumps(key), value=json.dumps(value))
    producer.flush()


def statement_of(message: str) -> Any:
    """Return the statement that a message names."""
    return message.partition("runs: ")[2].partition(";")[0]


async def until_proven(capture: Capture, request: str, **proof: Any) -> tuple[str, str, str]:
    """Have a proof made; return the condition."""
    capture.write(**SPEC, proof={"request": request, "wait": "30s", **proof})

    def is_done(capture: Capture) -> bool:
        found = (capture.get(SOURCE) or {}).get("status", {}).get("proof", {}).get("work", {})
        return bool(found.get("request") == request and found["state"] == "Done")

    await capture.until(is_done, f"proof {request!r}", seconds=120)
    return capture.get_condition(SOURCE, "Proven")


async def test_tables_are_proven_and_a_row_that_differs_is_named(capture: Capture) -> None:
    status, reason, message = await until_proven(capture, "first")
    assert (status, reason) == ("True", "TablesEqual"), message
    assert message.startswith("3 tables with 501 rows equal their topics, at position ")
    proof = (capture.get(SOURCE) or {})["status"]["proof"]["last"]
    assert (proof["tables"], proof["equal"], proof["rows"]) == (3, 3, 501)

    change_topic(capture, 17)
    capture.database.execute("UPDATE orders SET item = 'milk' WHERE id = 18")
    status, reason, message = await until_proven(capture, "without a permission")
    assert (status, reason) == ("Unknown", "ProofUndecided")
    assert message.startswith(
        "2 of 3 tables are equal; public.orders: 1 rows are undecided (the user may not see"
    )
    capture.database.execute(statement_of(message))
    status, reason, message = await until_proven(capture, "with a change")
    assert (status, reason) == ("False", "RowsDiffer"), message
    assert message.endswith("public.orders: 1 rows differ: changed (17): item")
    assert "not in the database" not in json.dumps(capture.get(SOURCE))

    capture.database.execute("UPDATE orders SET item = 'bread' WHERE id = 17")
    status, reason, message = await until_proven(capture, "after the repair", tables=["public.orders"])
    assert (status, reason) == ("True", "TablesEqual"), message
    assert message.startswith("1 tables with 500 rows")


@pytest.mark.chaos  # 6 s; `make test` has it in memory
async def test_a_proof_that_has_no_time_left_keeps_what_it_has_found(capture: Capture) -> None:
    """A table that somebody has locked is waited for; the tables before it are compared."""
    await until_proven(capture, "before")
    with psycopg.connect(capture.database.address) as session:
        session.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        status, reason, message = await until_proven(capture, "locked", timeout="8s")
    assert (status, reason) == ("Unknown", "ProofUndecided"), message
    assert message == "2 of 3 tables are equal; public.orders: the time of spec.proof.timeout was over"
