"""Each finding about a real MySQL is provoked, its statements are run by the administrator, and the finding is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.check import check_address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.findings import Finding, Severity, is_ready
from kappa_operator.cdc.patterns import parse_patterns
from kappa_operator.cdc.rules import Request
from lab import pki
from lab.mysql import MySQL

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos, pytest.mark.timeout(300)]

PASSWORD = "geheim"
ACCOUNT = "'debe''zium'@'%'"
GRANTS = "REPLICATION CLIENT, REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES"
DEFAULTS = "binlog_row_image", "binlog_row_value_options", "server_id", "binlog_expire_logs_seconds"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the certificate of the server and its authority."""
    folder = tmp_path_factory.mktemp("pki")
    pki.make_authority(folder, "databases")
    pki.make_certificate(folder, "server", "/CN=database", "IP:127.0.0.1")
    return folder


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[MySQL]:
    settings = {"ssl_cert": "server.crt", "ssl_key": "server.key", "ssl_ca": "ca.crt"}
    with MySQL(gtid_mode="ON", enforce_gtid_consistency="ON", **{
        name: str(files / file) for name, file in settings.items()
    }) as server:  # fmt: skip
        yield server


@pytest.fixture
def shop(server: MySQL) -> Iterator[MySQL]:
    """Yield a server with a database that is ready; the user and all of it are removed afterwards."""
    for statement in (
        "SET GLOBAL binlog_format = 'ROW'",
        *(f"SET GLOBAL {name} = DEFAULT" for name in DEFAULTS),
        "CREATE DATABASE `sh``op`",
        "CREATE TABLE `sh``op`.`order` (id INT PRIMARY KEY, item TEXT)",
        f"CREATE USER {ACCOUNT} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT {GRANTS} ON *.* TO {ACCOUNT}",
        f"GRANT SELECT ON `sh``op`.* TO {ACCOUNT}",
    ):
        server.execute(statement)
    yield server
    server.execute("DROP DATABASE `sh``op`")
    server.execute(f"DROP USER {ACCOUNT}")


def build_address(server: MySQL, password: str = PASSWORD, ca_file: str = "", *, tls: bool = False) -> Address:  # fmt: skip
    return Address(
        DatabaseKind.MYSQL, "127.0.0.1", server.port, "debe'zium", "", password, tls=tls, ca_file=ca_file
    )


async def check(server: MySQL, *tables: str) -> tuple[Finding, ...]:
    request = Request(parse_patterns(tables or ["sh`op.*"], "sh`op"))
    return await check_address(build_address(server), request)


def apply(server: MySQL, finding: Finding) -> None:
    for statement in finding.statements:
        server.execute(statement)


def find(findings: tuple[Finding, ...], rule: str) -> Finding:
    return next(each for each in findings if each.rule == rule)


async def test_a_database_that_is_ready_has_no_error_and_no_warning(shop: MySQL) -> None:
    assert await check(shop) == ()


PROVOKED = {
    "binlog-format": ("SET GLOBAL binlog_format = 'MIXED'",),
    "binlog-row-image": ("SET GLOBAL binlog_row_image = 'MINIMAL'",),
    "binlog-row-value-options": ("SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'",),
    "binlog-retention": ("SET GLOBAL binlog_expire_logs_seconds = 3600",),
    "server-id": ("SET GLOBAL server_id = 0",),
    "replication-slave": (f"REVOKE REPLICATION SLAVE ON *.* FROM {ACCOUNT}",),
    "replication-client": (f"REVOKE REPLICATION CLIENT ON *.* FROM {ACCOUNT}",),
    "reload": (f"REVOKE RELOAD ON *.* FROM {ACCOUNT}",),
    "show-databases": (f"REVOKE SHOW DATABASES ON *.* FROM {ACCOUNT}",),
    "lock-tables": (f"REVOKE LOCK TABLES ON *.* FROM {ACCOUNT}",),
    "engine": ("CREATE TABLE `sh``op`.`my``isam` (id INT PRIMARY KEY) ENGINE = MyISAM",),
}


@pytest.mark.parametrize("rule", PROVOKED)
async def test_the_statements_of_a_finding_fix_it(shop: MySQL, rule: str) -> None:
    for statement in PROVOKED[rule]:
        shop.execute(statement)
    found = find(await check(shop), rule)
    assert found.statements
    apply(shop, found)
    assert rule not in [each.rule for each in await check(shop)]


async def test_a_setting_survives_a_restart_of_the_server(shop: MySQL) -> None:
    shop.execute("SET GLOBAL binlog_row_image = 'MINIMAL'")
    apply(shop, find(await check(shop), "binlog-row-image"))
    shop.restart()
    assert await check(shop) == ()


async def test_a_table_without_a_privilege_is_granted_by_the_statement(shop: MySQL) -> None:
    shop.execute(f"REVOKE ALL ON `sh``op`.* FROM {ACCOUNT}")
    apply(shop, find(await check(shop, "sh`op.order"), "no-such-table"))
    assert is_ready(await check(shop, "sh`op.order"))


async def test_select_on_some_columns_is_not_enough(shop: MySQL) -> None:
    shop.execute(f"REVOKE ALL ON `sh``op`.* FROM {ACCOUNT}")
    shop.execute(f"GRANT SELECT (id) ON `sh``op`.`order` TO {ACCOUNT}")
    apply(shop, find(await check(shop), "select"))
    assert is_ready(await check(shop))


async def test_privileges_of_the_default_role_count(shop: MySQL) -> None:
    shop.execute("CREATE ROLE reader")
    try:
        shop.execute(f"REVOKE {GRANTS} ON *.* FROM {ACCOUNT}")
        shop.execute(f"GRANT {GRANTS} ON *.* TO reader")
        shop.execute(f"GRANT reader TO {ACCOUNT}")
        shop.execute(f"SET DEFAULT ROLE reader TO {ACCOUNT}")
        assert await check(shop) == ()
    finally:
        shop.execute("DROP ROLE reader")


async def test_a_table_without_a_key_and_a_view_are_reported(shop: MySQL) -> None:
    shop.execute("CREATE TABLE `sh``op`.logs (line TEXT)")
    shop.execute("CREATE VIEW `sh``op`.all_orders AS SELECT * FROM `sh``op`.`order`")
    found = await check(shop)
    assert [(each.rule, each.severity) for each in found] == [
        ("no-primary-key", Severity.WARNING),
        ("not-a-table", Severity.INFORMATION),
    ]


async def test_all_statements_in_order_make_an_unprepared_database_ready(shop: MySQL) -> None:
    shop.execute(f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {ACCOUNT}")
    shop.execute("SET GLOBAL binlog_format = 'STATEMENT'")
    before = await check(shop, "sh`op.order")
    assert not is_ready(before)
    for finding in before:
        apply(shop, finding)
    assert await check(shop, "sh`op.order") == ()


async def test_the_certificate_of_the_server_is_verified(shop: MySQL, files: Path, tmp_path: Path) -> None:
    request = Request(parse_patterns(["sh`op.*"], "sh`op"))
    verified = build_address(shop, ca_file=str(files / "ca.crt"), tls=True)
    shop.execute(f"ALTER USER {ACCOUNT} REQUIRE SSL")
    assert await check_address(verified, request) == ()
    pki.make_authority(tmp_path, "others")
    with pytest.raises(DatabaseProblem, match="its certificate cannot be verified"):
        await check_address(build_address(shop, ca_file=str(tmp_path / "ca.crt"), tls=True), request)
    with pytest.raises(DatabaseProblem, match="refused the user or the password"):
        await check_address(build_address(shop, "wrong", tls=True), request)


async def test_a_server_without_a_binary_log_gets_the_lines_of_its_option_file() -> None:
    with MySQL(log_bin=None, binlog_format=None, skip_log_bin="1") as server:
        server.execute(f"CREATE USER {ACCOUNT} IDENTIFIED BY '{PASSWORD}'")
        lines = find(await check(server), "log-bin").configuration
    assert "log_bin = binlog" in lines
