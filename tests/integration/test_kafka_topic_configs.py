"""Configs of topics, read from a real broker: some of many, over every kind of connection, and after failures."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kappa_operator.errors import KafkaFailure
from kappa_operator.kafka.configs import ConfigReader, TopicConfigs
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess
from lab import pki
from lab.broker import Broker
from lab.shell import wait_until

pytestmark = pytest.mark.clusterless

PASSWORD = "s3cret-of-ann"
WANTED = frozenset({"cleanup.policy", "retention.ms", "no.such.config"})
MANY = [f"many-{number}" for number in range(300)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose TLS listener wants a client's certificate."""
    properties = {"listener.name.tls.ssl.client.auth": "required"}
    with Broker(users={"ann": PASSWORD}, tls=True, properties=properties) as running:
        pki.make_certificate(running.authority.parent, "client", "/CN=ann")
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(name, 1, config={"retention.ms": "1000"}) for name in MANY]
        for future in admin.create_topics([*topics, NewTopic("plain", 1)]).values():
            future.result()
        wait_until(
            lambda: admin.list_topics("plain").topics["plain"].error is None,
            "the broker knows the last topic",
        )
        yield running


@asynccontextmanager
async def read_from(settings: Mapping[str, str], *secrets: str) -> AsyncIterator[ConfigReader]:
    reader = ConfigReader(Connection(KafkaAccess.of({"client.id": "test", **settings}, secrets)))
    yield reader
    await reader.close()


def plain(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap, "security.protocol": "plaintext"}


def sasl(broker: Broker, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.sasl_bootstrap,
        "security.protocol": "sasl_ssl",
        "ssl.ca.pem": broker.authority.read_text(),
        "sasl.mechanism": mechanism,
        "sasl.username": "ann",
        "sasl.password": password,
    }


def tls(broker: Broker) -> dict[str, str]:
    folder = broker.authority.parent
    return {
        "bootstrap.servers": broker.tls_bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.pem": broker.authority.read_text(),
        "ssl.certificate.pem": (folder / "client.crt").read_text(),
        "ssl.key.pem": (folder / "client.key").read_text(),
    }


def get(found: object) -> TopicConfigs:
    assert isinstance(found, TopicConfigs), found
    return found


async def test_only_requested_configs_are_returned_with_their_source(broker: Broker) -> None:
    async with read_from(plain(broker)) as reader:
        found = await reader.read({**dict.fromkeys([*MANY, "plain"], WANTED), "gone": WANTED})
    assert found["gone"] is None
    assert get(found["plain"]) == ({"cleanup.policy": "delete", "retention.ms": "604800000"}, frozenset())
    for name in MANY:
        assert get(found[name]) == (
            {"cleanup.policy": "delete", "retention.ms": "1000"},
            frozenset({"retention.ms"}),
        )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_it_logs_in_over_tls(broker: Broker, mechanism: str) -> None:
    async with read_from(sasl(broker, mechanism)) as reader:
        found = await reader.read({"plain": WANTED})
    assert get(found["plain"]).values["cleanup.policy"] == "delete"


async def test_a_clients_certificate_is_shown(broker: Broker) -> None:
    async with read_from(tls(broker)) as reader:
        found = await reader.read({"plain": WANTED})
    assert get(found["plain"]).values["cleanup.policy"] == "delete"


async def test_without_the_certificate_that_the_broker_wants_it_is_refused(broker: Broker) -> None:
    own = ("ssl.certificate.pem", "ssl.key.pem")
    bare = {name: value for name, value in tls(broker).items() if name not in own}
    async with read_from(bare) as reader:
        with pytest.raises(KafkaFailure, match="configs cannot be read"):
            await reader.read({"plain": WANTED})


async def test_a_refused_password_is_not_repeated(broker: Broker) -> None:
    async with read_from(sasl(broker, "PLAIN", "wrong-word"), "wrong-word") as reader:
        with pytest.raises(KafkaFailure) as refusal:
            await reader.read({"plain": WANTED})
    assert "wrong-word" not in refusal.value.message


async def test_a_broker_that_dies_and_comes_back_is_read_again(broker: Broker) -> None:
    """Last in this file: the broker is a new process afterwards."""
    async with read_from(plain(broker)) as reader:
        await reader.read({"plain": WANTED})
        broker.kill()
        with pytest.raises(KafkaFailure):
            await reader.read({"plain": WANTED})
        await asyncio.to_thread(broker.start)
        assert get((await reader.read({"plain": WANTED}))["plain"]).values["cleanup.policy"] == "delete"
