"""Requests to a CDCSource that runs: snapshots of some tables and changes of the position, with real Debezium, PostgreSQL and Kafka."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, LiteralString

import pytest

from integration.captures import SOURCE, Capture, run_postgres_lab
from integration.connect_servers import ConnectServers
from integration.test_cdcsource import run_statements
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.clusterless

ROWS = 6000
PREPARE: tuple[LiteralString, ...] = (
    "CREATE ROLE reader LOGIN REPLICATION",
    f"GRANT CREATE ON DATABASE {DATABASE} TO reader",
    "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)",
    'CREATE TABLE "lines$2" (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), item TEXT)',
    "ALTER TABLE orders OWNER TO reader",
    'ALTER TABLE "lines$2" OWNER TO reader',
    "INSERT INTO orders SELECT number, '100%' FROM generate_series(1, 6000) AS number",
    "INSERT INTO \"lines$2\" (item) SELECT 'tea' FROM generate_series(1, 1000)",
)
SLOW: tuple[LiteralString, ...] = (
    "CREATE FUNCTION wait() RETURNS TRIGGER LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$",
    "CREATE TRIGGER wait BEFORE INSERT ON kappa_signals FOR EACH ROW"
    " WHEN (NEW.type = 'snapshot-window-open') EXECUTE FUNCTION wait()",
)
"""Each chunk of rows takes a moment, so that a snapshot can be seen while it runs."""
BASE: dict[str, Any] = {
    "signalTable": "public.kappa_signals",
    "tables": {"include": ["public.*"], "exclude": ["public.kappa_signals"]},
    "config": {"poll.interval.ms": 100, "incremental.snapshot.chunk.size": 100},
}


@pytest.fixture
def lab(connect_servers: ConnectServers) -> Iterator[tuple[Postgres, ConnectCluster, Broker]]:
    with run_postgres_lab(PREPARE, connect_servers) as lab:
        yield lab


@pytest.fixture
async def capture(lab: tuple[Postgres, ConnectCluster, Broker]) -> AsyncIterator[Capture]:
    async with Capture(*lab) as capture:
        yield capture


def incremental(capture: Capture) -> dict[str, Any]:
    status: dict[str, Any] = (capture.get(SOURCE) or {}).get("status", {})
    found: dict[str, Any] = status.get("incremental") or {}
    return found


def ask(capture: Capture, request: str, *tables: dict[str, Any], **fields: Any) -> None:
    capture.write(**BASE, snapshot={"incremental": {"request": request, "tables": list(tables), **fields}})


async def until_state(capture: Capture, request: str, state: str) -> dict[str, Any]:
    await capture.until(
        lambda it: (incremental(it).get("request"), incremental(it).get("state")) == (request, state),
        f"{request} is {state}",
        seconds=90.0,
    )
    return incremental(capture)


def count_read(capture: Capture, table: str) -> int:
    """Return how many events of incremental snapshots there are."""
    records = capture.read_records(f"orders.public.{table}")
    return sum(value is not None and value["source"].get("snapshot") == "incremental" for _, value in records)


def count_signals(capture: Capture) -> int:
    query = "SELECT id FROM kappa_signals WHERE type = 'execute-snapshot'"
    return len(capture.database.query(query))


@pytest.mark.chaos  # more than a minute; test_cdc_send.py has the signals alone
async def test_the_life_of_requests(capture: Capture) -> None:
    """One test, as each part needs what the one before has left."""
    capture.write(**BASE)
    message = await capture.until_reason("DatabaseNotReady")
    assert 'CREATE TABLE "public"."kappa_signals"' in message
    run_statements(capture.database, message)
    for statement in SLOW:
        capture.database.execute(statement)
    await capture.until_reason("ConnectorRunning", seconds=90)
    await capture.until_equal()
    await _read_some_rows(capture)
    await _survive_a_worker(capture)
    await _be_stopped(capture)
    await _refuse_what_debezium_would_pass_over(capture)
    await _skip_changes(capture)


async def _read_some_rows(capture: Capture) -> None:
    """Conditions reach the database as values, also with signs that formats or lists use."""
    where = [
        {"column": "id", "operator": "Greater", "value": "5500"},
        {"column": "item", "operator": "Equal", "value": "100%"},
    ]
    ask(capture, "some", {"table": "public.orders", "where": where}, {"table": "lines$2"})
    capture.database.execute("UPDATE orders SET item = 'new' WHERE id = 6000")
    status = await until_state(capture, "some", "Done")
    assert [each["rows"] for each in status["tables"]] == [ROWS, 1000]
    assert (count_read(capture, "orders"), count_read(capture, "lines_2")) == (499, 1000)
    await capture.until_equal()


async def _survive_a_worker(capture: Capture) -> None:
    """The snapshot continues where it was; exactly-once delivery makes its rows arrive once."""
    before = count_read(capture, "orders")
    ask(capture, "all", {"table": "public.orders"})
    await capture.until(lambda it: incremental(it).get("rowsDone", 0) > 0 and incremental(it)["request"] == "all", "rows were read")  # fmt: skip
    assert 0 < incremental(capture)["rowsDone"] < ROWS
    assert "table 1 of 1; about" in incremental(capture)["message"]
    capture.workers.kill()
    await capture.until_reason("ConnectUnavailable")
    capture.database.execute("UPDATE orders SET item = 'while away' WHERE id < 10")
    capture.workers.start()
    status = await until_state(capture, "all", "Done")
    assert status["rowsDone"] == status["rows"] == ROWS
    assert count_read(capture, "orders") - before == ROWS
    assert count_signals(capture) == 2
    await capture.until_equal()


async def _be_stopped(capture: Capture) -> None:
    before = count_read(capture, "orders")
    ask(capture, "long", {"table": "public.orders"})
    await until_state(capture, "long", "Running")
    ask(capture, "long", {"table": "public.orders"}, stop=True)
    await until_state(capture, "long", "Stopped")
    assert count_read(capture, "orders") - before < ROWS


async def _refuse_what_debezium_would_pass_over(capture: Capture) -> None:
    where = [{"column": "nothing", "operator": "Equal", "value": "1"}]
    ask(capture, "bad", {"table": "public.orders", "where": where})
    assert "SQLSTATE 42703" in (await until_state(capture, "bad", "Failed"))["message"]
    capture.database.execute("CREATE TABLE later (id INT PRIMARY KEY)")
    capture.database.execute("ALTER TABLE later OWNER TO reader")
    ask(capture, "late", {"table": "public.later"})
    assert "is not in publication" in (await until_state(capture, "late", "Failed"))["message"]
    signals = count_signals(capture)
    ask(capture, "none", {"table": "public.nowhere"})
    assert "does not exist" in (await until_state(capture, "none", "Failed"))["message"]
    assert count_signals(capture) == signals


async def _skip_changes(capture: Capture) -> None:
    database = capture.database
    capture.write(**BASE, offsets={"request": "list"})
    await capture.until(lambda it: it.read_offsets("list"), "the position is reported")
    capture.write(**BASE, state="Stopped")
    await capture.until_reason("ConnectorStopped")
    database.execute("INSERT INTO orders VALUES (50000, 'skipped')")
    ((lsn,),) = database.query("SELECT pg_current_wal_lsn()::text")
    database.execute("INSERT INTO orders VALUES (50001, 'read')")
    capture.write(**BASE, state="Stopped", offsets={"request": "skip", "set": {"lsn": lsn}})
    await capture.until(lambda it: it.read_offsets("skip"), "the position is changed")
    assert capture.read_offsets("skip")["refused"] is False
    capture.write(**BASE)
    await capture.until_reason("ConnectorRunning")
    await capture.until(lambda it: 50001 in it.read_rows(), "the change behind the position arrives")
    assert 50000 not in capture.read_rows()
