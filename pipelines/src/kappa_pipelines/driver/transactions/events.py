"""What Debezium writes about transactions: a block in each change, and the end of each transaction in a topic of its own. Pure.

Source of the formats: Debezium, "Debezium connector for PostgreSQL: Transaction metadata". In PostgreSQL the id is that of the transaction
and the LSN of the record that has it, so it differs between the changes of a transaction and its end.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WITH_LSN = re.compile(r"(\d+):\d+")
_END = "END"


@dataclass(frozen=True, slots=True)
class Change:
    """A change: the id of its transaction, and its number among the changes of its table there."""

    transaction: str
    order: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of a transaction, with the number of its changes by table."""

    transaction: str
    changes: Mapping[str, int]


def parse_change(value: bytes | None) -> Change | None:
    """Return the transaction of a change; None for a tombstone, a row of a snapshot, and anything else."""
    found = _read(value).get("transaction")
    if not isinstance(found, dict):
        return None
    name, order = found.get("id"), found.get("data_collection_order")
    return Change(_shorten(name), order) if isinstance(name, str) and isinstance(order, int) else None


def parse_end(value: bytes | None) -> End | None:
    """Return the end of a transaction; None for its begin, and anything else."""
    found = _read(value)
    name = found.get("id")
    if found.get("status") != _END or not isinstance(name, str):
        return None
    tables = found.get("data_collections") or ()
    changes = {str(table["data_collection"]): int(table["event_count"]) for table in tables}
    return End(_shorten(name), changes)


def _shorten(name: str) -> str:
    with_lsn = _WITH_LSN.fullmatch(name)
    return with_lsn[1] if with_lsn else name


def _read(value: bytes | None) -> dict[str, Any]:
    """Return an event, alone or as the payload beside its schema; an empty one for other values."""
    try:
        found = json.loads(value or b"{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    payload = found.get("payload")
    return payload if isinstance(payload, dict) and "schema" in found else found
