"""How far an incremental snapshot is, from the position that Debezium has stored: pure.

While it runs, the position has its tables that are left, and the last key that was read, as an array of one Java object for each column
of the key. Numbers and UUIDs are read from there; other keys lead to a progress by tables only. Source of the format: the classes
AbstractIncrementalSnapshotContext and BinlogOffsetContext of Debezium, and the specification of Java object serialization.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kappa_crds.cdcsource_status import IncrementalState, IncrementalStatus, TableRange
from kappa_crds.quantities import format_duration

_LEFT, _LAST, _MOST = (
    f"incremental_snapshot_{name}" for name in ("collections", "primary_key", "maximum_key")
)
_ID, _SIGNAL = "incremental_snapshot_collections_id", "incremental_snapshot_collections_correlation_id"
_KIND, _INCREMENTAL = "snapshot", "incremental"
_LONGEST = 100_000
"""Characters of a list of tables."""
_KEY = re.compile(
    rb"\xac\xed\x00\x05ur\x00\x13\[Ljava\.lang\.Object;.{8}\x02\x00\x00xp\x00\x00\x00\x01sr\x00."
    rb"java\.(lang\.Long|lang\.Integer|lang\.Short|util\.UUID)",
    re.DOTALL,
)
_BYTES = {b"lang.Short": 2, b"lang.Integer": 4, b"lang.Long": 8, b"util.UUID": 16}


def is_incremental(offset: Mapping[str, Any]) -> bool:
    """Return whether a position is within an incremental snapshot."""
    return str(offset.get(_KIND, "")).lower() == _INCREMENTAL


def hides_tables(offset: Mapping[str, Any]) -> bool:
    """Return whether a position is within an incremental snapshot, but has no tables that are left.

    Debezium leaves them out from the restart of a task until it has read the next rows. If the task restarts in that time again, they are
    lost, and all later positions are like this one.
    """
    return is_incremental(offset) and not offset.get(_LEFT)


def list_left(offset: Mapping[str, Any], signal: str, tables: Iterable[str]) -> tuple[str, ...]:
    """Return the tables of a signal that are not read yet, the present one first.

    Debezium before 3.7 does not store which signal a table is from: then all tables that the request names are counted.
    """
    text = offset.get(_LEFT)
    if not isinstance(text, str) or len(text) > _LONGEST:
        return ()
    try:
        known = json.loads(text)
    except ValueError:
        return ()
    entries = [each for each in known if isinstance(each, dict)] if isinstance(known, list) else []
    wanted = set(tables)
    return tuple(
        str(each.get(_ID, ""))[:200]
        for each in entries
        if each.get(_SIGNAL) == signal or (_SIGNAL not in each and each.get(_ID) in wanted)
    )


def parse_key(text: object) -> int | None:
    """Return a key as a number; None for one that is no number or UUID, or has several columns. Of a UUID these are its first 63 bits."""
    if not isinstance(text, str) or len(text) > 2000:
        return None
    try:
        found = _KEY.match(bytes.fromhex(text))
    except ValueError:
        return None
    if found is None:
        return None
    kind, value = found[1], bytes.fromhex(text)[-_BYTES[found[1]] :]
    if kind == b"util.UUID":
        return int.from_bytes(value[8:]) >> 1
    return int.from_bytes(value, signed=True)


def measure(
    known: IncrementalStatus, offset: Mapping[str, Any], left: tuple[str, ...], now: datetime
) -> IncrementalStatus:
    """Return the status of a snapshot that runs, with rows and time as far as they can be estimated."""
    done = known.tables[: max(0, len(known.tables) - len(left))]
    present = next((each for each in known.tables if each.table == left[0]), None)
    rows = known.rows
    part = _find_part(present, offset)
    rows_done = None if rows is None else sum(each.rows or 0 for each in done)
    if rows_done is not None and present is not None and part is not None:
        rows_done += round(part * (present.rows or 0))
    remaining = _estimate(known, rows, rows_done, now)
    text = f"reads {left[0]}, table {len(done) + 1} of {len(known.tables)}"
    if rows:
        text += f"; about {rows_done:,} of {rows:,} rows"
    if remaining is not None:
        text += f", {remaining} left"
    return known.replace(
        state=IncrementalState.RUNNING, message=text, tables_done=len(done), rows_done=rows_done,
        remaining=remaining,
    )  # fmt: skip


def _find_part(table: TableRange | None, offset: Mapping[str, Any]) -> float | None:
    """Return the part of a table that was read, by its keys."""
    last, most = parse_key(offset.get(_LAST)), parse_key(offset.get(_MOST))
    if table is None or table.first is None or last is None or most is None or most <= table.first:
        return None
    return min(1.0, max(0.0, (last - table.first) / (most - table.first)))


def _estimate(known: IncrementalStatus, rows: int | None, done: int | None, now: datetime) -> str | None:
    if not rows or not done or known.begun is None:
        return None
    seconds = max(0.0, (now - known.begun).total_seconds())
    return format_duration(round(seconds * max(0, rows - done) / done))
