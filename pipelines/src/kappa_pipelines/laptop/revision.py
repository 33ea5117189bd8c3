"""The revision of a pipeline on this machine, from its manifest alone, with Spark in this process."""

from typing import Any

from kappa_crds.admission import find_problems
from kappa_crds.pipeline import PIPELINE, PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection, Revision, Tuning
from kappa_pipelines.errors import SpecError
from kappa_pipelines.jars import fetch_jars
from kappa_pipelines.revision.environment import check_python

_TUNING = Tuning(shuffle_partitions=2)
_MOST_PROBLEMS = 5


def build_local_revision(manifest: dict[str, Any]) -> Revision:
    """Return the revision of a manifest without its references; SpecError if the API server would refuse it."""
    check_manifest(manifest)
    resource = PIPELINE.parse(manifest)
    spec: PipelineSpec = resource.spec
    check_python(spec)
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


def check_manifest(manifest: dict[str, Any]) -> None:
    """Raise SpecError with the first problems if the API server would refuse a resource."""
    problems = list(map(str, find_problems(manifest)))
    if problems:
        more = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        raise SpecError(Reason.INVALID_SPEC, "; ".join(problems[:_MOST_PROBLEMS]) + more)


def build_local_settings(spec: PipelineSpec) -> dict[str, str]:
    """Return Spark's settings for a pipeline in this process."""
    return {
        **spec.spark_conf,
        "spark.master": "local[1]",
        # Late rows and batches are read from the progress; Spark's default is to keep the last hundred batches.
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.jars": ",".join(map(str, fetch_jars())),
    }
