"""`kappa cdc status`: what it shows of a source, and what a script sees of its health."""

from datetime import UTC, datetime, timedelta

import pytest

from kappa_crds.cdcsource import CDC_SOURCE
from kappa_crds.cdcsource_proof import TableFinding
from kappa_operator.cli.cdc_status import build_status_view, is_healthy
from unit.control.screens import render
from unit.control.sources import SOURCE, Shop

GIB = 2**30
DIFFERENT = {
    "equal": 2, "differing": 1, "seconds": 3.2,
    "findings": (TableFinding(table="public.orders", differing=1, first=("changed (\x1b[2J17): total",)),),
}  # fmt: skip


@pytest.fixture
async def shop() -> Shop:
    found = Shop()
    found.proof = DIFFERENT
    await found.prepare(proof={"schedule": "0 * * * *"})
    await found.run()
    for size in (1, 2, 3):
        found.retained, found.safe = size * GIB, (100 - size) * GIB
        await found.run(300)
    return found


async def test_it_shows_connector_slot_and_proofs(shop: Shop) -> None:
    resource = CDC_SOURCE.parse(shop.operator.get(SOURCE) or {})
    now = shop.operator.clock().replace(tzinfo=UTC) + timedelta(hours=2)
    lines = render(build_status_view(resource, now), 400).splitlines()
    shown = {line.split("  ")[0].strip(): line for line in lines}
    assert "postgresql://db.example:5432/shop" in shown["database"]
    assert "3 GiB" in shown["retained log"]
    assert "below max_slot_wal_keep_size, grows by" in shown["limit"]
    assert "never" in shown["proven"]
    assert "2 of 3 tables equal, 1,200 rows, 1 differ, 0 undecided, 3.2s" in shown["proof"]
    assert "True, ConnectorRunning: the changes of 3 tables are read" in shown["Ready"]
    assert "False, RowsDiffer: 1 rows differ" in shown["Proven"]
    text = "\n".join(lines)
    assert "public.orders: 1 differ, 0 undecided; changed (" in text
    assert "\x1b" not in text


async def test_a_source_that_is_not_proven_is_unhealthy(shop: Shop) -> None:
    assert not is_healthy(CDC_SOURCE.parse(shop.operator.get(SOURCE) or {}))
    shop.proof = {}
    await shop.run(3700)
    assert is_healthy(CDC_SOURCE.parse(shop.operator.get(SOURCE) or {}))


def test_a_source_that_was_not_seen_yet_can_be_shown() -> None:
    body = {
        "apiVersion": "kappa-platform.io/v1alpha1", "kind": "CDCSource", "metadata": {"name": "new", "namespace": "shop", "uid": "u", "generation": 1},
        "spec": {"postgresql": {"host": "db", "database": "d", "credentialsSecretRef": {"name": "a"}}, "tables": {"include": ["a"]}},
    }  # fmt: skip
    resource = CDC_SOURCE.parse(body)
    assert "new" in render(build_status_view(resource, datetime.now(UTC)))
    assert not is_healthy(resource)


async def test_it_shows_how_far_an_incremental_snapshot_is(shop: Shop) -> None:
    body = shop.operator.get(SOURCE) or {}
    running = {"request": "one", "state": "Running", "message": "reads public.orders, table 1 of 1; about 250,000 of 1,000,000 rows, 1m10s left"}  # fmt: skip
    body = {**body, "status": {**body["status"], "incremental": running}}
    text = render(build_status_view(CDC_SOURCE.parse(body), datetime.now(UTC)), 400)
    assert "Running: reads public.orders, table 1 of 1; about 250,000 of 1,000,000 rows, 1m10s left" in text
