"""The signals that make Debezium write rows again: incremental snapshots of exactly the keys that differ.

Source of the format: Debezium, "Sending signals to a Debezium connector: Ad hoc snapshots". The column `data` of a signal table has
2,048 characters as a rule, so a signal has a part of the keys.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.quoting import quote_postgresql, quote_postgresql_table, quote_postgresql_text
from kappa_operator.cdc.reconcile.model import Difference, DifferenceKind, Table

_LONGEST = 2000
_REPAIRED = (DifferenceKind.ONLY_IN_DATABASE, DifferenceKind.CHANGED)


@dataclass(frozen=True)
class Signal:
    """A row of a signal table."""

    id: str
    data: str
    type: str = "execute-snapshot"

    def build_statement(self, table: TableName) -> str:
        """Return the statement that writes it, which a person can run."""
        values = ", ".join(map(quote_postgresql_text, (self.id, self.type, self.data)))
        return f"INSERT INTO {quote_postgresql_table(table)} VALUES ({values});"  # noqa: S608 - all parts are quoted


def build_signals(table: Table, differences: Iterable[Difference], name: str) -> tuple[Signal, ...]:
    """Return the signals that repair rows which the topic lacks or has wrong. `name` makes their ids unique.

    A key whose text the database does not read back leads to one signal for the whole table.
    """
    keys = [each.key for each in differences if each.kind in _REPAIRED]
    if not keys:
        return ()
    if not table.is_searchable:
        return (Signal(f"{name}-1", _describe(table.name, None)),)
    return tuple(Signal(f"{name}-{number}", data) for number, data in enumerate(_split(table, keys), 1))


def _split(table: Table, keys: Sequence[tuple[str, ...]]) -> Iterable[str]:
    part: list[tuple[str, ...]] = []
    for key in keys:
        if part and len(_describe(table.name, _filter(table, [*part, key]))) > _LONGEST:
            yield _describe(table.name, _filter(table, part))
            part = []
        part.append(key)
    yield _describe(table.name, _filter(table, part))


def _filter(table: Table, keys: Sequence[tuple[str, ...]]) -> str:
    names = ", ".join(quote_postgresql(each.name) for each in table.key)
    rows = ["(" + ", ".join(map(quote_postgresql_text, key)) + ")" for key in keys]
    return f"({names}) IN ({', '.join(rows)})"


def _describe(table: TableName, condition: str | None) -> str:
    data: dict[str, object] = {"data-collections": [str(table)], "type": "incremental"}
    if condition is not None:
        data["additional-conditions"] = [{"data-collection": str(table), "filter": condition}]
    return json.dumps(data)


def needs_tombstone(differences: Iterable[Difference]) -> bool:
    """Return whether the topic has rows that no snapshot removes."""
    return any(each.kind in (DifferenceKind.ONLY_IN_TOPIC, DifferenceKind.DUPLICATE) for each in differences)
