"""Rules about the signal table of a source, by which snapshots of some tables are requested."""

from collections.abc import Iterator

from kappa_operator.cdc.facts import Facts, MySQLFacts, PostgresFacts, TableName
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.quoting import (
    quote_mysql_account,
    quote_mysql_table,
    quote_postgresql,
    quote_postgresql_table,
)
from kappa_operator.cdc.rules.grants import has_on_table


def check_signal_table(facts: Facts, name: TableName) -> Iterator[Finding]:
    """Yield what is wrong with the signal table, besides what is wrong with any table that is read."""
    return _check_mysql(facts, name) if isinstance(facts, MySQLFacts) else _check_postgresql(facts, name)


def _check_mysql(facts: MySQLFacts, name: TableName) -> Iterator[Finding]:
    quoted, account = quote_mysql_table(name), quote_mysql_account(facts.account)
    grant = f"GRANT SELECT, INSERT, DELETE ON {quoted} TO {account};"
    if all(each.name != name for each in facts.tables):
        columns = "id VARCHAR(128) PRIMARY KEY, type VARCHAR(64) NOT NULL, data TEXT"
        yield Finding(
            Severity.ERROR, "signal-table", f"table {name}", "The signal table does not exist, or the user may not see it.",
            "Snapshots of some tables cannot be requested.", (f"CREATE TABLE IF NOT EXISTS {quoted} ({columns});", grant),
        )  # fmt: skip
    elif not all(has_on_table(facts.grants, each, name) for each in ("INSERT", "DELETE")):
        yield Finding(
            Severity.ERROR, "signal-table", f"table {name}", f"User {facts.account[0]} lacks INSERT or DELETE.",
            "The connector writes into it at each part of a snapshot.", (grant,),
        )  # fmt: skip


def _check_postgresql(facts: PostgresFacts, name: TableName) -> Iterator[Finding]:
    table = next((each for each in facts.tables if each.name == name), None)
    quoted, role = quote_postgresql_table(name), quote_postgresql(facts.user)
    grant = f"GRANT SELECT, INSERT, DELETE ON TABLE {quoted} TO {role};"
    if table is None:
        columns = "id TEXT PRIMARY KEY, type TEXT NOT NULL, data TEXT"
        yield Finding(
            Severity.ERROR, "signal-table", f"table {name}", "The signal table does not exist.",
            "Snapshots of some tables cannot be requested.",
            (f"CREATE TABLE {quoted} ({columns});", f"ALTER TABLE {quoted} OWNER TO {role};"),
        )  # fmt: skip
    elif not table.has_write:
        yield Finding(
            Severity.ERROR, "signal-table", f"table {name}", f"User {facts.user} lacks INSERT or DELETE.",
            "The connector writes into it at each part of a snapshot.", (grant,),
        )  # fmt: skip
