"""Limits of a namespace: the oldest resources keep their place, and what is beyond a limit is reported and costs nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.context import Operator, build_resource
from kappa_crds import API_VERSION
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.references import find_dependents
from kappa_operator.kinds import KIND_TABLE, count_executors
from kappa_operator.settings import Settings
from monitored.chart import find, render

CLUSTER = Key("KafkaCluster", "shop", "main")


def topic(name: str, namespace: str = "shop") -> Key:
    return Key("Topic", namespace, name)


def made(kind: str, name: str, second: int, namespace: str = "shop", **spec: Any) -> dict[str, Any]:
    body = build_resource(kind, name, namespace, **spec)
    body["metadata"] |= {
        "uid": f"{name}-{second}", "resourceVersion": "1", "creationTimestamp": f"2026-01-01T00:00:{second:02}Z",
    }  # fmt: skip
    return body


async def start(settings: Settings, *topics: str) -> Operator:
    """Return an operator with a Kafka cluster and topics, each a second older than the next one."""
    operator = Operator(KIND_TABLE, settings=settings)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    for name in topics:
        operator.clock.advance(1)
        operator.cluster.put(build_resource("Topic", name))
    await operator.reconcile(CLUSTER)
    return operator


async def test_the_oldest_topics_keep_their_place_and_the_others_report_the_limit() -> None:
    operator = await start(Settings(limit_topics=2), "c", "b", "a")
    for name in "abc":
        await operator.reconcile(topic(name))
    assert sorted(operator.brokers["kafka:9092"].topics) == ["b", "c"]
    status, reason, message = operator.get_condition(topic("a"))
    assert (status, reason) == ("False", "LimitReached")
    assert (
        "3 topics" in message and "limits.perNamespace.topics (2)" in message and "administrator" in message
    )
    assert operator.get_condition(topic("a"), "Stalled")[0] == "True"


async def test_a_restart_of_the_operator_changes_nothing() -> None:
    operator = await start(Settings(limit_topics=2), "c", "b", "a")
    for name in "abc":
        await operator.reconcile(topic(name))
    again = operator.restart()
    before = again.cluster.fuse.writes
    for name in "abc":
        await again.reconcile(topic(name))
    assert again.cluster.fuse.writes == before


async def test_there_is_room_again_after_a_deletion() -> None:
    operator = await start(Settings(limit_topics=2), "a", "b", "c", "d")
    for name in "abcd":
        await operator.reconcile(topic(name))
    assert list(operator.cache.find_limited(topic("a"))) == []
    operator.cluster.remove(ObjectRef(API_VERSION, *topic("a")))
    assert list(operator.cache.find_limited(topic("a"))) == [topic("c")], "one place is free"
    await operator.reconcile(topic("c"))
    assert operator.get_condition(topic("c"))[0] == "True"
    await operator.reconcile(topic("d"))
    assert operator.get_condition(topic("d"))[1] == "LimitReached"


async def test_resources_beyond_a_limit_make_no_events_and_are_not_woken() -> None:
    operator = await start(Settings(limit_topics=2), "a", "b", "c", "d")
    for name in "abcd":
        operator.cluster.put(build_resource("Topic", name, topicName="same"))
        await operator.reconcile(topic(name))
    assert operator.get_condition(topic("d"))[1] == "LimitReached"
    events = operator.cluster.find("events.k8s.io/v1", "Event", "shop")
    assert [event["regarding"]["name"] for event in events] == ["b"], "the conflict of the one with a place"
    assert find_dependents(operator.cache, CLUSTER, renewed=True) == [topic("a"), topic("b")]
    assert find_dependents(operator.cache, topic("d")) == [topic("b")], "the rival that waits and has a place"


async def test_a_higher_limit_lets_them_in() -> None:
    operator = await start(Settings(limit_topics=1), "a", "b")
    for name in "ab":
        await operator.reconcile(topic(name))
    operator = operator.restart(Settings(limit_topics=2))
    await operator.reconcile(topic("b"))
    assert operator.get_condition(topic("b"))[0] == "True"


async def test_a_lower_limit_deletes_nothing() -> None:
    operator = await start(Settings(), "a", "b")
    for name in "ab":
        await operator.reconcile(topic(name))
    operator = operator.restart(Settings(limit_topics=1))
    await operator.reconcile(topic("b"))
    assert operator.get_condition(topic("b"))[1] == "LimitReached"
    assert sorted(operator.brokers["kafka:9092"].topics) == ["a", "b"]


async def test_a_resource_beyond_a_limit_can_be_deleted() -> None:
    operator = await start(Settings(), "a")
    body = build_resource("Topic", "b", deletionPolicy="Delete")
    operator.clock.advance(1)
    operator.cluster.put(body)
    await operator.settle(topic("a"), topic("b"))
    operator = operator.restart(Settings(limit_topics=1))
    await operator.reconcile(topic("b"))
    operator.cluster.remove(ObjectRef(API_VERSION, *topic("b")))
    await operator.reconcile(topic("b"))
    assert operator.get(topic("b")) is None
    assert sorted(operator.brokers["kafka:9092"].topics) == ["a"]


async def test_partitions_of_one_topic_are_limited() -> None:
    operator = await start(Settings(limit_partitions=10))
    operator.cluster.put(build_resource("Topic", "wide", partitions=11))
    await operator.reconcile(topic("wide"))
    _, reason, message = operator.get_condition(topic("wide"))
    assert reason == "LimitReached" and "limits.each.partitions (10)" in message and "11" in message
    assert not operator.brokers["kafka:9092"].topics
    body = operator.get(topic("wide"))
    assert body is not None
    operator.cluster.put({**body, "spec": {"partitions": 10}})
    await operator.reconcile(topic("wide"))
    assert operator.get_condition(topic("wide"))[0] == "True"


async def test_a_resource_that_is_too_large_is_not_kept_and_reports_that() -> None:
    operator = await start(Settings(limit_object_bytes=2000))
    body = build_resource("Topic", "large", configs={"x": "y" * 3000})
    operator.cluster.put(body)
    assert operator.cache.get_body(topic("large"))["spec"] == {}  # type: ignore[index]
    await operator.reconcile(topic("large"))
    assert "limits.each.objectBytes (2000)" in operator.get_condition(topic("large"))[2]


def pipeline(name: str, second: int, executors: object) -> dict[str, Any]:
    return made("Pipeline", name, second, resources={"executors": {"count": executors}})


def find_excess(cache: ResourceCache, *names: str) -> list[str]:
    return [name for name in names if cache.find_excess(Key("Pipeline", "shop", name)) is not None]


def test_executors_are_limited_by_their_sum_and_a_small_pipeline_may_fit_after_a_large_one() -> None:
    cache = ResourceCache(KIND_TABLE, Settings(limit_executors=10).get_limit)
    for body in (pipeline("a", 1, 6), pipeline("b", 2, 5), pipeline("c", 3, 4), pipeline("d", 4, 0)):
        cache.put(body)
    assert find_excess(cache, *"abcd") == ["b"]
    excess = cache.find_excess(Key("Pipeline", "shop", "b"))
    assert excess is not None and (excess.limit, excess.most, excess.found) == ("executors", 10, 11)


def test_a_pipeline_in_mode_shadow_counts_twice_as_two_versions_of_it_may_run() -> None:
    cache = ResourceCache(KIND_TABLE, Settings(limit_executors=10).get_limit)
    body = pipeline("b", 2, 3)
    body["spec"]["upgrade"] = {"mode": "Shadow"}
    for each in (pipeline("a", 1, 5), body, pipeline("c", 3, 5)):
        cache.put(each)
    assert find_excess(cache, *"abc") == ["b"]


@pytest.mark.parametrize(
    ("mode", "count", "replay", "wanted"),
    [
        ("Shadow", 3, 7, 10),
        ("Shadow", 3, 2, 6),
        ("LastState", 3, 7, 10),
        ("LastState", 3, None, 3),
        ("Shadow", 0, 7, 0),
    ],
)
def test_a_new_version_counts_with_the_executors_of_its_replay_also_as_a_member_of_a_chain(
    mode: str, count: int, replay: int | None, wanted: int
) -> None:
    upgrade = {"mode": mode, "reprocessing": {"replay": {"executors": replay}}}
    spec = {**pipeline("a", 1, count)["spec"], "upgrade": upgrade}
    assert count_executors(spec) == wanted


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 7), st.booleans()), max_size=25))
def test_after_each_change_the_sum_is_that_of_the_present_pipelines(
    changes: list[tuple[str, int, bool]],
) -> None:
    get_limit, present = Settings(limit_executors=10).get_limit, dict[str, dict[str, Any]]()
    cache = ResourceCache(KIND_TABLE, get_limit)
    for version, (name, executors, is_deleted) in enumerate(changes, 1):
        body = pipeline(name, ord(name) % 3, executors)
        body["metadata"]["resourceVersion"] = str(version)
        if is_deleted:
            cache.drop(body)
            present.pop(name, None)
        else:
            cache.put(body)
            present[name] = body
        fresh = ResourceCache(KIND_TABLE, get_limit)
        for each in present.values():
            fresh.put(each)
        assert find_excess(cache, *"abcde") == find_excess(fresh, *"abcde")


@pytest.mark.parametrize("count", [None, "many", [], {"a": 1}, -5])
def test_a_count_of_executors_that_is_invalid_takes_no_room(count: object) -> None:
    cache = ResourceCache(KIND_TABLE, Settings(limit_executors=10).get_limit)
    cache.put(pipeline("a", 1, count))
    cache.put(pipeline("b", 2, 10))
    assert find_excess(cache, *"ab") == []


def test_another_namespace_has_limits_of_its_own() -> None:
    cache = ResourceCache(KIND_TABLE, Settings(limit_topics=1).get_limit)
    for space in ("shop", "lab"):
        cache.put(made("Topic", "a", 1, space))
    assert cache.find_excess(topic("a")) is None and cache.find_excess(topic("a", "lab")) is None


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 20)), max_size=30), st.integers(1, 12))
def test_the_order_of_arrival_makes_no_difference(found: list[tuple[int, int]], most: int) -> None:
    bodies = {name: made("Topic", f"t{name}", second) for second, name in found}
    expected = sorted(
        (body["metadata"]["creationTimestamp"], body["metadata"]["name"]) for body in bodies.values()
    )
    for order in (list(bodies.values()), list(bodies.values())[::-1]):
        cache = ResourceCache(KIND_TABLE, Settings(limit_topics=most).get_limit)
        for body in order:
            cache.put(body)
        placed = [name for _, name in expected if cache.find_excess(topic(name)) is None]
        assert placed == [name for _, name in expected[:most]]
        shortened = [name for _, name in expected if cache.is_shortened(topic(name))]
        assert shortened == [name for _, name in expected[most:]], "no spec of theirs is in memory"


def test_the_chart_sets_every_limit() -> None:
    deployment = find(render("limits.perNamespace.kafkaClusters=7"), "Deployment")["kappa-operator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    values = {each["name"]: each.get("value", "") for each in container["env"]}
    settings, defaults = Settings.from_environment(values), Settings()
    assert settings.get_limit("kafkaClusters") == 7
    for name in (
        "topics",
        "pipelines",
        "executors",
        "stateStores",
        "savepoints",
        "lagPolicies",
        "partitions",
        "objectBytes",
    ):
        assert settings.get_limit(name) == defaults.get_limit(name)
        assert any(each.startswith("KAPPA_LIMIT_") for each in values)
