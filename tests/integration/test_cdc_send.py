"""The pod that writes a signal, on a real PostgreSQL: what it writes once, and what it refuses because Debezium would pass over it."""

from collections.abc import Iterator
from typing import LiteralString

import pytest

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.send import send_signal
from kappa_operator.cdc.work import DatabaseResult, SignalRequest, SignalTable
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.clusterless

PREPARE: tuple[LiteralString, ...] = (
    "CREATE ROLE reader LOGIN",
    "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)",
    'CREATE TABLE "lines$2" (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), item TEXT)',
    "CREATE TABLE keyless (a INT)",
    "CREATE TABLE later (id INT PRIMARY KEY)",
    'CREATE PUBLICATION kappa FOR TABLE orders, "lines$2", keyless',
    "INSERT INTO orders SELECT number, '100%' FROM generate_series(5, 6004) AS number",
    "INSERT INTO \"lines$2\" (item) SELECT 'tea' FROM generate_series(1, 1000)",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    "CREATE TABLE secret (id INT PRIMARY KEY)",
    "CREATE TABLE signals (id TEXT PRIMARY KEY, type TEXT NOT NULL, data TEXT)",
    "CREATE TABLE narrow (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data VARCHAR(10))",
    "CREATE TABLE foreigners (id TEXT PRIMARY KEY, type TEXT, data TEXT)",
    "GRANT SELECT, INSERT, DELETE ON signals, narrow TO reader",
    "INSERT INTO signals VALUES ('x-open', 'snapshot-window-open', ''), ('y', 'execute-snapshot', '{}')",
    "ALTER PUBLICATION kappa ADD TABLE secret",
)


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with Postgres() as database:
        for statement in PREPARE:
            database.execute(statement)
        yield database


async def send(
    database: Postgres, *names: str, condition: str = "", keyed: bool = False, target: str = "signals"
) -> DatabaseResult:
    address = Address(
        kind=DatabaseKind.POSTGRESQL, host="127.0.0.1", port=database.port, user="reader", database=DATABASE,
        password="", tls=False, ca_file="",
    )  # fmt: skip
    tables = tuple(
        SignalTable(schema_name="public", name=name, condition=condition, is_keyed=keyed) for name in names
    )
    request = SignalRequest(
        target=("public", target), id="kappa-1", type="execute-snapshot", data='{"type": "incremental"}',
        publication="kappa", tables=tables,
    )  # fmt: skip
    return await send_signal(address, request)


async def test_a_signal_is_written_once_with_the_sizes_of_its_tables(database: Postgres) -> None:
    condition = "\"item\" = '100%' AND \"id\" > '5500'"
    found = await send(database, "orders", condition=condition)
    (orders,) = found.ranges
    assert (orders.rows, orders.first, orders.last) == (6000, 5, 6004)
    await send(database, "orders")
    ids = [name for (name,) in database.query("SELECT id FROM signals ORDER BY 1")]
    assert ids == ["kappa-1", "y"], "rows that Debezium has left are gone, and those of others stay"
    ((behind,),) = database.query("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
    assert found.position is not None
    assert 0 < found.position <= behind


async def test_uuids_are_measured_in_the_order_of_the_database(database: Postgres) -> None:
    (lines,) = (await send(database, "lines$2")).ranges
    ends = [int(key.hex[:16], 16) >> 1 for (key,) in database.query('SELECT id FROM "lines$2" ORDER BY id')]
    assert (lines.first, lines.last) == (ends[0], ends[-1])


@pytest.mark.parametrize(
    ("table", "condition", "text"),
    [
        ("nowhere", "", "table public.nowhere does not exist"),
        ("keyless", "", "table public.keyless has no primary key; spec.keys may name other columns"),
        ("later", "", "table public.later is not in publication kappa"),
        ("secret", "", "lacks SELECT on public.secret"),
        ("orders", "\"nothing\" = '1'", "cannot evaluate the condition on public.orders: SQLSTATE 42703"),
        ("orders", "\"id\" = 'x'", "cannot evaluate the condition on public.orders: SQLSTATE 22P02"),
    ],
)
async def test_what_debezium_would_pass_over_is_refused(
    database: Postgres, table: str, condition: str, text: str
) -> None:
    before = database.query("SELECT count(*) FROM signals")
    assert text in (await send(database, table, condition=condition)).refused
    assert database.query("SELECT count(*) FROM signals") == before


async def test_a_table_without_a_primary_key_is_read_by_the_key_of_the_spec(database: Postgres) -> None:
    found = await send(database, "keyless", keyed=True)
    assert (found.refused, found.ranges[0].rows, found.ranges[0].first) == ("", 0, None)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("nowhere", "signal table public.nowhere does not exist"),
        ("narrow", "signal table public.narrow has no room for the signal"),
        ("foreigners", 'run: GRANT SELECT, INSERT, DELETE ON "public"."foreigners" TO "reader";'),
    ],
)
async def test_a_signal_table_that_cannot_be_used_is_refused_with_its_remedy(
    database: Postgres, target: str, text: str
) -> None:
    assert text in (await send(database, "orders", target=target)).refused
