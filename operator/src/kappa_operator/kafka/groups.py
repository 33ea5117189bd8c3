"""Reads consumer groups, and commits offsets for one that has no members.

The requests go to the coordinator of the group over aiokafka: librdkafka's AdminClient ends the process where the coordinator is not
available yet. A commit without a member id, with generation -1, is that of a consumer that has joined no group; Kafka refuses it while the group has
members. Source: Kafka's protocol, OffsetCommit.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka.errors import BrokerResponseError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

from kappa_operator.errors import AuthorizationFailed, BrokerUnreachable, KafkaFailure, KafkaRefused
from kappa_operator.kafka.connection import TIMEOUT, UNAVAILABLE, Connection
from kappa_operator.kafka.model import GroupView

_GROUP = 0
"""The coordinator type of consumer groups."""
_NO_GENERATION = _NO_RETENTION = -1


class GroupClient:
    """Reads and changes consumer groups over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, group: str) -> GroupView:
        """Return a group; one that Kafka does not know has neither members nor offsets. Raise KafkaFailure."""
        described, fetched = await self._ask(
            group, DescribeGroupsRequest([group]), OffsetFetchRequest(group, None)
        )
        committed: dict[str, dict[int, int]] = {}
        for topic, partitions in fetched.topics:
            for part, offset, _metadata, code in partitions:
                self._check(group, code)
                if offset >= 0:
                    committed.setdefault(topic, {})[part] = offset
        self._check(group, getattr(fetched, "error_code", 0))
        ((code, _name, _state, _kind, _protocol, members, *_),) = described.groups
        self._check(group, code)
        return GroupView(group, len(members), committed)

    async def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit next offsets by topic and partition; doing it again changes nothing. Raise KafkaFailure."""
        wanted = [(topic, [(part, at, "") for part, at in parts.items()]) for topic, parts in offsets.items()]
        request = OffsetCommitRequest(group, _NO_GENERATION, "", _NO_RETENTION, wanted)
        (answer,) = await self._ask(group, request)
        for _topic, partitions in answer.topics:
            for _part, code in partitions:
                self._check(group, code)

    async def _ask(self, group: str, *requests: Any) -> list[Any]:
        try:
            async with asyncio.timeout(TIMEOUT):
                client = await self._connection.get_client()
                node = await client.coordinator_lookup(_GROUP, group)
                return [await client.send(node, request) for request in requests]
        except UNAVAILABLE as error:
            if isinstance(error, BrokerResponseError):
                self._check(group, error.errno)
            await self._connection.close()
            message = f"{_explain(group)}: {self._connection.describe(error)}"
            raise BrokerUnreachable(message) from error

    def _check(self, group: str, code: int) -> None:
        if code == 0:
            return
        error = for_code(code)
        text = f"{_explain(group)}: {error.__name__}: {error.description}"
        if "Authorization" in error.__name__:
            needs = "it needs Describe and Read on the group, and Read on its topics"
            raise AuthorizationFailed(f"{text}; {needs}", retryable=False)
        if error.retriable:
            raise KafkaFailure(text)
        raise KafkaRefused(text, code=error.__name__)


def _explain(group: str) -> str:
    return f"consumer group {group} cannot be read or changed"
