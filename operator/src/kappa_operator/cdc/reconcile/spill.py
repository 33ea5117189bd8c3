"""Keeps the versions of all rows in files, by groups of buckets, so that memory holds one group at a time."""

import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kappa_operator.cdc.reconcile.buckets import GROUPS, find_bucket, find_group
from kappa_operator.cdc.reconcile.events import Change, Version

_HEAD = struct.Struct("<qqqiB16sHI")
_NONE = -1
_FLUSHED = 1 << 16
"""Bytes of a group that are kept in memory."""


class Spill:
    """A context manager. Versions are read in the order in which they were added. The folder is removed at the end."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kappa-reconcile-", dir=folder)
        self._buffers = [bytearray() for _ in range(GROUPS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def add(self, key: str, key_hash: bytes, version: Version) -> None:
        """Keep a version of the row with this key."""
        group = find_group(find_bucket(key_hash))
        buffer = self._buffers[group]
        name = key.encode(errors="surrogatepass")
        fields = b"" if version.fields is None else json.dumps(version.fields).encode()
        buffer += _HEAD.pack(
            _NONE if version.position is None else version.position,
            _NONE if version.transaction is None else version.transaction,
            version.offset,
            version.partition,
            version.change,
            version.checksum,
            len(name),
            len(fields),
        )
        buffer += name
        buffer += fields
        if len(buffer) > _FLUSHED:
            self._flush(group)

    def _flush(self, group: int) -> None:
        with self._path(group).open("ab") as file:
            file.write(self._buffers[group])
        self._buffers[group].clear()

    def _path(self, group: int) -> Path:
        return Path(self._folder.name) / str(group)

    def read(self, group: int) -> Iterator[tuple[str, Version]]:
        """Yield the keys and versions of a group."""
        self._flush(group)
        content = self._path(group).read_bytes()
        at = 0
        while at < len(content):
            position, transaction, offset, partition, change, checksum, names, fields = _HEAD.unpack_from(
                content, at
            )
            at += _HEAD.size
            key = content[at : at + names].decode(errors="surrogatepass")
            at += names
            kept = tuple(json.loads(content[at : at + fields])) if fields else None
            at += fields
            yield (
                key,
                Version(
                    _CHANGES[change],
                    None if position == _NONE else position,
                    None if transaction == _NONE else transaction,
                    partition,
                    offset,
                    checksum,
                    kept,
                ),
            )


_CHANGES = tuple(Change)
