"""A pipeline on this machine: its manifest alone, with Spark in this process and nothing else around it."""

from typing import Any

from pydantic import ValidationError

from kappa_crds.pipeline import PIPELINE, PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection, Revision, Tuning
from kappa_pipelines.errors import SpecError
from kappa_pipelines.jars import fetch_jars
from kappa_pipelines.revision.load import list_problems

_TUNING = Tuning(shuffle_partitions=2)


def build_local_revision(manifest: dict[str, Any]) -> Revision:
    """Return the revision of a manifest where nothing that it refers to is looked up; SpecError if it is no pipeline."""
    try:
        resource = PIPELINE.parse(manifest)
    except ValidationError as error:
        raise SpecError(Reason.INVALID_SPEC, list_problems(error)) from error
    spec: PipelineSpec = resource.spec
    return Revision(
        namespace=resource.metadata.namespace,
        pipeline=resource.metadata.name,
        uid="",
        spec=spec,
        kafka=KafkaConnection(bootstrap_servers=("localhost:9092",)),
        topics={},
        checkpoint="",
        tuning=_TUNING,
        spark_conf=build_local_settings(spec),
        image="",
    )


def build_local_settings(spec: PipelineSpec) -> dict[str, str]:
    """Return Spark's settings for a pipeline in this process."""
    return {
        **spec.spark_conf,
        "spark.master": "local[1]",
        # What a batch dropped as late is read from its progress at the end; a hundred is what Spark keeps by itself.
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.jars": ",".join(map(str, fetch_jars())),
    }
