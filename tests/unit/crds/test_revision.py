"""The same revision has the same name; another one has another."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field, ValidationError

from kappa_crds.inputs import TopicMove
from kappa_crds.permissions import KafkaResource, name_sink_group
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pod_template import PodTemplate
from kappa_crds.revision import KafkaConnection, RegistrySecrets, Revision, Tuning
from kappa_crds.savepoint import Restoration
from kappa_crds.stores import BucketConnection, HdfsConnection

SPEC: dict[str, Any] = {
    "sources": [{"name": "flights", "topic": "flights", "format": {"json": {"schema": "carrier STRING"}}}],
    "views": [{"name": "late", "sql": "SELECT * FROM flights"}],
    "sinks": [{"name": "out", "from": "late", "kafka": {"topic": "out"}}],
}


def build(**changes: Any) -> Revision:
    values: dict[str, Any] = {
        "namespace": "flights",
        "pipeline": "delays",
        "uid": "1234",
        "spec": PipelineSpec.model_validate(SPEC),
        "kafka": KafkaConnection(bootstrap_servers=("kafka:9092",)),
        "topics": {"flights": "flights", "out": "out"},
        "checkpoint": "file:///var/lib/kappa/state/flights/delays/1234",
        "tuning": Tuning(shuffle_partitions=2),
        "spark_conf": {"spark.master": "local[2]"},
        "image": "kappa/pipelines:1",
    }
    return Revision(**{**values, **changes})


def test_the_same_content_has_the_same_hash() -> None:
    assert build().content_hash == build().content_hash


CHANGES: dict[str, Any] = {
    "namespace": "other",
    "pipeline": "other",
    "uid": "5678",
    "spec": PipelineSpec.model_validate({**SPEC, "stopTimeout": "1m"}),
    "kafka": KafkaConnection(bootstrap_servers=("kafka:9093",)),
    "registries": {"flights": RegistrySecrets(credentials_dir="/etc/kappa/registry/flights/user")},
    "topics": {"flights": "flights-v2", "out": "out"},
    "checkpoint": "file:///elsewhere",
    "tuning": Tuning(shuffle_partitions=4),
    "spark_conf": {"spark.master": "local[1]"},
    "image": "kappa/pipelines:2",
    "executor_pod": {"spec": {"nodeName": "other"}},
    "driver_template": PodTemplate.model_validate({"metadata": {"labels": {"team": "flights"}}}),
    "modules": {"rules.py": "LIMIT = 1"},
    "bucket": BucketConnection(region="eu"),
    "hdfs": HdfsConnection(web="http://nn:9870", user="kappa"),
    "restoration": Restoration(location="file:///savepoints", savepoint="one"),
    "from_beginning": ("flights",),
    "content": "0123456789",
    "outputs": 1,
    "moves": (
        TopicMove(old="flights", new="flights.r1", until={"0": 3}, begin={"0": 5}, reprocessing="delays-1"),
    ),
}


@pytest.mark.parametrize("field", Revision.model_fields)
def test_a_change_of_any_field_gives_another_hash(field: str) -> None:
    assert field in CHANGES, "a new field needs a line in CHANGES"
    assert build(**{field: CHANGES[field]}).content_hash != build().content_hash


def test_a_change_deep_in_the_spec_gives_another_hash() -> None:
    views = [{"name": "late", "sql": "SELECT * FROM flights WHERE true"}]
    changed = build(spec=PipelineSpec.model_validate({**SPEC, "views": views}))
    assert changed.content_hash != build().content_hash


def test_the_order_of_views_counts() -> None:
    two = [{"name": "a", "sql": "SELECT 1"}, {"name": "b", "sql": "SELECT 2"}]
    first, second = (PipelineSpec.model_validate({**SPEC, "views": views}) for views in (two, two[::-1]))
    assert build(spec=first).content_hash != build(spec=second).content_hash


def test_the_order_of_keys_in_a_map_does_not_count() -> None:
    one = {"spark.a": "1", "spark.b": "2"}
    two = {"spark.b": "2", "spark.a": "1"}
    assert build(spark_conf=one).content_hash == build(spark_conf=two).content_hash
    assert build(topics=one).to_json() == build(topics=two).to_json()


def test_a_default_that_is_written_out_gives_the_same_hash() -> None:
    written = PipelineSpec.model_validate({**SPEC, "stopTimeout": "2m", "suspend": False, "sparkConf": {}})
    assert build(spec=written).content_hash == build().content_hash


class LaterSpec(PipelineSpec):
    """A spec of a later contract, which has two fields more."""

    later: str = "as before"
    labels: dict[str, str] = Field(default_factory=dict)


class LaterRevision(Revision):
    """A revision of that contract."""

    spec: LaterSpec


def test_a_field_that_a_later_contract_has_besides_changes_nothing_until_it_is_set() -> None:
    now = build()
    later = LaterRevision.model_validate({**now.to_manifest(), "spec": SPEC})
    assert later.to_json() == now.to_json()
    changed = LaterRevision.model_validate({**now.to_manifest(), "spec": {**SPEC, "later": "otherwise"}})
    assert changed.content_hash != now.content_hash
    with pytest.raises(ValidationError, match="later"):
        Revision.model_validate_json(changed.to_json())


def list_examples() -> list[Any]:
    paths = sorted(Path(__file__).parents[3].joinpath("pipelines", "examples").rglob("*.yaml"))
    documents = [each for path in paths for each in yaml.load_all(path.read_text(), yaml.CSafeLoader) if each]
    return [each["spec"] for each in documents if each.get("kind") == "Pipeline"]


def test_each_example_reads_back_as_it_was() -> None:
    examples = list_examples()
    assert len(examples) > 10
    for spec in examples:
        revision = build(spec=PipelineSpec.model_validate(spec))
        assert Revision.model_validate_json(revision.to_json()) == revision


def test_canonical_json_reads_back_as_the_same_revision() -> None:
    revision = build()
    again = Revision.model_validate_json(revision.to_json())
    assert again == revision
    assert again.to_json() == revision.to_json()


def test_canonical_json_does_not_depend_on_the_process() -> None:
    program = (
        "import sys; from kappa_crds.revision import Revision;"
        " sys.stdout.write(Revision.model_validate_json(sys.stdin.read()).to_json())"
    )
    text = build().to_json()
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout == text


def test_canonical_json_spells_fields_as_manifests_do_and_leaves_out_what_is_absent() -> None:
    content = json.loads(build().to_json())
    assert "sparkConf" in content
    assert "from" in content["spec"]["sinks"][0]
    assert "null" not in build().to_json()


def test_a_revision_names_its_config_map_and_its_consumer_group() -> None:
    assert build().name == f"delays-{build().content_hash}"
    assert build().consumer_group == "kappa.flights.delays"
    assert len(build(pipeline="p" * 40).name) <= 63


def test_runs_with_other_outputs_have_no_transactional_id_in_common_and_permissions_for_their_own() -> None:
    sinks = [{**SPEC["sinks"][0], "name": name} for name in ("out", "out_r1")]
    for sink in sinks:
        sink["kafka"] = {**sink["kafka"], "key": ["carrier"], "delivery": "ExactlyOnce"}
    spec = PipelineSpec.model_validate({**SPEC, "sinks": sinks})
    granted = []
    for outputs in (0, 1, 12):
        revision = build(spec=spec, outputs=outputs)
        groups = {
            name_sink_group(revision.consumer_group, revision.uid, sink, outputs)
            for sink in ("out", "out_r1")
        }
        allowed = {(each.kind, each.name) for each in revision.permissions}
        assert {(KafkaResource.GROUP, group) for group in groups} <= allowed
        assert {(KafkaResource.TRANSACTIONAL_ID, f"{group}.") for group in groups} <= allowed
        granted.append({f"{group}.{writer}" for group in groups for writer in range(20)})
    assert len(set.union(*granted)) == sum(map(len, granted)) == 3 * 2 * 20
