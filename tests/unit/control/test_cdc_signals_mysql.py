"""Signals of MySQL and MariaDB: how they are quoted, where they are written, and what the check reports about that table."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kappa_crds.cdcsource_requests import Comparison, RowCondition
from kappa_operator.cdc.address import DatabaseKind
from kappa_operator.cdc.facts import MySQLFacts, MySQLTable, TableName
from kappa_operator.cdc.outcome import judge
from kappa_operator.cdc.quoting import MYSQL
from kappa_operator.cdc.rules.grants import parse_grants
from kappa_operator.cdc.signals import Signal, build_condition
from kappa_operator.cdc.work import DatabaseRequest, DatabaseTask
from kappa_operator.cdcsource.progress import list_left
from unit.control.sources import MARIADB, SOURCE, Shop

SIGNALS = TableName("shop", "kappa_signals")
GRANTS = parse_grants(
    [
        "GRANT RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `r`@`%`",
        "GRANT SELECT ON `shop`.* TO `r`@`%`",
    ]
)
VARIABLES = {
    "binlog_format": "ROW", "binlog_row_image": "FULL", "log_bin": "ON", "server_id": "1", "sql_mode": "NO_ZERO_DATE",
    "time_zone": "UTC", "gtid_mode": "ON",
}  # fmt: skip
ORDERS = MySQLTable(TableName("shop", "orders"))
FACTS = MySQLFacts((9, 7, 4), False, ("r", "%"), "", VARIABLES, GRANTS, (ORDERS, MySQLTable(SIGNALS)))
REQUEST = DatabaseRequest(
    task=DatabaseTask.CHECK, kind=DatabaseKind.MYSQL, host="db", port=3306, database="", tls=True,
    include=("shop.*",), exclude=("shop.kappa_*",), signal_table="shop.kappa_signals",
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        ("100%", "`a``b` >= '100%'"),
        ("it's", "`a``b` >= 'it''s'"),
        ("\\' OR 1 = 1 -- ", "`a``b` >= _utf8mb4 X'5C27204F522031203D2031202D2D20'"),
    ],
)
def test_a_value_is_never_read_as_sql_whatever_a_backslash_means(value: str, sql: str) -> None:
    assert build_condition([RowCondition(column="a`b", operator=Comparison.AT_LEAST, value=value)], MYSQL) == sql  # fmt: skip


def test_a_person_can_run_the_statement_of_a_signal() -> None:
    statement = Signal("a-1", "{}").build_statement(TableName("sh`op", "signals"), MYSQL)
    assert statement == "INSERT INTO `sh``op`.`signals` VALUES ('a-1', 'execute-snapshot', '{}');"


def test_a_table_that_is_missing_has_the_statements_that_create_it() -> None:
    (found,) = judge(replace(FACTS, tables=(ORDERS,)), REQUEST).findings
    assert (found.rule, found.subject) == ("signal-table", "table shop.kappa_signals")
    assert found.statement == (
        "CREATE TABLE IF NOT EXISTS `shop`.`kappa_signals` (id VARCHAR(128) PRIMARY KEY, type VARCHAR(64) NOT NULL, data TEXT);"
        " GRANT SELECT, INSERT, DELETE ON `shop`.`kappa_signals` TO `r`@`%`;"
    )


def test_a_table_that_cannot_be_written_has_the_grant() -> None:
    (found,) = judge(FACTS, REQUEST).findings
    assert found.statement == "GRANT SELECT, INSERT, DELETE ON `shop`.`kappa_signals` TO `r`@`%`;"
    granted = parse_grants(["GRANT SELECT, INSERT, DELETE ON `shop`.`kappa_signals` TO `r`@`%`"])
    result = judge(replace(FACTS, grants=(*GRANTS, *granted)), REQUEST)
    assert (result.findings, result.tables) == ((), 1)


async def test_a_pod_writes_the_signal_into_the_table_of_the_manifest() -> None:
    shop = Shop()
    where = [{"column": "id", "operator": "Less", "value": "7"}]
    asked: dict[str, Any] = {"request": "a", "tables": [{"table": "shop.orders", "where": where}]}
    source = {**MARIADB, "signalTable": "shop.kappa_signals"}
    await shop.prepare(**source)
    await shop.run()
    shop.write(**source, snapshot={"incremental": asked})
    await shop.run(8)
    assert shop.operator.get_condition(SOURCE, "Ready")[:2] == ("True", "ConnectorRunning")
    (signal,) = [each.signal for each in shop.requests if each.signal]
    assert (signal.target, signal.tables[0].condition) == (("shop", "kappa_signals"), "`id` < '7'")
    assert json.loads(signal.data)["data-collections"] == ["shop\\.orders"]
    config = shop.connect.connectors["orders"].config
    assert config["signal.data.collection"] == "shop.kappa_signals"


def test_tables_are_those_of_the_request_where_debezium_does_not_store_the_signal() -> None:
    """As Debezium 3.5 and 3.6 do."""
    entries = [{"incremental_snapshot_collections_id": each} for each in ("shop.lines", "shop.orders")]
    offset = {"incremental_snapshot_collections": json.dumps(entries), "file": "binlog.000001", "pos": 7}
    assert list_left(offset, "kappa-1", ["shop.orders"]) == ("shop.orders",)
    entries[1]["incremental_snapshot_collections_correlation_id"] = "another"
    offset["incremental_snapshot_collections"] = json.dumps(entries)
    assert list_left(offset, "kappa-1", ["shop.orders"]) == ()
