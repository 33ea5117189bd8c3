"""Prepares queries for their start: acquires the checkpoint, adapts its state, and compiles the revision.

Compilation takes most of the time and needs only the schemas of the checkpoint. So a standby driver compiles before it takes over, and
again only if those schemas have changed meanwhile.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_pipelines.archive.source import ArchiveRead
from kappa_pipelines.checkpoint.fence.fence import Fence
from kappa_pipelines.checkpoint.format.schemas import rewrite_all_schema_paths
from kappa_pipelines.checkpoint.location import build_fence, open_folder
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.driver.archive import find_archives
from kappa_pipelines.kafka.group import KafkaProgress
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.plan.fingerprint import QueryFingerprint, build_fingerprints
from kappa_pipelines.plan.start import check_start
from kappa_pipelines.registry.resolve import Subjects, resolve_subjects
from kappa_pipelines.reporting.record import DriverRecord
from kappa_pipelines.savepoint.pin import PINS
from kappa_pipelines.savepoint.restore import find_restored, is_of_another, restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.side_outputs.side_outputs import SideOutputs, build_side_outputs
from kappa_pipelines.sinks.commit_marker import CommitMarker
from kappa_pipelines.sinks.in_doubt import BatchState, resolve_in_doubt
from kappa_pipelines.sinks.kafka import open_producer
from kappa_pipelines.sinks.publisher import Publisher, Publishers, build_publishers
from kappa_pipelines.sinks.targets import Targets, fetch_targets
from kappa_pipelines.sinks.writer_fence import fence_writers
from kappa_pipelines.sources.idleness import IdleWatch
from kappa_pipelines.upgrade.dry_run import DryRun, remove_copies
from kappa_pipelines.upgrade.fingerprints import check_fit, find_former, write_fingerprints
from kappa_pipelines.upgrade.moves import move_checkpoint
from kappa_pipelines.upgrade.repartition import check_repartition, repartition_checkpoint

log = structlog.get_logger()


@dataclass
class Running:
    """The parts of a driver that has acquired its checkpoint."""

    spark: SparkSession
    fence: Fence
    compiled: Compiled
    kafka: KafkaProgress
    side_outputs: SideOutputs
    idleness: IdleWatch
    archives: Mapping[str, ArchiveRead] = field(default_factory=dict)
    """What is read of archives first, by source."""
    queries: dict[str, StreamingQuery] = field(default_factory=dict)


def create_idle_folder() -> Path:
    """Return a new folder for the idle watermarks of sources, which the queries read."""
    return Path(tempfile.mkdtemp(prefix="kappa-idle-"))


@dataclass(frozen=True)
class CompiledPlan:
    """A revision compiled for the checkpoint path of one generation.

    It has the subjects of its sources, and the sinks and views whose state has an earlier form.
    """

    revision: Revision
    subjects: Subjects
    former: frozenset[tuple[str, str]]
    endpoints: KafkaEndpoints
    compiled: Compiled
    shapes: dict[str, QueryFingerprint]

    @property
    def publishers(self) -> Publishers:
        """Return the publishers of sinks that write exactly once."""
        return self.endpoints.targets.publishers


def compile_plan(
    spark: SparkSession,
    revision: Revision,
    root: str,
    *,
    subjects: Subjects,
    former: frozenset[tuple[str, str]],
    targets: Targets,
    idle_folder: Path,
    topics: Mapping[str, int],
    replay: ReplayProfile | None = None,
    archives: Mapping[str, ArchiveRead] | None = None,
    only: str | None = None,
) -> CompiledPlan:
    """Compile a revision for the checkpoint path of a generation; SpecError if it is invalid."""
    revision = revision.model_copy(update={"checkpoint": root})
    # Sinks read the checkpoint path from the targets' revision: any other path would bypass the fence.
    targets = replace(targets, revision=revision)
    endpoints = KafkaEndpoints(
        spark, revision, targets, idle_folder, replay, archives=archives, topics=topics
    )
    compiled = compile_revision(spark, revision, endpoints, subjects, former, only=only)
    check_start(revision.spec, compiled, replay)
    return CompiledPlan(
        revision, subjects, former, endpoints, compiled, build_fingerprints(revision, compiled)
    )


def try_revision(
    spark: SparkSession,
    revision: Revision,
    generation: int,
    topics: Mapping[str, int],
    idle_folder: Path,
    *,
    replay: ReplayProfile | None = None,
    only: str | None = None,
) -> tuple[UpgradeVerdict, CompiledPlan | None]:
    """Try a revision on a copy of the checkpoint, and compile it; return no plan if its state does not fit."""
    targets = fetch_targets(revision)
    dry_run = DryRun(spark, revision, generation, targets, idle_folder, topics=topics)
    verdict = dry_run.run()
    if verdict.kind is VerdictKind.REPROCESS:
        return verdict, None
    targets = replace(targets, publishers=build_publishers(revision, generation, topics))
    plan = compile_plan(
        spark, revision, _build_fence(revision, generation).root,
        subjects=dry_run.subjects, former=dry_run.former, targets=targets, idle_folder=idle_folder, topics=topics, replay=replay, only=only,
    )  # fmt: skip
    open_producer(spark, targets)
    return verdict, plan


def prepare(
    spark: SparkSession,
    revision: Revision,
    generation: int,
    record: DriverRecord,
    *,
    topics: Mapping[str, int],
    idle_folder: Path,
    ahead: CompiledPlan | None = None,
    replay: ReplayProfile | None = None,
    only: str | None = None,
    fence: Fence | None = None,
) -> Running:
    """Acquire the checkpoint and the writers of sinks, and compile the revision unless `ahead` is a valid plan.

    `topics` are the topics of Kafka with their number of partitions, `only` is the condition of the rows that are written. `fence` is there where the checkpoint was acquired before. FencedError if a newer driver has the checkpoint, LostDataError if
    its state does not fit.
    """
    fence = fence or _acquire(spark, revision, generation)
    files = fence.files
    subjects, former = resolve_subjects(revision, files), find_former(files, revision.spec)
    archives = find_archives(revision, files, replay)
    publishers = _resolve_publishers(files, revision, build_publishers(revision, generation, topics))
    if ahead is None or (ahead.subjects, ahead.former, ahead.publishers) != (subjects, former, publishers):
        targets = replace(fetch_targets(revision), publishers=publishers)
        ahead = compile_plan(
            spark, revision, fence.root,
            subjects=subjects, former=former, targets=targets, idle_folder=idle_folder, topics=topics,
            replay=replay, archives=archives, only=only,
        )  # fmt: skip
    revision, endpoints, compiled = ahead.revision, ahead.endpoints, ahead.compiled
    check_fit(files, ahead.shapes)
    check_repartition(files, publishers, revision.tuning.shuffle_partitions)
    repartition_checkpoint(spark, fence, tuple(ahead.shapes), revision.tuning.shuffle_partitions)
    write_fingerprints(files, ahead.shapes)
    record.set_reads(
        {
            each.sink.name: tuple((s, compiled.sources[s].subscription) for s in each.scans)
            for each in compiled.sinks
        }
    )
    subscriptions = tuple(dict.fromkeys(each.subscription for each in compiled.sources.values()))
    kafka = KafkaProgress(revision, subscriptions, record.positions, record.is_active)
    side_outputs = build_side_outputs(spark, fence, endpoints, compiled, kafka)
    idleness = IdleWatch(revision.spec, compiled.reads, idle_folder)
    return Running(spark, fence, compiled, kafka, side_outputs, idleness, archives)


def _resolve_publishers(files: Folder, revision: Revision, wanted: Publishers) -> dict[str, Publisher]:
    """Fence off previous drivers from sinks that write exactly once, and return the publishers of this one."""

    def fence(publisher: Publisher, state: BatchState, previous_topic: str) -> Mapping[int, CommitMarker]:
        return fence_writers(publisher, revision.kafka, state, previous_topic)

    return resolve_in_doubt(files, wanted, fence)


def _acquire(spark: SparkSession, revision: Revision, generation: int) -> Fence:
    """Acquire the checkpoint, and restore it from its savepoint unless that was done before."""
    fence = _build_fence(revision, generation)
    fence.acquire()
    fence.files.remove(PINS)
    remove_copies(fence.files, generation)
    _restore(revision, fence.files)
    move_checkpoint(fence.files, revision)
    rewrite_all_schema_paths(fence.files, fence.root)
    fence.publish()
    for key, value in fence.list_settings().items():
        spark.conf.set(key, value)
    return fence


def _build_fence(revision: Revision, generation: int) -> Fence:
    sinks = [sink.name for sink in revision.spec.sinks]
    return build_fence(revision.checkpoint, revision.connection, generation, sinks)


def _restore(revision: Revision, files: Folder) -> None:
    restoration = revision.restoration
    if restoration is None or find_restored(files) == restoration.savepoint:
        return
    store = SavepointStore(open_folder(restoration.location, revision.connection))
    manifest = store.read(restoration.savepoint)
    log.info("restoring checkpoint from savepoint", savepoint=restoration.savepoint, bytes=manifest.size)
    if restore_savepoint(store, manifest, files, fork=restoration.fork or is_of_another(manifest, revision)):
        log.info("restored", savepoint=restoration.savepoint, files=len(manifest.files))
