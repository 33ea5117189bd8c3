"""The connection to a Kafka cluster for requests that confluent-kafka lacks, or makes at too high a cost, over aiokafka.

One `Connection` serves all requests of a client, or of a sampler of lag: configs, quotas, offsets. Together with the admin
client of `client.KafkaClient`, which owns one, it is the only way to brokers.
"""

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from kappa_operator.errors import BrokerUnreachable
from kappa_operator.kafka.frames import MALFORMED, NAMESPACE, FrameRefused, bound_frames
from kappa_operator.kafka.model import KafkaAccess, hide_secrets

bound_frames()

TIMEOUT = 20.0
UNAVAILABLE = (KafkaError, OSError, ssl.SSLError, TimeoutError, NotImplementedError)
"""What a request may end with; aiokafka raises NotImplementedError for a broker that is too old."""


class Connection:
    """A client that is created at the first request, and again after an error."""

    def __init__(self, access: KafkaAccess, namespace: str = "") -> None:
        self._access = access
        self._namespace = namespace
        self._client: AIOKafkaClient | None = None
        self._starting = asyncio.Lock()

    async def get_client(self) -> AIOKafkaClient:
        """Return the client, connected."""
        if self._namespace:
            NAMESPACE.set(self._namespace)
        async with self._starting:
            if self._client is None:
                client = AIOKafkaClient(**build_settings(self._access.settings), metadata_max_age_ms=60_000)
                try:
                    await client.bootstrap()
                    # It keeps the brokers' addresses fresh, and would request all partitions to do so otherwise.
                    await client.set_topics(("__consumer_offsets",))
                except MALFORMED as error:
                    await client.close()
                    raise FrameRefused("the brokers do not respond as Kafka does") from error
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client

    async def ask(self, request: Any, problem: str) -> Any:
        """Return the response of any broker; raise BrokerUnreachable that begins with the problem."""
        try:
            async with asyncio.timeout(TIMEOUT):
                client = await self.get_client()
                return await client.send(client.get_random_node(), request)
        except UNAVAILABLE as error:
            await self.close()
            raise BrokerUnreachable(f"{problem}: {self.describe(error)}") from error

    def describe(self, error: Exception) -> str:
        """Return the error's text without secrets."""
        return self.hide(str(error) or type(error).__name__)

    def hide(self, text: str) -> str:
        """Return the text without secrets."""
        return hide_secrets(text, self._access.secrets)

    async def close(self) -> None:
        """Close the client, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(KafkaError, OSError):
                await client.close()


def build_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return aiokafka's settings for those of librdkafka."""
    protocol = settings["security.protocol"].upper()
    found: dict[str, Any] = {
        "bootstrap_servers": settings["bootstrap.servers"],
        "client_id": settings["client.id"],
        "request_timeout_ms": int(TIMEOUT * 1000),
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
