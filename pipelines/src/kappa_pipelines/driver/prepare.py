"""From a session to queries that are ready to start: the checkpoint is claimed, and what it holds is made to fit.

Compiling takes most of the time and needs the checkpoint for nothing but the schemas that it remembers. So a driver that stands by
compiles before it takes over, and again only where those schemas have changed meanwhile.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.fence.fence import Fence
from kappa_pipelines.checkpoint.format.schemas import rewrite_all_schema_paths
from kappa_pipelines.checkpoint.location import build_fence, open_folder
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.kafka.group import KafkaProgress
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.plan.fingerprint import QueryFingerprint, build_fingerprints
from kappa_pipelines.registry.resolve import Subjects, resolve_subjects
from kappa_pipelines.reporting.record import DriverRecord
from kappa_pipelines.savepoint.pin import PINS
from kappa_pipelines.savepoint.restore import is_of_another, is_restored, restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.side_outputs.side_outputs import SideOutputContext, SideOutputs, build_side_outputs
from kappa_pipelines.sinks.commit_marker import CommitMarker
from kappa_pipelines.sinks.exactly_once import build_connection
from kappa_pipelines.sinks.in_doubt import BatchState, resolve_in_doubt
from kappa_pipelines.sinks.publisher import Publisher, Publishers, build_publishers
from kappa_pipelines.sinks.targets import Targets, fetch_targets
from kappa_pipelines.sinks.writer_fence import fence_writers
from kappa_pipelines.sources.idleness import IdleWatch
from kappa_pipelines.upgrade.fingerprints import check_fit, write_fingerprints
from kappa_pipelines.upgrade.repartition import check_repartition, repartition_checkpoint

log = structlog.get_logger()


@dataclass
class Running:
    """The parts of a driver that has claimed its checkpoint. `files` are those of the checkpoint, reached as this generation may."""

    spark: SparkSession
    files: Folder
    fence: Fence
    compiled: Compiled
    kafka: KafkaProgress
    beside: SideOutputs
    idleness: IdleWatch
    queries: dict[str, StreamingQuery] = field(default_factory=dict)


def make_marks() -> Path:
    """Return a folder for the marks by which a driver's queries learn that a source is silent."""
    return Path(tempfile.mkdtemp(prefix="kappa-idle-"))


@dataclass(frozen=True)
class Plan:
    """A revision that was compiled for one generation's path into the checkpoint, by the subjects of its sources."""

    revision: Revision
    subjects: Subjects
    ends: KafkaEndpoints
    compiled: Compiled
    shapes: dict[str, QueryFingerprint]

    @property
    def publishers(self) -> Publishers:
        """Return what writes exactly once."""
        return self.ends.targets.publishers


def compile_plan(
    spark: SparkSession, revision: Revision, root: str, *, subjects: Subjects, targets: Targets, marks: Path
) -> Plan:
    """Compile a revision for the path by which a generation reaches the checkpoint; SpecError says what is wrong."""
    revision = revision.model_copy(update={"checkpoint": root})
    # Sinks take the checkpoint from the targets' revision: with any other path they would write past the fence.
    ends = KafkaEndpoints(spark, revision, replace(targets, revision=revision), marks)
    compiled = compile_revision(spark, revision, ends, subjects)
    return Plan(revision, subjects, ends, compiled, build_fingerprints(revision, compiled))


def prepare(
    spark: SparkSession,
    revision: Revision,
    generation: int,
    record: DriverRecord,
    *,
    topics: Mapping[str, int],
    marks: Path,
    ahead: Plan | None = None,
) -> Running:
    """Claim the checkpoint and what writes exactly once, and compile the revision, unless that was done ahead.

    `topics` are those of Kafka, with their number of partitions. FencedError if a newer driver has the checkpoint, LostDataError if its state was kept for another plan.
    """
    fence = _claim(spark, revision, generation)
    files = fence.files
    subjects = resolve_subjects(revision, files)
    publishers = _resolve_publishers(files, revision, build_publishers(revision, generation, topics))
    if ahead is None or ahead.subjects != subjects or ahead.publishers != publishers:
        targets = replace(fetch_targets(revision), publishers=publishers)
        ahead = compile_plan(spark, revision, fence.root, subjects=subjects, targets=targets, marks=marks)
    revision, ends, compiled = ahead.revision, ahead.ends, ahead.compiled
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
    kafka = KafkaProgress(revision, subscriptions, record.positions)
    beside = build_side_outputs(SideOutputContext(spark, files, fence, ends, compiled, kafka))
    idleness = IdleWatch(revision.spec, compiled.reads, marks)
    return Running(spark, files, fence, compiled, kafka, beside, idleness)


def _resolve_publishers(files: Folder, revision: Revision, wanted: Publishers) -> dict[str, Publisher]:
    """Fence off previous drivers from sinks that write exactly once, and return the publishers of this one."""
    sinks = {sink.name: sink for sink in revision.spec.sinks}

    def fence(publisher: Publisher, state: BatchState, previous_topic: str) -> Mapping[int, CommitMarker]:
        connection = build_connection(Targets(revision), sinks[publisher.sink])
        return fence_writers(publisher, connection, state, previous_topic)

    return resolve_in_doubt(files, wanted, fence)


def name_root(revision: Revision, generation: int) -> str:
    """Return the path by which a generation reaches the checkpoint, once it has claimed it."""
    return _build_fence(revision, generation).root


def _claim(spark: SparkSession, revision: Revision, generation: int) -> Fence:
    """Claim the checkpoint, and make it of the savepoint that it is to be made of, unless that was done before."""
    fence = _build_fence(revision, generation)
    fence.acquire()
    fence.files.remove(PINS)
    _restore(revision, fence.files)
    rewrite_all_schema_paths(fence.files, fence.root)
    fence.publish()
    for key, value in fence.list_settings().items():
        spark.conf.set(key, value)
    return fence


def _build_fence(revision: Revision, generation: int) -> Fence:
    sinks = [sink.name for sink in revision.spec.sinks]
    return build_fence(revision.checkpoint, revision.connection, generation, sinks)


def _restore(revision: Revision, files: Folder) -> None:
    made_of = revision.restoration
    if made_of is None or is_restored(files, made_of.savepoint):
        return
    store = SavepointStore(open_folder(made_of.location, revision.connection))
    manifest = store.read(made_of.savepoint)
    log.info("checkpoint is made of a savepoint", savepoint=made_of.savepoint, bytes=manifest.size)
    if restore_savepoint(store, manifest, files, fork=made_of.fork or is_of_another(manifest, revision)):
        log.info("restored", savepoint=made_of.savepoint, files=len(manifest.files))
