"""The outbox of the example application, with a real PostgreSQL, Kafka Connect and Debezium: events are where the transactions are."""

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import psycopg
import pytest
import yaml
from confluent_kafka.admin import AdminClient, ConfigResource

from integration.connect_servers import ConnectServers, leave_nothing
from kappa_crds.cdcsource import CDC_SOURCE
from kappa_operator.cdc.connector.common import Source
from kappa_operator.cdc.connector.postgresql import build_postgresql
from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import ConnectAccess
from lab.paths import REPOSITORY
from lab.postgres import DATABASE, Postgres
from lab.shell import wait_until
from recorded.debezium import Session

pytestmark = pytest.mark.clusterless

EXAMPLE = REPOSITORY / "pipelines" / "examples" / "outbox"


def load_application() -> ModuleType:
    specification = importlib.util.spec_from_file_location("outbox_application", EXAMPLE / "shop.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def build_config(port: int) -> dict[str, str]:
    """Return the connector of the example's manifest, at this port."""
    documents = yaml.load_all((EXAMPLE / "cdcsource.yaml").read_text(), yaml.CSafeLoader)
    manifest = next(each for each in documents if each["kind"] == "CDCSource")
    spec = manifest["spec"]
    spec["postgresql"] |= {"host": "127.0.0.1", "port": port, "database": DATABASE}
    del spec["postgresql"]["tls"]
    parsed = CDC_SOURCE.parse(manifest).spec
    source = Source("team", manifest["metadata"]["name"], "uid", parsed)
    return build_postgresql(source, parsed.postgresql, owns_publication=True)


@pytest.fixture(scope="module")
def session(connect_servers: ConnectServers) -> Iterator[tuple[Postgres, Session]]:
    workers, broker = connect_servers
    with Postgres() as database, leave_nothing(connect_servers):
        database.execute("CREATE ROLE reader LOGIN SUPERUSER")
        database.execute((EXAMPLE / "schema.sql").read_text())
        workers.write_sources({"shop.username": b"reader", "shop.password": b"unused"})
        asyncio.run(create(ConnectAccess(workers.url, None, None, None), build_config(database.port)))
        topics = Session(broker.bootstrap, database)
        # Rows that are deleted before the connector has its slot are no events.
        topics.wait("shop.public.stock", lambda value: value["op"] == "r", 2)
        yield database, topics


async def create(access: ConnectAccess, config: dict[str, str]) -> None:
    client = HttpConnect()
    try:
        await client.create(access, "shop", config)
    finally:
        await client.close()


def read(session: Session, topic: str) -> list[tuple[str, Any, dict[str, str]]]:
    """Return key, value and headers of all records."""
    found = []
    for message in session.read(topic):
        headers: Any = message.headers() or ()
        key, value = message.key() or b"null", message.value() or b"null"
        found.append((json.loads(key), json.loads(value), {name: text.decode() for name, text in headers}))
    return found


def find_policy(bootstrap: str, topic: str) -> str | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        found = admin.describe_configs([resource])[resource].result(20)
    policy: str | None = found["cleanup.policy"].value
    return policy


def test_an_event_is_published_if_and_only_if_its_transaction_commits(
    session: tuple[Postgres, Session],
) -> None:
    database, topics = session
    shop = load_application()
    with psycopg.connect(database.address) as connection:
        first = shop.place_order(connection, customer=1, items=[("tea", 2), ("milk", 1)])
        with pytest.raises(shop.OutOfStock):
            shop.place_order(connection, customer=2, items=[("tea", 1000)])
        shop.cancel_order(connection, first)
        second = shop.place_order(connection, customer=3, items=[("tea", 1)])
    wait_until(lambda: len(topics.read("shop.order")) >= 3, "events of orders", seconds=60)
    events = read(topics, "shop.order")
    assert [(key, headers["type"]) for key, _, headers in events] == [
        (str(first), "OrderPlaced"), (str(first), "OrderCancelled"), (str(second), "OrderPlaced"),
    ]  # fmt: skip
    _, placed, _ = events[0]
    assert placed == {"order": first, "customer": 1, "items": {"tea": 2, "milk": 1}}
    assert len({headers["id"] for *_, headers in events}) == 3
    assert topics.read("shop.public.outbox") == []
    assert find_policy(topics.bootstrap, "shop.order") == "delete", "compaction would remove events"
    assert find_policy(topics.bootstrap, "shop.public.stock") == "compact"


def test_other_tables_of_the_source_have_their_change_events(session: tuple[Postgres, Session]) -> None:
    _, topics = session
    topics.wait("shop.public.stock", lambda value: value["op"] == "u", 3)
    changes = [value for _, value, _ in read(topics, "shop.public.stock")]
    assert [value["after"]["amount"] for value in changes if value["op"] == "u"] == [8, 4, 7]
