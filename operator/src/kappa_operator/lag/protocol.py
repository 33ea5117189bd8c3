"""The requests of Kafka's protocol that aiokafka lacks, declared with its own types.

Metadata 10 says the ids of topics, OffsetFetch 8 asks for many groups at once, ListOffsets 7 for the newest timestamp: Kafka 3.0 has them
all. Entries of one size are unpacked by `struct` in one go, others are skimmed, which takes a fraction of what aiokafka's own decoding takes.
Source of the fields: the message definitions in Kafka's `clients/src/main/resources/common/message`.
"""

from collections.abc import Sequence
from io import BytesIO
from itertools import starmap
from struct import Struct

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
    UnsignedVarInt32,
)

Row = tuple[int, ...]

NO_TAGS: dict[int, bytes] = {}

_LENGTH = Struct(">i")
_COMMIT, _ERROR = Struct(">iqi"), Struct(">h")
_PARTITION = Struct(">hiii")


class Rows:
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

    def repr(self, rows: Sequence[Row]) -> str:
        """Say how many there are."""
        return f"({len(rows)} rows)"


class CompactRows(Rows):
    """The same in the encoding of newer versions, where each entry ends with its tagged fields; those that are used here have none."""

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
    """A compact array of which each entry is read up to what matters and then skipped to its end."""

    def __init__(self) -> None:
        super().__init__("")

    def decode(self, data: BytesIO) -> list[Row]:
        """Return what matters of the entries."""
        length: int = UnsignedVarInt32.decode(data) - 1
        with data.getbuffer() as buffer:
            position, rows = data.tell(), []
            for _ in range(length):
                row, position = self._read(buffer, position)
                rows.append(row)
        data.seek(position)
        return rows

    def _read(self, buffer: memoryview, position: int) -> tuple[Row, int]:
        raise NotImplementedError


class Commits(Skimmed):
    """Committed offsets of a topic: partition, offset, error. Leader epoch and metadata are skipped."""

    def _read(self, buffer: memoryview, position: int) -> tuple[Row, int]:
        partition, offset, _ = _COMMIT.unpack_from(buffer, position)
        position = _skip(buffer, position + _COMMIT.size, 1)
        (error,) = _ERROR.unpack_from(buffer, position)
        return (partition, offset, error), _skip_tags(buffer, position + _ERROR.size)


class Leaders(Skimmed):
    """Partitions of a topic: partition, leader, error. Epoch and replicas are skipped."""

    def _read(self, buffer: memoryview, position: int) -> tuple[Row, int]:
        error, partition, leader, _ = _PARTITION.unpack_from(buffer, position)
        position += _PARTITION.size
        for _ in ("replicas", "in sync", "offline"):
            position = _skip(buffer, position, 4)
        return (partition, leader, error), _skip_tags(buffer, position)


def _read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := buffer[position]) & 0x80:
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


class Uuid:
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Return them as they are."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """Return them as they are."""
        return data.read(16)

    @classmethod
    def repr(cls, value: bytes) -> str:
        """Say them in hexadecimal digits."""
        return value.hex()


_TEXT = CompactString("utf-8")


class MetadataResponse(Response):  # type: ignore[misc]
    """Brokers and topics."""

    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), ("tags", TaggedFields)
            ),
        ),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _TEXT),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                ("partitions", Leaders()),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class MetadataStruct(RequestStruct):  # type: ignore[misc]
    """The request on the wire."""

    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("name", _TEXT), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class MetadataRequest(Request[MetadataStruct]):  # type: ignore[misc]
    """Ask for all topics that this user may describe."""

    API_KEY = 3

    def build(self, request_struct_class: type[MetadataStruct]) -> MetadataStruct:
        """Return the request."""
        return request_struct_class(None, False, False, False, NO_TAGS)


class OffsetFetchResponse(Response):  # type: ignore[misc]
    """Committed offsets by group and topic."""

    API_KEY = 9
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("group_id", _TEXT),
                ("topics", CompactArray(("name", _TEXT), ("partitions", Commits()), ("tags", TaggedFields))),
                ("error_code", Int16),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class OffsetFetchStruct(RequestStruct):  # type: ignore[misc]
    """The request on the wire."""

    FLEXIBLE_VERSION = True
    API_KEY = 9
    API_VERSION = 8
    RESPONSE_TYPE = OffsetFetchResponse
    SCHEMA = Schema(
        (
            "groups",
            CompactArray(
                ("group_id", _TEXT),
                (
                    "topics",
                    CompactArray(
                        ("name", _TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class OffsetFetchRequest(Request[OffsetFetchStruct]):  # type: ignore[misc]
    """Ask for all offsets that these groups have committed."""

    API_KEY = 9

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups

    def build(self, request_struct_class: type[OffsetFetchStruct]) -> OffsetFetchStruct:
        """Return the request."""
        return request_struct_class([(group, None, NO_TAGS) for group in self._groups], False, NO_TAGS)


class ListOffsetsResponse(Response):  # type: ignore[misc]
    """Offsets by topic: partition, error, timestamp of the record, its offset, and two that do not matter."""

    API_KEY = 2
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(("topic", _TEXT), ("partitions", CompactRows("ihqqi")), ("tags", TaggedFields)),
        ),
        ("tags", TaggedFields),
    )


class ListOffsetsStruct(RequestStruct):  # type: ignore[misc]
    """The request on the wire."""

    FLEXIBLE_VERSION = True
    API_KEY = 2
    API_VERSION = 7
    RESPONSE_TYPE = ListOffsetsResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            CompactArray(("topic", _TEXT), ("partitions", CompactRows("iiq")), ("tags", TaggedFields)),
        ),
        ("tags", TaggedFields),
    )


class ListOffsetsRequest(Request[ListOffsetsStruct]):  # type: ignore[misc]
    """Ask for offsets by topic: partition and timestamp in milliseconds, or one of Kafka's special values below 0."""

    API_KEY = 2

    def __init__(self, topics: Sequence[tuple[str, Sequence[Row]]], *, committed: bool) -> None:
        self._topics = topics
        self._isolation = 1 if committed else 0

    def build(self, request_struct_class: type[ListOffsetsStruct]) -> ListOffsetsStruct:
        """Return the request; -1 is for a leader's epoch that nobody asks for."""
        topics = self._topics
        wanted = [(topic, [(each, -1, stamp) for each, stamp in rows], NO_TAGS) for topic, rows in topics]
        return request_struct_class(-1, self._isolation, wanted, NO_TAGS)


class Batches:
    """The batches of a fetch: base offset, last offset and whether it holds a transaction's marker. Records are never looked at.

    Source of the layout: the class DefaultRecordBatch of Kafka's clients.
    """

    _HEADER = Struct(">qiiBIhi")
    _CONTROL = 0x20

    @classmethod
    def encode(cls, value: object) -> bytes:
        """Raise NotImplementedError: batches are only read here."""
        raise NotImplementedError

    @classmethod
    def decode(cls, data: BytesIO) -> list[tuple[int, int, bool]]:
        """Return the batches that are there as a whole."""
        (length,) = _LENGTH.unpack(data.read(4))
        content, position, batches = data.read(max(length, 0)), 0, []
        while position + cls._HEADER.size <= len(content):
            base, size, _, magic, _, attributes, delta = cls._HEADER.unpack_from(content, position)
            position += 12 + size
            if magic < 2 or position > len(content):
                break
            batches.append((base, base + delta, bool(attributes & cls._CONTROL)))
        return batches

    @classmethod
    def repr(cls, value: Sequence[object]) -> str:
        """Say how many there are."""
        return f"({len(value)} batches)"


class FetchResponse(Response):  # type: ignore[misc]
    """Batches by topic and partition."""

    API_KEY = 1
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("high_watermark", Int64),
                        ("last_stable_offset", Int64),
                        ("aborted_transactions", Rows("qq")),
                        ("batches", Batches),
                    ),
                ),
            ),
        ),
    )


class FetchStruct(RequestStruct):  # type: ignore[misc]
    """The request on the wire."""

    API_KEY = 1
    API_VERSION = 4
    RESPONSE_TYPE = FetchResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("max_wait_ms", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("topics", Array(("topic", String("utf-8")), ("partitions", Rows("iqi")))),
    )


class FetchRequest(Request[FetchStruct]):  # type: ignore[misc]
    """Ask for what is there at these offsets, by topic: partition, offset and the most bytes of it; nothing is waited for."""

    API_KEY = 1

    def __init__(self, topics: Sequence[tuple[str, Sequence[Row]]], max_bytes: int) -> None:
        self._topics = topics
        self._max_bytes = max_bytes

    def build(self, request_struct_class: type[FetchStruct]) -> FetchStruct:
        """Return the request."""
        return request_struct_class(-1, 0, 0, self._max_bytes, 0, self._topics)
