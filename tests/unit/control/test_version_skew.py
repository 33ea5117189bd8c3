"""A status that another version of the operator wrote: what this version does not know survives each of its reconciles."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.cluster import Body
from fakes.context import Operator, build_resource
from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_operator.engine.keys import Key, ObjectRef
from unit.control.lag_shop import BASE, POLICY, Shop
from unit.control.lives import CHANGED, CLUSTER, PIPELINE, SAVEPOINT, SPEC, STORE, TOPICS, Life, write
from unit.control.sources import SOURCE, start

Path = tuple[str | int, ...]
REBUILT = {
    "conditions": "each condition is written whole",
    "sources": "measured again with each report of the driver",
    "recovery": "measured again with each report of the driver",
    "tuning": "sized again for each revision",
    "lagging": "found again in each sample",
    "worst": "found again in each sample",
    "groupPartitions": "counted again in each sample",
    "loads": "one text for each pipeline, measured again in each sample",
    "lagHistory": "one text for each group partition, found again in each sample",
}
"""Parts of a status that hold no memory: each reconcile computes them again."""


async def run_pipeline() -> tuple[Operator, Key]:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    await life.settle()
    write(CHANGED)(life)
    await life.settle()
    return life.operator, PIPELINE


async def take_savepoint() -> tuple[Operator, Key]:
    return (await run_pipeline())[0], SAVEPOINT


async def check_topic() -> tuple[Operator, Key]:
    return (await run_pipeline())[0], TOPICS[0]


async def check_cluster() -> tuple[Operator, Key]:
    return (await run_pipeline())[0], CLUSTER


async def check_store() -> tuple[Operator, Key]:
    operator = (await run_pipeline())[0]
    key = Key("StateStore", STORE.namespace, STORE.name)
    await operator.reconcile(key)
    return operator, key


async def evaluate_policy() -> tuple[Operator, Key]:
    shop = Shop({**BASE, "remediation": {"holdRetention": {"upTo": "14d"}}})
    await shop.operator.reconcile(POLICY)
    return shop.operator, POLICY


async def run_source() -> tuple[Operator, Key]:
    shop = await start(deletionPolicy="Delete")
    await shop.run(320)
    return shop.operator, SOURCE


async def reprocess() -> tuple[Operator, Key]:
    operator, key = await run_pipeline(), Key("Reprocessing", "shop", "delays-1")
    operator[0].cluster.put(build_resource("Reprocessing", key.name, pipelineRef="delays"))
    await operator[0].reconcile(key)
    return operator[0], key


SCENES: Mapping[str, Callable[[], Awaitable[tuple[Operator, Key]]]] = {
    "KafkaCluster": check_cluster,
    "Topic": check_topic,
    "StateStore": check_store,
    "Pipeline": run_pipeline,
    "Savepoint": take_savepoint,
    "LagPolicy": evaluate_policy,
    "CDCSource": run_source,
    "Reprocessing": reprocess,
}
UNKNOWN = st.recursive(
    st.booleans() | st.integers(-1000, 1000) | st.text("abc é\n", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("xyz", min_size=1), inner, max_size=2)
    ),
    max_leaves=4,
)


def list_objects(node: object, path: Path = ()) -> Iterator[Path]:
    """Yield where a status has objects, but for the parts that are rebuilt."""
    if isinstance(node, dict):
        yield path
        for name, inner in node.items():
            if path or name not in REBUILT:
                yield from list_objects(inner, (*path, name))
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from list_objects(inner, (*path, index))


def find(node: Any, path: Path) -> Any:
    for step in path:
        node = node[step]
    return node


def ref_of(key: Key) -> ObjectRef:
    return ObjectRef(API_VERSION, *key)


def test_every_kind_has_a_scene() -> None:
    assert set(SCENES) == {kind.name for kind in KINDS}


@pytest.mark.parametrize("kind", SCENES)
@settings(deadline=None, max_examples=examples(50))
@given(data=st.data())
def test_fields_of_another_version_survive_reconciles_byte_for_byte(kind: str, data: st.DataObject) -> None:
    operator, key, status = _prepare(kind)
    path = data.draw(st.sampled_from(sorted(list_objects(status), key=str)))
    value = data.draw(UNKNOWN)
    written = copy.deepcopy(status)
    find(written, path)["fromAnotherVersion"] = value
    written["conditions"] = [*written["conditions"], {**written["conditions"][0], "type": "Another"}]

    after = asyncio.run(_reconcile(operator, key, written))

    assert find(after, path)["fromAnotherVersion"] == value
    assert "Another" in [condition["type"] for condition in after["conditions"]]


@pytest.mark.parametrize("kind", SCENES)
@pytest.mark.parametrize("broken", ["a value of another type", "a condition of another form"])
def test_a_status_that_cannot_be_read_is_never_replaced(kind: str, broken: str) -> None:
    operator, key, status = _prepare(kind)
    field = "state" if broken == "a value of another type" else "conditions"
    written = {**copy.deepcopy(status), field: {"form": "of another version"}, "memory": {"kept": [1, 2]}}

    assert asyncio.run(_reconcile(operator, key, written)) == written


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Pipeline", ("upgrade", "phase"), "Shadowing"),
        ("Pipeline", ("upgrade", "handover"), "BlueGreen"),
        ("Pipeline", ("runs", 0, "role"), "canary"),
        ("Pipeline", ("restarts", "crashes"), "many"),
        ("Savepoint", ("work",), {"task": "Rewrite", "name": "w", "since": "2026-01-01T00:00:00Z"}),
        (
            "LagPolicy",
            ("remediations",),
            [{"kind": "Teleport", "target": "x", "since": "2026-01-01T00:00:00Z"}],
        ),
        ("StateStore", ("measurement",), "soon"),
        ("CDCSource", ("work", "state"), "Halfway"),
        ("Reprocessing", ("phase",), "Resting"),
    ],
)
def test_a_step_that_this_version_does_not_know_stops_everything_but_the_report(
    kind: str, path: Path, value: object
) -> None:
    operator, key, status = _prepare(kind)
    written = copy.deepcopy(status)
    find(written, path[:-1])[path[-1]] = value
    objects = list(operator.cluster._objects)

    after = asyncio.run(_reconcile(operator, key, written))

    conditions = {each["type"]: each for each in after.pop("conditions")}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("Unknown", "StatusUnreadable")
    assert conditions["Stalled"]["status"] == "True"
    assert f"status.{path[0]}" in conditions["Ready"]["message"]
    written.pop("conditions")
    assert after == {"state": "Unknown", **written}
    added = [ref for ref in operator.cluster._objects if ref not in objects]
    assert [ref.kind for ref in added if ref.kind != "Event"] == []


def test_a_resource_recovers_when_its_status_can_be_read_again() -> None:
    operator, key, status = _prepare("Pipeline")
    broken = {**copy.deepcopy(status), "upgrade": {**status["upgrade"], "phase": "Shadowing"}}
    unreadable = asyncio.run(_reconcile(operator, key, broken))
    after = asyncio.run(
        _reconcile(operator, key, {**unreadable, "upgrade": copy.deepcopy(status["upgrade"])})
    )
    assert {each["type"]: each["reason"] for each in after["conditions"]}["Ready"] != "StatusUnreadable"
    assert {name: after[name] for name in ("runs", "checkpoint")} == {
        name: status[name] for name in ("runs", "checkpoint")
    }


async def _reconcile(operator: Operator, key: Key, status: Body) -> Body:
    stored = operator.cluster.read(ref_of(key))
    await operator.cluster.apply_status({**(stored or {}), "status": copy.deepcopy(status)})
    operator.clock.advance(3600)
    await operator.reconcile(key)
    body = operator.get(key)
    assert body is not None
    after: Body = body["status"]
    return after


_PREPARED: dict[str, tuple[Operator, Key, Body]] = {}


def _prepare(kind: str) -> tuple[Operator, Key, Body]:
    """Return a resource at rest; it is made once, and each test begins with its status."""
    if kind not in _PREPARED:
        operator, key = asyncio.run(_settle(kind))
        _PREPARED[kind] = (operator, key, operator.get(key)["status"])  # type: ignore[index]
    return _PREPARED[kind]


async def _settle(kind: str) -> tuple[Operator, Key]:
    return await SCENES[kind]()
