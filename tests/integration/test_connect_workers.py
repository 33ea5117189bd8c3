"""Workers of Kafka Connect with the operator's own settings: mutual TLS, the permissions that the guide lists, and the loss of a worker."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from integration.brokers import TLS_USERS
from kappa_crds.kinds import find_kind
from kappa_operator.cdcsource.history import CONFIGS
from kappa_operator.cdcsource.objects import build_config
from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.names import SECRETS_DIR, KafkaClusterResource, name_group, name_history
from kappa_operator.connect.topics import list_topics
from kappa_operator.errors import ConnectFailure
from lab.acls import Right, grant
from lab.broker import Broker
from lab.connect_workers import WorkerGroup
from lab.debezium import configure_postgres
from lab.mariadb import MariaDB
from lab.postgres import Postgres
from lab.shell import wait_until

pytestmark = [pytest.mark.clusterless, pytest.mark.timeout(300)]

GROUP, PASSWORD = "connect.shop.main", TLS_USERS["connect"]
_TOPIC, _ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
RIGHTS = (
    *(
        Right(_TOPIC, f"{GROUP}.", operation, is_prefix=True)
        for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
    ),
    Right(ResourceType.GROUP, GROUP, AclOperation.READ),
    Right(ResourceType.GROUP, f"{GROUP}.", AclOperation.READ, is_prefix=True),
    *(
        Right(_ID, name, operation, is_prefix=True)
        for name in (f"connect-cluster-{GROUP}", f"{GROUP}-")
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    ),
    *(
        Right(_TOPIC, prefix, operation, is_prefix=True)
        for prefix in ("tables.", "__debezium-heartbeat.")
        for operation in (AclOperation.WRITE, AclOperation.CREATE)
    ),
)
"""What `docs/how-to/kafka-permissions.md` lists for workers; the tables are topics that begin with `tables.`."""
CONNECTOR = "orders"
MOVED_SECONDS = 30


@dataclass(frozen=True)
class Lab:
    """Two workers of a KafkaCluster, the broker without a log-in, and the configuration of a connector."""

    group: WorkerGroup
    config: dict[str, str]
    resource: KafkaClusterResource
    bootstrap: str


@pytest.fixture(scope="module")
def lab(tls_broker: Broker) -> Iterator[Lab]:
    broker = tls_broker
    with Postgres() as database:
        resource = find_kind("KafkaCluster").parse(
            {
                "metadata": {"name": "main", "namespace": "shop"},
                "spec": {
                    "bootstrapServers": [broker.sasl_bootstrap],
                    "tls": {"caSecretRef": {"name": "ca"}},
                    "connect": {
                        "workers": {"credentials": {"sasl": {"credentialsSecretRef": {"name": "connect"}}}}
                    },
                },
            }
        )
        assert name_group(resource) == GROUP
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [
            NewTopic(each.name, each.partitions, 1, config={"cleanup.policy": "compact"})
            for each in list_topics(resource)
        ]
        for created in admin.create_topics(topics).values():
            created.result(30)
        grant(broker.bootstrap, "connect", RIGHTS)
        database.execute("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
        database.execute("INSERT INTO orders VALUES (1, 'tea')")
        config = {
            **configure_postgres(database, "tables"),
            "tasks.max": "1",
            "exactly.once.support": "required",
        }
        log_in = {
            "sasl/username": "connect",
            "sasl/password": PASSWORD,
            "ca/ca.crt": broker.authority.read_text(),
        }
        with WorkerGroup(resource, 2, log_in) as group:
            wait_until(
                lambda: all(" 200 " in each.answer() for each in group.workers), "workers are healthy", seconds=120
            )  # fmt: skip
            yield Lab(group, config, resource, broker.bootstrap)


@pytest.fixture
async def client() -> AsyncIterator[HttpConnect]:
    client = HttpConnect()
    yield client
    await client.close()


async def test_every_worker_answers_and_forwards_to_the_leader(lab: Lab, client: HttpConnect) -> None:
    """Only the leader may delete: a follower sends the request there, with its own certificate."""
    for number in range(2):
        assert (await client.get_info(lab.group.access(number))).version == "4.3.1"
        assert len(await client.list_plugins(lab.group.access(number))) == 3
        await client.delete(lab.group.access(number), "none")


async def test_a_client_without_a_certificate_gets_no_answer(lab: Lab) -> None:
    trust = ssl.create_default_context(cadata=lab.group.access(0).ca)
    async with aiohttp.ClientSession() as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await session.get(f"{lab.group.access(0).url}/connectors", ssl=trust)


async def find_task(client: HttpConnect, lab: Lab, number: int, connector: str = CONNECTOR) -> str:
    """Return the worker with the task of the connector, and its state, as another worker reports it."""
    try:
        status = await client.get_status(lab.group.access(number), connector)
    except ConnectFailure as failure:
        return type(failure).__name__
    return " ".join(f"{each.worker_id} {each.state}" for each in status.tasks)


async def await_task(client: HttpConnect, lab: Lab, number: int, wanted: str, seconds: float) -> float:
    """Wait until the task runs on a worker as another one reports it; return the seconds that it took."""
    started, found = time.monotonic(), ""
    while time.monotonic() - started < seconds:
        found = await find_task(client, lab, number)
        if found == wanted:
            return time.monotonic() - started
        await asyncio.sleep(0.2)
    pytest.fail(
        f"{found!r} instead of {wanted!r} after {seconds} s\n{lab.group.workers[number].log.read_text()[-3000:]}"
    )


@pytest.mark.parametrize(
    "is_graceful",
    [pytest.param(True, id="ended in order", marks=pytest.mark.chaos), pytest.param(False, id="killed")],
)
async def test_the_task_of_a_lost_worker_starts_elsewhere_within_seconds(
    lab: Lab, client: HttpConnect, is_graceful: bool
) -> None:
    await client.put_config(lab.group.access(0), CONNECTOR, lab.config)
    ids = [f"localhost:{worker.port}" for worker in lab.group.workers]
    owner = 0
    for _ in range(300):
        found = (await find_task(client, lab, 0)).split(" ")
        if found[0] in ids and found[1:] == ["RUNNING"]:
            owner = ids.index(found[0])
            break
        await asyncio.sleep(0.2)
    else:
        pytest.fail(f"the task does not run: {found}")
    lab.group.workers[owner].stop(graceful=is_graceful)
    seconds = await await_task(client, lab, 1 - owner, f"{ids[1 - owner]} RUNNING", MOVED_SECONDS)
    print(f"the task runs elsewhere after {seconds:.1f} s")
    lab.group.workers[owner].start()
    wait_until(lambda: " 200 " in lab.group.workers[owner].answer(), "the worker is back", seconds=120)


@pytest.mark.chaos  # 11 s; changes only with the certificates
async def test_workers_with_a_renewed_certificate_and_those_of_before_trust_each_other(
    lab: Lab, client: HttpConnect
) -> None:
    before = lab.group.access(1)
    lab.group.renew(0)
    wait_until(lambda: " 200 " in lab.group.workers[0].answer(), "the worker is back", seconds=120)
    assert lab.group.access(1).certificate != before.certificate
    for access in (before, lab.group.access(0), lab.group.access(1)):
        await client.delete(access, "none")


def build_mariadb(lab: Lab, database: MariaDB) -> dict[str, str]:
    """Return the configuration that the operator renders, with the folders of the workers of this test."""
    server = {
        "host": "127.0.0.1",
        "port": database.port,
        "serverId": 7,
        "credentialsSecretRef": {"name": "x"},
    }
    spec = {"mariadb": server, "tables": {"include": ["shop.*"]}, "topicPrefix": "tables"}
    source = find_kind("CDCSource").parse({"metadata": {"name": "stock", "namespace": "shop"}, "spec": spec})
    config = build_config(source, "", lab.resource, owns_publication=False)
    for worker in lab.group.workers:
        for part, text in (("username", "root"), ("password", "")):
            (worker.secrets / "sources" / f"stock.{part}").write_text(text)
    folder = str(lab.group.workers[0].secrets)
    return {name: value.replace(SECRETS_DIR, folder) for name, value in config.items()}


async def test_a_connector_of_mariadb_logs_in_for_its_history_of_schemas(
    lab: Lab, client: HttpConnect
) -> None:
    """Its clients have TLS and the log-in of the workers, and no property of it names the password."""
    lab.group.workers[1].stop(graceful=True)
    topic = NewTopic(name_history(lab.resource, "stock"), 1, 1, config=dict(CONFIGS))
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([topic])[topic.topic].result(30)
    with MariaDB() as database:
        database.execute("CREATE DATABASE shop")
        database.execute("CREATE TABLE shop.stock (id INT PRIMARY KEY, item TEXT)")
        database.execute("INSERT INTO shop.stock VALUES (1, 'tea')")
        config = build_mariadb(lab, database)
        assert not any("jaas" in name or PASSWORD in value for name, value in config.items())
        await put_config(client, lab, "stock", config)
        await await_offset(client, lab, "stock")
        await client.restart(lab.group.access(0), "stock", only_failed=False)
        database.execute("INSERT INTO shop.stock VALUES (2, 'milk')")
        records = await asyncio.to_thread(read_values, lab.bootstrap, "tables.shop.stock", 2)
        assert [(each["op"], each["after"]["item"]) for each in records] == [("r", "tea"), ("c", "milk")]
        await client.delete(lab.group.access(0), "stock")


async def put_config(client: HttpConnect, lab: Lab, connector: str, config: dict[str, str]) -> None:
    """Create a connector, as soon as the group knows that a worker has left."""
    for _ in range(100):
        try:
            await client.put_config(lab.group.access(0), connector, config)
        except ConnectFailure:
            await asyncio.sleep(0.3)
        else:
            return
    pytest.fail("Kafka Connect takes no configuration")


async def await_offset(client: HttpConnect, lab: Lab, connector: str) -> None:
    """Wait until the snapshot of a connector has ended."""
    for _ in range(200):
        try:
            offsets = (await client.get_offsets(lab.group.access(0), connector)).offsets
        except ConnectFailure:
            offsets = ()
        if offsets and not (offsets[0].offset or {}).get("snapshot"):
            return
        await asyncio.sleep(0.2)
    tasks = (await client.get_status(lab.group.access(0), connector)).tasks
    pytest.fail("\n".join(f"{each.state} {each.trace}" for each in tasks))


def read_values(bootstrap: str, topic: str, count: int) -> list[dict[str, Any]]:
    """Return the first values of a topic with one partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "it", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[dict[str, Any]] = []
    end = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end:
        message = consumer.poll(1.0)
        value = None if message is None or message.error() else message.value()
        found += [json.loads(value)] if value else []
    consumer.close()
    return found
