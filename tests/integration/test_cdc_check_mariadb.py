"""Each finding about a real MariaDB is provoked, its statements are run by the administrator, and the finding is gone."""

from collections.abc import Iterator

import pytest

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.check import check_address
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.findings import Finding, Severity, is_ready
from kappa_operator.cdc.mysql import gather_mysql
from kappa_operator.cdc.patterns import parse_patterns
from kappa_operator.cdc.rules import Request
from lab.mariadb import MariaDB

pytestmark = pytest.mark.clusterless

READER = "debe'zium"
"""The user of the connector, with a name that must be quoted."""
ACCOUNT = "'debe''zium'@'%'"
GRANTS = "BINLOG MONITOR, REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(expire_logs_days="5", sql_mode="STRICT_TRANS_TABLES,NO_ZERO_DATE") as server:
        yield server


@pytest.fixture
def shop(server: MariaDB) -> Iterator[MariaDB]:
    """Yield a server with a database that is ready; the user and all of it are removed afterwards."""
    for statement in (
        "SET GLOBAL binlog_format = 'ROW'",
        "SET GLOBAL binlog_row_image = 'FULL'",
        "SET GLOBAL server_id = 1",
        "SET GLOBAL binlog_expire_logs_seconds = 432000",
        "CREATE DATABASE `sh``op`",
        "CREATE TABLE `sh``op`.`order` (id INT PRIMARY KEY, item TEXT)",
        f"CREATE USER {ACCOUNT}",
        f"GRANT {GRANTS} ON *.* TO {ACCOUNT}",
        f"GRANT SELECT ON `sh``op`.* TO {ACCOUNT}",
    ):
        server.execute(statement)
    yield server
    server.execute("DROP DATABASE `sh``op`")
    server.execute(f"DROP USER {ACCOUNT}")


async def check(server: MariaDB, *tables: str) -> tuple[Finding, ...]:
    address = Address(DatabaseKind.MYSQL, "127.0.0.1", server.port, READER, "", tls=False)
    return await check_address(address, Request(parse_patterns(tables or ["sh`op.*"], "sh`op")))


def apply(server: MariaDB, finding: Finding) -> None:
    for statement in finding.statements:
        server.execute(statement)


def find(findings: tuple[Finding, ...], rule: str) -> Finding:
    return next(each for each in findings if each.rule == rule)


async def test_a_database_that_is_ready_has_no_error_and_no_warning(shop: MariaDB) -> None:
    assert await check(shop) == ()


PROVOKED = {
    "binlog-format": ("SET GLOBAL binlog_format = 'MIXED'",),
    "binlog-row-image": ("SET GLOBAL binlog_row_image = 'MINIMAL'",),
    "binlog-retention": ("SET GLOBAL binlog_expire_logs_seconds = 3600",),
    "replication-slave": (f"REVOKE REPLICATION SLAVE ON *.* FROM {ACCOUNT}",),
    "binlog-monitor": (f"REVOKE BINLOG MONITOR ON *.* FROM {ACCOUNT}",),
    "reload": (f"REVOKE RELOAD ON *.* FROM {ACCOUNT}",),
    "show-databases": (f"REVOKE SHOW DATABASES ON *.* FROM {ACCOUNT}",),
    "lock-tables": (f"REVOKE LOCK TABLES ON *.* FROM {ACCOUNT}",),
    "engine": ("CREATE TABLE `sh``op`.`my``isam` (id INT PRIMARY KEY) ENGINE = MyISAM",),
}


@pytest.mark.parametrize("rule", PROVOKED)
async def test_the_statements_of_a_finding_fix_it(shop: MariaDB, rule: str) -> None:
    for statement in PROVOKED[rule]:
        shop.execute(statement)
    found = find(await check(shop), rule)
    assert found.statements
    apply(shop, found)
    assert rule not in [each.rule for each in await check(shop)]


async def test_a_table_without_a_privilege_is_granted_by_the_statement(shop: MariaDB) -> None:
    shop.execute(f"REVOKE ALL ON `sh``op`.* FROM {ACCOUNT}")
    found = find(await check(shop, "sh`op.order"), "no-such-table")
    apply(shop, found)
    assert is_ready(await check(shop, "sh`op.order"))


async def test_select_on_some_columns_is_not_enough(shop: MariaDB) -> None:
    shop.execute(f"REVOKE ALL ON `sh``op`.* FROM {ACCOUNT}")
    shop.execute(f"GRANT SELECT (id) ON `sh``op`.`order` TO {ACCOUNT}")
    apply(shop, find(await check(shop), "select"))
    assert is_ready(await check(shop))


async def test_privileges_of_the_default_role_count(shop: MariaDB) -> None:
    shop.execute("CREATE ROLE reader")
    try:
        shop.execute(f"REVOKE {GRANTS} ON *.* FROM {ACCOUNT}")
        shop.execute(f"GRANT {GRANTS} ON *.* TO reader")
        shop.execute(f"GRANT reader TO {ACCOUNT}")
        shop.execute(f"SET DEFAULT ROLE reader FOR {ACCOUNT}")
        assert await check(shop) == ()
    finally:
        shop.execute("DROP ROLE reader")


async def test_a_table_without_a_key_and_a_view_are_reported(shop: MariaDB) -> None:
    shop.execute("CREATE TABLE `sh``op`.logs (line TEXT)")
    shop.execute("CREATE VIEW `sh``op`.all_orders AS SELECT * FROM `sh``op`.`order`")
    found = await check(shop)
    assert [(each.rule, each.severity) for each in found] == [
        ("no-primary-key", Severity.WARNING),
        ("not-a-table", Severity.INFORMATION),
    ]
    assert find(await check(shop, "sh`op.all_orders"), "not-a-table").severity is Severity.ERROR


async def test_a_type_that_stops_the_connector_is_reported_for_every_table_of_the_database(
    shop: MariaDB,
) -> None:
    shop.execute("CREATE TABLE `sh``op`.visits (id INT PRIMARY KEY, address INET6)")
    shop.execute("CREATE TABLE `sh``op`.codes (id INT PRIMARY KEY, code UUID)")
    captured = find(await check(shop), "column-type")
    assert (captured.severity, captured.subject) == (Severity.ERROR, "column sh`op.visits.address")
    assert find(await check(shop, "sh`op.order"), "column-type").severity is Severity.WARNING


async def test_columns_are_read_as_events_depend_on_them(shop: MariaDB) -> None:
    kinds = "n INT(5) UNSIGNED ZEROFILL, code CHAR(3), name VARCHAR(9), price DECIMAL(8, 2), kind ENUM('a', 'b'), at DATETIME(6), raw VARBINARY(5), flag BOOLEAN"
    shop.execute(f"CREATE TABLE `sh``op`.odd (b INT, a INT, {kinds}, PRIMARY KEY (a, b))")
    address = Address(DatabaseKind.MYSQL, "127.0.0.1", shop.port, READER, "", tls=False)
    facts = await gather_mysql(address, parse_patterns(["sh`op.o?d"], ""))
    assert facts.shapes == {TableName("sh`op", "odd"): (
        ("b", "int", True), ("a", "int", True), ("n", "int unsigned zerofill", False), ("code", "char", False), ("name", "varchar", False),
        ("price", "decimal(8,2)", False), ("kind", "enum", False), ("at", "datetime(6)", False), ("raw", "varbinary", False), ("flag", "tinyint", False),
    )}  # fmt: skip


async def test_all_statements_in_order_make_an_unprepared_database_ready(shop: MariaDB) -> None:
    shop.execute(f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {ACCOUNT}")
    shop.execute("SET GLOBAL binlog_format = 'STATEMENT'")
    before = await check(shop, "sh`op.order")
    assert not is_ready(before)
    for finding in before:
        apply(shop, finding)
    assert await check(shop, "sh`op.order") == ()


async def test_a_server_without_a_binary_log_gets_the_lines_of_its_option_file() -> None:
    with MariaDB(log_bin=None, binlog_format=None) as server:
        server.execute(f"CREATE USER {ACCOUNT}")
        lines = find(await check(server), "log-bin").configuration
    assert "log_bin = binlog" in lines
