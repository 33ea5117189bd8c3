"""The operator reads stored objects of release 0.1 by the present names, and writes them back by these."""

from typing import Any

import pytest

from fakes.cluster import Body
from fakes.context import Operator, build_resource
from fakes.fuse import Killed
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.reconcile import write_converted
from kappa_operator.kinds import KIND_TABLE

CLUSTER = Key("KafkaCluster", "shop", "main")
ORDERS = Key("Topic", "shop", "orders")


def ref(key: Key) -> ObjectRef:
    return ObjectRef(API_VERSION, key.kind, key.namespace, key.name)


async def start(**spec: Any) -> Operator:
    """Return an operator with a cluster and a Topic as release 0.1 stored them."""
    operator = Operator(KIND_TABLE)
    old = build_resource(
        "KafkaCluster", "main", bootstrapServers=["kafka:9092"], checkEvery="7s", lag={"every": "9s"}
    )
    operator.cluster.put(old)
    operator.cluster.put(build_resource("Topic", "orders", partitions=3, **spec))
    return operator


def spec_of(operator: Operator, key: Key) -> Body:
    spec: Body = (operator.get(key) or {})["spec"]
    return spec


async def test_stored_objects_are_written_back_with_the_present_names() -> None:
    operator = await start(pause=True)
    outcome = await operator.reconcile(CLUSTER)
    assert outcome.requeue_after == 7.0, "the interval of release 0.1 is that of its check"
    await operator.settle(CLUSTER, ORDERS)
    assert spec_of(operator, CLUSTER) == {
        "bootstrapServers": ["kafka:9092"], "checkInterval": "7s", "lag": {"interval": "9s"},
    }  # fmt: skip
    assert spec_of(operator, ORDERS) == {"partitions": 3, "suspend": True}
    assert operator.get_condition(ORDERS)[1] == "Suspended"
    assert "orders" not in operator.brokers["kafka:9092"].topics, "a paused topic stays suspended"


async def test_an_object_is_converted_once() -> None:
    operator = await start(pause=False)
    await operator.settle(CLUSTER, ORDERS)
    writes = operator.cluster.fuse.writes
    await operator.restart().settle(CLUSTER, ORDERS)
    assert operator.cluster.fuse.writes == writes


async def test_an_operator_that_dies_after_any_write_leaves_the_same_end() -> None:
    operator = await start(pause=True)
    for number in range(24):
        operator.cluster.fuse.die_after(1)
        try:
            await operator.reconcile(CLUSTER if number % 2 else ORDERS)
        except Killed:
            operator = operator.restart()
    assert spec_of(operator, ORDERS) == {"partitions": 3, "suspend": True}
    assert operator.get_condition(ORDERS)[1] == "Suspended"


async def test_a_change_that_comes_between_is_kept() -> None:
    operator = await start(pause=True)
    operator.cluster.unsubscribe_all()  # the operator does not see the change, and writes on an old version
    operator.cluster.patch(ref(ORDERS), spec={"partitions": 5})
    await write_converted(operator.context, ORDERS)
    assert spec_of(operator, ORDERS) == {"partitions": 5, "pause": True}
    operator = operator.restart()
    for key in (CLUSTER, ORDERS, CLUSTER, ORDERS):
        await operator.reconcile(key)
    assert spec_of(operator, ORDERS) == {"partitions": 5, "suspend": True}


@pytest.mark.parametrize("key", [CLUSTER, ORDERS], ids=lambda key: key.kind)
async def test_an_operator_whose_write_is_refused_acts_on_what_it_reads(key: Key) -> None:
    operator = await start(pause=True)

    def refuse(before: Body | None, after: Body) -> str | None:
        return "no" if before is not None and before.get("spec") != after.get("spec") else None

    operator.cluster.refusals.append(refuse)
    await operator.settle(CLUSTER, ORDERS)
    assert operator.get_condition(ORDERS)[1] == "Suspended"
    assert "pause" in spec_of(operator, ORDERS)
