"""The mirror keeps the newest object by key and knows who claims a topic."""

from typing import Any

from fakes.world import build_resource
from kappa_operator.engine.cache import Mirror
from kappa_operator.engine.keys import Key


def body(kind: str = "Topic", name: str = "a", version: int = 1, **spec: Any) -> dict[str, Any]:
    made = build_resource(kind, name, **spec)
    made["metadata"] |= {"resourceVersion": str(version), "uid": "u", "managedFields": [{"a": "lot"}]}
    return made


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    mirror = Mirror()
    key = mirror.put(body(version=5, partitions=5))
    mirror.put(body(version=4, partitions=4))
    resource = mirror.get(key)
    assert resource is not None
    assert resource.spec.partitions == 5


def test_what_nobody_reads_is_not_kept() -> None:
    mirror = Mirror()
    kept = mirror.get_body(mirror.put(body()))
    assert kept is not None
    assert "managedFields" not in kept["metadata"]


def test_claims_are_found_by_the_name_in_kafka_in_any_namespace() -> None:
    mirror = Mirror()
    mirror.put(body(name="orders"))
    other = body(name="mine", topicName="orders")
    other["metadata"]["namespace"] = "lab"
    mirror.put(other)
    assert mirror.find_claims("orders") == [Key("Topic", "lab", "mine"), Key("Topic", "shop", "orders")]
    mirror.drop(other)
    assert mirror.find_claims("orders") == [Key("Topic", "shop", "orders")]


def test_a_dropped_resource_is_gone_though_it_was_parsed_before() -> None:
    mirror = Mirror()
    made = body("KafkaCluster", "main", bootstrapServers=["a:1"])
    key = mirror.put(made)
    assert mirror.get(key) is mirror.get(key)
    mirror.drop(made)
    assert mirror.get(key) is None
    assert mirror.find("KafkaCluster", "shop") == []


def test_a_new_version_is_parsed_anew() -> None:
    mirror = Mirror()
    key = mirror.put(body("KafkaCluster", "main", 1, bootstrapServers=["a:1"]))
    mirror.get(key)
    mirror.put(body("KafkaCluster", "main", 2, bootstrapServers=["b:2"]))
    resource = mirror.get(key)
    assert resource is not None
    assert resource.spec.bootstrap_servers == ("b:2",)


def test_an_answer_from_before_a_deletion_does_not_bring_the_object_back() -> None:
    mirror = Mirror()
    mirror.put(body(version=3))
    key = mirror.drop(body(version=5))
    mirror.put(body(version=4))
    assert mirror.get(key) is None
    mirror.put(body(version=6))
    assert mirror.get(key) is not None
