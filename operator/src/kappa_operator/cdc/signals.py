"""Signals: rows of a table by which Debezium reads rows again, or stops that.

The channel is a table of the database, so a signal has a position in the log: it is read once, after all changes before it, and a worker
that dies reads it again only if nothing that followed from it was stored. Source of the format: Debezium, "Sending signals to a Debezium
connector". A table is named by a regular expression there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kappa_crds.cdcsource_requests import Comparison, RowCondition
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.quoting import Dialect

EXECUTE, STOP = "execute-snapshot", "stop-snapshot"
SYMBOLS = {
    Comparison.EQUAL: "=",
    Comparison.UNEQUAL: "<>",
    Comparison.LESS: "<",
    Comparison.AT_MOST: "<=",
    Comparison.GREATER: ">",
    Comparison.AT_LEAST: ">=",
}
"""Comparisons in SQL."""


@dataclass(frozen=True)
class Signal:
    """A row of a signal table."""

    id: str
    data: str
    type: str = EXECUTE

    def build_statement(self, table: TableName, dialect: Dialect) -> str:
        """Return the statement that writes it, which a person can run."""
        values = ", ".join(map(dialect.text, (self.id, self.type, self.data)))
        return f"INSERT INTO {dialect.table(table)} VALUES ({values});"  # noqa: S608 - all parts are quoted


def describe_snapshot(conditions: Mapping[TableName, str]) -> str:
    """Return the data of a signal that reads tables again, each with the condition of its rows, empty for all of them."""
    data: dict[str, object] = {
        "data-collections": [_name(each) for each in conditions],
        "type": "incremental",
    }
    filtered = [
        {"data-collection": _name(table), "filter": condition}
        for table, condition in conditions.items()
        if condition
    ]
    return json.dumps({**data, "additional-conditions": filtered} if filtered else data)


def describe_stop() -> str:
    """Return the data of a signal that stops the snapshot of all tables."""
    return json.dumps({"type": "incremental"})


def _name(table: TableName) -> str:
    return "".join(char if char.isalnum() or char == "_" else f"\\{char}" for char in str(table))


def build_condition(conditions: Sequence[RowCondition], dialect: Dialect) -> str:
    """Return conditions as SQL. Columns and values are quoted, so they are never read as anything else."""
    return " AND ".join(
        f"{dialect.name(each.column)} {SYMBOLS[each.operator]} {dialect.text(each.value)}"
        for each in conditions
    )
