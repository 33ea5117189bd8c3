"""Changes of the tables of a source: how they are named, and what each policy does about them."""

import random
from typing import Any

import pytest

from kappa_operator.cdc.shapes import Shape, compare, compute_fingerprint, pack, unpack
from unit.control.sources import MARIADB, SOURCE, Shop, start

ID, ITEM = ("id", "bigint", True), ("item", "text", False)
OLD: dict[str, Any] = {"public.orders": (ID, ITEM)}
REFUSE = {"schemaChanges": {"policy": "Refuse"}}


@pytest.mark.parametrize(
    ("new", "texts", "breaking"),
    [
        ((ID, ("name", "text", False)), ["column item was renamed to name"], True),
        ((ID,), ["column item was dropped"], True),
        ((ID, ("item", "character varying", False)), ["column item was text and is character varying"], True),
        ((ID, ITEM, ("price", "numeric(10,2)", False)), ["column price (numeric(10,2)) was added"], False),
        ((("key", "bigint", True), ITEM), ["column id was renamed to key"], True),
        ((("id", "bigint", True), ("item", "text", True)), ["its key is id, item and was id"], True),
        ((ITEM, ("key", "uuid", True)), ["column id was dropped", "its key is key and was id", "column key (uuid) was added"], True),
    ],
    ids=["renamed", "dropped", "retyped", "added", "renamed key", "larger key", "another key"],
)  # fmt: skip
def test_a_change_of_columns_is_named(new: Any, texts: list[str], breaking: bool) -> None:
    changes = list(compare(OLD, {"public.orders": new}))
    assert [each.text for each in changes] == [f"table public.orders: {text}" for text in texts]
    assert changes[0].breaking is breaking


def test_tables_that_come_and_go_are_named() -> None:
    changes = [(each.text, each.breaking) for each in compare(OLD, {"public.lines": (ID,)})]
    assert changes == [
        ("table public.orders was dropped or renamed", True),
        ("table public.lines was added", False),
    ]


def build_large(tables: int, columns: int) -> Shape:
    names = random.Random(1)
    return {
        f"public.table_{number}": tuple((f"column_{names.randrange(10**9)}", "text", False) for _ in range(columns))
        for number in range(tables)
    }  # fmt: skip


def test_what_is_too_long_has_digests_which_still_show_the_table_that_changed() -> None:
    shape = build_large(40, 40)
    packed = pack(shape)
    assert 0 < len(packed) <= 2400
    changed = {**shape, "public.table_7": (ID,)}
    texts = [each.text for each in compare(unpack(packed), unpack(pack(changed)))]
    assert texts == ["table public.table_7: its columns were changed"]
    assert list(compare(unpack(packed), shape)) == [], "digests and columns of the same tables are equal"
    assert pack(build_large(2000, 1)) == ""


@pytest.mark.parametrize("text", ["", "no base85: ~~~", pack({})[:5], "c$}?MU"])
def test_a_text_that_is_no_shape_is_none(text: str) -> None:
    assert unpack(text) == {}


async def change(shop: Shop, *columns: Any) -> None:
    shop.shape = {"public.orders": columns}
    await shop.run(320)


async def test_changes_are_followed_by_default_with_an_event() -> None:
    shop = await start()
    await change(shop, ID, ("name", "text", False))
    assert shop.operator.get_condition(SOURCE)[:2] == ("True", "ConnectorRunning")
    assert shop.operator.list_events("SchemaChanged") == [
        "table public.orders: column item was renamed to name"
    ]
    await shop.run(700)
    assert len(shop.operator.list_events("SchemaChanged")) == 1


async def refused() -> tuple[Shop, str]:
    shop = await start(**REFUSE)
    await change(shop, ID, ("name", "text", False))
    return shop, compute_fingerprint(shop.shape)


async def test_a_refused_change_stops_the_connector_and_names_what_accepts_it() -> None:
    shop, fingerprint = await refused()
    status, reason, message = shop.operator.get_condition(SOURCE)
    assert (status, reason) == ("False", "SchemaRefused")
    assert "table public.orders: column item was renamed to name" in message
    assert f"set spec.schemaChanges.accept to {fingerprint}" in message
    assert shop.connect.connectors["orders"].state == "STOPPED"
    assert shop.operator.get_condition(SOURCE, "Stalled")[0] == "True"
    assert len(shop.operator.list_events("SchemaRefused")) == 1


async def test_an_accepted_change_starts_the_connector_again_without_a_snapshot() -> None:
    shop, fingerprint = await refused()
    shop.write(schemaChanges={"policy": "Refuse", "accept": fingerprint})
    await shop.run(20)
    assert shop.operator.get_condition(SOURCE)[0] == "True"
    assert shop.connect.snapshots == 1
    await change(shop, ID)
    assert shop.operator.get_condition(SOURCE)[1] == "SchemaRefused", "the next change is refused again"


async def test_a_change_of_mariadb_is_refused_until_it_is_accepted() -> None:
    shop = Shop()
    shop.shape = {"shop.orders": (ID, ITEM)}
    await shop.prepare(**MARIADB, **REFUSE)
    await shop.run()
    config = shop.connect.connectors["orders"].config
    shop.shape = {"shop.orders": (ID,), "shop.lines": (ID,)}
    await shop.run(320)
    _, reason, message = shop.operator.get_condition(SOURCE)
    assert (reason, "and the database removes its log by age" in message) == ("SchemaRefused", True)
    assert shop.connect.connectors["orders"].state == "STOPPED"
    accepted = {"schemaChanges": {"policy": "Refuse", "accept": compute_fingerprint(shop.shape)}}
    shop.write(**MARIADB, **accepted)
    await shop.run(20)
    assert shop.operator.get_condition(SOURCE)[0] == "True"
    assert shop.operator.list_events("SchemaChanged") == [
        "table shop.orders: column item was dropped; table shop.lines was added"
    ]
    assert shop.connect.connectors["orders"].config == config, "the task continues with the tables of its log"
    assert shop.connect.snapshots == 1


async def test_a_change_that_is_undone_needs_nobody() -> None:
    shop, _ = await refused()
    await change(shop, ID, ITEM)
    assert shop.operator.get_condition(SOURCE)[0] == "True"


async def test_a_change_of_the_policy_is_enough_to_follow() -> None:
    shop, _ = await refused()
    shop.write()
    await shop.run(320)
    assert shop.operator.get_condition(SOURCE)[0] == "True"


async def test_columns_that_are_added_are_not_refused() -> None:
    shop = await start(**REFUSE)
    await change(shop, ID, ITEM, ("price", "numeric(10,2)", False))
    assert shop.operator.get_condition(SOURCE)[0] == "True"
    assert len(shop.operator.list_events("SchemaChanged")) == 1


async def test_a_table_that_is_added_restarts_the_task_so_that_it_is_published() -> None:
    shop = await start(**REFUSE)
    before = shop.connect.connectors["orders"].config["kappa.tables"]
    shop.shape = {**shop.shape, "public.lines": (ID,)}
    await shop.run(320)
    assert shop.connect.connectors["orders"].config["kappa.tables"] != before
    (event,) = shop.operator.list_events("SchemaChanged")
    assert "kappa cdc snapshot orders --table TABLE" in event
    assert shop.connect.snapshots == 1


async def test_another_choice_of_tables_is_no_change_of_the_database() -> None:
    shop = await start(**REFUSE)
    shop.shape = {"public.lines": (ID,)}
    shop.write(**REFUSE, tables={"include": ["public.lines"]})
    await shop.run(20)
    assert shop.operator.get_condition(SOURCE)[0] == "True"


async def test_tables_that_are_too_many_to_compare_are_reported() -> None:
    shop = Shop()
    shop.answer = {"columns": "", "fingerprint": "0123"}
    await shop.prepare(**REFUSE)
    await shop.run()
    assert (
        "too many to notice changes of their columns"
        in shop.operator.get_condition(SOURCE, "DatabaseReady")[2]
    )
    assert shop.operator.get_condition(SOURCE)[0] == "True"


async def test_a_table_with_another_file_may_have_been_truncated() -> None:
    shop = await start()
    known = {"public.orders": "16405", "public.lines": "16412"}
    for files in (known, known, {**known, "public.lines": "16499", "public.new": "16500"}, {}, known):
        shop.answer = {"files": pack(files) if files else ""}
        await shop.run(320)
    (event,) = shop.operator.list_events("TableRewritten")
    assert "or rewritten by VACUUM FULL, CLUSTER or ALTER TABLE: public.lines. Rows" in event
    assert shop.operator.get_condition(SOURCE)[0] == "True"
