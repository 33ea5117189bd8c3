"""The guard of a slot with a real PostgreSQL, Kafka Connect and broker: it sees the slot fill, warns, and drops it where that is demanded."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, LiteralString

import pytest

from integration.captures import SOURCE, Capture, run_postgres_lab
from integration.connect_servers import ConnectServers
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.postgres import DATABASE, Postgres

pytestmark = pytest.mark.clusterless

READY: tuple[LiteralString, ...] = (
    "CREATE ROLE reader LOGIN REPLICATION",
    f"GRANT CREATE ON DATABASE {DATABASE} TO reader",
    "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)",
    "ALTER TABLE orders OWNER TO reader",
    "INSERT INTO orders VALUES (1, 'tea')",
)
FILL: LiteralString = (
    "SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000)) FROM generate_series(1, 4)"
)
DROP: dict[str, Any] = {"limit": "60Mi", "action": "DropSlot"}


@pytest.fixture
def lab(connect_servers: ConnectServers) -> Iterator[tuple[Postgres, ConnectCluster, Broker]]:
    with run_postgres_lab(READY, connect_servers, max_slot_wal_keep_size="2GB") as lab:
        yield lab


@pytest.fixture
async def capture(lab: tuple[Postgres, ConnectCluster, Broker]) -> AsyncIterator[Capture]:
    async with Capture(*lab) as capture:
        yield capture


async def until_slot(capture: Capture, reason: str, *, fill: bool = False) -> str:
    """Reconcile until SlotSafe has a reason; return its message. Between reconciles the database may write 4 MB of WAL."""

    def is_there(it: Capture) -> bool:
        if fill:
            it.database.execute(FILL)
        return it.get_condition(SOURCE, "SlotSafe")[1] == reason

    await capture.until(is_there, reason, seconds=90)
    return capture.get_condition(SOURCE, "SlotSafe")[2]


async def until_lost(capture: Capture) -> str:
    """Reconcile until changes were lost, while the database writes; return why."""

    def is_lost(it: Capture) -> bool:
        it.database.execute(FILL)
        return "lost" in (it.get(SOURCE) or {})["status"]

    await capture.until(is_lost, "the slot is dropped", seconds=90)
    return str((capture.get(SOURCE) or {})["status"]["lost"])


@pytest.mark.chaos  # 11 s; `make test` has each action of the guard in memory
async def test_a_slot_that_fills_warns_is_dropped_and_begins_again(capture: Capture) -> None:
    capture.write(guard={"limit": "1Gi"})
    await capture.until_reason("ConnectorRunning", seconds=90)
    message = await until_slot(capture, "SlotSafe")
    assert message.endswith("below spec.postgresql.slotGuard.limit")
    status = (capture.get(SOURCE) or {})["status"]
    assert status["slot"]["safeBytes"] > 2**30, "the server has a limit of its own"
    assert status["slot"].get("failover") is None, "PostgreSQL 15 has no failover slots"

    capture.workers.kill()
    message = await until_slot(capture, "SlotFilling", fill=True)
    assert "spec.postgresql.slotGuard.limit is reached in " in message
    assert capture.get_condition(SOURCE)[1] == "ConnectUnavailable"
    assert len(capture.list_slots()) == 1

    capture.write(guard=DROP, state="Stopped")
    lost = await until_lost(capture)
    assert "was dropped, by spec.postgresql.slotGuard" in lost
    assert capture.list_slots() == []
    assert capture.database.query("SELECT count(*) FROM pg_publication") == [(1,)]

    capture.workers.start()
    capture.write(guard={"limit": "1Gi"}, snapshot={"request": "again"})
    await capture.until_reason("ConnectorRunning", seconds=120)
    await capture.until_equal()
    assert capture.count_operations("r") == 2
