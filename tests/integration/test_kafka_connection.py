"""Connections to a real broker: TLS, SASL, wrong credentials, and a broker that goes and comes back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fakes.context import build_secret
from integration.brokers import CLUSTER, RealKafkaOperator
from lab.broker import Broker, free_ports

pytestmark = pytest.mark.clusterless

PASSWORD = "s3cret-of-ann"


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(users={"ann": PASSWORD}, tls=True) as broker:
        yield broker


def connect(bootstrap: str, broker: Broker, password: str = PASSWORD, **spec: Any) -> RealKafkaOperator:
    operator = RealKafkaOperator(bootstrap, **spec)
    operator.cluster.put(build_secret("ca", ca_crt=broker.authority.read_text()))
    operator.cluster.put(build_secret("login", username="ann", password=password))
    return operator


TLS = {"caSecretRef": {"name": "ca"}}


def sasl(mechanism: str) -> dict[str, Any]:
    return {"mechanism": mechanism, "credentialsSecretRef": {"name": "login"}}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_sasl_over_tls_connects(secured: Broker, mechanism: str) -> None:
    async with connect(secured.sasl_bootstrap, secured, tls=TLS, sasl=sasl(mechanism)) as operator:
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[:2] == ("True", "Connected")


async def test_tls_alone_connects(secured: Broker) -> None:
    async with connect(secured.tls_bootstrap, secured, tls=TLS) as operator:
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[:2] == ("True", "Connected")
        assert (operator.get(CLUSTER) or {})["status"]["brokers"] == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_reported_with_the_broker_message_and_without_the_password(
    secured: Broker, mechanism: str
) -> None:
    spec = {"tls": TLS, "sasl": sasl(mechanism)}
    async with connect(secured.sasl_bootstrap, secured, "wrong-word", **spec) as operator:
        await operator.reconcile(CLUSTER)
        status, reason, message = operator.get_condition(CLUSTER)
        assert (status, reason) == ("False", "AuthenticationFailed"), message
        assert "Authentication failed" in message
        assert "wrong-word" not in str(operator.get(CLUSTER))


async def test_a_corrected_secret_is_used_at_the_next_check(secured: Broker) -> None:
    async with connect(secured.sasl_bootstrap, secured, "wrong", tls=TLS, sasl=sasl("PLAIN")) as operator:
        await operator.reconcile(CLUSTER)
        operator.cluster.put(build_secret("login", username="ann", password=PASSWORD))
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[:2] == ("True", "Connected")


class CountingProxy:
    """Passes connections to a broker on, and counts them: each is a log-in, as a broker ends one whose log-in it refuses."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        self.connections = 0

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection(self._host, int(self._port))
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Yield the address."""
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        async with server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_a_client_whose_log_in_is_refused_does_not_repeat_it(secured: Broker) -> None:
    proxy = CountingProxy(secured.sasl_bootstrap)
    async with proxy.serve() as address:
        spec = {"tls": {**TLS, "verifyHostname": False}, "sasl": sasl("SCRAM-SHA-512")}
        async with connect(address, secured, "wrong-word", **spec) as operator:
            await operator.reconcile(CLUSTER)
            assert operator.get_condition(CLUSTER)[1] == "AuthenticationFailed"
            assert not operator.clients.has(CLUSTER)
            await operator.clients.close()  # returns once the released client has ended
            attempted = proxy.connections
            assert 1 <= attempted <= 3
            await asyncio.sleep(6)  # longer than the library's own pause
            assert proxy.connections == attempted
            await operator.reconcile(CLUSTER)
            assert proxy.connections == attempted

            operator.cluster.put(build_secret("login", username="ann", password=PASSWORD))
            await operator.reconcile(CLUSTER)
            assert operator.get_condition(CLUSTER)[1] == "Connected"
            assert proxy.connections > attempted


async def test_an_unknown_authority_is_reported(secured: Broker) -> None:
    async with connect(secured.tls_bootstrap, secured, tls={}) as operator:
        await operator.reconcile(CLUSTER)
        status, reason, message = operator.get_condition(CLUSTER)
        assert (status, reason) == ("False", "TlsFailed"), message
        assert "certificate verify failed" in message


async def test_a_missing_broker_is_unreachable() -> None:
    port = free_ports(1)[0]
    async with RealKafkaOperator(f"127.0.0.1:{port}") as operator:
        await operator.reconcile(CLUSTER)
        status, reason, message = operator.get_condition(CLUSTER)
        assert (status, reason) == ("False", "BrokerUnreachable")
        assert "Connection refused" in message


async def test_a_host_that_does_not_exist_is_named() -> None:
    async with RealKafkaOperator("no-such-host.invalid:9092") as operator:
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[1] == "BrokerUnreachable"
        assert "no-such-host.invalid:9092" in operator.get_condition(CLUSTER)[2]


async def test_a_broker_that_dies_and_comes_back_is_noticed_both_times(secured: Broker) -> None:
    async with RealKafkaOperator(secured.bootstrap) as operator:
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[1] == "Connected"
        secured.kill()
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[1] == "BrokerUnreachable"
        secured.start()
        await operator.reconcile(CLUSTER)
        assert operator.get_condition(CLUSTER)[1] == "Connected"
