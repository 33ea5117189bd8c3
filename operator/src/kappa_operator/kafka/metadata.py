"""The topics of a Kafka cluster in one request, decoded fast. Metadata 10 returns their ids: Kafka 3.0 has it."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.types import AbstractType, Boolean, Int16, Int32

from kappa_operator.errors import KafkaFailure
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.encoding import Leaders, Replicas, Uuid
from kappa_operator.kafka.frames import LARGE_FRAME
from kappa_operator.kafka.messages import NO_TAGS, TEXT, Call, array, declare, flexible

MOST_BROKERS, MOST_PARTITIONS = 500, 200_000
"""Of one Kafka cluster: each broker costs a connection, and each partition memory."""
_INTERNAL = "__"
_NO_ID = bytes(16)


def _declare(partitions: AbstractType[Any]) -> type[RequestStruct]:
    return declare(
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
                partitions=partitions,
                topic_authorized_operations=Int32,
            ),
            cluster_authorized_operations=Int32,
        ),
        most_bytes=LARGE_FRAME,
    )


_LEADERS, _REPLICAS = _declare(Leaders()), _declare(Replicas())


def request_metadata() -> Call:
    """Request all topics that this user may describe."""
    return Call(_LEADERS, None, False, False, False)


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


class FoundTopic(NamedTuple):
    """A topic as a broker reports it, or the code of the error instead."""

    error: int
    topic_id: str = ""
    partitions: int = 0
    replication: int = 0


async def find_topics(connection: Connection, names: Iterable[str]) -> dict[str, FoundTopic]:
    """Return these topics by name; raise KafkaFailure where no broker responds."""
    wanted = [(_NO_ID, name, NO_TAGS) for name in names]
    answer = await connection.ask(Call(_REPLICAS, wanted, False, False, False), "topics cannot be read")
    check_metadata(answer)
    return {name: _parse(error, identity, rows) for error, name, identity, _, rows, *_ in answer.topics}


def _parse(error: int, identity: bytes, rows: Sequence[tuple[int, int]]) -> FoundTopic:
    replication = min((replicas for _, replicas in rows), default=0)
    return FoundTopic(error, format_topic_id(identity), len(rows), replication)


def format_topic_id(identity: bytes) -> str:
    """Return the id of a topic as librdkafka writes it, so that those in stored statuses stay equal."""
    return base64.b64encode(identity).decode().rstrip("=")
