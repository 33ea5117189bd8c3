"""The requests that samples of offsets need and aiokafka lacks.

OffsetFetch 8 the offsets of many groups at once, ListOffsets 7 the newest timestamp: Kafka 3.0
has them all.
"""

from collections.abc import Sequence

from aiokafka.protocol.types import Array, Boolean, CompactArray, Int8, Int16, Int32, Int64, Schema, String

from kappa_operator.kafka.encoding import Batches, Commits, CompactRows, Row, Rows
from kappa_operator.kafka.frames import LARGE_FRAME
from kappa_operator.kafka.messages import NO_TAGS, TEXT, Call, array, declare, flexible

_OFFSET_FETCH = declare(
    9,
    8,
    flexible(
        groups=array(group_id=TEXT, topics=array(name=TEXT, partitions=CompactArray(Int32))),
        require_stable=Boolean,
    ),
    flexible(
        throttle_time_ms=Int32,
        groups=array(group_id=TEXT, topics=array(name=TEXT, partitions=Commits()), error_code=Int16),
    ),
    most_bytes=LARGE_FRAME,
)
_LIST_OFFSETS = declare(
    2,
    7,
    flexible(replica_id=Int32, isolation_level=Int8, topics=array(topic=TEXT, partitions=CompactRows("iiq"))),
    flexible(throttle_time_ms=Int32, topics=array(topic=TEXT, partitions=CompactRows("ihqqi"))),
)
_FETCH = declare(
    1,
    4,
    Schema(
        ("replica_id", Int32),
        ("max_wait_ms", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("topics", Array(("topic", String("utf-8")), ("partitions", Rows("iqi")))),
    ),
    Schema(
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
    ),
)
_NO_REPLICA, _NO_EPOCH = -1, -1
Topics = Sequence[tuple[str, Sequence[Row]]]


def request_commits(groups: Sequence[str]) -> Call:
    """Request all offsets that these groups have committed."""
    return Call(_OFFSET_FETCH, [(group, None, NO_TAGS) for group in groups], False)


def request_offsets(topics: Topics, *, committed: bool) -> Call:
    """Request offsets by topic: partition and timestamp in milliseconds, or one of Kafka's special values below 0.

    The response has rows by topic: partition, error, timestamp of the record, its offset, and its leader's epoch.
    """
    rows = [(topic, [(each, _NO_EPOCH, stamp) for each, stamp in rows], NO_TAGS) for topic, rows in topics]
    return Call(_LIST_OFFSETS, _NO_REPLICA, int(committed), rows)


def request_records(topics: Topics, max_bytes: int) -> Call:
    """Request what is at these offsets now, by topic: partition, offset and the most bytes of it."""
    return Call(_FETCH, _NO_REPLICA, 0, 0, max_bytes, 0, topics)
