"""Types of Kafka's protocol with a fast decoder: it reads tens of thousands of entries in one step of the event loop.

`struct` unpacks entries of one size at once; of other entries only the needed fields are read. Brokers are not trusted: each step of a
loop reads bytes of the response, whose size `frames` bounds.
"""

from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from itertools import starmap
from struct import Struct
from typing import Any

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.types import UnsignedVarInt32

Row = tuple[int, ...]

_LONGEST_SHIFT = 21
_LENGTH = Struct(">i")
_COMMIT, _ERROR = Struct(">iqi"), Struct(">h")
_PARTITION = Struct(">hiii")
_PLAIN = Struct(">iqiBhB")
"""A commit without metadata and tags."""


class Rows(AbstractType[Any]):  # type: ignore[misc]
    """An array whose entries have one size each, by their `struct` format."""

    def __init__(self, entry: str) -> None:
        self._entry = Struct(f">{entry}")

    def encode(self, rows: Sequence[Row]) -> bytes:
        """Return the length and the entries."""
        return _LENGTH.pack(len(rows)) + b"".join(starmap(self._entry.pack, rows))

    def decode(self, data: BytesIO) -> list[Row]:
        """Return the entries."""
        (length,) = _LENGTH.unpack(data.read(4))
        return list(self._entry.iter_unpack(data.read(max(length, 0) * self._entry.size)))


class CompactRows(Rows):
    """The same in the encoding of newer versions, where each entry ends with tagged fields; those used here have none."""

    def __init__(self, entry: str) -> None:
        super().__init__(f"{entry}B")

    def encode(self, rows: Sequence[Row]) -> bytes:
        """Return the length and the entries."""
        entries = b"".join(self._entry.pack(*row, 0) for row in rows)
        return bytes(UnsignedVarInt32.encode(len(rows) + 1)) + entries

    def decode(self, data: BytesIO) -> list[Row]:
        """Return the entries."""
        length: int = UnsignedVarInt32.decode(data) - 1
        return list(self._entry.iter_unpack(data.read(length * self._entry.size)))


class Skimmed(Rows):
    """A compact array of which only the needed fields of each entry are read.

    Entries of the same length as the previous one, nearly all of them, are unpacked at once.
    """

    def __init__(self) -> None:
        super().__init__("")

    def decode(self, data: BytesIO) -> list[Row]:
        """Return the needed fields of the entries."""
        length: int = UnsignedVarInt32.decode(data) - 1
        rows: list[Row] = []
        with data.getbuffer() as buffer:
            position = data.tell()
            while len(rows) < length:
                row, end = self._read(buffer, position)
                rows.append(row)
                alike = (length - len(rows)) * (end - position)
                position = end + self._read_alike(buffer[position:end], buffer[end : end + alike], rows)
        data.seek(position)
        return rows

    def _read(self, buffer: memoryview, position: int) -> tuple[Row, int]:
        """Return the needed fields of the entry at the position, and the position of the next one."""
        raise NotImplementedError

    def _read_alike(self, entry: memoryview, following: memoryview, rows: list[Row]) -> int:
        """Add the next entries up to the first one of another form; return their length in bytes."""
        raise NotImplementedError


class Commits(Skimmed):
    """Committed offsets of a topic: partition, offset, error. Leader epoch and metadata are skipped."""

    def _read(self, buffer: memoryview, position: int) -> tuple[Row, int]:
        partition, offset, _ = _COMMIT.unpack_from(buffer, position)
        position = _skip(buffer, position + _COMMIT.size, 1)
        (error,) = _ERROR.unpack_from(buffer, position)
        return (partition, offset, error), _skip_tags(buffer, position + _ERROR.size)

    def _read_alike(self, entry: memoryview, following: memoryview, rows: list[Row]) -> int:
        if len(entry) != _PLAIN.size:
            return 0
        before = len(rows)
        for partition, offset, _, metadata, error, tags in _PLAIN.iter_unpack(_trim(following, _PLAIN.size)):
            if metadata > 1 or tags:  # 0 is for none, 1 for an empty one
                break
            rows.append((partition, offset, error))
        return (len(rows) - before) * _PLAIN.size


class Leaders(Skimmed):
    """Partitions of a topic: partition, leader, error. Epoch and replicas are skipped."""

    def _read(self, buffer: memoryview, position: int) -> tuple[Row, int]:
        error, partition, leader, _ = _PARTITION.unpack_from(buffer, position)
        position += _PARTITION.size
        for _ in ("replicas", "in sync", "offline"):
            position = _skip(buffer, position, 4)
        return (partition, leader, error), _skip_tags(buffer, position)

    def _read_alike(self, entry: memoryview, following: memoryview, rows: list[Row]) -> int:
        form = _find_form(entry)
        if form is None:
            return 0
        before, (struct, counts) = len(rows), form
        for error, partition, leader, _, *found in struct.iter_unpack(_trim(following, struct.size)):
            if found != counts:
                break
            rows.append((partition, leader, error))
        return (len(rows) - before) * struct.size


class Replicas(Skimmed):
    """Partitions of a topic: partition, and how many replicas it has."""

    def _read(self, buffer: memoryview, position: int) -> tuple[Row, int]:
        _, partition, _, _ = _PARTITION.unpack_from(buffer, position)
        position += _PARTITION.size
        replicas, _ = _read_varint(buffer, position)
        for _ in ("replicas", "in sync", "offline"):
            position = _skip(buffer, position, 4)
        return (partition, max(replicas - 1, 0)), _skip_tags(buffer, position)

    def _read_alike(self, entry: memoryview, following: memoryview, rows: list[Row]) -> int:
        form = _find_form(entry)
        if form is None:
            return 0
        before, (struct, counts), replicas = len(rows), form, max(entry[_PARTITION.size] - 1, 0)
        for _, number, _, _, *found in struct.iter_unpack(_trim(following, struct.size)):
            if found != counts:
                break
            rows.append((number, replicas))
        return (len(rows) - before) * struct.size


def _find_form(entry: memoryview) -> tuple[Struct, list[int]] | None:
    """Return the layout of partitions whose three arrays have the same lengths as in this one, and the bytes of these lengths.

    None where there are tags, or a length takes two bytes.
    """
    position, counts = _PARTITION.size, []
    for _ in ("replicas", "in sync", "offline"):
        counts.append(entry[position])
        if counts[-1] > 0x7F:
            return None
        position += 1 + 4 * max(counts[-1] - 1, 0)
    tags = entry[position]
    return None if tags else (_lay_out(*counts), [*counts, tags])


@lru_cache
def _lay_out(*counts: int) -> Struct:
    skipped = "".join(f"B{4 * max(count - 1, 0)}x" for count in counts)
    return Struct(f">hiii{skipped}B")


def _trim(buffer: memoryview, size: int) -> memoryview:
    """Return the part that holds whole entries."""
    return buffer[: len(buffer) // size * size]


def _read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := buffer[position]) & 0x80:
        if shift > _LONGEST_SHIFT:
            raise ValueError("a length in a response has more than five bytes")
        value |= (byte & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | byte << shift, position + 1


def _skip(buffer: memoryview, position: int, size: int) -> int:
    """Return the position behind a compact string or array with entries of so many bytes."""
    length, position = _read_varint(buffer, position)
    return position + max(length - 1, 0) * size


def _skip_tags(buffer: memoryview, position: int) -> int:
    count, position = _read_varint(buffer, position)
    for _ in range(count):
        _, position = _read_varint(buffer, position)
        size, position = _read_varint(buffer, position)
        position += size
    return position


class Uuid(AbstractType[bytes]):  # type: ignore[misc]
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Return them as they are."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """Return them as they are."""
        return data.read(16)


class Batches(AbstractType[Any]):  # type: ignore[misc]
    """The batches of a fetch: base offset, last offset and whether it is a transaction marker. Records are never decoded.

    Source of the layout: the class DefaultRecordBatch of Kafka's clients.
    """

    _HEADER = Struct(">qiiBIhi")
    _CONTROL = 0x20

    @classmethod
    def decode(cls, data: BytesIO) -> list[tuple[int, int, bool]]:
        """Return the complete batches."""
        (length,) = _LENGTH.unpack(data.read(4))
        content, position, batches = data.read(max(length, 0)), 0, []
        while position + cls._HEADER.size <= len(content):
            base, size, _, magic, _, attributes, delta = cls._HEADER.unpack_from(content, position)
            position += 12 + size
            if size < cls._HEADER.size - 12 or magic < 2 or position > len(content):
                break
            batches.append((base, base + delta, bool(attributes & cls._CONTROL)))
        return batches
