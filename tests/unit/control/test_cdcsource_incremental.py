"""Snapshots of some tables on request: what they wait for, their progress, and what is refused."""

from typing import Any

import pytest

from kappa_operator.cdcsource.progress import parse_key
from unit.control.sources import MARIADB, SOURCE, Shop, start

SIGNALS = {"signalTable": "kappa_signals"}
_OBJECTS = "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c02000078700000000"
LONG = _OBJECTS + "17372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"  # fmt: skip
UUID = _OBJECTS + "17372000e6a6176612e7574696c2e55554944bc9903f7986d852f0200024a000c6c65617374536967426974734a000b6d6f73745369674269747378 70".replace(" ", "")  # fmt: skip
"""Keys as Debezium has stored them, without their value."""


def ask(request: str = "one", *tables: str, **fields: Any) -> dict[str, Any]:
    wanted = [{"table": each} for each in tables or ("public.orders", "public.lines")]
    return {**SIGNALS, "snapshot": {"incremental": {"request": request, "tables": wanted, **fields}}}


def incremental(shop: Shop) -> dict[str, Any]:
    status: dict[str, Any] = shop.get_status().get("incremental", {})
    return status


async def begin(shop: Shop, **spec: Any) -> dict[str, Any]:
    shop.write(**(spec or ask()))
    await shop.run(8)
    return incremental(shop)


async def test_the_tables_are_read_again_while_the_source_runs() -> None:
    shop = await start(**SIGNALS)
    status = await begin(shop)
    assert (status["state"], status["tablesDone"], status["rowsDone"]) == ("Done", 2, 2000)
    assert [kind for kind, _ in shop.connect.database.signals.values()] == ["execute-snapshot"]
    assert shop.connect.snapshots == 1
    assert shop.operator.get_condition(SOURCE, "Ready")[0] == "True"
    assert [text.partition(" within")[0] for text in shop.operator.list_events("IncrementalSnapshot")] == [
        "the rows of public.orders, public.lines are read again, by request",
        "the rows of public.orders, public.lines were read",
    ]


async def test_one_request_is_carried_out_once_and_another_one_again() -> None:
    shop = await start(**SIGNALS)
    await begin(shop)
    await shop.run(700)
    assert len(shop.connect.database.signals) == 1
    for name in ("two", "one"):
        assert (await begin(shop, **ask(name)))["state"] == "Done"
    assert len(shop.connect.database.signals) == 3


async def test_progress_is_estimated_from_the_stored_key() -> None:
    shop = await start(**SIGNALS)
    shop.connect.keys = {
        "incremental_snapshot_primary_key": LONG + f"{251:016x}",
        "incremental_snapshot_maximum_key": LONG + f"{1001:016x}",
    }
    shop.connect.is_reading = True
    shop.write(**ask())
    for _ in range(6):
        await shop.operator.reconcile(SOURCE)
        shop.work()
        shop.operator.clock.advance(2)
    await shop.operator.reconcile(SOURCE)
    status = incremental(shop)
    assert (status["state"], status["rows"], status["rowsDone"]) == ("Running", 2000, 250)
    assert status["message"].startswith("reads public.orders, table 1 of 2; about 250 of 2,000 rows, ")
    assert status["remaining"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (LONG + "00000000000007d0", 2000),
        (LONG + "ffffffffffffffff", -1),
        (UUID + "86e0ad3559972daaffff0bd413d04298", 0xFFFF0BD413D04298 >> 1),
        ("aced000570", None),
        (LONG.replace("00000001", "00000002"), None),
        ("no hexadecimal number", None),
        (None, None),
    ],
)
def test_keys_are_read_from_javas_serialized_form(text: Any, key: int | None) -> None:
    assert parse_key(text) == key


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"signalTable": None}, "set spec.signalTable"),
        ({"tables": {"include": ["public.*"], "exclude": ["public.lines"]}}, "spec.tables does not have public.lines"),
        ({"state": "Paused"}, "spec.state is Paused"),
    ],
    ids=["no signal table", "another table", "paused"],
)  # fmt: skip
async def test_a_request_waits_for_what_is_missing_and_then_begins(spec: dict[str, Any], text: str) -> None:
    shop = await start(**SIGNALS)
    wanted = {**ask(), **spec}
    status = await begin(shop, **{name: value for name, value in wanted.items() if value is not None})
    assert status["state"] == "Waiting"
    assert text in status["message"]
    assert shop.connect.database.signals == {}
    assert (await begin(shop))["state"] == "Done"


async def test_what_the_pod_refuses_has_failed_until_another_request() -> None:
    shop = await start(**SIGNALS)
    shop.signal_answer = {"refused": "table public.orders does not exist"}
    status = await begin(shop)
    assert (status["state"], status["message"]) == ("Failed", "table public.orders does not exist")
    assert shop.operator.list_events("IncrementalSnapshotFailed") == ["table public.orders does not exist"]
    shop.signal_answer = {}
    await shop.run(120)
    assert incremental(shop)["state"] == "Failed"
    assert (await begin(shop, **ask("two")))["state"] == "Done"


async def test_a_database_that_cannot_be_reached_is_tried_again_with_the_same_signal() -> None:
    shop = await start(**SIGNALS)
    shop.signal_answer = {"problem": "db.example:5432/shop: nothing listens at this address"}
    status = await begin(shop)
    assert "it is retried" in status["message"]
    tries = [each.signal.id for each in shop.requests if each.signal]
    assert len(tries) == 1, "the next attempt waits"
    shop.signal_answer = {}
    await shop.run(60)
    assert incremental(shop)["state"] == "Done"
    assert len({each.signal.id for each in shop.requests if each.signal}) == 1


async def test_a_snapshot_is_stopped_by_another_signal() -> None:
    shop = await start(**SIGNALS)
    shop.connect.is_reading = True
    shop.write(**ask())
    for _ in range(6):
        await shop.operator.reconcile(SOURCE)
        shop.work()
    status = await begin(shop, **ask(stop=True))
    assert status["state"] == "Stopped"
    kinds = [kind for kind, _ in shop.connect.database.signals.values()]
    assert kinds == ["execute-snapshot", "stop-snapshot"]


BINLOG = {**MARIADB, "signalTable": "shop.kappa_signals"}
RESTARTED = pytest.mark.parametrize(
    ("server", "table"), [(SIGNALS, "public.orders"), (BINLOG, "shop.orders")], ids=["postgresql", "mariadb"]
)


async def hide(server: dict[str, Any], table: str) -> Shop:
    """Return a source that restarted within an incremental snapshot, so that its position hides the tables that are left."""
    shop = await start(**server)
    shop.connect.is_reading = True
    shop.write(**server, snapshot={"incremental": {"request": "one", "tables": [{"table": table}]}})
    for _ in range(6):
        await shop.operator.reconcile(SOURCE)
        shop.work()
    await shop.operator.reconcile(SOURCE)
    assert incremental(shop)["state"] == "Running"
    shop.connect.is_hidden = True
    await shop.run(30)
    return shop


@RESTARTED
async def test_a_snapshot_continues_after_a_restart_that_hides_its_tables(
    server: dict[str, Any], table: str
) -> None:
    shop = await hide(server, table)
    status = incremental(shop)
    assert (status["state"], status["message"]) == ("Running", "continues after a restart of the connector")
    assert shop.get_status()["state"] == "Running"
    assert shop.operator.get_condition(SOURCE, "Snapshotting")[0] == "False"
    shop.connect.is_reading = False
    await shop.run(90)
    assert (incremental(shop)["state"], len(shop.connect.database.signals)) == ("Done", 1)


@RESTARTED
async def test_a_snapshot_that_a_second_restart_lost_is_requested_again(
    server: dict[str, Any], table: str
) -> None:
    shop = await hide(server, table)
    shop.connect.left = {}
    await shop.run(60)
    assert len(shop.connect.database.signals) == 2
    assert any("it is requested again" in each for each in shop.operator.list_events("IncrementalSnapshot"))
    shop.connect.is_reading = False
    await shop.run(90)
    assert (incremental(shop)["state"], len(shop.connect.database.signals)) == ("Done", 2)


async def test_a_snapshot_that_is_lost_can_be_stopped() -> None:
    shop = await hide(SIGNALS, "public.orders")
    shop.connect.left = {}
    stop = {"request": "one", "tables": [{"table": "public.orders"}], "stop": True}
    await begin(shop, **SIGNALS, snapshot={"incremental": stop})
    await shop.run(90)
    assert incremental(shop)["state"] == "Stopped"
    assert "hiddenSince" not in incremental(shop)
    kinds = [kind for kind, _ in shop.connect.database.signals.values()]
    assert kinds == ["execute-snapshot", "stop-snapshot"]


async def test_a_new_snapshot_of_all_tables_supersedes_one_of_some() -> None:
    shop = await start(**SIGNALS)
    shop.connect.is_reading = True
    shop.write(**ask())
    for _ in range(6):
        await shop.operator.reconcile(SOURCE)
        shop.work()
    wanted = ask()
    shop.write(**{**wanted, "snapshot": {**wanted["snapshot"], "request": "all"}})
    shop.connect.is_reading = False
    await shop.run(20)
    assert incremental(shop)["state"] == "Superseded"
    assert shop.connect.snapshots == 2


async def test_a_request_in_the_manifest_of_a_new_source_is_passed_over() -> None:
    shop = await start(**ask())
    assert incremental(shop)["state"] == "Superseded"
    assert shop.connect.database.signals == {}


async def test_conditions_are_quoted_and_never_read_as_sql() -> None:
    shop = await start(**SIGNALS)
    rows = [{"column": "id", "operator": "AtLeast", "value": "1'; DROP TABLE orders; --"}]
    spec = {"request": "one", "tables": [{"table": "orders", "where": rows}]}
    shop.write(**SIGNALS, snapshot={"incremental": spec})
    await shop.run(8)
    (signal,) = [each.signal for each in shop.requests if each.signal]
    assert signal.tables[0].condition == "\"id\" >= '1''; DROP TABLE orders; --'"
    assert (signal.tables[0].schema_name, signal.target) == ("public", ("public", "kappa_signals"))


async def test_a_signal_is_followed_while_kafka_connect_is_away() -> None:
    """Its pod is removed, so that the slot is checked meanwhile."""
    shop = await start(**SIGNALS)
    shop.write(**ask())
    await shop.operator.reconcile(SOURCE)
    shop.connect.unreachable = True
    await shop.run(20)
    assert incremental(shop)["state"] == "Requested"
    assert shop.operator.cluster.find("v1", "Pod") == []
    assert shop.get_status()["work"]["task"] == "Check"
    shop.connect.unreachable = False
    await shop.run(20)
    assert incremental(shop)["state"] == "Done"
    assert len(shop.connect.database.signals) == 1
