"""The frame of the commands that compile each pipeline in some files and say something about it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.console import (
    FAILED,
    build_parser,
    complain,
    guard,
    name_pipeline,
    say,
    start_spark,
)
from kappa_pipelines.laptop.manifests import read_pipelines
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.plan.compile import Compiled, compile_revision

Describe = Callable[[str, SparkSession, Revision, Compiled], Iterable[str]]
"""Gives the lines about a pipeline: its name on the screen, and what it became."""


def describe_each(command: str, description: str, arguments: Sequence[str], describe: Describe) -> int:
    """Print the lines about each pipeline; return 0, or 1 where one is wrong, or 2 where nothing can be said."""
    parser = build_parser(command, description)
    return guard(lambda: _describe_files(parser.parse_args(arguments).filename, describe))


def _describe_files(files: list[str], describe: Describe) -> int:
    pipelines = list(read_pipelines(files))
    if not pipelines:
        return complain(f"there is no Pipeline in {', '.join(files)}")
    say("starting Spark …")
    return max([_describe_one(manifest, describe) for manifest in pipelines])


def _describe_one(manifest: dict[str, Any], describe: Describe) -> int:
    name = name_pipeline(manifest)
    try:
        revision = build_local_revision(manifest)
        spark = start_spark(revision)
        compiled = compile_revision(spark, revision)
    except DriverError as error:
        print(f"{name}: {error.reason}: {error.message}", flush=True)
        return FAILED
    print(*describe(name, spark, revision, compiled), sep="\n", flush=True)
    return 0
