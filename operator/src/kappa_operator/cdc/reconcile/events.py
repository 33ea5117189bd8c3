"""Change events of Debezium in JSON, as versions of rows: where in the log, by which transaction, and the checksum of the row."""

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from kappa_operator.cdc.reconcile.canonical import SEPARATOR, UNAVAILABLE, RowReader, hash_text
from kappa_operator.cdc.reconcile.mariadb.position import encode_position
from kappa_operator.cdc.reconcile.model import Table

_WIDE_TEXT, _WIDE_COLUMNS = 500, 60
"""Characters and columns from which a row may have values that PostgreSQL keeps outside of it, and leaves out of updates."""


_MOST_TABLES = 5


class Change(IntEnum):
    """What a record does to its row."""

    ROW = 0
    SNAPSHOT_ROW = 1
    """A row of a full snapshot, which replaces all that came before it."""
    DELETE = 2
    TOMBSTONE = 3


class Version(NamedTuple):
    """A version of a row. `position` and `transaction` are None where the record has none.

    `fields` are those of a row that is wide, or that lacks values; otherwise the checksum is enough.
    """

    change: Change
    position: int | None
    transaction: int | None
    partition: int
    offset: int
    checksum: bytes = b""
    fields: tuple[str, ...] | None = None

    @property
    def is_deletion(self) -> bool:
        """Return whether the row is gone after it."""
        return self.change >= Change.DELETE

    @property
    def is_complete(self) -> bool:
        """Return whether all values of the row are known."""
        return self.fields is None or UNAVAILABLE not in self.fields


class Record(NamedTuple):
    """A record of a topic, as it was read."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass
class EventReader:
    """Reads records, and counts what it cannot use.

    `seen` are the columns of all rows. `latest` is the last position of a change that was read: all transactions that committed before it
    are in the log, as Debezium writes them in the order of their commits. `server` is the logical name of the connector, and
    `tables` are those that rows are of, up to a limit.
    """

    table: Table
    seen: set[str] = field(default_factory=set)
    records: int = 0
    rows: int = 0
    latest: int = 0
    truncations: int = 0
    unreadable: int = 0
    wrong_keys: int = 0
    server: str = ""
    tables: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._key = RowReader(self.table.key, is_key=True)
        self._row = RowReader(self.table.columns)
        self._names = {each.name for each in self.table.key}

    def read(self, record: Record) -> tuple[str, Version] | None:
        """Return the joined fields of the key, and the version; None for a record that is no version of a row."""
        self.records += 1
        try:
            event = None if record.value is None else _unwrap(_parse(record.value.decode()), "op")
            key = None if record.key is None else _unwrap(_parse(record.key.decode()), *self._names)
            if event is not None and event["op"] in _OTHERS:
                self.truncations += event["op"] == "t"
                return None
            if key is None or key.keys() != self._names:
                self.wrong_keys += 1
                return None
            return SEPARATOR.join(self._key.read(key)), self._read_version(record, event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unreadable += 1
            return None

    def _read_version(self, record: Record, event: dict[str, Any] | None) -> Version:
        if event is None:
            return Version(Change.TOMBSTONE, None, None, record.partition, record.offset)
        source, op = event["source"], event["op"]
        self.server = source["name"]
        if len(self.tables) < _MOST_TABLES:
            self.tables.add(f"{source.get('schema') or source.get('db')}.{source.get('table')}")
        position = find_position(source)
        is_full = op == "r" and source.get("snapshot") != "incremental"
        if op != "r" and position is not None and position > self.latest:
            self.latest = position
        transaction = None if op == "r" else source.get("txId")
        if op == "d":
            return Version(Change.DELETE, position, transaction, record.partition, record.offset)
        row = event["after"]
        self.rows += 1
        self.seen.update(row)
        fields = self._row.read(row)
        text = SEPARATOR.join(fields)
        is_kept = len(text) >= _WIDE_TEXT or len(fields) >= _WIDE_COLUMNS or UNAVAILABLE in fields
        is_kept = is_kept or ("#" in text and any(each.startswith("#") for each in fields))
        change = Change.SNAPSHOT_ROW if is_full else Change.ROW
        kept = tuple(fields) if is_kept else None
        return Version(change, position, transaction, record.partition, record.offset, hash_text(text), kept)

    def read_fields(self, record: Record) -> tuple[list[str], dict[str, Any]] | None:
        """Return the fields of the row of a record and its values; None where it has none."""
        event = None if record.value is None else _unwrap(_parse(record.value.decode()), "op")
        row = event and event.get("after")
        return (self._row.read(row), row) if row else None


_parse = json.JSONDecoder().decode
_OTHERS = frozenset("tm")
"""Truncations and messages."""


def _unwrap(value: Any, *names: str) -> Any:
    """Return the payload of a value that has its schema beside it."""
    if isinstance(value, dict) and value.keys() == {"schema", "payload"} and not set(names) <= value.keys():
        return value["payload"]
    return value


def find_position(source: dict[str, Any]) -> int | None:
    """Return the position in the log: that of the change, or for a row of an incremental snapshot that of the last change before it."""
    if source.get("lsn") is not None:
        return int(source["lsn"])
    if source.get("file") is not None:
        return encode_position(source["file"], source["pos"])
    sequence = json.loads(source.get("sequence") or "[]")
    found = [int(each) for each in reversed(sequence) if each is not None]
    return found[0] if found else None
