"""What `kappa plan` says about a changed CDCSource before it is applied."""

from typing import Any

import pytest

from kappa_crds.cdcsource import CDCSourceSpec
from kappa_operator.cli.plan import plan_one
from kappa_operator.verdict.source_change import EXPLAINED, RESTARTING, describe_source_change
from unit.control.sources import SOURCE, SPEC, start

KEPT = "the task of the connector restarts; the position is kept, so no snapshot is taken"
EMAIL = {"columns": ["public.customers.email"]}


def explain(old: dict[str, Any], **changes: Any) -> list[str]:
    before = CDCSourceSpec.model_validate({**SPEC, **old})
    after = CDCSourceSpec.model_validate({**SPEC, **old, **changes})
    return list(describe_source_change(before, after, "orders"))


def test_every_field_of_a_source_is_explained() -> None:
    assert set(EXPLAINED) == set(CDCSourceSpec.model_fields)
    assert set(EXPLAINED) > RESTARTING


@pytest.mark.parametrize(
    ("old", "changes", "texts"),
    [
        ({}, {}, []),
        ({}, {"checkInterval": "1m", "state": "Paused"}, []),
        ({}, {"postgresql": {**SPEC["postgresql"], "slotGuard": {"limit": "1Gi"}}}, []),
        ({}, {"config": {"max.batch.size": 10}}, [KEPT]),
        (
            {"tables": {"include": ["public.orders"]}},
            {"tables": {"include": ["public.orders", "public.lines"]}, "signalTable": "s"},
            ["added to the tables: public.lines;", "run: kappa cdc snapshot orders --table public.lines", "table s has to be in the database", KEPT],
        ),
        (
            {"tables": {"include": ["public.*"]}},
            {"tables": {"include": ["public.*"], "exclude": ["public.audit"]}},
            ["removed from the tables: public.audit;", KEPT],
        ),
        ({}, {"snapshot": {"request": "x"}}, ["a new snapshot: the position is forgotten"]),
        ({}, {"snapshot": {"request": "x", "mode": "Never"}}, ["changes between are missing", "snapshot mode Never counts at the next start", "the task of the connector restarts"]),
        (
            {},
            {"snapshot": {"incremental": {"request": "x", "tables": [{"table": "public.orders"}]}}},
            ["rows of public.orders are read again while changes are read", "it waits, because spec.signalTable is missing"],
        ),
        (
            {},
            {"columns": {"mask": [{**EMAIL, "length": 4}]}},
            ["columns (mask) are written otherwise from now on", "values that are hidden from now on are still in the topics", KEPT],
        ),
        (
            {"columns": {"mask": [{**EMAIL, "length": 4}]}},
            {"columns": {}},
            ["columns (mask) are written otherwise", KEPT],
        ),
        (
            {"columns": {"hash": [{**EMAIL, "salt": "some-salt"}]}},
            {"columns": {"hash": [{**EMAIL, "salt": "other-salt"}]}},
            ["columns (hash)", "values that are hidden", "they cannot be joined", KEPT],
        ),
        ({}, {"keys": [{"table": "logs", "columns": ["at"]}]}, ["records have other keys from now on", KEPT]),
        ({}, {"offsets": {"request": "x", "reset": True}}, ["the position is not changed, because spec.state is not Stopped"]),
        ({"state": "Stopped"}, {"offsets": {"request": "x", "set": {"lsn": "0/1"}}}, ["the position becomes 0/1"]),
        ({}, {"postgresql": {**SPEC["postgresql"], "host": "standby"}}, ["the connector continues at standby:5432 at its position", KEPT]),
        ({}, {"topics": {"partitions": 3}}, ["existing ones are not changed", KEPT]),
        ({}, {"maxRecordSize": "16Mi"}, [KEPT]),
        ({"maxRecordSize": "16Mi"}, {"maxRecordSize": None}, ["records that are larger fail from now on", KEPT]),
        ({}, {"decimals": "Text", "tombstones": False}, ["decimals are written as Text", "are not followed by tombstones", KEPT]),
        ({}, {"delivery": "AtLeastOnce", "transactions": True}, ["events have their transaction", "more than once", KEPT]),
    ],
)  # fmt: skip
def test_a_change_is_explained_with_what_stays_as_it_was(
    old: dict[str, Any], changes: dict[str, Any], texts: list[str]
) -> None:
    lines = explain(old, **changes)
    assert len(lines) == len(texts), lines
    for line, text in zip(lines, texts, strict=True):
        assert text in line


def test_a_new_source_begins_with_a_snapshot_or_without() -> None:
    specs = [
        CDCSourceSpec.model_validate({**SPEC, "snapshot": {"mode": mode}}) for mode in ("Initial", "Never")
    ]
    lines = [next(describe_source_change(None, spec, "orders")) for spec in specs]
    assert "begins with a snapshot of all rows" in lines[0]
    assert "are not read" in lines[1]


async def test_the_plan_of_a_changed_manifest_has_actions_and_what_they_mean() -> None:
    shop = await start()
    operator = shop.operator
    live = operator.get(SOURCE) or {}
    metadata = {**live["metadata"], "resourceVersion": str(2**62)}
    operator.cache.put({**live, "metadata": metadata, "spec": {**live["spec"], "tables": {"include": ["public.orders"]}}})  # fmt: skip
    lines = list((await plan_one(operator.context, SOURCE)).describe())
    assert lines[0] == "CDCSource shop/orders"
    assert "  · added to the tables: public.orders; their changes are read from now on, and rows that they have already are not" in lines  # fmt: skip
    assert f"  · {KEPT}" in lines
    assert any(line.startswith("  + ") for line in lines)
