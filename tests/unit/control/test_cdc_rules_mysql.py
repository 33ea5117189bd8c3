"""Rules about MySQL and MariaDB. The grants and versions were recorded from MariaDB 10.11; those of MySQL 8 follow its manual."""

from dataclasses import replace

import pytest

from kappa_operator.cdc.facts import MySQLFacts, MySQLTable, TableName
from kappa_operator.cdc.findings import Finding
from kappa_operator.cdc.patterns import parse_patterns
from kappa_operator.cdc.rules import Request, check_database
from kappa_operator.cdc.rules.grants import has_global, has_on_table, parse_grants

ORDERS = TableName("shop", "orders")
TABLE = MySQLTable(ORDERS)
GRANTS = parse_grants(
    [
        "GRANT RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `reader`@`%` IDENTIFIED BY PASSWORD '*0'",
        "GRANT SELECT ON `shop`.`orders` TO `reader`@`%`",
    ]
)
VARIABLES = {
    "binlog_expire_logs_seconds": "259200", "expire_logs_days": "3.000000", "binlog_format": "ROW", "binlog_row_image": "FULL",
    "log_bin": "ON", "server_id": "1", "sql_mode": "NO_ZERO_DATE", "time_zone": "SYSTEM", "system_time_zone": "UTC",
}  # fmt: skip
MARIADB = MySQLFacts((10, 11, 19), True, ("reader", "%"), "shop", VARIABLES, GRANTS, (TABLE,))
MYSQL_GRANTS = parse_grants(
    [
        "GRANT SELECT, RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `reader`@`%`",
        "GRANT BACKUP_ADMIN ON *.* TO `reader`@`%`",
    ]
)
MYSQL = replace(
    MARIADB,
    version=(8, 4, 0),
    is_mariadb=False,
    grants=MYSQL_GRANTS,
    variables={**VARIABLES, "gtid_mode": "ON", "binlog_row_value_options": "", "expire_logs_days": "0"},
)


def check(facts: MySQLFacts, *patterns: str) -> tuple[Finding, ...]:
    return check_database(facts, Request(parse_patterns(patterns, "shop")))


def set_variables(facts: MySQLFacts, **variables: str) -> MySQLFacts:
    return replace(facts, variables={**facts.variables, **variables})


@pytest.mark.parametrize("facts", [MARIADB, MYSQL], ids=["mariadb", "mysql"])
def test_a_server_that_is_ready_has_no_finding(facts: MySQLFacts) -> None:
    assert check(facts) == ()


def without(privilege: str) -> MySQLFacts:
    grants = tuple(replace(each, privileges=each.privileges - {privilege}) for each in MARIADB.grants)
    return replace(MARIADB, grants=grants)


CASES: dict[str, tuple[MySQLFacts, str, str]] = {
    "old MariaDB": (replace(MARIADB, version=(10, 3, 1)), "error", "version"),
    "old MySQL": (replace(MYSQL, version=(5, 7, 44)), "error", "version"),
    "no binary log": (set_variables(MARIADB, log_bin="OFF"), "error", "log-bin"),
    "statements": (set_variables(MYSQL, binlog_format="MIXED"), "error", "binlog-format"),
    "partial rows": (set_variables(MYSQL, binlog_row_image="MINIMAL"), "error", "binlog-row-image"),
    "partial JSON": (
        set_variables(MYSQL, binlog_row_value_options="PARTIAL_JSON"),
        "error",
        "binlog-row-value-options",
    ),
    "short retention": (set_variables(MYSQL, binlog_expire_logs_seconds="3600"), "error", "binlog-retention"),
    "no server_id": (set_variables(MARIADB, server_id="0"), "error", "server-id"),
    "no GTID": (set_variables(MYSQL, gtid_mode="OFF"), "information", "gtid-mode"),
    "zero dates": (set_variables(MARIADB, sql_mode=""), "information", "zero-dates"),
    "time zone": (set_variables(MARIADB, system_time_zone="CET"), "information", "time-zone"),
    "no replication": (without("REPLICATION SLAVE"), "error", "replication-slave"),
    "no position": (without("BINLOG MONITOR"), "error", "binlog-monitor"),
    "no lock": (without("RELOAD"), "error", "reload"),
    "no databases": (without("SHOW DATABASES"), "warning", "show-databases"),
    "no table locks": (without("LOCK TABLES"), "warning", "lock-tables"),
    "no select": (without("SELECT"), "error", "select"),
    "no table": (replace(MARIADB, tables=()), "error", "no-such-table"),
    "view": (replace(MARIADB, tables=(replace(TABLE, kind="VIEW"),)), "information", "not-a-table"),
    "MyISAM": (
        replace(MARIADB, tables=(replace(TABLE, engine="MyISAM", is_transactional=False),)),
        "warning",
        "engine",
    ),
    "no key": (
        replace(MARIADB, tables=(replace(TABLE, has_primary_key=False),)),
        "warning",
        "no-primary-key",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_facts_lead_to_exactly_this_finding(case: str) -> None:
    facts, severity, rule = CASES[case]
    assert [(each.severity.value, each.rule) for each in check(facts)] == [(severity, rule)]


def test_mysql_keeps_a_setting_and_mariadb_needs_its_option_file() -> None:
    (mysql,) = check(set_variables(MYSQL, binlog_row_image="MINIMAL"))
    (mariadb,) = check(set_variables(MARIADB, binlog_row_image="MINIMAL"))
    assert (mysql.statements, mysql.configuration) == (("SET PERSIST binlog_row_image = 'FULL';",), ())
    assert mariadb.statements == ("SET GLOBAL binlog_row_image = 'FULL';",)
    assert mariadb.configuration == ("[mysqld]", "binlog_row_image = FULL")


def test_a_log_that_is_never_removed_is_kept_long_enough() -> None:
    assert check(set_variables(MARIADB, binlog_expire_logs_seconds="0", expire_logs_days="0")) == ()


def test_days_are_used_where_the_server_has_no_seconds() -> None:
    variables = {name: each for name, each in VARIABLES.items() if name != "binlog_expire_logs_seconds"}
    (found,) = check(replace(MARIADB, variables={**variables, "expire_logs_days": "1"}))
    assert found.statements == ("SET GLOBAL expire_logs_days = 3;",)


def test_accounts_and_tables_are_quoted() -> None:
    table = replace(TABLE, name=TableName("shop", "a`b"))
    (found,) = check(replace(MARIADB, tables=(table,), account=("o'neill`s", "10.%")))
    assert found.statements == ("GRANT SELECT ON `shop`.`a``b` TO `o'neill``s`@`10.%`;",)


def test_a_privilege_on_some_columns_is_not_one_on_the_table() -> None:
    grants = parse_grants(["GRANT SELECT (id, `a,b`), INSERT ON `shop`.`orders` TO `r`@`%`"])
    assert not has_on_table(grants, "SELECT", ORDERS)
    assert has_on_table(grants, "INSERT", ORDERS)


def test_the_database_of_a_grant_is_a_pattern() -> None:
    grants = parse_grants([r"GRANT SELECT ON `sh\_p%`.* TO `r`@`%`"])
    assert has_on_table(grants, "SELECT", TableName("sh_p_eu", "orders"))
    assert not has_on_table(grants, "SELECT", TableName("shop", "orders"))


def test_all_privileges_include_each() -> None:
    grants = parse_grants(
        [
            "GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION",
            "GRANT PROXY ON ``@`%` TO `root`@`localhost`",
        ]
    )
    assert has_global(grants, ["RELOAD"])
    assert has_on_table(grants, "SELECT", ORDERS)
