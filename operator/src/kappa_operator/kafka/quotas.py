"""Reads and sets how many bytes a second producers may send: Kafka's client quotas, which confluent-kafka's client cannot.

The two requests are declared with aiokafka's types, as those of the sampler are. Any broker answers both and asks the controller itself.
Needs the rights DescribeConfigs and AlterConfigs on the cluster. Source of the fields: `DescribeClientQuotasRequest` and
`AlterClientQuotasRequest` in Kafka's `clients/src/main/resources/common/message`, and KIP-546 for what they mean.
"""

import asyncio
import contextlib
import ssl
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Float64,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from kappa_operator.errors import AuthorizationFailed, BrokerUnreachable, KafkaFailure, KafkaRefused
from kappa_operator.kafka.configs import build_settings
from kappa_operator.kafka.model import KafkaAccess, Producer

RATE = "producer_byte_rate"
"""Bytes a second that one broker takes."""
_TIMEOUT = 20.0
_EXACT = 0
_TEXT = CompactString("utf-8")
_NO_TAGS: dict[int, bytes] = {}
_ENTITY = CompactArray(("type", _TEXT), ("name", _TEXT), ("tags", TaggedFields))


class DescribeClientQuotasResponse(Response):  # type: ignore[misc]
    """Quotas by entity."""

    API_KEY = 48
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", _TEXT),
        (
            "entries",
            CompactArray(
                ("entity", _ENTITY),
                ("values", CompactArray(("key", _TEXT), ("value", Float64), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class DescribeClientQuotasStruct(RequestStruct):  # type: ignore[misc]
    """The request on the wire."""

    FLEXIBLE_VERSION = True
    API_KEY = 48
    API_VERSION = 1
    RESPONSE_TYPE = DescribeClientQuotasResponse
    SCHEMA = Schema(
        (
            "components",
            CompactArray(("type", _TEXT), ("match_type", Int8), ("match", _TEXT), ("tags", TaggedFields)),
        ),
        ("strict", Boolean),
        ("tags", TaggedFields),
    )


class DescribeClientQuotasRequest(Request[DescribeClientQuotasStruct]):  # type: ignore[misc]
    """Ask for the quotas of just this entity."""

    API_KEY = 48

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def build(self, request_struct_class: type[DescribeClientQuotasStruct]) -> DescribeClientQuotasStruct:
        """Return the request; strict leaves out entities that have further parts."""
        parts = [(kind, _EXACT, name, _NO_TAGS) for kind, name in self._producer.entity]
        return request_struct_class(parts, True, _NO_TAGS)


class AlterClientQuotasResponse(Response):  # type: ignore[misc]
    """Whether it was done, by entity."""

    API_KEY = 49
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "entries",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _TEXT),
                ("entity", _ENTITY),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class AlterClientQuotasStruct(RequestStruct):  # type: ignore[misc]
    """The request on the wire."""

    FLEXIBLE_VERSION = True
    API_KEY = 49
    API_VERSION = 1
    RESPONSE_TYPE = AlterClientQuotasResponse
    SCHEMA = Schema(
        (
            "entries",
            CompactArray(
                ("entity", _ENTITY),
                (
                    "ops",
                    CompactArray(
                        ("key", _TEXT), ("value", Float64), ("remove", Boolean), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("validate_only", Boolean),
        ("tags", TaggedFields),
    )


class AlterClientQuotasRequest(Request[AlterClientQuotasStruct]):  # type: ignore[misc]
    """Set or remove the rate of one entity; its other quotas stay."""

    API_KEY = 49

    def __init__(self, producer: Producer, rate: float | None) -> None:
        self._producer = producer
        self._rate = rate

    def build(self, request_struct_class: type[AlterClientQuotasStruct]) -> AlterClientQuotasStruct:
        """Return the request."""
        entity = [(kind, name, _NO_TAGS) for kind, name in self._producer.entity]
        operation = (RATE, self._rate or 0.0, self._rate is None, _NO_TAGS)
        return request_struct_class([(entity, [operation], _NO_TAGS)], False, _NO_TAGS)


class QuotaClient:
    """The connection for quotas to one Kafka cluster: made at the first call, and anew after an error."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._client: AIOKafkaClient | None = None
        self._starting = asyncio.Lock()

    async def read(self, producer: Producer) -> float | None:
        """Return the bytes a second of just this entity, None where it has no quota of its own; raise KafkaFailure."""
        answer = await self._ask(DescribeClientQuotasRequest(producer))
        self._check(answer.error_code, answer.error_message)
        values = {key: value for _, pairs, _ in answer.entries or () for key, value, _ in pairs}
        found: float | None = values.get(RATE)
        return found

    async def set(self, producer: Producer, rate: float | None) -> None:
        """Set the bytes a second, or remove the quota; doing it again changes nothing. Raise KafkaFailure."""
        answer = await self._ask(AlterClientQuotasRequest(producer, rate))
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
