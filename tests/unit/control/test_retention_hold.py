"""A retention that is held longer than a Topic's spec says."""

from datetime import timedelta
from typing import Any

import pytest

from fakes.context import START, Operator, build_resource
from fakes.fuse import Killed
from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.topic import FORMER_HOLD
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.topic.retention import Hold, find_holds, hold_retention, name_hold, parse_hold

CLUSTER = Key("KafkaCluster", "shop", "main")
TOPIC = Key("Topic", "shop", "in")
HOLD = name_hold("lagpolicy.gold")
HELD = "14d until 2026-01-01T02:00:00Z"


def get_retention(hold: str, *, seconds: float = 0, **spec: Any) -> str | None:
    """Return the retention of a topic with that annotation, so many seconds after the start."""
    body = build_resource("Topic", "in", **spec)
    body["metadata"]["annotations"] = {HOLD: hold}
    held = hold_retention(find_kind("Topic").parse(body), START + timedelta(seconds=seconds)).spec.retention
    return None if held is None else held.time


def test_a_hold_is_read_back_as_it_was_written() -> None:
    hold = Hold("14d", START + timedelta(hours=2))
    assert (str(hold), parse_hold(HELD)) == (HELD, hold)


def test_it_is_longer_than_the_spec_until_it_ends() -> None:
    assert get_retention(HELD, retention={"time": "7d"}) == "14d"
    assert get_retention(HELD, seconds=7199, retention={"time": "7d"}) == "14d"
    assert get_retention(HELD, seconds=7200, retention={"time": "7d"}) == "7d"


def test_it_never_makes_a_retention_shorter() -> None:
    assert get_retention(HELD, retention={"time": "15d"}) == "15d"


def test_what_declares_no_time_has_the_one_that_is_held() -> None:
    """The holder knows what the broker has instead, and holds no shorter one."""
    assert get_retention(HELD) == "14d"
    assert get_retention(HELD, retention={"size": "1Gi"}) == "14d"
    assert get_retention("") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "14d",
        "14d until",
        "soon until 2026-01-01T02:00:00Z",
        "14d until tomorrow",
        "14d until 2026-01-01T02:00:00",
    ],
)
def test_what_is_no_hold_is_none(text: str) -> None:
    assert get_retention(text, retention={"time": "7d"}) == "7d"


async def test_a_hold_is_no_drift_and_what_else_was_changed_is() -> None:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    operator.cluster.put(
        build_resource("Topic", "in", retention={"time": "7d"}, config={"min.insync.replicas": "1"})
    )
    await operator.settle(CLUSTER, TOPIC)
    configs = operator.brokers["kafka:9092"].topics["in"].configs
    operator.cluster.patch(ObjectRef(API_VERSION, *TOPIC), metadata={"annotations": {HOLD: HELD}})
    await operator.settle(TOPIC)
    assert configs["retention.ms"] == str(14 * 86_400_000)
    assert operator.list_events("Altered")[-1].endswith(f"by its annotation {HOLD}")
    assert operator.list_events("DriftRepaired") == []
    configs["min.insync.replicas"] = "2"
    await operator.settle(TOPIC)
    assert configs["min.insync.replicas"] == "1"
    assert len(operator.list_events("DriftRepaired")) == 1


async def test_several_hold_a_retention_and_the_longest_counts_also_when_the_operator_dies_between() -> None:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    operator.cluster.put(build_resource("Topic", "in", retention={"time": "7d"}))
    await operator.settle(CLUSTER, TOPIC)
    configs, topic = operator.brokers["kafka:9092"].topics["in"].configs, ObjectRef(API_VERSION, *TOPIC)
    other = name_hold("lagpolicy.silver")

    async def hold(**holds: str) -> str:
        nonlocal operator
        named = {HOLD if holder == "gold" else other: text for holder, text in holds.items()}
        operator.cluster.patch(topic, metadata={"annotations": named})
        operator.cluster.fuse.die_after(1)
        try:
            await operator.reconcile(TOPIC)
        except Killed:
            operator = operator.restart()
        operator.cluster.fuse.die_after(None)
        await operator.settle(TOPIC)
        return str(int(configs["retention.ms"] or 0) // 86_400_000)

    assert await hold(gold=HELD) == "14"
    assert await hold(silver="30d until 2026-01-01T01:00:00Z") == "30", "the longest counts"
    assert await hold(silver="") == "14", "the end of one leaves the other"
    assert await hold(silver="9d until 2026-01-01T06:00:00Z") == "14"
    operator.clock.advance(3 * 3600)
    await operator.settle(TOPIC)
    assert configs["retention.ms"] == str(9 * 86_400_000), "each ends at its own time"
    assert await hold(silver="") == "7"


def test_the_hold_of_release_0_1_counts_until_it_ends() -> None:
    body = build_resource("Topic", "in", retention={"time": "7d"})
    body["metadata"]["annotations"] = {FORMER_HOLD: HELD}
    held = hold_retention(find_kind("Topic").parse(body), START).spec.retention
    assert held is not None
    assert held.time == "14d"


def test_holders_with_long_names_have_annotations_of_their_own() -> None:
    names = [name_hold(f"lagpolicy.{'a' * 62}{last}") for last in "bc"]
    assert len(set(names)) == 2
    assert all(len(name.rpartition("/")[2]) <= 63 for name in names)
    assert list(find_holds(dict.fromkeys(names, HELD))) == names
