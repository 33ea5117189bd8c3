"""The hold of retention while a log is read again: begun, renewed, given back, and what it cannot hold."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.context import START, Operator, build_resource
from kappa_operator.engine.actions import ApplyObject
from kappa_operator.engine.apply import apply_actions
from kappa_operator.engine.keys import Key
from kappa_operator.kafkacluster.connection import resolve_cluster
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.log.facts import (
    LogFacts,
    LogSettings,
    PartitionFacts,
    Question,
    Record,
    SourceFacts,
    TopicFacts,
)
from kappa_operator.log.hold import LEASE, Holdable, decide_holds, name_holder, release_holds
from kappa_operator.pipeline.log import find_holdable
from kappa_operator.topic.retention import name_hold

HOLDER = name_holder("v2")
ANNOTATION = name_hold(HOLDER)
DAY = 86_400.0
TOPIC = Holdable("flights", "shop", "uid-1")


def build_facts(age: float | None = 6 * DAY, **settings: Any) -> LogFacts:
    """Return a topic whose oldest record is so old."""
    first = None if age is None else Record(0, round((START.timestamp() - age) * 1000))
    partition = PartitionFacts(0, PartitionLog(0, 9, 9), first, begin=0)
    known = LogSettings(**{"retention": 7 * DAY, **settings})
    topic = TopicFacts("flights", "A", None, known, (partition,))
    return LogFacts(START, (SourceFacts(Question("flights", ("flights",)), (topic,)),) * 2)


def read_hold(action: ApplyObject) -> str:
    metadata = action.manifest["metadata"]
    assert (metadata["name"], metadata["uid"]) == ("flights", "uid-1")
    return str(metadata["annotations"][ANNOTATION])


def decide(facts: LogFacts, held: str = "") -> list[str]:
    found = decide_holds(facts, {"flights": replace(TOPIC, held=held)}, HOLDER, START)
    assert found.unheld == ()
    return [read_hold(action) for action in found.actions]


def test_a_topic_is_held_as_long_as_its_oldest_record_needs() -> None:
    assert decide(build_facts(age=7 * DAY - 600)) == ["172h until 2026-01-01T02:00:00Z"]


def test_a_hold_is_never_shorter_than_the_retention() -> None:
    assert decide(build_facts(age=60)) == ["168h until 2026-01-01T02:00:00Z"]
    assert decide(build_facts(age=None)) == ["168h until 2026-01-01T02:00:00Z"]


@pytest.mark.parametrize(
    ("held", "renewed"),
    [
        ("168h until 2026-01-01T02:00:00Z", False),
        ("168h until 2026-01-01T00:59:00Z", True),
        ("167h until 2026-01-01T02:00:00Z", True),
        ("unreadable", True),
    ],
)
def test_a_hold_is_renewed_in_time_and_when_it_is_too_short(held: str, renewed: bool) -> None:
    assert bool(decide(build_facts(), held)) is renewed


@pytest.mark.parametrize("settings", [{"retention": None}, {"deletes": False, "compacts": True}])
def test_a_topic_that_removes_nothing_by_age_is_not_held(settings: dict[str, Any]) -> None:
    assert decide(build_facts(**settings)) == []


def test_a_topic_without_a_resource_is_reported() -> None:
    found = decide_holds(build_facts(), {}, HOLDER, START)
    assert found.actions == ()
    assert len(found.unheld) == 1
    assert "has no Topic resource" in found.unheld[0]


def test_a_limit_of_size_is_reported() -> None:
    found = decide_holds(build_facts(retention_bytes=10), {"flights": TOPIC}, HOLDER, START)
    assert len(found.actions) == 1
    assert "retention.bytes" in found.unheld[0]


def test_only_what_is_held_is_given_back() -> None:
    (action,) = release_holds([TOPIC, replace(TOPIC, held="1h until 2026-01-01T02:00:00Z")], HOLDER)
    assert read_hold(action) == ""


@pytest.mark.parametrize(
    ("spec", "before"),
    [({"retention": {"time": "7d"}}, "604800000"), ({}, "604800000")],
    ids=["declared", "of the broker"],
)
async def test_a_hold_reaches_kafka_and_is_given_back(spec: dict[str, Any], before: str) -> None:
    operator, key = Operator(KIND_TABLE), Key("Topic", "shop", "flights")
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    operator.cluster.put(build_resource("Topic", "flights", **spec))
    for each in (Key("KafkaCluster", "shop", "main"), key):
        await operator.reconcile(each)
    broker = operator.brokers["kafka:9092"]
    age = Record(0, round((START.timestamp() - 30 * DAY) * 1000))
    broker.logs[Partition("flights", 0)] = PartitionFacts(0, PartitionLog(0, 9, 9), age, begin=0)

    def show() -> str:
        view = broker.show("flights", frozenset({"retention.ms"}))
        assert view is not None
        return view.configs["retention.ms"]

    async def change(*actions: ApplyObject) -> None:
        resource = operator.cache.read(key)
        assert resource is not None
        assert await apply_actions(operator.context, resource, actions) is None
        await operator.reconcile(key)

    cluster = resolve_cluster(operator.cache, "shop", None)
    assert show() == before
    facts = build_facts(age=30 * DAY)
    await change(
        *decide_holds(facts, find_holdable(operator.context, cluster, HOLDER), HOLDER, START).actions
    )
    assert show() == str(724 * 3_600_000)
    found = find_holdable(operator.context, cluster, HOLDER)
    assert found["flights"].held == "724h until 2026-01-01T02:00:00Z"
    await change(*release_holds(found.values(), HOLDER))
    assert show() == before


async def test_a_hold_that_is_not_renewed_ends() -> None:
    operator, key = Operator(KIND_TABLE), Key("Topic", "shop", "flights")
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    topic = build_resource("Topic", "flights", retention={"time": "7d"})
    topic["metadata"]["annotations"] = {ANNOTATION: "30d until 2026-01-01T02:00:00Z"}
    operator.cluster.put(topic)
    for each in (Key("KafkaCluster", "shop", "main"), key):
        await operator.reconcile(each)
    broker = operator.brokers["kafka:9092"]
    assert broker.topics["flights"].configs["retention.ms"] == str(30 * 86_400_000)
    operator.clock.advance((LEASE + timedelta(seconds=1)).total_seconds())
    await operator.reconcile(key)
    assert broker.topics["flights"].configs["retention.ms"] == str(7 * 86_400_000)
