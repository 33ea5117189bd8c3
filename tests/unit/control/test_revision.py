"""What a revision is made of: when it changes, and when it must not."""

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.kinds import find_kind
from kappa_crds.revision import Revision
from kappa_crds.statestore import S3
from kappa_operator.pipeline.objects import build_config, build_driver, build_support, build_tokens
from kappa_operator.pipeline.revision import Dependencies, build_driver_mounts, build_mounts, build_revision
from kappa_operator.pipeline.tuning import explain_tuning
from kappa_operator.statestore.objects import build_storage
from kappa_operator.statestore.storage import Storage, build_bucket_storage
from unit.control.pipelines import DEPENDENCIES, IMAGES, ON_CLAIM, pipeline

METADATA = {"name": "default", "namespace": "flights", "uid": "s1", "generation": 1, "resourceVersion": "1"}
SECURED = Dependencies(
    KafkaClusterSpec.model_validate(
        {
            "bootstrapServers": ["kafka:9093"],
            "tls": {"caSecretRef": {"name": "kafka-ca"}},
            "sasl": {"mechanism": "PLAIN", "credentialsSecretRef": {"name": "kafka-user"}},
        }
    ),
    ON_CLAIM,
    {"in": "in", "out": "out"},
)


def revise(spec: dict[str, Any] | None = None, dependencies: Dependencies = DEPENDENCIES) -> Revision:
    return build_revision(pipeline(spec), dependencies, IMAGES)


def test_the_same_spec_gives_the_same_revision() -> None:
    assert revise().name == revise().name


@pytest.mark.parametrize(
    "change",
    [
        {"deadLetter": "dead"},
        {"trigger": {"interval": "5s"}},
        {"resources": {"executors": {"count": 2}}},
        {"sparkConf": {"spark.sql.ansi.enabled": "false"}},
        {"image": "kappa/pipelines:2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_a_driver_sees_changes_the_revision(change: dict[str, Any]) -> None:
    assert revise(change).name != revise().name


def test_options_of_all_jvms_come_before_those_of_a_pipeline() -> None:
    images = replace(IMAGES, java_options="-Xlog:gc -Dx=1")
    own = {"sparkConf": {"spark.executor.extraJavaOptions": "-Dx=2"}}
    conf = build_revision(pipeline(own), DEPENDENCIES, images).spark_conf
    assert conf["spark.driver.extraJavaOptions"] == "-Xlog:gc -Dx=1"
    assert conf["spark.executor.extraJavaOptions"] == "-Xlog:gc -Dx=1 -Dx=2"
    assert "spark.driver.extraJavaOptions" not in revise().spark_conf


@pytest.mark.parametrize(
    "change", [{"suspend": True}, {"restart": {"maxDelay": "1m"}}], ids=lambda c: next(iter(c))
)
def test_what_only_the_operator_sees_does_not(change: dict[str, Any]) -> None:
    assert revise(change).name == revise().name


def test_secrets_are_mounted_as_files_in_driver_and_executors_and_stand_nowhere_else() -> None:
    resource, revision = pipeline(), revise(dependencies=SECURED)
    mounts = build_mounts(SECURED)
    driver = build_driver(resource, revision, mounts, 1, "IfNotPresent")
    config = build_config(resource, revision)
    paths = {mount["mountPath"] for mount in driver["spec"]["containers"][0]["volumeMounts"]}
    assert {"/etc/kappa/kafka/ca", "/etc/kappa/kafka/sasl", "/etc/kappa/control"} <= paths
    assert "/etc/kappa/kafka/sasl" in config["data"]["executor-pod.yaml"]
    assert revision.kafka.security_protocol == "SASL_SSL"
    assert revision.kafka.credentials_dir == "/etc/kappa/kafka/sasl"


def test_secrets_of_a_schema_registry_are_files_in_the_driver_and_not_in_executors() -> None:
    registry = {
        "url": "https://registry:8081",
        "credentialsSecretRef": {"name": "registry-user"},
        "caSecretRef": {"name": "registry-ca"},
    }
    spec = {
        "sources": [{"name": "events", "topic": "in", "format": {"avro": {"registry": registry}}}],
        "resources": {"executors": {"count": 1}},
    }
    resource, revision = pipeline(spec), revise(spec)
    mounts = build_driver_mounts(DEPENDENCIES, resource.spec)
    driver = build_driver(resource, revision, mounts, 1, "IfNotPresent")
    paths = {mount["mountPath"] for mount in driver["spec"]["containers"][0]["volumeMounts"]}
    secrets = revision.registries["events"]
    assert secrets.credentials_dir == "/etc/kappa/registry/events/user"
    assert secrets.credentials_dir in paths
    assert secrets.ca_file == "/etc/kappa/registry/events/ca/ca.crt"
    assert secrets.ca_file.removesuffix("/ca.crt") in paths
    assert "registry" not in build_config(resource, revision)["data"]["executor-pod.yaml"]


def test_driver_and_executors_authenticate_by_a_file_that_only_they_mount() -> None:
    resource = pipeline({"resources": {"executors": {"count": 2}}})
    revision = build_revision(resource, DEPENDENCIES, IMAGES)
    assert revision.spark_conf["spark.authenticate"] == "true"
    assert revision.spark_conf["spark.network.crypto.enabled"] == "true"
    driver = build_driver(resource, revision, build_driver_mounts(DEPENDENCIES, revision.spec), 1, "Never")
    file = PurePosixPath(revision.spark_conf["spark.authenticate.secret.file"])
    for pod in (driver, revision.executor_pod):
        (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "rpc")
        assert volume["secret"]["secretName"] == "delays-rpc"
        assert [item["path"] for item in volume["secret"]["items"]] == [file.name]
        (container,) = pod["spec"]["containers"]
        mounts = {each["name"]: each for each in container["volumeMounts"]}
        assert (mounts["rpc"]["mountPath"], mounts["rpc"]["readOnly"]) == (str(file.parent), True)
        assert not [name for name in container.get("env", []) if "secret" in str(name).lower()]
    assert [each["metadata"]["name"] for each in build_tokens(resource, revision)] == ["delays-rpc"]


def test_without_executors_no_other_pod_reaches_the_ports_of_spark() -> None:
    resource = pipeline({"resources": {"executors": {"count": 0}}})
    revision = build_revision(resource, DEPENDENCIES, IMAGES)
    assert revision.spark_conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert build_tokens(resource, revision) == ()


def test_every_pod_is_fit_for_the_restricted_standard() -> None:
    driver = build_driver(pipeline(), revise(), build_mounts(DEPENDENCIES), 1, "IfNotPresent")
    container = driver["spec"]["containers"][0]["securityContext"]
    assert driver["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def grant(executor: dict[str, Any]) -> dict[tuple[str, str], Any]:
    role = next(each for each in build_support(pipeline(), (executor, {})) if each["kind"] == "Role")
    return {(rule["resources"][0], rule["verbs"][0]): rule.get("resourceNames") for rule in role["rules"]}


def test_drivers_may_create_executors_with_the_secrets_and_the_pvc_of_their_pipeline() -> None:
    revision = revise({"resources": {"executors": {"count": 2}}}, SECURED)
    assert grant(revision.executor_pod) == {
        ("pods", "create"): None,
        ("executors", "create"): None,
        ("executormounts", "use"): ["secret/kafka-ca,secret/kafka-user,secret/delays-rpc,pvc/state"],
    }


def test_the_keys_of_a_bucket_are_among_the_secrets_of_executors() -> None:
    s3 = {"bucket": "states", "region": "r", "credentialsSecretRef": {"name": "keys"}}
    storage = build_bucket_storage("main", S3.model_validate(s3))
    revision = revise({"resources": {"executors": {"count": 2}}}, replace(DEPENDENCIES, storage=storage))
    (mounts,) = grant(revision.executor_pod)["executormounts", "use"]
    assert set(mounts.split(",")) == {"secret/delays-rpc", "secret/keys"}


def test_a_driver_without_executors_has_no_permission() -> None:
    assert grant(revise({"resources": {"executors": {"count": 0}}}).executor_pod) == {}


@pytest.mark.parametrize("executors", [0, 2])
def test_local_data_is_encrypted_on_request_of_the_pipeline_or_the_installation(executors: int) -> None:
    spec = {"resources": {"executors": {"count": executors}}}
    own = {**spec, "encryption": {"localData": True}}
    everywhere = replace(IMAGES, encrypt_local_data=True)
    for images, each in ((IMAGES, own), (everywhere, spec)):
        conf = build_revision(pipeline(each), DEPENDENCIES, images).spark_conf
        assert conf["spark.io.encryption.enabled"] == "true"
    assert "spark.io.encryption.enabled" not in revise(spec).spark_conf


def test_heap_and_overhead_fill_the_pods_limit() -> None:
    conf = revise({"resources": {"executors": {"count": 1, "memory": "2Gi"}}}).spark_conf
    assert (conf["spark.executor.memory"], conf["spark.executor.memoryOverhead"]) == ("1228m", "820m")


def store(**pvc: str) -> Storage:
    return build_storage(find_kind("StateStore").parse({"metadata": METADATA, "spec": {"pvc": pvc}}))


def executor_affinity(storage: Storage) -> dict[str, Any]:
    revision = revise({"resources": {"executors": {"count": 2}}}, replace(DEPENDENCIES, storage=storage))
    return dict(revision.executor_pod["spec"].get("affinity", {}).get("podAffinity", {}))


def test_executors_run_on_the_node_of_their_driver_with_a_one_node_pvc() -> None:
    required = executor_affinity(store(size="10Gi"))
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    wanted = pipeline({"resources": {"executors": {"count": 2}}})
    dependencies = replace(DEPENDENCIES, storage=store(size="10Gi"))
    revision = build_revision(wanted, dependencies, IMAGES)
    driver = build_driver(wanted, revision, build_mounts(dependencies), 1, "IfNotPresent")
    labels = driver["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert (
        not term["labelSelector"]["matchLabels"].items()
        <= revision.executor_pod["metadata"]["labels"].items()
    )


def test_executors_prefer_the_node_of_their_driver_for_a_pvc_of_unknown_access_mode() -> None:
    (preferred,) = executor_affinity(store(claimName="mine"))[
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert preferred["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"


@pytest.mark.parametrize(
    "storage",
    [
        store(size="10Gi", accessMode="ReadWriteMany"),
        store(claimName="mine", accessMode="ReadWriteMany"),
        build_bucket_storage("default", S3(bucket="state")),
    ],
    ids=["shared", "existing, shared", "bucket"],
)
def test_executors_run_on_any_node_where_state_can_be_reached_from_all(storage: Storage) -> None:
    assert executor_affinity(storage) == {}


def test_without_executors_the_driver_runs_the_tasks() -> None:
    conf = revise({"resources": {"driver": {"cpu": "1500m"}, "executors": {"count": 0}}}).spark_conf
    assert conf["spark.master"] == "local[2]"
    assert not any(key.startswith("spark.kubernetes") for key in conf)


def test_state_partitions_stay_as_they_were_created() -> None:
    grown = pipeline({"resources": {"executors": {"count": 4}}}, shufflePartitions=1)
    tuning = build_revision(grown, DEPENDENCIES, IMAGES).tuning
    assert tuning.shuffle_partitions == 1
    assert "fixed when the checkpoint was created" in explain_tuning(tuning, grown.spec)[0]


def test_state_partitions_are_those_of_the_spec_where_it_sets_them() -> None:
    wanted = pipeline({"statePartitions": 6}, shufflePartitions=1)
    tuning = build_revision(wanted, DEPENDENCIES, IMAGES).tuning
    assert tuning.shuffle_partitions == 6
    assert "state partitions: 6, for 1 cores (spec.statePartitions)" in explain_tuning(tuning, wanted.spec)[0]


def test_the_checkpoint_belongs_to_this_pipeline_alone() -> None:
    assert revise().checkpoint == "file:///var/lib/kappa/state/flights/delays/u1"


def test_in_real_time_no_record_waits_for_the_producers_linger_and_no_partition_is_split() -> None:
    tuning = revise({"trigger": {"realTime": {}}}).tuning
    assert (tuning.producer["linger.ms"], tuning.min_partitions) == ("0", None)
    assert int(revise({}).tuning.producer["linger.ms"]) > 0


def test_no_partition_is_split_where_rows_of_a_key_must_keep_their_order() -> None:
    keyed = pipeline({"sinks": [{"name": "log", "from": "events", "kafka": {"topic": "out", "key": ["k"]}}]})
    tuning = build_revision(keyed, DEPENDENCIES, IMAGES).tuning
    assert tuning.min_partitions is None
    assert "rows of a key keep their order" in explain_tuning(tuning, keyed.spec)[1]
    assert revise({}).tuning.min_partitions == 2


NATIVE = "spark.sql.kappa.nativeKafka"
WHOLE = {
    "name": "rows",
    "topic": "in",
    "isolationLevel": "ReadCommitted",
    "format": {"json": {"schema": "k BIGINT"}},
    "envelope": {"debezium": {"columns": {"op": "op"}, "transactions": {"topic": "c.transaction"}}},
}
PLAIN = {"name": "events", "topic": "in", "format": {"json": {"schema": "k BIGINT"}}}
MANY = {"executors": {"count": 50, "cpu": "2"}}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, "as many as take 20s, measured by the batches before, and at most 4000000"),
        ({"trigger": {"interval": "5s"}}, "as many as take 20s, "),
        ({"trigger": {"interval": "1m"}}, "as many as take 1m, "),
        ({"resources": MANY}, "as many as take 20s, measured by the batches before, and at most 10000000"),
        ({"trigger": {"maxRecords": 7}}, "at most 7 (spec.trigger.maxRecords)"),
        ({"trigger": {"realTime": {}}}, "unbounded, as in real-time mode none waits for it"),
        ({"sparkConf": {NATIVE: "false"}}, "at most 4000000, as spark.sql.kappa.nativeKafka is false"),
        (
            {"sparkConf": {NATIVE: "false"}, "trigger": {"maxRecords": 7}},
            "at most 7 (spec.trigger.maxRecords)",
        ),
        ({"sources": [WHOLE]}, "at most 200000, or one transaction that has more"),
        (
            {"sources": [WHOLE], "trigger": {"maxRecords": 7}},
            "at most 7 (spec.trigger.maxRecords), or one transaction that has more",
        ),
        (
            {"sources": [WHOLE, PLAIN]},
            "at most 200000, or one transaction that has more; of each source without transactions at most 2000000",
        ),
    ],
)
def test_status_has_what_bounds_a_batch(spec: dict[str, Any], text: str) -> None:
    resource = pipeline(spec)
    tuning = build_revision(resource, DEPENDENCIES, IMAGES).tuning
    found = explain_tuning(tuning, resource.spec)[2]
    assert found.startswith(f"records of a batch: {text}")
    assert text.endswith(", ") or found.endswith(text)
