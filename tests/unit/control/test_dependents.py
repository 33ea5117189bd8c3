"""A resource that changed wakes those that it concerns, found by an index and not by reading all others."""

from typing import Any

import pytest
import yaml

from fakes.context import build_resource
from kappa_crds.kinds import find_kind
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import Body
from kappa_operator.engine.references import find_dependents
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.dependencies import name_topics
from kappa_operator.statestore.users import find_store_users
from lab.paths import REPOSITORY

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
MAIN, STATE = Key("KafkaCluster", "shop", "main"), Key("StateStore", "shop", "state")
EXAMPLES = sorted((REPOSITORY / "pipelines" / "examples").glob("*/*.yaml"))


class CountingCache(ResourceCache):
    """Counts the bodies that are parsed."""

    parsed = 0

    def get_body(self, key: Key) -> Body | None:
        """Count, and return the body."""
        self.parsed += 1
        return super().get_body(key)


class Known:
    """A cache that is filled by hand."""

    def __init__(self) -> None:
        self.cache = CountingCache(KIND_TABLE)
        self._version = 0

    def put(self, kind: str, name: str, status: Any = None, **spec: Any) -> Key:
        """Have a resource in its next version."""
        self._version += 1
        metadata = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": str(self._version)}
        deleting = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if spec.pop("deleting", False) else {}
        body = build_resource(kind, name, **spec)
        return self.cache.put({**body, "metadata": metadata | deleting, "status": status or {}})

    def put_pipeline(self, name: str, topic: str, status: Any = None, **spec: Any) -> Key:
        """Have a pipeline that reads a topic."""
        sources, sinks = (
            [{"name": "s", "topic": topic}],
            [{"name": "k", "from": "s", "kafka": {"topic": "out"}}],
        )
        return self.put("Pipeline", name, status, sources=sources, sinks=sinks, **spec)

    def find(self, key: Key, *, renewed: bool = False) -> list[str]:
        """Return the names of what is woken."""
        return [each.name for each in find_dependents(self.cache, key, renewed=renewed)]


def test_a_topic_wakes_the_pipelines_that_name_it_and_wait_and_reads_no_other() -> None:
    known = Known()
    topic = known.put("Topic", "t7")
    for number in range(1000):
        known.put_pipeline(f"p{number}", f"t{number}", READY if number % 2 == 0 else None)
    known.put_pipeline("late", "t7")
    known.cache.parsed = 0
    assert known.find(topic) == ["late", "p7"]
    assert known.find(Key("Topic", "shop", "t8")) == [], "a ready pipeline has nothing to wait for"
    assert known.cache.parsed <= 2, "only the topic's own name in Kafka is read, each time"


def test_a_cluster_wakes_those_that_name_it_or_mean_it_as_the_only_one() -> None:
    known = Known()
    known.put("Topic", "named", clusterRef="main")
    known.put("Topic", "meant")
    known.put("Topic", "other", clusterRef="other")
    known.put("Topic", "ready", READY)
    known.put_pipeline("p", "named")
    assert known.find(MAIN) == ["p", "meant", "named"]


def test_a_spec_that_changed_wakes_those_that_run_too() -> None:
    known = Known()
    known.put_pipeline("runs", "t", READY, clusterRef="main")
    known.put_pipeline("elsewhere", "t", READY, clusterRef="other")
    assert known.find(MAIN) == []
    assert known.find(MAIN, renewed=True) == ["runs"]


def test_what_a_resource_does_not_name_any_more_does_not_wake_it() -> None:
    known = Known()
    known.put_pipeline("p", "old")
    known.put_pipeline("p", "new")
    assert known.find(Key("Topic", "shop", "old")) == []
    assert known.find(Key("Topic", "shop", "new")) == ["p"]


def test_a_resource_that_is_gone_is_not_woken() -> None:
    known = Known()
    pipeline = known.put_pipeline("p", "t")
    known.cache.forget(pipeline)
    assert known.find(Key("Topic", "shop", "t")) == []
    assert known.find(MAIN) == []


def test_a_pipeline_wakes_stores_and_savepoints_whose_deletion_may_wait_for_it() -> None:
    known = Known()
    known.put("StateStore", "state", READY, deleting=True)
    known.put("StateStore", "stays")
    known.put("Savepoint", "wanted", READY, pipelineRef="other", deleting=True)
    known.put("Savepoint", "mine", pipelineRef="p")
    known.put("Savepoint", "taken", READY, pipelineRef="p")
    pipeline = known.put_pipeline("p", "t", restore={"savepoint": "wanted"})
    assert known.find(pipeline) == ["mine", "wanted", "state"]


def test_a_savepoint_wakes_the_pipelines_that_wait_for_it_and_stores_that_are_being_deleted() -> None:
    known = Known()
    savepoint = known.put("Savepoint", "s", pipelineRef="p")
    known.put_pipeline("p", "t")
    known.put_pipeline("restores", "t", restore={"savepoint": "s"})
    known.put_pipeline("changes", "t", {"upgrade": {"savepoint": "s"}})
    known.put_pipeline("other", "t")
    known.put("StateStore", "state", deleting=True)
    assert known.find(savepoint) == ["changes", "p", "restores", "state"]


def test_the_users_of_a_store_are_those_that_name_it_or_mean_it_as_the_only_one() -> None:
    known = Known()
    known.put("StateStore", "state")
    known.put_pipeline("named", "t", stateStoreRef="state")
    known.put_pipeline("meant", "t")
    known.put_pipeline("copies", "t", stateStoreRef="other", savepoints={"exports": [{"storeRef": "state"}]})
    assert find_store_users(known.cache, STATE) == ("meant", "named")
    known.put("StateStore", "other")
    assert find_store_users(known.cache, STATE) == ("named",)


def read_examples() -> list[dict[str, Any]]:
    texts = (path.read_text() for path in EXAMPLES)
    return [body for text in texts for body in yaml.load_all(text, yaml.CSafeLoader) if body and body.get("kind") == "Pipeline"]  # fmt: skip


@pytest.mark.parametrize("manifest", read_examples(), ids=lambda body: body["metadata"]["name"])
def test_the_index_has_every_topic_that_an_example_names(manifest: dict[str, Any]) -> None:
    metadata = {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    body = {**manifest, "metadata": metadata}
    named = ResourceCache(KIND_TABLE).read_named(Key("Pipeline", "shop", "p"), body)
    topics = {Key("Topic", "shop", name) for name in name_topics(find_kind("Pipeline").parse(body).spec)}
    assert topics
    assert topics <= named
    assert {key.kind for key in named} >= {"KafkaCluster", "StateStore"}
