"""From a session to queries that are ready to start: the checkpoint is claimed, and what it holds is made to fit."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.revision import Revision
from kappa_pipelines.beside import Beside, Surroundings, build_beside
from kappa_pipelines.checkpoint.bucket_fence import BucketFence
from kappa_pipelines.checkpoint.files import CheckpointFiles
from kappa_pipelines.checkpoint.folder import Folder
from kappa_pipelines.checkpoint.generation import Fence, LinkFence, is_local
from kappa_pipelines.checkpoint.place import open_bucket, open_folder
from kappa_pipelines.checkpoint.schemas import point_all_schemas
from kappa_pipelines.compile import Compiled, compile_revision
from kappa_pipelines.endpoints import KafkaEndpoints
from kappa_pipelines.group import KafkaProgress
from kappa_pipelines.idleness import IdleWatch
from kappa_pipelines.limits import fetch_targets
from kappa_pipelines.record import DriverRecord
from kappa_pipelines.registry.resolve import resolve_subjects
from kappa_pipelines.savepoint.restore import is_restored, restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.upgrade.plans import write_shapes
from kappa_pipelines.upgrade.shapes import read_shapes

log = structlog.get_logger()


@dataclass
class Running:
    """The parts of a driver that has claimed its checkpoint. `files` are those of the checkpoint, reached as this generation may."""

    spark: SparkSession
    files: CheckpointFiles
    fence: Fence
    compiled: Compiled
    kafka: KafkaProgress
    beside: Beside
    idleness: IdleWatch
    queries: dict[str, StreamingQuery] = field(default_factory=dict)


def make_marks() -> Path:
    """Return a folder for the marks by which a driver's queries learn that a source is silent."""
    return Path(tempfile.mkdtemp(prefix="kappa-idle-"))


def prepare(spark: SparkSession, revision: Revision, generation: int, record: DriverRecord) -> Running:
    """Claim the checkpoint and compile the revision; FencedError if a newer driver has it."""
    fence = _claim(spark, revision, generation)
    revision = revision.model_copy(update={"checkpoint": fence.root})
    files = CheckpointFiles(spark, fence.root)
    marks = make_marks()
    targets = fetch_targets(revision)
    subjects = resolve_subjects(revision, files)
    ends = KafkaEndpoints(spark, revision, targets, marks)
    compiled = compile_revision(spark, revision, ends, subjects)
    write_shapes(files, read_shapes(revision, compiled))
    record.set_reads(
        {
            sink: tuple((s, compiled.sources[s].subscription) for s in reads)
            for sink, reads in compiled.reads.items()
        }
    )
    subscriptions = tuple(dict.fromkeys(each.subscription for each in compiled.sources.values()))
    kafka = KafkaProgress(revision, subscriptions, record.positions)
    beside = build_beside(Surroundings(spark, files, fence, ends, compiled, kafka))
    idleness = IdleWatch(revision.spec, compiled.reads, marks)
    return Running(spark, files, fence, compiled, kafka, beside, idleness)


def _claim(spark: SparkSession, revision: Revision, generation: int) -> Fence:
    """Claim the checkpoint, and make it of the savepoint that it is to be made of, unless that was done before."""
    fence = _build_fence(revision, generation)
    fence.take()
    _restore(revision, fence.files)
    point_all_schemas(fence.files, fence.root)
    fence.open()
    for key, value in fence.list_settings().items():
        spark.conf.set(key, value)
    return fence


def _build_fence(revision: Revision, generation: int) -> Fence:
    if is_local(revision.checkpoint):
        return LinkFence(revision.checkpoint, generation)
    sinks = [sink.name for sink in revision.spec.sinks]
    return BucketFence(open_bucket(revision.checkpoint, revision.bucket), generation, sinks)


def _restore(revision: Revision, files: Folder) -> None:
    made_of = revision.restoration
    if made_of is None or is_restored(files, made_of.savepoint):
        return
    store = SavepointStore(open_folder(made_of.location, revision.bucket))
    manifest = store.read(made_of.savepoint)
    log.info("checkpoint is made of a savepoint", savepoint=made_of.savepoint, bytes=manifest.size)
    if restore_savepoint(store, manifest, files, fork=made_of.fork):
        log.info("restored", savepoint=made_of.savepoint, files=len(manifest.files))
