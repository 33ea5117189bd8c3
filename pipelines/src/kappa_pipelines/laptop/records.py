"""Records in files, as a stream with the columns of Kafka.

A folder holds one file for each batch, in JSON lines; bytes are base64, as Spark's JSON reader expects. Spark reads
files in the order of their modification times, so each file gets a different one.
"""

import base64
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_FIRST_MODIFIED = 1_000_000_000  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. Without `topic` it belongs to the first topic of its source."""

    value: bytes | None
    key: bytes | None = None
    timestamp: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    topic: str | None = None


def encode_text(value: Any) -> bytes | None:
    """Return the bytes of a value in a file of a user: text as it is, other values as JSON, null for none."""
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


class RecordFolder:
    """The records of one source, appended batch by batch; offsets count from 0 in partition 0."""

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self._topic = topic
        self._batches = 0
        self._offset = 0
        path.mkdir(parents=True, exist_ok=True)

    @property
    def last(self) -> int:
        """Return the number of the last batch, counted from 0."""
        return self._batches - 1

    def append(self, records: Iterable[Record]) -> None:
        """Add a batch, possibly without records, so that all sources have the same number of batches."""
        lines = []
        for record in records:
            lines.append(self._encode(record, self._offset))
            self._offset += 1
        self._write(lines)

    def _write(self, lines: list[str]) -> None:
        name = f"{self._batches:08d}.json"
        draft = self.path / f".{name}"
        draft.write_text("".join(f"{line}\n" for line in lines))
        os.utime(draft, (_FIRST_MODIFIED + self._batches,) * 2)
        draft.rename(self.path / name)
        self._batches += 1

    def _encode(self, record: Record, offset: int) -> str:
        fields: dict[str, Any] = {
            "key": _to_base64(record.key),
            "value": _to_base64(record.value),
            "topic": record.topic or self._topic,
            "partition": 0,
            "offset": offset,
            "timestamp": record.timestamp.isoformat(timespec="milliseconds"),
            "timestampType": 0,
            "headers": [{"key": name, "value": _to_base64(value)} for name, value in record.headers] or None,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None})


def _to_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
