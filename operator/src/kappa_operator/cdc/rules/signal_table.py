"""Rules about the signal table of a source, by which snapshots of some tables are requested."""

from collections.abc import Iterator

from kappa_operator.cdc.facts import PostgresFacts, TableName
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.quoting import quote_postgresql, quote_postgresql_table


def check_signal_table(facts: PostgresFacts, name: TableName) -> Iterator[Finding]:
    """Yield what is wrong with the signal table, besides what is wrong with any table that is read."""
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
