"""The cache keeps the newest object by key and knows who claims a topic."""

from typing import Any

from fakes.context import build_resource
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.kinds import KIND_TABLE


def body(kind: str = "Topic", name: str = "a", version: int = 1, **spec: Any) -> dict[str, Any]:
    made = build_resource(kind, name, **spec)
    made["metadata"] |= {"resourceVersion": str(version), "uid": "u", "managedFields": [{"a": "lot"}]}
    return made


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    cache = ResourceCache(KIND_TABLE)
    key = cache.put(body(version=5, partitions=5))
    cache.put(body(version=4, partitions=4))
    resource = cache.get(key)
    assert resource is not None
    assert resource.spec.partitions == 5


def test_unused_values_are_not_kept() -> None:
    cache = ResourceCache(KIND_TABLE)
    kept = cache.get_body(cache.put(body()))
    assert kept is not None
    assert "managedFields" not in kept["metadata"]


def test_claims_on_a_topic_are_found_by_its_kafka_name_in_any_namespace() -> None:
    cache = ResourceCache(KIND_TABLE)
    cache.put(body(name="orders"))
    other = body(name="mine", topicName="orders")
    other["metadata"]["namespace"] = "lab"
    cache.put(other)
    assert cache.find_rivals(Key("Topic", "shop", "orders")) == [Key("Topic", "lab", "mine")]
    assert cache.find_rivals(Key("Topic", "lab", "mine")) == [Key("Topic", "shop", "orders")]
    cache.drop(other)
    assert cache.find_rivals(Key("Topic", "shop", "orders")) == []


def test_a_dropped_resource_is_gone_though_it_was_parsed_before() -> None:
    cache = ResourceCache(KIND_TABLE)
    made = body("KafkaCluster", "main", bootstrapServers=["a:1"])
    key = cache.put(made)
    assert cache.get(key) is cache.get(key)
    cache.drop(made)
    assert cache.get(key) is None
    assert cache.find("KafkaCluster", "shop") == []


def test_a_new_version_is_parsed_again() -> None:
    cache = ResourceCache(KIND_TABLE)
    key = cache.put(body("KafkaCluster", "main", 1, bootstrapServers=["a:1"]))
    cache.get(key)
    cache.put(body("KafkaCluster", "main", 2, bootstrapServers=["b:2"]))
    resource = cache.get(key)
    assert resource is not None
    assert resource.spec.bootstrap_servers == ("b:2",)


def test_of_a_kind_with_many_resources_only_some_stay_parsed_and_none_is_of_an_older_version() -> None:
    cache = ResourceCache(KIND_TABLE)
    keys = [cache.put(body(name=f"t{number}")) for number in range(500)]
    parsed = [cache.get(key) for key in keys]
    again = [cache.get(key) is first for key, first in zip(keys[::-1], parsed[::-1], strict=True)]
    assert again[0]
    assert not again[-1]
    cache.put(body(name="t499", version=2, partitions=7))
    resource = cache.get(keys[-1])
    assert resource is not None
    assert resource.spec.partitions == 7


def test_an_answer_from_before_a_deletion_does_not_bring_the_object_back() -> None:
    cache = ResourceCache(KIND_TABLE)
    cache.put(body(version=3))
    key = cache.drop(body(version=5))
    cache.put(body(version=4))
    assert cache.get(key) is None
    cache.put(body(version=6))
    assert cache.get(key) is not None


def test_an_index_keeps_nothing_of_what_is_gone() -> None:
    cache = ResourceCache(KIND_TABLE)
    empty = {name: index for name, index in vars(cache).items() if isinstance(index, dict)}
    keys = [cache.put(body(kind, "a", 1)) for kind in KIND_TABLE]
    for key in keys:
        cache.forget(key)
    kept = {name: index for name, index in empty.items() if name not in {"kinds", "_references"} and index}
    assert kept == {}
