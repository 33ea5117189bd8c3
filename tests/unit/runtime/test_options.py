"""Connections and settings as Spark and librdkafka take them; no secret among Spark's."""

from pathlib import Path

import pytest

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection, Revision, Tuning
from kappa_crds.state_settings import Compression, StateSettings
from kappa_crds.stores import BucketConnection
from kappa_pipelines.errors import DriverError, SpecError
from kappa_pipelines.jars import CORE, S3, locked_jars, read_lock
from kappa_pipelines.kafka.options import build_librdkafka_config, build_spark_connection
from kappa_pipelines.revision.load import load_revision
from kappa_pipelines.revision.names import assign_owners, check_names, explain_cycle, explain_unknown_name
from kappa_pipelines.revision.settings import (
    CHECKPOINT_SETTINGS,
    CHECKSUM_THREADS,
    EXTENSIONS,
    build_spark_settings,
    build_state_settings,
)
from kappa_pipelines.sources.kafka import find_max_records

SOURCE = {"name": "flights", "topic": "flights", "format": {"json": {"schema": "k BIGINT"}}}


def _revision(**spark_conf: str) -> Revision:
    return Revision(
        namespace="prod",
        pipeline="delays",
        uid="1",
        spec=PipelineSpec.model_validate(
            {"sources": [SOURCE], "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}]}
        ),
        kafka=KafkaConnection(bootstrap_servers=("kafka:9092",)),
        topics={},
        checkpoint="/ck",
        tuning=Tuning(shuffle_partitions=8),
        spark_conf=spark_conf,
        image="i",
    )


def _secured(folder: Path) -> KafkaConnection:
    return KafkaConnection(
        bootstrap_servers=("a:9092", "b:9092"),
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        ca_file="/etc/kappa/kafka/ca.crt",
        credentials_dir=str(folder),
        client_certificate_dir="/etc/kappa/client",
    )


def test_spark_gets_references_to_secrets_and_never_secrets(tmp_path: Path) -> None:
    (tmp_path / "username").write_text("reader")
    (tmp_path / "password").write_text("s3cr3t")
    options = build_spark_connection(_secured(tmp_path))
    assert "s3cr3t" not in str(options) and "reader" not in str(options)
    assert f'password="${{dir:{tmp_path}:password}}"' in options["kafka.sasl.jaas.config"]
    assert options["kafka.config.providers.dir.param.allowed.paths"] == f"{tmp_path},/etc/kappa/client"
    assert options["kafka.ssl.truststore.location"] == "/etc/kappa/kafka/ca.crt"
    assert options["kafka.ssl.keystore.key"] == "${dir:/etc/kappa/client:tls.key}"
    assert all(key.startswith("kafka.") for key in options)


def test_librdkafka_gets_the_credentials_themselves(tmp_path: Path) -> None:
    (tmp_path / "username").write_text("reader")
    (tmp_path / "password").write_text("s3cr3t")
    config = build_librdkafka_config(_secured(tmp_path))
    assert (config["sasl.username"], config["sasl.password"]) == ("reader", "s3cr3t")
    assert config["ssl.key.location"] == "/etc/kappa/client/tls.key"


def test_a_plain_connection_needs_no_providers() -> None:
    options = build_spark_connection(KafkaConnection(bootstrap_servers=("a:9092",)))
    assert options == {"kafka.bootstrap.servers": "a:9092", "kafka.security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize("password", ['a"b', "a\\b", "ab\n"])
def test_a_password_that_the_login_would_misread_is_refused(tmp_path: Path, password: str) -> None:
    (tmp_path / "username").write_text("reader")
    (tmp_path / "password").write_text(password)
    with pytest.raises(DriverError) as caught:
        build_librdkafka_config(_secured(tmp_path))
    assert caught.value.reason is Reason.SECRET_INCOMPLETE
    assert password not in caught.value.message


def test_state_settings_are_always_written_completely() -> None:
    place = "spark.sql.streaming.stateStore"
    assert build_state_settings(None) == {
        f"{place}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{place}.rocksdb.compression": "lz4",
        f"{place}.rocksdb.boundedMemoryUsage": "true",
        f"{place}.rocksdb.maxMemoryUsageMB": "500",
        f"{place}.minDeltasForSnapshot": "10",
        f"{place}.maintenanceInterval": "10000ms",
        "spark.sql.streaming.minBatchesToRetain": "100",
    }
    wanted = StateSettings(
        changelog=False,
        compression=Compression.ZSTD,
        max_memory="1Gi",
        maintenance_interval="1m30s",
        retain_batches=200,
    )
    revision = _revision()
    settings = build_spark_settings(revision.replace(spec=revision.spec.replace(state=wanted)))
    assert settings[f"{place}.rocksdb.changelogCheckpointing.enabled"] == "false"
    assert settings[f"{place}.rocksdb.compression"] == "zstd"
    assert settings[f"{place}.rocksdb.maxMemoryUsageMB"] == "1024"
    assert settings[f"{place}.maintenanceInterval"] == "90000ms"
    assert settings["spark.sql.streaming.minBatchesToRetain"] == "200"


def test_safe_checkpoint_settings_cannot_be_overridden() -> None:
    settings = build_spark_settings(_revision(**dict.fromkeys(CHECKPOINT_SETTINGS, "unsafe")))
    assert {key: settings[key] for key in CHECKPOINT_SETTINGS} == CHECKPOINT_SETTINGS
    assert settings["spark.sql.shuffle.partitions"] == "8"
    assert settings["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("checkpoint", "manager", "file_system"),
    [
        ("/ck", "FileSystemBasedCheckpointFileManager", "LocalFiles"),
        ("file:/ck", "FileSystemBasedCheckpointFileManager", "LocalFiles"),
        ("hdfs://ck/x", "", ""),
    ],
)
def test_on_a_local_disk_files_of_a_checkpoint_are_renamed_without_other_programs(
    checkpoint: str, manager: str, file_system: str
) -> None:
    """Also where the pipeline knows a bucket, whose files are written in another way."""
    conf = {"spark.hadoop.fs.file.impl": "another"} if manager else {}
    revision = _revision(**conf).replace(checkpoint=checkpoint, bucket=BucketConnection(region="eu"))
    settings = build_spark_settings(revision)
    found = settings.get("spark.sql.streaming.checkpointFileManagerClass", "")
    assert found.rpartition(".")[2] == manager
    assert settings.get("spark.hadoop.fs.file.impl", "").rpartition(".")[2] == file_system


def test_files_of_a_checkpoint_in_a_bucket_are_not_renamed() -> None:
    """A pipeline cannot choose what renames them, or what checks for each whether it exists."""
    manager, creates = (
        "spark.sql.streaming.checkpointFileManagerClass",
        "spark.hadoop.fs.s3a.create.performance",
    )
    bucket = BucketConnection(region="eu")
    revision = _revision(**{manager: "another", creates: "false"}).replace(
        checkpoint="s3a://b/ck", bucket=bucket
    )
    settings = build_spark_settings(revision)
    assert (settings[manager], settings[creates]) == ("kappa.files.BucketFiles", "true")


@pytest.mark.parametrize(
    ("checkpoint", "partitions", "threads"),
    [
        ("file:/ck", 8, "0"),
        ("s3a://bucket/ck", 8, "4"),
        ("s3a://bucket/ck", 200, "2"),
        ("hdfs://ck", 1000, "0"),
    ],
)
def test_threads_for_checksums_are_bounded_in_a_jvm(checkpoint: str, partitions: int, threads: str) -> None:
    revision = _revision()
    tuning = revision.tuning.replace(shuffle_partitions=partitions)
    settings = build_spark_settings(revision.replace(checkpoint=checkpoint, tuning=tuning))
    assert settings[CHECKSUM_THREADS] == threads


def test_checks_without_which_results_are_wrong_cannot_be_switched_off() -> None:
    """Not even by a pipeline that was stored before the API server refused to."""
    checks = [
        "spark.sql.streaming.statefulOperator.checkCorrectness.enabled",
        "spark.sql.streaming.unsupportedOperationCheck",
    ]
    settings = build_spark_settings(_revision(**dict.fromkeys(checks, "false")))
    assert [settings[check] for check in checks] == ["true", "true"]


def test_defaults_give_way_to_the_revision() -> None:
    assert build_spark_settings(_revision(**{"spark.ui.enabled": "true"}))["spark.ui.enabled"] == "true"
    assert build_spark_settings(_revision())["spark.ui.enabled"] == "false"


def test_a_revision_survives_the_way_through_its_file(tmp_path: Path) -> None:
    (tmp_path / "revision.json").write_text(_revision().to_json())
    assert load_revision(tmp_path / "revision.json") == _revision()


@pytest.mark.parametrize("text", [None, "{", '{"namespace": "x"}'])
def test_a_file_that_is_no_revision_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "revision.json").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_revision(tmp_path / "revision.json")
    assert caught.value.reason is Reason.INVALID_SPEC


def _views(*names: str) -> PipelineSpec:
    views = [{"name": name, "sql": "SELECT 1"} for name in names]
    sinks = [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}]
    return PipelineSpec.model_validate({"sources": [SOURCE], "views": views, "sinks": sinks})


@pytest.mark.parametrize(
    ("unknown", "hint"),
    [
        ("flihgts", "did you mean 'flights'"),
        ("bb", "did you mean 'b'"),
        ("zzz", "known are flights, b"),
    ],
)
def test_an_unknown_name_comes_with_what_may_have_been_meant(unknown: str, hint: str) -> None:
    error = explain_unknown_name(_views("a", "b"), "a", unknown)
    assert (error.reason, hint in error.message) == (Reason.UNKNOWN_VIEW, True), error.message


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ({"a": "a"}, "view 'a' reads itself"),
        ({"a": "b", "b": "a"}, "circle: 'a' reads 'b', 'b' reads 'a';"),
        (
            {"outside": "a", "a": "b", "b": "c", "c": "a"},
            "circle: 'a' reads 'b', 'b' reads 'c', 'c' reads 'a';",
        ),
    ],
)
def test_views_that_read_each_other_are_named_in_order(waits: dict[str, str], said: str) -> None:
    error = explain_cycle(waits)
    assert (error.reason, said in error.message) == (Reason.VIEW_CYCLE, True), error.message


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(SpecError, match="used twice: flights"):
        check_names(_views("flights"))


def test_the_first_sink_that_reads_a_source_owns_its_dead_letters() -> None:
    reads = {"one": ("a",), "two": ("a", "b"), "three": ("b",)}
    assert assign_owners(reads) == {"a": "one", "b": "two"}


def test_the_lock_names_every_jar_once_with_its_checksum() -> None:
    jars = locked_jars(CORE, S3)
    assert {jar.artifact for jar in jars} >= {"spark-sql-kafka-0-10_2.13", "kafka-clients", "hadoop-aws"}
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert len({jar.artifact for jar in jars}) == len(jars)
    assert read_lock("# a comment\n\na.b:c:1 ff\n")[0].file == "c-1.jar"


@pytest.mark.parametrize(("executors", "records"), [("0", 4_000_000), ("10", 4_000_000), ("100", 40_000_000)])
def test_a_batch_is_bounded_by_the_cores_of_many_executors(executors: str, records: int) -> None:
    conf = {
        "spark.master": "k8s://x",
        "spark.executor.instances": executors,
        "spark.executor.cores": "4",
    }
    assert find_max_records(_revision(**conf)) == records


def test_extensions_of_a_pipeline_are_beside_those_of_the_runtime() -> None:
    assert build_spark_settings(_revision())[EXTENSIONS] == "kappa.json.Extensions"
    assert build_spark_settings(_revision(**{EXTENSIONS: "a.B"}))[EXTENSIONS] == "a.B,kappa.json.Extensions"
