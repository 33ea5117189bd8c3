"""Each finding about a real PostgreSQL is provoked, its statements are run by the administrator, and the finding is gone."""

import subprocess
import sys
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.check import check_address
from kappa_operator.cdc.findings import Finding, is_ready
from kappa_operator.cdc.patterns import parse_patterns
from kappa_operator.cdc.rules import Request
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.clusterless

READER = 'debe"zium'
"""The user of the connector, with a name that must be quoted."""
ROLE: LiteralString = '"debe""zium"'


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(wal_level="replica", max_wal_senders="1", max_replication_slots="1") as server:
        yield server


@pytest.fixture
def shop(server: Postgres) -> Iterator[Postgres]:
    """Yield a server with a schema that is ready; the role and all of it are removed afterwards."""
    with psycopg.connect(server.address, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_level = 'logical'")
        admin.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'")
        admin.execute("ALTER SYSTEM RESET max_wal_senders")
        admin.execute("ALTER SYSTEM SET max_replication_slots = 4")
        (level, slots) = admin.execute(
            "SELECT current_setting('wal_level'), current_setting('max_replication_slots')"
        ).fetchone() or ("", "")
    if (level, slots) != ("logical", "4"):
        server.restart()
    server.execute("SELECT pg_reload_conf()")
    for statement in READY:
        server.execute(statement)
    yield server
    for statement in REMOVED:
        server.execute(statement)


READY: tuple[LiteralString, ...] = (
    f"CREATE ROLE {ROLE} LOGIN REPLICATION",
    'CREATE SCHEMA "Shop"',
    f'GRANT USAGE ON SCHEMA "Shop" TO {ROLE}',
    'CREATE TABLE "Shop"."order" (id INT PRIMARY KEY, item TEXT)',
    f'GRANT SELECT ON "Shop"."order" TO {ROLE}',
    'CREATE PUBLICATION kappa FOR TABLE "Shop"."order"',
)
REMOVED: tuple[LiteralString, ...] = (
    "DROP PUBLICATION IF EXISTS kappa",
    'DROP SCHEMA "Shop" CASCADE',
    f"DROP OWNED BY {ROLE}",
    f"DROP ROLE {ROLE}",
    f"GRANT CONNECT ON DATABASE {DATABASE} TO PUBLIC",
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
    "ALTER SYSTEM RESET wal_sender_timeout",
    "SELECT pg_reload_conf()",
)


async def check(server: Postgres, *tables: str) -> tuple[Finding, ...]:
    address = Address(DatabaseKind.POSTGRESQL, "127.0.0.1", server.port, READER, DATABASE, tls=False)
    return await check_address(address, Request(parse_patterns(tables or ["Shop.*"], "public")))


def apply(server: Postgres, finding: Finding) -> None:
    """Run the statements as the administrator, each in a transaction of its own: ALTER SYSTEM needs that."""
    with psycopg.connect(server.address, autocommit=True) as admin:
        for statement in finding.statements:
            admin.execute(statement.encode())


def find(findings: tuple[Finding, ...], rule: str) -> Finding:
    return next(each for each in findings if each.rule == rule)


async def test_a_database_that_is_ready_has_no_error_and_no_warning(shop: Postgres) -> None:
    assert await check(shop) == ()


PROVOKED: dict[str, tuple[LiteralString, ...]] = {
    "wal-level": ("ALTER SYSTEM SET wal_level = 'replica'",),
    "max-wal-senders": ("ALTER SYSTEM SET max_wal_senders = 0",),
    "max-replication-slots": (
        "SELECT pg_create_physical_replication_slot('taken')",
        "ALTER SYSTEM SET max_replication_slots = 1",
    ),
    "max-slot-wal-keep-size": ("ALTER SYSTEM RESET max_slot_wal_keep_size",),
    "wal-sender-timeout": ("ALTER SYSTEM SET wal_sender_timeout = 0",),
    "slot-inactive": ("SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')",),
    "replication": (f"ALTER ROLE {ROLE} NOREPLICATION",),
    "connect": (f"REVOKE CONNECT ON DATABASE {DATABASE} FROM PUBLIC",),
    "schema-usage": (f'REVOKE USAGE ON SCHEMA "Shop" FROM {ROLE}',),
    "select": (f'REVOKE ALL ON "Shop"."order" FROM {ROLE}',),
    "row-security": ('ALTER TABLE "Shop"."order" ENABLE ROW LEVEL SECURITY',),
    "unlogged": (
        'CREATE UNLOGGED TABLE "Shop"."un""logged" (id INT PRIMARY KEY)',
        f'GRANT SELECT ON "Shop"."un""logged" TO {ROLE}',
    ),
    "lost-value": ('ALTER TABLE "Shop"."order" ADD COLUMN "nick name" NAME',),
    "publication": ("DROP PUBLICATION kappa",),
    "publication-tables": ('CREATE TABLE "Shop"."new-one" (id INT PRIMARY KEY)',),
    "publication-operations": ("ALTER PUBLICATION kappa SET (publish = 'insert')",),
    "publication-filter": (
        "DROP PUBLICATION kappa",
        'CREATE PUBLICATION kappa FOR TABLE "Shop"."order" (id) WHERE (id > 3)',
    ),
    "partition-root": (
        'CREATE TABLE "Shop".parts (id INT PRIMARY KEY) PARTITION BY RANGE (id)',
        'CREATE TABLE "Shop".parts_1 PARTITION OF "Shop".parts FOR VALUES FROM (0) TO (9)',
        f'GRANT SELECT ON "Shop".parts TO {ROLE}',
        'ALTER PUBLICATION kappa ADD TABLE "Shop".parts',
    ),
}
RESTARTED = ("wal-level", "max-wal-senders", "max-replication-slots")


@pytest.mark.parametrize("rule", PROVOKED)
async def test_the_statements_of_a_finding_fix_it(shop: Postgres, rule: str) -> None:
    for statement in PROVOKED[rule]:
        shop.execute(statement)
    settle(shop, rule)
    found = find(await check(shop), rule)
    assert found.statements
    apply(shop, found)
    settle(shop, rule)
    assert rule not in [each.rule for each in await check(shop)]


def settle(server: Postgres, rule: str) -> None:
    if rule in RESTARTED:
        server.restart()
    else:
        server.execute("SELECT pg_reload_conf()")


IDENTITIES: dict[str, tuple[LiteralString, ...]] = {
    "REPLICA IDENTITY FULL": ('CREATE TABLE "Shop".logs (line TEXT)',),
    "REPLICA IDENTITY DEFAULT": (
        'CREATE TABLE "Shop".logs (line TEXT PRIMARY KEY)',
        'ALTER TABLE "Shop".logs REPLICA IDENTITY NOTHING',
    ),
    'USING INDEX "by ""line"': (
        'CREATE TABLE "Shop".logs (line TEXT NOT NULL)',
        'CREATE UNIQUE INDEX "by ""line" ON "Shop".logs (line)',
    ),
    'ALTER TABLE "Shop"."logs_1" REPLICA IDENTITY FULL': (
        'CREATE TABLE "Shop".logs (line TEXT) PARTITION BY LIST (line)',
        'CREATE TABLE "Shop".logs_1 PARTITION OF "Shop".logs FOR VALUES IN (\'a\')',
    ),
}


@pytest.mark.parametrize("statement", IDENTITIES)
async def test_a_table_whose_updates_would_fail_gets_a_replica_identity(
    shop: Postgres, statement: str
) -> None:
    for each in IDENTITIES[statement]:
        shop.execute(each)
    shop.execute('ALTER PUBLICATION kappa ADD TABLE "Shop".logs')
    shop.execute("INSERT INTO \"Shop\".logs VALUES ('a')")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        shop.execute("UPDATE \"Shop\".logs SET line = 'a'")
    found = find(await check(shop), "replica-identity")
    assert statement in found.statements[0]
    apply(shop, found)
    shop.execute("UPDATE \"Shop\".logs SET line = 'a'")
    assert "replica-identity" not in [each.rule for each in await check(shop)]


async def test_a_view_is_refused_where_it_is_named(shop: Postgres) -> None:
    shop.execute('CREATE VIEW "Shop".all_orders AS SELECT * FROM "Shop"."order"')
    assert "view" in find(await check(shop, "Shop.all_orders"), "not-a-table").message
    assert is_ready(await check(shop))


async def test_a_pattern_that_matches_nothing_is_an_error(shop: Postgres) -> None:
    assert find(await check(shop, "Shop.Order"), "no-such-table").subject == "table Shop.Order"


async def test_columns_that_would_be_missing_are_listed(shop: Postgres) -> None:
    shop.execute("CREATE TYPE \"Shop\".mood AS ENUM ('good')")
    shop.execute('CREATE TYPE "Shop".pair AS (a INT, b INT)')
    shop.execute(
        'CREATE TABLE "Shop".odd (id INT PRIMARY KEY, good "Shop".mood, pair "Shop".pair, at pg_lsn, tags TEXT[], '
        "prices MONEY[], ranges INT4MULTIRANGE, price NUMERIC, data JSONB, double INT GENERATED ALWAYS AS (id * 2) STORED)"
    )
    found = await check(shop)
    assert [each.subject.split(".")[-1] for each in found if each.rule == "column-type"] == [
        "pair", "at", "prices", "ranges",
    ]  # fmt: skip
    assert [each.subject.split(".")[-1] for each in found if each.rule == "generated-column"] == ["double"]


async def test_all_statements_in_order_make_an_unprepared_database_ready(shop: Postgres) -> None:
    for statement in (
        f"ALTER ROLE {ROLE} NOREPLICATION",
        f'REVOKE USAGE ON SCHEMA "Shop" FROM {ROLE}',
        f'REVOKE ALL ON "Shop"."order" FROM {ROLE}',
        'CREATE UNLOGGED TABLE "Shop".visits (page TEXT)',
        "DROP PUBLICATION kappa",
    ):
        shop.execute(statement)
    before = await check(shop)
    assert not is_ready(before)
    for finding in before:
        apply(shop, finding)
    assert is_ready(await check(shop))
    with psycopg.connect(f"{shop.address} replication=database", autocommit=True) as stream:
        stream.execute("CREATE_REPLICATION_SLOT proof TEMPORARY LOGICAL pgoutput")


async def test_nothing_is_executed_from_the_schemas_of_others(shop: Postgres) -> None:
    """A function of a tenant that has the name of a function of the catalog does not run."""
    shop.execute("CREATE TABLE public.trace (who TEXT)")
    shop.execute(
        "CREATE FUNCTION public.pg_has_role(oid, text) RETURNS boolean LANGUAGE sql AS $$ INSERT INTO public.trace VALUES (current_user) RETURNING true $$"
    )
    shop.execute("ALTER DATABASE postgres SET search_path = public, pg_catalog")
    try:
        assert await check(shop) == ()
    finally:
        shop.execute("ALTER DATABASE postgres RESET search_path")
        shop.execute("DROP TABLE public.trace")
        shop.execute("DROP FUNCTION public.pg_has_role(oid, text)")


def run_kappa(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "from kappa_operator.cli import main; main()",
        "cdc",
        "check",
        *arguments,
    ]
    return subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)


def test_the_command_reports_by_its_exit_code(shop: Postgres) -> None:
    url = f"postgresql://debe%22zium@127.0.0.1:{shop.port}/{DATABASE}"
    ready = run_kappa(url, "--table", "Shop.order")
    assert (ready.returncode, ready.stdout) == (0, "The database is ready.\n")
    shop.execute(f"ALTER ROLE {ROLE} NOREPLICATION")
    failed = run_kappa(url, "--table", "Shop.order")
    assert failed.returncode == 1
    assert f"\n      ALTER ROLE {ROLE} REPLICATION;\n" in failed.stdout
    unreachable = run_kappa("postgresql://me@127.0.0.1:1/shop")
    assert (unreachable.returncode, unreachable.stdout) == (2, "")
    assert "nothing listens" in unreachable.stderr


def test_a_server_without_tls_is_refused_unless_it_is_allowed(shop: Postgres) -> None:
    url = f"postgresql://debe%22zium@127.0.0.1:{shop.port}/{DATABASE}"
    refused = run_kappa(url, "--ca-file", __file__)
    assert refused.returncode == 2
    assert "no TLS" in refused.stderr
