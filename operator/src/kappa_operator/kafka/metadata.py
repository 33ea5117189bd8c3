"""The topics of a Kafka cluster in one request, decoded fast. Metadata 10 returns their ids: Kafka 3.0 has it."""

from typing import Any

from aiokafka.protocol.types import Boolean, Int16, Int32

from kappa_operator.errors import KafkaFailure
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.encoding import Leaders, Uuid
from kappa_operator.kafka.frames import LARGE_FRAME
from kappa_operator.kafka.messages import TEXT, Call, array, declare, flexible

MOST_BROKERS, MOST_PARTITIONS = 500, 200_000
"""Of one Kafka cluster: each broker costs a connection, and each partition memory."""
_INTERNAL = "__"
_METADATA = declare(
    3,
    10,
    flexible(
        topics=array(topic_id=Uuid, name=TEXT),
        allow_auto_topic_creation=Boolean,
        include_cluster_authorized_operations=Boolean,
        include_topic_authorized_operations=Boolean,
    ),
    flexible(
        throttle_time_ms=Int32,
        brokers=array(node_id=Int32, host=TEXT, port=Int32, rack=TEXT),
        cluster_id=TEXT,
        controller_id=Int32,
        topics=array(
            error_code=Int16,
            name=TEXT,
            topic_id=Uuid,
            is_internal=Boolean,
            partitions=Leaders(),
            topic_authorized_operations=Int32,
        ),
        cluster_authorized_operations=Int32,
    ),
    most_bytes=LARGE_FRAME,
)


def request_metadata() -> Call:
    """Request all topics that this user may describe."""
    return Call(_METADATA, None, False, False, False)


def check_metadata(answer: Any) -> None:
    """Raise KafkaFailure for a cluster that is larger than the operator reads."""
    brokers, partitions = len(answer.brokers), sum(len(topic[4]) for topic in answer.topics)
    if brokers > MOST_BROKERS or partitions > MOST_PARTITIONS:
        raise KafkaFailure(
            f"Kafka reports {brokers} brokers and {partitions} partitions; the operator reads at most"
            f" {MOST_BROKERS} and {MOST_PARTITIONS}",
            retryable=False,
        )


async def count_topics(connection: Connection) -> int:
    """Return how many topics there are without Kafka's own; raise KafkaFailure."""
    answer = await connection.ask(request_metadata(), "topics cannot be counted")
    check_metadata(answer)
    return sum(not (topic[1] or _INTERNAL).startswith(_INTERNAL) for topic in answer.topics)
