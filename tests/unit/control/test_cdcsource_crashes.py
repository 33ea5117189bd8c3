"""The operator dies after every single write: one connector, one slot, and never two snapshots, whatever it did next."""

import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from effort import Deaths
from unit.control.sources import LOGIN, MARIADB, REF, SPEC, Shop

Step = Callable[[Shop], None]
GUARD = {"postgresql": {**SPEC["postgresql"], "slotGuard": {"limit": "1Gi", "action": "DropSlot"}}}
PROVE = {"proof": {"schedule": "0 * * * *"}}
DELETE = {"deletionPolicy": "Delete", "topicDeletionPolicy": "Delete"}


def write(**spec: Any) -> Step:
    return lambda shop: shop.write(**spec)


def delete(shop: Shop) -> None:
    shop.operator.cluster.remove(REF)


def add_topic(shop: Shop) -> None:
    broker = shop.operator.brokers["kafka:9092"]
    if "orders.public.orders" not in broker.topics:
        broker.add("orders.public.orders", 1, 1, {})


def change_password(shop: Shop) -> None:
    shop.operator.cluster.patch(LOGIN, data={"password": base64.b64encode(b"other").decode()})
    shop.operator.clock.advance(61)


def lose_slot(shop: Shop) -> None:
    shop.write()
    shop.connect.write_rows()
    shop.connect.database.slots[shop.slot] = shop.connect.database.end


def fail_once(shop: Shop) -> None:
    connector = shop.connect.connectors["orders"]
    connector.task, connector.trace = "FAILED", "java.net.ConnectException: Connection refused"


def pass_hour(shop: Shop) -> None:
    shop.operator.clock.advance(3600)


def outgrow(shop: Shop) -> None:
    shop.retained = 2**31
    shop.operator.clock.advance(300)


def rename_column(shop: Shop) -> None:
    shop.shape = {"public.orders": (("id", "bigint", True), ("name", "text", False))}
    shop.operator.clock.advance(301)


def both(*steps: Step) -> Step:
    def step(shop: Shop) -> None:
        for each in steps:
            each(shop)

    return step


SIGNALS = {"signalTable": "public.kappa_signals"}
WANTED: dict[str, Any] = {"request": "some", "tables": [{"table": "public.orders"}]}
SOME: dict[str, Any] = {**SIGNALS, "snapshot": {"incremental": WANTED}}

MYSQL: dict[str, Any] = {**MARIADB, "mariadb": None, "mysql": MARIADB["mariadb"]}
IN_LOG: dict[str, Any] = {"signalTable": "shop.kappa_signals"}
"""A signal table whose rows come through the binary log."""


def ask(server: dict[str, Any], **more: Any) -> Step:
    """Request an incremental snapshot of a table of MariaDB or MySQL."""
    wanted = {"request": "some", "tables": [{"table": "shop.orders"}], **more}
    return write(**server, **IN_LOG, snapshot={"incremental": wanted})


def lose_database(shop: Shop) -> None:
    """Delete a source whose database is gone."""
    shop.drop_problem = "nothing listens at this address"
    delete(shop)


def return_soon(shop: Shop) -> None:
    shop.back_at = shop.operator.clock() + timedelta(seconds=40)


def pass_day(shop: Shop) -> None:
    shop.operator.clock.advance(86401)


def hold(shop: Shop) -> None:
    """Let an incremental snapshot make no progress."""
    shop.connect.is_reading = True


def lose_tables(shop: Shop) -> None:
    """Have the connector restart twice before it reads more rows of an incremental snapshot."""
    shop.connect.is_hidden, shop.connect.is_reading, shop.connect.left = True, False, {}


STEPS: dict[str, tuple[Step, ...]] = {
    "creating": (write(),),
    "creating, paused": (write(state="Paused"),),
    "changing": (write(), write(tables={"include": ["public.orders"]})),
    "stopping": (write(), write(state="Stopped")),
    "resuming": (write(state="Stopped"), write()),
    "a new password": (write(), change_password),
    "a new snapshot": (write(), write(snapshot={"request": "again"})),
    "losing the slot": (write(), write(state="Stopped"), lose_slot),
    "a new snapshot after a loss": (write(), write(state="Stopped"), lose_slot, write(snapshot={"request": "again"})),
    "a snapshot of some tables": (write(**SIGNALS), write(**SOME)),
    "a snapshot of some tables and of all": (write(**SIGNALS), write(**{**SOME, "snapshot": {"incremental": WANTED, "request": "again"}})),
    "another position": (write(), write(state="Stopped"), write(state="Stopped", offsets={"request": "x", "set": {"lsn": "0/FFFF"}})),
    "no position": (write(), write(state="Stopped"), write(state="Stopped", offsets={"request": "x", "reset": True})),
    "refusing a column": (write(schemaChanges={"policy": "Refuse"}), rename_column),
    "following a column": (write(), rename_column),
    "restarting": (write(), fail_once),
    "proving": (write(**PROVE),),
    "proving again": (write(**PROVE), pass_hour),
    "dropping a slot that retains too much": (write(**GUARD), outgrow),
    "creating with MariaDB": (write(**MARIADB),),
    "a new snapshot with MariaDB": (write(**MARIADB), write(**MARIADB, snapshot={"request": "again"})),
    "a snapshot of some tables with MariaDB": (write(**MARIADB, **IN_LOG), ask(MARIADB)),
    "a snapshot of some tables with MySQL": (write(**MYSQL, **IN_LOG), ask(MYSQL)),
    "stopping a snapshot of some tables": (both(write(**SIGNALS), hold), write(**SOME), write(**{**SOME, "snapshot": {"incremental": {**WANTED, "stop": True}}})),
    "stopping a snapshot of some tables with MySQL": (both(write(**MYSQL, **IN_LOG), hold), ask(MYSQL), ask(MYSQL, stop=True)),
    "losing a snapshot of some tables with MySQL": (both(write(**MYSQL, **IN_LOG), hold), ask(MYSQL), lose_tables),
    "deleting with MariaDB": (write(**MARIADB, **DELETE), delete),
    "deleting": (write(), delete),
    "deleting with slot and topics": (write(**DELETE), both(add_topic, delete)),
    "deleting without the database for some seconds": (write(**DELETE), both(add_topic, lose_database, return_soon)),
    "deleting without the database for a day": (write(**DELETE), both(add_topic, lose_database), pass_day),
    "deleting and creating": (write(**DELETE), delete, write()),
}  # fmt: skip


async def live(steps: tuple[Step, ...]) -> tuple[dict[str, Any], Deaths[Shop], Shop]:
    """Go through the steps; return the end, and a copy of everything after writes of the last step."""
    shop = Shop()
    await shop.prepare()
    for step in steps[:-1]:
        step(shop)
        await shop.run(20)
    deaths = Deaths(shop.fork)
    shop.operator.cluster.fuse.on_write = deaths.wrote
    steps[-1](shop)
    await shop.run(90)
    return shop.describe_end(), deaths, shop


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, deaths, shop = await live(STEPS[name])
    assert deaths.writes >= 2
    assert shop.most_connectors <= 1
    for number, dead in deaths.find():
        await dead.run(90)
        end = dead.describe_end()
        assert comparable(end) == comparable(wanted), f"died after write {number} of {deaths.writes}"
        assert dead.most_connectors <= 1
        assert dead.most_proofs <= 1


def comparable(end: dict[str, Any]) -> dict[str, Any]:
    """Return the end without what counts checks."""
    kept, conditions = end["status"]
    return {**end, "status": (kept, sorted(conditions))}


async def test_each_step_ends_as_it_should() -> None:
    """What the crashes are compared with is right itself."""
    ends = {name: (await live(steps))[0] for name, steps in STEPS.items()}
    assert {name: end["snapshots"] for name, end in ends.items() if end["snapshots"] != 1} == {
        "creating, paused": 0,
        "a new snapshot": 2,
        "a new snapshot with MariaDB": 2,
        "a new snapshot after a loss": 2,
        "a snapshot of some tables and of all": 2,
        "deleting and creating": 2,
    }
    assert ends["deleting with slot and topics"]["slots"] == {}
    assert ends["deleting with slot and topics"]["positions"] == {}
    assert ends["deleting"]["slots"] != {}
    assert ends["deleting without the database for some seconds"]["slots"] == {}
    assert ends["deleting without the database for a day"]["finalizers"] is None
    assert ends["deleting without the database for a day"]["slots"] != {}
    assert ends["dropping a slot that retains too much"]["slots"] == {}
    assert ends["dropping a slot that retains too much"]["status"][0]["state"] == "Lost"
    assert ends["losing the slot"]["status"][0]["state"] == "Lost"
    assert {name: len(end["signals"]) for name, end in ends.items() if end["signals"]} == {
        "a snapshot of some tables": 1,
        "a snapshot of some tables and of all": 1,
        "a snapshot of some tables with MariaDB": 1,
        "a snapshot of some tables with MySQL": 1,
        "stopping a snapshot of some tables": 2,
        "stopping a snapshot of some tables with MySQL": 2,
        "losing a snapshot of some tables with MySQL": 2,
    }
    assert {name: ends[name]["status"][0]["incremental"]["state"] for name in ends if name.endswith("tables with MySQL")} == {
        "a snapshot of some tables with MySQL": "Done",
        "stopping a snapshot of some tables with MySQL": "Stopped",
        "losing a snapshot of some tables with MySQL": "Done",
    }  # fmt: skip
    for end in ends.values():
        assert end["created"] <= 2
        assert len(end["slots"]) <= 1
        assert end["pods"] == []
