"""The tables of a database, from compacted topics of change events, are reprocessed while it is written to and killed in each phase.

The comparison finds just the differences that the records up to its cut make, and each version equals a query of the database.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from e2e.place import START_SECONDS, Place
from e2e.test_cdc import ITEMS, JOINED, PASSWORD, Shop, _name_topics, _read_table, database
from e2e.test_reprocessing_faults import await_phase
from e2e.test_reprocessing_join import count, find_name, get_summaries, read_until, request
from kappa_crds.reprocessing import Cut, ReprocessingPhase
from lab.network import NODE_IP
from lab.paths import REPOSITORY
from lab.postgres import Postgres

__all__ = ["database"]
pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.chaos,
]  # three drivers and a worker of Kafka Connect start
Phase = ReprocessingPhase
_WARM_UP_SECONDS = 10
_WRITE_PAUSE = 0.2
"""Seconds between two transactions of six changes: each costs two versions some Python."""


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("tables")
    yield place
    place.empty()


CITY = "CASE WHEN city = 'city 3' THEN 'city 4' ELSE city END AS city"
WRONG_JOINED = JOINED.replace(
    "c.city", CITY.replace("city =", "c.city =").replace("ELSE city", "ELSE c.city")
)
RIGHT_ITEMS = ITEMS.replace("JOIN", "LEFT JOIN")


@pytest.fixture
def shop(place: Place, database: tuple[Postgres, Path]) -> Iterator[Shop]:
    """The database of the shop, followed by a CDCSource, whose slot goes while the database is there."""
    server, authority = database
    server.execute("ALTER ROLE reader REPLICATION")
    values = {"host": NODE_IP, "port": str(server.port), "password": PASSWORD}
    place.apply(place.render("cdc.yaml", **values, authority=json.dumps(authority.read_text())))
    place.await_ready("cdcsource/shop")
    yield Shop(place, server)
    place.kubectl("delete", "pipelines,cdcsources", "--all", "--timeout=120s", timeout=130)


def build_pipeline(namespace: str, *, is_fixed: bool) -> str:
    """Return the pipeline of the example; the wrong one changes a city, and leaves out items whose order is not there."""
    text = (REPOSITORY / "pipelines" / "examples" / "orders" / "pipeline.yaml").read_text()
    if is_fixed:
        text = text.replace("        unmatched: drop\n", "")
    else:
        text = text.replace(
            '"SELECT * EXCEPT (version) FROM orders_with_customers"',
            '"SELECT * EXCEPT (version, city), CITY FROM orders_with_customers"'.replace("CITY", CITY),
        )
    gates = "{cut: Manual, finish: Manual}"
    upgrade = f"  upgrade: {{mode: Shadow, reprocessing: {{gates: {gates}, soak: 1h}}}}\n"
    text = _name_topics(text, namespace).replace("cpu: 100m", "cpu: 500m")
    return text + "  trigger: {interval: 1s}\n" + upgrade


def test_tables_of_a_database_are_reprocessed_and_rolled_back_while_the_database_dies(
    place: Place, shop: Shop
) -> None:
    place.apply(build_pipeline(place.name, is_fixed=False))
    place.await_ready("pipeline/orders", 2 * START_SECONDS)
    stop = threading.Event()
    writer = threading.Thread(target=shop.write, args=(stop, 10_000, _WRITE_PAUSE))
    writer.start()
    try:
        time.sleep(_WARM_UP_SECONDS)
        place.apply(build_pipeline(place.name, is_fixed=True))
        name = find_name(place, "orders")
        for phase in (Phase.CATCHING_UP, Phase.COMPARING, Phase.READY_TO_CUT):
            await_phase(place, name, phase, 600)
            kill_database(shop)
        check_table_comparison(place, name)
        request(place, name, "Cut")
        await_phase(place, name, Phase.CUTTING_OVER, 60)
        kill_database(shop)
        await_phase(place, name, Phase.SOAKING, 240)
        outputs = {each.name: each.topic for each in place.pipeline("orders").outputs}
        kill_database(shop)
        pause(stop, writer)
        await_equal(place, outputs["orders-with-customers"], JOINED, shop)
        await_equal(place, outputs["items-with-orders"], RIGHT_ITEMS, shop)
        stop = threading.Event()
        writer = threading.Thread(target=shop.write, args=(stop, 20_000, _WRITE_PAUSE))
        writer.start()
        request(place, name, "Rollback")
        await_phase(place, name, Phase.ROLLING_BACK, 60)
        kill_database(shop)
        await_phase(place, name, Phase.ROLLED_BACK, 240)
    finally:
        pause(stop, writer)
    await_equal(place, f"{place.name}-orders", WRONG_JOINED, shop)
    await_equal(place, f"{place.name}-items", ITEMS, shop)


def pause(stop: threading.Event, writer: threading.Thread) -> None:
    stop.set()
    writer.join(60)


def kill_database(shop: Shop) -> None:
    shop.database.restart(graceful=False)
    with psycopg.connect(shop.database.address) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def await_equal(place: Place, topic: str, query: str, shop: Shop) -> None:
    """Wait until a topic equals a query of the database, row for row."""
    columns = ("note", "name", "city") if "name" in query else ("product", "quantity")
    wanted = {row[0]: row[1:] for row in shop.query(query)}
    assert wanted
    place.wait(lambda: _read_table(topic, *columns) == wanted, f"{topic} equals the database", 240)


def fold_table(topic: str, cut: Cut) -> Mapping[int, dict[str, Any]]:
    """Return the rows of a table by its change events up to a cut: the last one of each key, without deleted ones."""
    found: dict[int, dict[str, Any]] = {}
    for message in read_until(topic, cut):
        key = json.loads(message.key() or b"")["id"]
        found.pop(key, None)
        after = json.loads(message.value() or b"{}").get("after")
        if after is not None:
            found[key] = after
    return found


def check_table_comparison(place: Place, name: str) -> None:
    """Fail where it found other differences than those of the rows up to the cut: orders of customers in a city, and items without an order."""
    cut, found = get_summaries(place, name)
    customers, orders, items = (
        fold_table(f"{place.name}.public.{table}", cut) for table in ("customers", "orders", "items")
    )
    moved = sum(
        1 for order in orders.values() if customers.get(order["customer"], {}).get("city") == "city 3"
    )
    without = sum(1 for item in items.values() if item["order_id"] not in orders)
    assert moved
    assert without
    assert count(found["orders"]) == (moved, 0, 0, 0)
    assert count(found["items"]) == (0, 0, without, 0)
