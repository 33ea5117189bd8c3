"""The requests of Kafka's protocol that aiokafka lacks, declared with its own types.

Metadata 10 says the ids of topics, OffsetFetch 8 asks for many groups at once, ListOffsets 7 for the newest timestamp: Kafka 3.0 has them
all. Source of the fields: the message definitions in Kafka's `clients/src/main/resources/common/message`.
"""

from collections.abc import Sequence

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
)

from kappa_operator.lag.encoding import Batches, Commits, CompactRows, Leaders, Row, Rows, Uuid

NO_TAGS: dict[int, bytes] = {}

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
