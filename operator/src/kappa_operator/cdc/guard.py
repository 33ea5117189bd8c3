"""Whether a replication slot still has all changes after the last one that the connector has stored. Pure.

A slot confirms only what the connector has stored, so its position is never ahead of the stored one. A slot that is, was created again or
moved, and the changes between are gone. The stored position has to be read after that of the slot: it only grows.
"""

from collections.abc import Mapping
from typing import Any

from kappa_crds.cdcsource_status import SlotStatus
from kappa_operator.cdc.quoting import quote_postgresql_text

_POSITIONS = ("lsn", "lsn_proc", "lsn_commit")
_LOST = "lost"


def find_position(offset: Mapping[str, Any]) -> int | None:
    """Return the position in an offset of Debezium for PostgreSQL, an LSN as a number; None where it has none yet."""
    found = [value for name in _POSITIONS if isinstance(value := offset.get(name), int)]
    return max(found, default=None)


def find_loss(
    before: SlotStatus | None, name: str, now: SlotStatus | None, system: str, position: int | None
) -> str | None:
    """Return why changes were lost, None where none were. `before` is the slot at the last check, `system` the database as it is now.

    Without a stored position nothing was read yet, so nothing can be lost.
    """
    if position is None:
        return None
    if before is not None and before.system and system and before.system != system:
        return (
            f"the database is another one: its system identifier was {before.system} and is {system}, so positions in its log"
            " mean nothing in the new one"
        )
    if now is None:
        return f"slot {name} does not exist any more, so the database has removed changes that were not read"
    if now.wal_status == _LOST:
        drop = f"SELECT pg_drop_replication_slot({quote_postgresql_text(name)});"
        return f"slot {name} is lost: it kept more than max_slot_wal_keep_size allows; drop it first: {drop}"
    if now.confirmed is not None and now.confirmed > position:
        return (
            f"slot {name} begins at {format_lsn(now.confirmed)}, after {format_lsn(position)}, the last change that was stored:"
            " it was created again or moved"
        )
    return None


def format_lsn(position: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Return an LSN as a number; raise ValueError."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
