"""Reads and sets client quotas of Kafka (bytes per second of a producer), which confluent-kafka's client cannot.

Any broker answers both requests and forwards them to the controller. They need the permissions DescribeConfigs and AlterConfigs on
the cluster. Source of their meaning: KIP-546.
"""

import asyncio
import contextlib
import ssl
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.types import Boolean, Float64, Int8, Int16, Int32

from kappa_operator.errors import AuthorizationFailed, BrokerUnreachable, KafkaFailure, KafkaRefused
from kappa_operator.kafka.configs import build_settings
from kappa_operator.kafka.messages import NO_TAGS, TEXT, Call, array, declare, flexible
from kappa_operator.kafka.model import KafkaAccess, Producer

RATE = "producer_byte_rate"
"""Bytes a second that one broker takes."""
_TIMEOUT = 20.0
_EXACT = 0
_ENTITY = array(("type", TEXT), ("name", TEXT))
_DESCRIBE = declare(
    48,
    1,
    flexible(
        ("components", array(("type", TEXT), ("match_type", Int8), ("match", TEXT))), ("strict", Boolean)
    ),
    flexible(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", TEXT),
        ("entries", array(("entity", _ENTITY), ("values", array(("key", TEXT), ("value", Float64))))),
    ),
)
_ALTER = declare(
    49,
    1,
    flexible(
        (
            "entries",
            array(
                ("entity", _ENTITY), ("ops", array(("key", TEXT), ("value", Float64), ("remove", Boolean)))
            ),
        ),
        ("validate_only", Boolean),
    ),
    flexible(
        ("throttle_time_ms", Int32),
        ("entries", array(("error_code", Int16), ("error_message", TEXT), ("entity", _ENTITY))),
    ),
)


def _request_quotas(producer: Producer) -> Call:
    """Request the quotas of just this entity; `strict` leaves out entities that have further parts."""
    parts = [(kind, _EXACT, name, NO_TAGS) for kind, name in producer.entity]
    return Call(_DESCRIBE, parts, True)


def _request_change(producer: Producer, rate: float | None) -> Call:
    """Request to set or remove the rate of one entity; its other quotas stay."""
    entity = [(kind, name, NO_TAGS) for kind, name in producer.entity]
    operation = (RATE, rate or 0.0, rate is None, NO_TAGS)
    return Call(_ALTER, [(entity, [operation], NO_TAGS)], False)


class QuotaClient:
    """The connection for quotas to one Kafka cluster: made at the first call, and anew after an error."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._client: AIOKafkaClient | None = None
        self._starting = asyncio.Lock()

    async def read(self, producer: Producer) -> float | None:
        """Return the bytes a second of just this entity, None where it has no quota of its own; raise KafkaFailure."""
        answer = await self._ask(_request_quotas(producer))
        self._check(answer.error_code, answer.error_message)
        values = {key: value for _, pairs, _ in answer.entries or () for key, value, _ in pairs}
        found: float | None = values.get(RATE)
        return found

    async def set(self, producer: Producer, rate: float | None) -> None:
        """Set the bytes a second, or remove the quota; doing it again changes nothing. Raise KafkaFailure."""
        answer = await self._ask(_request_change(producer, rate))
        for code, said, *_ in answer.entries:
            self._check(code, said)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(KafkaError, OSError):
                await client.close()

    async def _ask(self, request: Any) -> Any:
        try:
            async with asyncio.timeout(_TIMEOUT):
                client = await self._connect()
                return await client.send(client.get_random_node(), request)
        except (KafkaError, OSError, ssl.SSLError, NotImplementedError) as error:
            await self.close()
            raise BrokerUnreachable(self._say(str(error) or type(error).__name__)) from error

    async def _connect(self) -> AIOKafkaClient:
        async with self._starting:
            if self._client is None:
                settings = build_settings(self._access.settings)
                settings["client_id"] = f"{self._access.settings['client.id']}-quotas"
                client = AIOKafkaClient(**settings)
                try:
                    await client.bootstrap()
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client

    def _check(self, code: int, said: str | None) -> None:
        if code == 0:
            return
        error = for_code(code)
        text = self._say(f"{error.__name__}: {said or error.description}")
        if "Authorization" in error.__name__:
            needs = "it needs DescribeConfigs and AlterConfigs on the cluster"
            raise AuthorizationFailed(f"{text}; {needs}", retryable=False)
        if error.retriable:
            raise KafkaFailure(text)
        raise KafkaRefused(text, code=error.__name__)

    def _say(self, text: str) -> str:
        said = f"the quota of a producer cannot be read or set: {text}"
        for secret in self._access.secrets:
            said = said.replace(secret, "(hidden)")
        return said
