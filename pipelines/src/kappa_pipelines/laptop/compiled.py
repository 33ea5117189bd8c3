"""Compiles a pipeline on this machine, by the code of a driver."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.laptop.console import name_resource
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled, compile_revision

Describe = Callable[[str, SparkSession, Revision, Compiled], Iterable[str]]
"""Returns the lines about a compiled pipeline, with its name."""


def describe_pipeline(manifest: dict[str, Any], describe: Describe) -> list[str]:
    """Return the lines about a pipeline; DriverError if it is invalid."""
    revision = build_local_revision(manifest)
    spark, only = start_spark(revision), revision.spec.upgrade.reprocessing.only
    try:
        compiled = compile_revision(spark, revision, only=only)
        return list(describe(name_resource(manifest), spark, revision, compiled))
    except (PySparkException, Py4JError) as error:  # an unexpected error must not hide the next pipeline
        raise classify(read_failure(error), "the pipeline") from error


def describe_sinks(name: str, spark: SparkSession, revision: Revision, compiled: Compiled) -> Iterator[str]:
    """Yield a line for the pipeline and one for each sink: what it reads and where it writes."""
    yield f"{name}: valid"
    for each in compiled.sinks:
        reads = ", ".join(each.sources)
        mode = each.sink.mode if revision.spec.trigger.real_time is None else "in real time"
        yield f"  {reads} → {each.sink.from_} → topic {each.sink.target.topic} ({mode})"
