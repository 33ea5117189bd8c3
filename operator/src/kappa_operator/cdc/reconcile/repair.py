"""The signals that make Debezium write rows again: incremental snapshots of exactly the keys that differ.

The column `data` of a signal table has 2,048 characters as a rule, so a signal has a part of the keys.
"""

from collections.abc import Iterable, Sequence

from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.quoting import Dialect
from kappa_operator.cdc.reconcile.model import Difference, DifferenceKind, Table
from kappa_operator.cdc.signals import Signal, describe_snapshot

_LONGEST = 2000
_REPAIRED = (DifferenceKind.ONLY_IN_DATABASE, DifferenceKind.CHANGED)


def build_signals(
    table: Table, differences: Iterable[Difference], name: str, dialect: Dialect
) -> tuple[Signal, ...]:
    """Return the signals that repair rows which the topic lacks or has wrong. `name` makes their ids unique.

    A key whose text the database does not read back leads to one signal for the whole table.
    """
    keys = [each.key for each in differences if each.kind in _REPAIRED]
    if not keys:
        return ()
    if not table.is_searchable:
        return (Signal(f"{name}-1", _describe(table.name, "")),)
    return tuple(
        Signal(f"{name}-{number}", data) for number, data in enumerate(_split(table, keys, dialect), 1)
    )


def _split(table: Table, keys: Sequence[tuple[str, ...]], dialect: Dialect) -> Iterable[str]:
    part: list[tuple[str, ...]] = []
    for key in keys:
        if part and len(_describe(table.name, _filter(table, [*part, key], dialect))) > _LONGEST:
            yield _describe(table.name, _filter(table, part, dialect))
            part = []
        part.append(key)
    yield _describe(table.name, _filter(table, part, dialect))


def _filter(table: Table, keys: Sequence[tuple[str, ...]], dialect: Dialect) -> str:
    names = ", ".join(dialect.name(each.name) for each in table.key)
    rows = ["(" + ", ".join(map(dialect.text, key)) + ")" for key in keys]
    return f"({names}) IN ({', '.join(rows)})"


def _describe(table: TableName, condition: str) -> str:
    return describe_snapshot({table: condition})


def needs_tombstone(differences: Iterable[Difference]) -> bool:
    """Return whether the topic has rows that no snapshot removes."""
    return any(each.kind in (DifferenceKind.ONLY_IN_TOPIC, DifferenceKind.DUPLICATE) for each in differences)
