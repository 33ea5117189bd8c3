"""The operator dies after every single write: what it does next always ends where it would have ended."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import effort
from fakes.context import Operator, build_resource
from fakes.fuse import Killed
from fakes.kafka import FakeBroker
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE

CLUSTER = Key("KafkaCluster", "shop", "main")
ORDERS = Key("Topic", "shop", "orders")
REF = ObjectRef("kappa-platform.io/v1alpha1", "Topic", "shop", "orders")

FIRST = {
    "partitions": 2,
    "retention": {"time": "1d"},
    "config": {"segment.bytes": "1048576"},
    "deletionPolicy": "Delete",
}
SECOND = {"partitions": 3, "config": {"max.message.bytes": "2000"}, "deletionPolicy": "Delete"}

Step = Callable[[Operator], None]


def write(**spec: Any) -> Step:
    return lambda operator: void(operator.cluster.put(build_resource("Topic", "orders", **spec)))


def void(_: object) -> None:
    return None


def delete(operator: Operator) -> None:
    operator.cluster.remove(REF)


def drift(operator: Operator) -> None:
    topic = operator.brokers["kafka:9092"].topics["orders"]
    topic.configs["segment.bytes"] = "2097152"


STEPS: dict[str, tuple[Step, ...]] = {
    "creating": (write(**FIRST),),
    "changing": (write(**FIRST), write(**SECOND)),
    "repairing": (write(**FIRST), drift),
    "releasing": (write(**FIRST), write(**{**FIRST, "deletionPolicy": "Retain"})),
    "deleting": (write(**FIRST), delete),
}


async def live(steps: tuple[Step, ...], die_after: int | None) -> tuple[dict[str, Any], int]:
    """Go through the steps, dying once after so many writes of the last one; return the end and its writes."""
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    await operator.settle(CLUSTER)
    for step in steps[:-1]:
        step(operator)
        operator = await operator.settle(ORDERS)
    before = operator.cluster.fuse.writes
    operator.cluster.fuse.die_after(die_after)
    steps[-1](operator)
    operator = await operator.settle(ORDERS)
    return describe_end(operator), operator.cluster.fuse.writes - before


def describe_end(operator: Operator) -> dict[str, Any]:
    """Return what there is in the end, without the versions that count writes."""
    body = operator.get(ORDERS)
    topics = operator.brokers["kafka:9092"].topics
    return {
        "topics": {name: (t.partitions, t.replication, t.configs) for name, t in topics.items()},
        "finalizers": body and body["metadata"].get("finalizers", []),
        "status": body and body["status"],
    }


@pytest.mark.parametrize("name", STEPS)
async def test_dying_after_any_write_changes_nothing_about_the_end(name: str) -> None:
    wanted, writes = await live(STEPS[name], None)
    assert writes >= 2
    for number in effort.deaths(writes):
        end, _ = await live(STEPS[name], number)
        assert end == wanted, f"died after write {number} of {writes}"


async def test_a_killed_operator_really_dies() -> None:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    operator.cluster.fuse.die_after(1)
    with pytest.raises(Killed):
        await operator.reconcile(CLUSTER)


partitions = st.integers(1, 5)
cleanups = st.sampled_from(["delete", "compact", "compact,delete"])
configs = st.dictionaries(
    st.sampled_from(["segment.bytes", "max.message.bytes", "min.insync.replicas"]),
    st.integers(1, 9).map(lambda n: str(n * 2**20)),
)
policies = st.sampled_from(["Retain", "Delete"])


@settings(max_examples=effort.examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=st.none() | st.tuples(partitions, cleanups, configs),
    partitions=partitions,
    cleanup=cleanups,
    config=configs,
    allow=st.booleans(),
    policy=policies,
    die_after=st.none() | st.integers(1, 12),
)
async def test_a_topic_converges_from_anywhere(
    before: tuple[int, str, dict[str, str]] | None,
    partitions: int,
    cleanup: str,
    config: dict[str, str],
    allow: bool,
    policy: str,
    die_after: int | None,
) -> None:
    operator = Operator(KIND_TABLE)
    broker: FakeBroker = operator.brokers["kafka:9092"]
    if before is not None:
        broker.add("orders", before[0], 1, {"cleanup.policy": before[1], **before[2]})
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    await operator.settle(CLUSTER)
    spec: dict[str, Any] = {"partitions": partitions, "cleanup": cleanup, "config": config}
    operator.cluster.put(
        build_resource("Topic", "orders", **spec, allowCleanupChange=allow, deletionPolicy=policy)
    )
    operator.cluster.fuse.die_after(die_after)
    operator = await operator.settle(ORDERS)

    view = broker.show("orders")
    assert view is not None
    assert view.partitions == max(partitions, before[0] if before else 0)
    assert all(view.configs[key] == value for key, value in config.items())
    kept = before is not None and not allow and set(before[1].split(",")) != set(cleanup.split(","))
    assert set(view.configs["cleanup.policy"].split(",")) == set(
        (before[1] if kept and before else cleanup).split(",")
    )
    shrinks = before is not None and before[0] > partitions
    assert operator.get_condition(ORDERS)[0] == ("False" if kept or shrinks else "True")
    for key, value in (before[2] if before else {}).items():
        assert key in config or view.configs[key] == value
