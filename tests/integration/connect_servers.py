"""One broker and one worker of Kafka Connect for all files of a session. What uses them leaves nothing behind for the next one."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import ConnectAccess
from kappa_operator.errors import ConnectFailure
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster

ConnectServers = tuple[ConnectCluster, Broker]
_OFFSETS = "connect-offset"
_INTERNAL = ("connect-", "__")
_SECONDS = 30


@contextmanager
def start_connect(*plugins: str) -> Iterator[ConnectServers]:
    """Yield workers with these connectors, and their broker."""
    with Broker() as broker, ConnectCluster(broker.bootstrap, plugins=plugins) as workers:
        yield workers, broker


@contextmanager
def leave_nothing(servers: ConnectServers) -> Iterator[None]:
    """Remove in the end all connectors, their positions, log-ins and topics. Their databases must run until then."""
    workers, broker = servers
    yield
    workers.start()  # a test may have killed it
    access = ConnectAccess(workers.url, None, None, None)
    with ThreadPoolExecutor(1) as pool:  # the test may have a loop of its own
        pool.submit(asyncio.run, _delete_connectors(access, workers.list_connectors())).result()
    workers.write_sources({})
    _forget_positions(broker.bootstrap)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [name for name in admin.list_topics(timeout=_SECONDS).topics if not name.startswith(_INTERNAL)]
    for deleted in admin.delete_topics(topics).values() if topics else ():
        deleted.result(_SECONDS)


async def _delete_connectors(access: ConnectAccess, names: Iterable[str]) -> None:
    """Delete their positions first, which stops and fences tasks that would write them once more."""
    client = HttpConnect()
    try:
        for name in names:
            await client.stop(access, name)
            await _delete_offsets(client, access, name)
            await client.delete(access, name)
    finally:
        await client.close()


async def _delete_offsets(client: HttpConnect, access: ConnectAccess, name: str) -> None:
    """Delete the position of a connector, which is refused until its tasks have stopped."""
    end = time.monotonic() + _SECONDS
    while True:
        try:
            return await client.delete_offsets(access, name)
        except ConnectFailure:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)


def _forget_positions(bootstrap: str) -> None:
    """Write a tombstone for each position: those of connectors that a test has deleted stay, and one of the same name would continue there."""
    kafka = {"bootstrap.servers": bootstrap, "log_level": 0}
    consumer = Consumer({**kafka, "group.id": "positions", "enable.partition.eof": True})
    producer = Producer(kafka)
    keys: set[bytes] = set()
    try:
        consumer.assign([TopicPartition(_OFFSETS, 0, 0)])
        while (message := consumer.poll(_SECONDS)) is not None and message.error() is None:
            (keys.add if message.value() else keys.discard)(message.key() or b"")
    finally:
        consumer.close()
    for key in keys:
        producer.produce(_OFFSETS, key=key, value=None, partition=0)
    producer.flush(_SECONDS)
