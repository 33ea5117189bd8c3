"""Reads some configs of many topics.

confluent-kafka cannot name the configs that it wants, so each topic comes with all of its 35 and their synonyms: at
10,000 topics that was half of what a resync cost. This one job goes through aiokafka, which asks for the few that
matter, at a tenth of the processor time (figures in docs/benchmarks.md, reasons in docs/adr/0004).
"""

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code

from kappa_operator.errors import AuthorizationFailed, KafkaFailure
from kappa_operator.kafka.model import KafkaAccess

_TIMEOUT = 20.0
_SET_FOR_TOPIC = 1
"""The config source DYNAMIC_TOPIC_CONFIG of Kafka's protocol."""


class TopicConfigs(NamedTuple):
    """Configs of a topic: the values in effect, and the names of those that were set for it."""

    values: Mapping[str, str]
    explicit: frozenset[str]


class ConfigReader:
    """The connection for reading configs to one Kafka cluster: made at the first call, and anew after an error."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._admin: AIOKafkaAdminClient | None = None
        self._starting = asyncio.Lock()

    async def read(
        self, wanted: Mapping[str, frozenset[str]]
    ) -> dict[str, TopicConfigs | KafkaFailure | None]:
        """Return the wanted configs of each topic, None for a topic that is not there; raise KafkaFailure."""
        resources = [
            ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(sorted(names)))
            for topic, names in wanted.items()
        ]
        try:
            async with asyncio.timeout(_TIMEOUT):
                admin = await self._connect()
                (answer,) = await admin.describe_configs(resources)
        except (KafkaError, OSError, ssl.SSLError) as error:
            await self.close()
            raise self._explain(error) from error
        return {topic: self._parse(code, said, entries) for code, said, _, topic, entries in answer.resources}

    async def close(self) -> None:
        """Close the connection, if there is one."""
        admin, self._admin = self._admin, None
        if admin is not None:
            with contextlib.suppress(KafkaError, OSError):
                await admin.close()

    async def _connect(self) -> AIOKafkaAdminClient:
        async with self._starting:
            if self._admin is None:
                admin = AIOKafkaAdminClient(**build_settings(self._access.settings))
                try:
                    await admin.start()
                except BaseException:
                    await admin.close()
                    raise
                self._admin = admin
            return self._admin

    def _parse(
        self, code: int, said: str, entries: Sequence[tuple[Any, ...]]
    ) -> TopicConfigs | KafkaFailure | None:
        if code == UnknownTopicOrPartitionError.errno:
            return None
        if code != 0:
            error = for_code(code)(said)
            return self._explain(error)
        return TopicConfigs(
            values={name: value for name, value, *_ in entries if value is not None},
            explicit=frozenset(name for name, _, _, source, *_ in entries if source == _SET_FOR_TOPIC),
        )

    def _explain(self, error: Exception) -> KafkaFailure:
        text = f"configs cannot be read: {error or type(error).__name__}"
        for secret in self._access.secrets:
            text = text.replace(secret, "(hidden)")
        if "Authorization" in type(error).__name__:
            return AuthorizationFailed(
                f"{text} The user needs DescribeConfigs on the topic.", retryable=False
            )
        return KafkaFailure(text)


def build_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return aiokafka's settings for those of librdkafka."""
    protocol = settings["security.protocol"].upper()
    found: dict[str, Any] = {
        "bootstrap_servers": settings["bootstrap.servers"],
        "client_id": f"{settings['client.id']}-configs",
        "request_timeout_ms": int(_TIMEOUT * 1000),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        found["ssl_context"] = _build_tls(settings)
    if protocol.startswith("SASL"):
        found["sasl_mechanism"] = settings["sasl.mechanism"]
        found["sasl_plain_username"] = settings["sasl.username"]
        found["sasl_plain_password"] = settings["sasl.password"]
    return found


def _build_tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=settings.get("ssl.ca.pem"))
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if "ssl.certificate.pem" in settings:
        _load_certificate(context, settings["ssl.certificate.pem"], settings["ssl.key.pem"])
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a client's certificate. OpenSSL's Python module takes files only, so one is there for a moment, for us alone."""
    handle, path = tempfile.mkstemp(prefix="kappa-client-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{certificate}\n{key}\n")
        context.load_cert_chain(path)
    finally:
        os.unlink(path)  # noqa: PTH108 - mkstemp gives a string
