"""The dry run of a standby driver, and everything that it can prepare before it takes over."""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_pipelines.driver.prepare import CompiledPlan, compile_plan, name_root
from kappa_pipelines.sinks.kafka import open_producer
from kappa_pipelines.sinks.publisher import build_publishers
from kappa_pipelines.sinks.targets import fetch_targets
from kappa_pipelines.upgrade.dry_run import DryRun


def try_revision(
    spark: SparkSession, revision: Revision, generation: int, topics: dict[str, int], idle_folder: Path
) -> tuple[UpgradeVerdict, CompiledPlan | None]:
    """Try a revision on a copy of the checkpoint, and compile it; return no plan if its state does not fit."""
    targets = fetch_targets(revision)
    dry_run = DryRun(spark, revision, generation, targets, idle_folder)
    verdict = dry_run.run()
    if verdict.kind is VerdictKind.REPROCESS:
        return verdict, None
    targets = replace(targets, publishers=build_publishers(revision, generation, topics))
    root = name_root(revision, generation)
    plan = compile_plan(
        spark, revision, root, subjects=dry_run.subjects, targets=targets, idle_folder=idle_folder
    )
    open_producer(spark, targets)
    return verdict, plan
