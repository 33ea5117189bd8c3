"""Reads some configs of many topics.

confluent-kafka cannot name the configs that it wants, so each topic comes with all of its 35 and their synonyms: at
10,000 topics that was half of the cost of a resync. This request names the few that matter, at a tenth of the processor
time (figures in docs/benchmarks.md, reasons in docs/adr/0004).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.admin import DescribeConfigsRequest

from kappa_operator.errors import AuthorizationFailed, KafkaFailure
from kappa_operator.kafka.connection import Connection

_TOPIC = 2
"""The resource type TOPIC of Kafka's protocol."""
_SET_FOR_TOPIC = 1
"""The config source DYNAMIC_TOPIC_CONFIG of Kafka's protocol."""
_PROBLEM = "configs cannot be read"


class TopicConfigs(NamedTuple):
    """Configs of a topic: the values in effect, and the names of those that were set for it."""

    values: Mapping[str, str]
    explicit: frozenset[str]


class ConfigReader:
    """Reads configs over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(
        self, wanted: Mapping[str, frozenset[str]]
    ) -> dict[str, TopicConfigs | KafkaFailure | None]:
        """Return the wanted configs of each topic, None for a topic that does not exist; raise KafkaFailure."""
        resources = [(_TOPIC, topic, sorted(names)) for topic, names in wanted.items()]
        answer = await self._connection.ask(DescribeConfigsRequest(resources), _PROBLEM)
        return {
            topic: self._parse(code, message, entries)
            for code, message, _, topic, entries in answer.resources
        }

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    def _parse(
        self, code: int, message: str, entries: Sequence[tuple[Any, ...]]
    ) -> TopicConfigs | KafkaFailure | None:
        if code == UnknownTopicOrPartitionError.errno:
            return None
        if code != 0:
            return self._explain(for_code(code)(message))
        return TopicConfigs(
            values={name: value for name, value, *_ in entries if value is not None},
            explicit=frozenset(name for name, _, _, source, *_ in entries if source == _SET_FOR_TOPIC),
        )

    def _explain(self, error: Exception) -> KafkaFailure:
        text = f"{_PROBLEM}: {self._connection.describe(error)}"
        if "Authorization" in type(error).__name__:
            return AuthorizationFailed(
                f"{text} The user needs DescribeConfigs on the topic.", retryable=False
            )
        return KafkaFailure(text)
