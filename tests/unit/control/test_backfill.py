"""A sink that is added in mode Shadow: the active driver computes its history, and nothing else is computed again."""

import json
from typing import Any

import pytest

from fakes.cluster import Body
from fakes.context import build_resource
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.replay import REPLAY_VARIABLE
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.log.facts import PartitionFacts, Record
from kappa_operator.pipeline.backfill import list_added_sinks
from kappa_operator.pipeline.objects import REVISION_LABEL
from kappa_operator.topic.retention import name_hold
from unit.control.lives import CRASH, PIPELINE, Life, both, lose_driver, write
from unit.control.reprocessings import (
    FIXED,
    SPEC,
    check,
    describe,
    fail_new,
    find_active_revision,
    list_phases,
    live,
    live_and_die,
    read_revision,
)

SHADOW: dict[str, Any] = {**SPEC, "sources": [{**SPEC["sources"][0], "startingOffsets": "latest"}]}
VIEW = {"name": "added", "sql": "SELECT lower(k) AS k FROM events"}
MORE = {"name": "more", "from": "added", "kafka": {"topic": "more"}}
ADDED: dict[str, Any] = {**SHADOW, "views": [VIEW], "sinks": [*SHADOW["sinks"], MORE]}


def create_topic(life: Life) -> None:
    life.operator.cluster.put(build_resource("Topic", "more"))


BEGIN = both(create_topic, write(SHADOW))


MORE_FIXED: dict[str, Any] = {**FIXED, "sinks": [*FIXED["sinks"], {**MORE, "from": "fixed"}]}


def find_pod(life: Life) -> Body:
    (pod,) = [
        each
        for each in life.node.find_pods()
        if each["metadata"]["labels"][REVISION_LABEL] == find_active_revision(life)
    ]
    return pod


def read_profile(life: Life) -> dict[str, Any] | None:
    """Return the profile of the replay of the active driver."""
    (container,) = find_pod(life)["spec"]["containers"]
    found = [each["value"] for each in container["env"] if each["name"] == REPLAY_VARIABLE]
    profile: dict[str, Any] | None = json.loads(found[0]) if found else None
    return profile


def starts(life: Life) -> list[str]:
    revision = read_revision(life, find_pod(life))
    return [each.get("startingOffsets", "earliest") for each in revision["spec"]["sources"]]


async def test_its_query_reads_the_log_from_the_start_beside_the_others_and_no_reprocessing_is_made() -> None:
    life = await live(BEGIN, write(ADDED))
    assert list_phases(life) == []
    assert describe(life)["runs"] == {"active": (2, 0, 0)}
    assert describe(life)["change"] == "Done"
    assert (read_profile(life) or {})["sinks"] == ["more"]
    assert starts(life) == ["earliest"]
    check(life)


async def test_a_driver_that_is_started_again_and_a_later_change_still_know_it() -> None:
    life = await live(BEGIN, write(ADDED), lose_driver)
    assert (read_profile(life) or {})["sinks"] == ["more"]
    write({**ADDED, "trigger": {"maxRecords": 10}})(life)
    await life.settle()
    assert read_profile(life) == {"maxRecords": 10, "clientId": None, "sinks": ["more"]}
    assert (starts(life), list_phases(life)) == (["earliest"], [])
    write({**SHADOW, "trigger": {"maxRecords": 10}, "reprocessNonce": "1"})(life)
    await life.settle()
    assert (list_phases(life), "sinks" in (read_profile(life) or {})) == (["Done"], False)


async def test_retention_is_held_until_no_query_reads_the_history() -> None:
    def find_hold(life: Life) -> str:
        metadata = (life.operator.get(Key("Topic", "shop", "in")) or {})["metadata"]
        found: str = metadata.get("annotations", {}).get(name_hold("backfill.delays"), "")
        return found

    life = await live(BEGIN)
    broker = life.operator.brokers["kafka:9092"]
    age = Record(0, round((life.operator.clock().timestamp() - 30 * 86_400) * 1000))
    broker.logs[Partition("in", 0)] = PartitionFacts(0, PartitionLog(0, 9, 9), age, begin=0)
    life.node.replaying = True
    write(ADDED)(life)
    await life.settle()
    assert find_hold(life).startswith("725h until")
    assert describe(life)["runs"] == {"active": (2, 0, 0)}
    reports = life.operator.drivers.progress
    reports |= {address: each.replace(replaying=False) for address, each in reports.items()}
    await life.settle()
    assert find_hold(life) == ""


async def test_the_former_version_has_no_part_in_it() -> None:
    life = await live(BEGIN)
    assert (read_profile(life), starts(life)) == (None, ["latest"])
    both(fail_new(CRASH), write(ADDED))(life)
    await life.settle()
    assert (read_profile(life), describe(life)["change"]) == (None, "RolledBack")
    assert [sink["name"] for sink in read_revision(life, find_pod(life))["spec"]["sinks"]] == ["log"]


async def test_after_a_cutover_the_operator_creates_its_topic_of_the_version_first() -> None:
    life = await live(both(create_topic, write(SPEC)), write(FIXED), write(MORE_FIXED))
    assert list_phases(life) == ["Done"]
    assert describe(life)["runs"] == {"active": (3, 1, 1)}
    assert describe(life)["outputs"] == ["more.r1", "out.r1"]
    assert "more.r1" in life.operator.brokers["kafka:9092"].topics
    assert (read_profile(life) or {})["sinks"] == ["more"]
    check(life)


@pytest.mark.parametrize("mode", ["LastState", "Stateless"])
async def test_in_another_mode_it_creates_that_topic_too(mode: str) -> None:
    changed = {**MORE_FIXED, "upgrade": {"mode": mode}}
    life = await live(both(create_topic, write(SPEC)), write(FIXED), write(changed))
    assert (describe(life)["outputs"], describe(life)["change"]) == (["more.r1", "out.r1"], "Done")
    assert "more.r1" in life.operator.brokers["kafka:9092"].topics
    assert read_revision(life, find_pod(life))["topics"] == {"in": "in", "out": "out.r1", "more": "more.r1"}
    assert read_profile(life) is None
    check(life)


async def test_the_change_waits_while_the_topic_cannot_be_created() -> None:
    life = await live(both(create_topic, write(SPEC)), write(FIXED))
    taken = build_resource("Topic", "more.r1", topicName="other")
    life.operator.cluster.put(taken)
    write(MORE_FIXED)(life)
    for _ in range(12):
        await life.step()
    _, reason, message = life.operator.get_condition(PIPELINE)
    assert (reason, describe(life)["runs"]["active"][0]) == ("UpgradeWaiting", 2)
    assert "waits for topic more.r1: " in message
    life.operator.cluster.remove(ObjectRef.of(taken))
    await life.settle()
    assert describe(life)["outputs"] == ["more.r1", "out.r1"]


@pytest.mark.parametrize(
    "steps",
    [
        (BEGIN, write(ADDED)),
        (BEGIN, write(ADDED), lose_driver),
        (both(create_topic, write(SPEC)), write(FIXED), write(MORE_FIXED)),
    ],
    ids=["change", "loss", "after a cutover"],
)
async def test_dying_after_any_write_ends_the_same(steps: tuple[Any, ...]) -> None:
    wanted, ends = await live_and_die(*steps)
    assert ends
    assert "more" in wanted["topics"]
    wanted_runs = {role: run[1:] for role, run in wanted.pop("runs").items()}
    for death, end in ends.items():
        runs = {role: run[1:] for role, run in end.pop("runs").items()}
        assert (end, runs) == (wanted, wanted_runs), death


def change(spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**spec, **fields}


OTHER_SOURCE = {**SHADOW["sources"][0], "name": "others"}
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a sink and its view": (ADDED, ("more",)),
    "a sink of a source": (change(SHADOW, sinks=[*SHADOW["sinks"], {**MORE, "from": "events"}]), ("more",)),
    "with a source of its own": (change(ADDED, sources=[*SHADOW["sources"], OTHER_SOURCE]), ("more",)),
    "other sizes besides": (change(ADDED, trigger={"maxRecords": 5}), ("more",)),
    "only a view": (change(SHADOW, views=[VIEW]), ()),
    "no sink of before": (change(ADDED, sinks=[MORE]), ()),
    "the topic of another sink": (
        change(SHADOW, sinks=[*SHADOW["sinks"], {**MORE, "from": "events", "kafka": {"topic": "out"}}]),
        (),
    ),
    "another sink is changed": (change(ADDED, sinks=[{**SHADOW["sinks"][0], "from": "added"}, MORE]), ()),
    "a source is changed": (change(ADDED, sources=[{**SHADOW["sources"][0], "topic": "other"}]), ()),
    "another image": (change(ADDED, image="mine:1"), ()),
    "a nonce": (change(ADDED, reprocessNonce="1"), ()),
    "dead letters": (change(ADDED, deadLetter="dead"), ()),
}


@pytest.mark.parametrize("name", CASES)
def test_only_a_change_that_leaves_all_others_as_they_are_is_one(name: str) -> None:
    after, wanted = CASES[name]
    specs = (PipelineSpec.model_validate(each) for each in (SHADOW, after))
    assert list_added_sinks(*specs) == wanted
