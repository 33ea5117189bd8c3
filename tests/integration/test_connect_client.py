"""The client of Kafka Connect, in front of a real distributed worker with Debezium and a real PostgreSQL."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from integration.connect_servers import ConnectServers, leave_nothing
from kappa_crds.cdcsource import CDC_SOURCE
from kappa_operator.cdc.connector.common import Source
from kappa_operator.cdc.connector.postgresql import CLASS, build_postgresql
from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import ConnectAccess, ConnectorOffsets, ConnectorStatus, OffsetEntry
from kappa_operator.errors import ConnectBusy, ConnectorNotFound, ConnectRefused
from lab.connect_cluster import ConnectCluster
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.clusterless

SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"


@dataclass(frozen=True)
class Lab:
    """A table, a worker, and the configuration of a connector between them."""

    database: Postgres
    workers: ConnectCluster
    config: dict[str, str]

    @property
    def access(self) -> ConnectAccess:
        """Return how to reach the worker."""
        return ConnectAccess(self.workers.url, None, None, None)


@pytest.fixture(scope="module")
def lab(connect_servers: ConnectServers) -> Iterator[Lab]:
    workers, _ = connect_servers
    with Postgres() as database, leave_nothing(connect_servers):
        database.execute("CREATE ROLE reader LOGIN SUPERUSER")
        database.execute("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
        database.execute("INSERT INTO orders SELECT number, 'tea' FROM generate_series(1, 100) AS number")
        server = {"host": "127.0.0.1", "port": database.port, "database": DATABASE}
        spec = {
            "postgresql": {**server, "credentialsSecretRef": {"name": "login"}},
            "tables": {"include": ["orders"]},
            "heartbeatInterval": "1s",
            "config": {"poll.interval.ms": 100},
        }
        parsed = CDC_SOURCE.parse({"metadata": {"name": "shop"}, "spec": spec}).spec
        config = build_postgresql(
            Source("team", "shop", "u", parsed), parsed.postgresql, owns_publication=True
        )
        yield Lab(database, workers, config)


async def wait_for(
    read: Callable[[], Awaitable[object]], wanted: Callable[[object], bool], what: str
) -> None:
    for _ in range(120):
        if wanted(await read()):
            return
        await asyncio.sleep(0.25)
    pytest.fail(f"{what}: {await read()}")


async def test_the_life_of_a_connector(lab: Lab) -> None:
    client, access = HttpConnect(), lab.access
    try:
        assert (await client.get_info(access)).version == "4.3.1"
        assert CLASS in [each.name for each in await client.list_plugins(access)]
        await _refuse(client, lab)
        lab.workers.write_sources({"shop.username": b"reader", "shop.password": b"unused"})
        assert (await client.validate(access, "shop", lab.config)).refused == ()
        await _run(client, lab)
        await _reset(client, lab)
        await client.delete(access, "shop")
        await client.delete(access, "shop")
        await wait_for(lambda: _is_known(client, access), lambda known: not known, "it is deleted")
    finally:
        await client.close()


async def _is_known(client: HttpConnect, access: ConnectAccess) -> bool:
    """Return whether the worker has a status; it reads the end of one from a topic, after the deletion."""
    try:
        await client.get_status(access, "shop")
    except ConnectorNotFound:
        return False
    return True


async def _refuse(client: HttpConnect, lab: Lab) -> None:
    """Without its log-in a connector is refused for the database, and one that is not there is missing."""
    assert (await client.validate(lab.access, "shop", lab.config)).refused == ("database.hostname",)
    with pytest.raises(ConnectorNotFound):
        await client.get_status(lab.access, "shop")
    with pytest.raises(ConnectRefused):
        await client.create(lab.access, "shop", {**lab.config, "topic.prefix": "no prefix!"})


async def _run(client: HttpConnect, lab: Lab) -> None:
    access = lab.access
    await client.create(access, "shop", lab.config, "STOPPED")
    with pytest.raises(ConnectBusy):
        await client.create(access, "shop", lab.config)
    assert await client.get_config(access, "shop") == lab.config
    await wait_for(lambda: _find_states(client, access), lambda found: found == ["STOPPED"], "it is stopped")
    await client.resume(access, "shop")
    await wait_for(
        lambda: _find_states(client, access), lambda found: found == ["RUNNING", "RUNNING"], "it runs"
    )
    await wait_for(lambda: _list_positions(client, access), bool, "it has a position")
    await wait_for(
        lambda: client.list_topics(access, "shop"),
        _has_orders,
        "the worker has read that it wrote to the topic",
    )
    await client.pause(access, "shop")
    await wait_for(
        lambda: _find_states(client, access), lambda found: found == ["PAUSED", "PAUSED"], "it is paused"
    )
    await client.stop(access, "shop")
    await wait_for(
        lambda: _find_states(client, access), lambda found: found == ["STOPPED"], "it is stopped again"
    )


async def _reset(client: HttpConnect, lab: Lab) -> None:
    """Debezium refuses to continue behind a slot that is gone; without a position it begins with a snapshot."""
    access = lab.access
    lab.database.execute(SLOTS)
    await client.resume(access, "shop")
    await wait_for(lambda: _find_traces(client, access), _tells_of_loss, "its task fails")
    await _when_free(lambda: client.restart(access, "shop"))
    await _when_free(lambda: client.stop(access, "shop"))
    await wait_for(lambda: _find_states(client, access), lambda found: found == ["STOPPED"], "it is stopped")
    (entry,) = (await client.get_offsets(access, "shop")).offsets
    moved = OffsetEntry(partition=entry.partition, offset={**(entry.offset or {}), "lsn": 1})
    await _when_free(lambda: client.alter_offsets(access, "shop", ConnectorOffsets(offsets=(moved,))))
    assert ((await client.get_offsets(access, "shop")).offsets[0].offset or {})["lsn"] == 1
    await _when_free(lambda: client.delete_offsets(access, "shop"))
    assert (await client.get_offsets(access, "shop")).offsets == ()
    await client.resume(access, "shop")
    await wait_for(lambda: _list_positions(client, access), bool, "it has a position again")


async def _when_free(request: Callable[[], Awaitable[object]]) -> None:
    """Send a request until the workers are not busy with another one, as the operator does."""
    for _ in range(120):
        with contextlib.suppress(ConnectBusy):
            await request()
            return
        await asyncio.sleep(0.25)
    pytest.fail("the workers stay busy")


def _has_orders(topics: object) -> bool:
    return isinstance(topics, Sequence) and "shop.public.orders" in topics


def _tells_of_loss(traces: object) -> bool:
    return isinstance(traces, list) and any("no longer available on the server" in each for each in traces)


async def _find_states(client: HttpConnect, access: ConnectAccess) -> list[str]:
    found = await _read_status(client, access)
    return [] if found is None else [found.connector.state, *(task.state for task in found.tasks)]


async def _find_traces(client: HttpConnect, access: ConnectAccess) -> list[str]:
    found = await _read_status(client, access)
    return [] if found is None else [task.trace for task in found.tasks]


async def _read_status(client: HttpConnect, access: ConnectAccess) -> ConnectorStatus | None:
    try:
        return await client.get_status(access, "shop")
    except ConnectorNotFound:
        return None


async def _list_positions(client: HttpConnect, access: ConnectAccess) -> list[object]:
    return [each.offset for each in (await client.get_offsets(access, "shop")).offsets]
