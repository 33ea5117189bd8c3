"""Builds revisions as the operator would, for a local Spark."""

from pathlib import Path
from typing import Any

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.revision import KafkaConnection, Revision, Tuning
from kappa_pipelines.jars import fetch_jars

CONSUMER = {"max.poll.records": "10000"}
PRODUCER = {"linger.ms": "20", "batch.size": "131072"}


def spark_conf() -> dict[str, str]:
    """Settings for tasks in the driver, as for a pipeline without executors."""
    jars = ",".join(map(str, fetch_jars()))
    return {"spark.master": "local[2]", "spark.jars": jars, "spark.driver.memory": "1g"}


def build_revision(
    spec: dict[str, Any],
    checkpoint: Path | str,
    kafka: KafkaConnection | str,
    **changes: Any,
) -> Revision:
    """A revision of a spec as a user writes it; topic names are their own names in Kafka."""
    connection = KafkaConnection(bootstrap_servers=(kafka,)) if isinstance(kafka, str) else kafka
    values: dict[str, Any] = {
        "namespace": "test",
        "pipeline": "delays",
        "uid": "00000000-0000-0000-0000-000000000000",
        "spec": PipelineSpec.model_validate(spec),
        "kafka": connection,
        "topics": {},
        "checkpoint": str(checkpoint),
        "tuning": Tuning(shuffle_partitions=2, consumer=CONSUMER, producer=PRODUCER),
        "spark_conf": spark_conf(),
        "image": "none",
    }
    return Revision(**{**values, **changes})


def source(
    name: str = "flights", schema: str = "k BIGINT, v DOUBLE, ts TIMESTAMP", **fields: Any
) -> dict[str, Any]:
    """A source of the topic of the same name with JSON values."""
    return {"name": name, "topic": name, "format": {"json": {"schema": schema}}, **fields}
