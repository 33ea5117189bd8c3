"""The example's manifests: valid, and what the demo believes of them is true."""

from demo.manifests import FOLDER, PIPELINE, SURROUNDINGS, Example
from demo.platform import name_resource


def test_every_manifest_is_applied() -> None:
    assert set(Example().files) == {*SURROUNDINGS, *PIPELINE} == {path.name for path in FOLDER.glob("*.yaml")}


def test_names_in_kafka() -> None:
    example = Example()
    assert (example.source, example.result, example.dead_letters) == (
        "flights",
        "delays-hourly",
        "flights-dead",
    )
    assert sorted(example.topics) == ["delays-hourly", "flights", "flights-dead"]
    assert (example.partitions, example.group) == (4, "kappa.flights.delays")


def test_a_prefix_changes_names_in_kafka_and_nothing_else() -> None:
    example = Example(namespace="other", prefix="test-")
    plain = Example().documents(SURROUNDINGS)
    for document, other in zip(plain, example.documents(SURROUNDINGS), strict=True):
        if document["kind"] == "Topic":
            assert other["spec"].pop("topicName") == f"test-{document['metadata']['name']}"
        assert other == document
    assert example.source == "test-flights"
    assert example.documents(PIPELINE) == Example().documents(PIPELINE)


def test_resources_are_named_with_their_group() -> None:
    assert [name_resource(d) for d in Example().documents(PIPELINE)] == ["pipelines.kappa-platform.io/delays"]
