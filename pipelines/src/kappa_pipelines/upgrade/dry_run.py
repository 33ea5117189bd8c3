"""A dry run: a revision continues from a copy of the last batch, and writes nothing.

Spark checks the state of a query against its plan only when it plans a batch. So the copy gets one more planned batch without a commit, with
an empty range of offsets. Spark repeats it, as after a crash: it plans, loads the state of all partitions, and commits. Then a
few small batches process the next records: they try the new views on real records, and warm up the driver. The copy is made of links,
because the files of a checkpoint never change, and costs almost nothing.
"""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_crds.source import Source
from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER
from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.checkpoint.format.schemas import rewrite_all_schema_paths
from kappa_pipelines.checkpoint.location import open_checkpoint
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import DriverError, LostDataError, UnavailableError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.diagnose import check_with_kafka
from kappa_pipelines.failures.exceptions import read_failure, read_query_failure
from kappa_pipelines.kafka.bounds import LogBounds
from kappa_pipelines.plan.compile import Compiled, CompiledSink, compile_revision
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.plan.fingerprint import build_fingerprints
from kappa_pipelines.registry.resolve import Subjects, resolve_subjects
from kappa_pipelines.savepoint.manifest import QueryPoint
from kappa_pipelines.savepoint.pin import pin_last_batch
from kappa_pipelines.sinks.kafka import name_query
from kappa_pipelines.sinks.rejected_records import route_records
from kappa_pipelines.sinks.targets import Targets
from kappa_pipelines.upgrade.compare import Finding, compare_partitions, compare_pipelines, judge
from kappa_pipelines.upgrade.fingerprints import find_former, read_fingerprints
from kappa_pipelines.upgrade.repartition import repartition_copy, set_partitions

_COPY = "dry-run-"
_BATCH_SECONDS = 300
_BATCHES = 3
_BATCH_RECORDS = 1000
_RECORDS_SECONDS = 3.0
_POLL_SECONDS = 0.05

log = structlog.get_logger()


class NoopEndpoints(KafkaEndpoints):
    """Endpoints that read topics and write nothing."""

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:
        """Return a query that drops the records of a sink."""
        revision, targets = self._revision, self.targets
        routed = route_records(
            records, sink, revision.full_name, targets.find(sink.target.topic), targets.dead
        )
        return name_query(routed.writeStream.format("noop"), revision, sink, f"dry_run_{sink.name}")


class DryRun:
    """The dry run of one revision while the present driver runs. It writes only its copy.

    After `run`, `subjects` are those of the registries, and `former` the sinks and views whose state has an earlier form.
    """

    def __init__(
        self,
        spark: SparkSession,
        revision: Revision,
        generation: int,
        targets: Targets,
        idle_folder: Path,
        *,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        self.subjects: Subjects = {}
        self.former: frozenset[tuple[str, str]] = frozenset()
        self._spark = spark
        self._revision = revision
        self._files = open_checkpoint(revision.checkpoint, revision.connection).files
        self._generation = generation
        self._copy = self._files.below(f"{INTERNAL_FOLDER}/{_COPY}{generation}")
        self._targets = targets
        self._idle_folder = idle_folder
        self._topics = topics

    def run(self) -> UpgradeVerdict:
        """Return the verdict on the state; DriverError if the revision cannot start with any state."""
        remove_copies(self._files, self._generation)
        try:
            points = self._make_copy()
            compiled = self._compile()
            verdict = judge(self._find(points, compiled))
        finally:
            self._copy.remove("")
        log.info("dry run finished", verdict=verdict.kind.value, reasons=verdict.reasons)
        return verdict

    def _make_copy(self) -> tuple[QueryPoint, ...]:
        """Copy the last batch of each query."""
        sinks = [sink.name for sink in self._revision.spec.sinks]
        points, _ = pin_last_batch(self._files, sinks, self._copy)
        rewrite_all_schema_paths(self._copy, self._copy.root)
        return points

    def _compile(self) -> Compiled:
        spec = self._revision.spec
        small = spec.trigger.model_copy(update={"max_records": _BATCH_RECORDS * len(spec.sources)})
        sources = tuple(_read_in_parts(source) for source in spec.sources)
        limited = spec.model_copy(update={"trigger": small, "sources": sources})
        changes = {"checkpoint": self._copy.root, "spec": limited}
        revision = self._revision.model_copy(update=changes)
        self.subjects, self.former = resolve_subjects(revision, self._copy), find_former(self._files, spec)
        ends = NoopEndpoints(self._spark, revision, self._targets, self._idle_folder, topics=self._topics)
        return compile_revision(self._spark, revision, ends, self.subjects, self.former)

    def _find(self, points: tuple[QueryPoint, ...], compiled: Compiled) -> Iterator[Finding]:
        """Yield all findings. Run batches if no finding prevents that."""
        shapes = build_fingerprints(self._revision, compiled)
        known = read_fingerprints(self._files)
        found = [
            *(compare_pipelines(known, shapes) if known else ()),
            *self._compare_partitions(points),
            *self._find_lost(points, compiled),
        ]
        yield from found
        if all(each.kind is not VerdictKind.REPROCESS for each in found):
            yield from self._try(points, compiled)

    def _compare_partitions(self, points: tuple[QueryPoint, ...]) -> Iterator[Finding]:
        for point in points:
            wanted = self._revision.tuning.shuffle_partitions
            for found in compare_partitions(point.state_partitions, wanted):
                yield found._replace(text=f"sink {point.sink!r}: {found.text}")

    def _find_lost(self, points: tuple[QueryPoint, ...], compiled: Compiled) -> Iterator[Finding]:
        """Yield a finding for each partition whose next records were deleted."""
        bounds = LogBounds(self._revision)
        for point in points:
            for name, offsets in point.offsets.items():
                if name in compiled.reads.get(point.sink, ()):
                    first = bounds.first([compiled.sources[name].subscription])
                    yield from _compare_offsets(point.sink, name, offsets, first)

    def _try(self, points: tuple[QueryPoint, ...], compiled: Compiled) -> Iterator[Finding]:
        if self._revision.spec.trigger.real_time is not None:
            return  # it has neither state nor single batches
        for point in points:
            sink = next(each for each in compiled.sinks if each.sink.name == point.sink)
            try:
                planned = self._plan_batch(point)
            except LostDataError as error:
                yield Finding(VerdictKind.REPROCESS, error.message)
                continue
            failed = self._run_batches(sink, planned)
            if isinstance(failed, LostDataError):
                yield Finding(VerdictKind.REPROCESS, failed.message)
            elif failed is not None:
                raise failed

    def _plan_batch(self, point: QueryPoint) -> int:
        """Plan one more batch without records, after a repartition if needed; return its number."""
        wanted, batch = self._revision.tuning.shuffle_partitions, point.batch + 1
        plan = f"{point.sink}/offsets"
        entry = self._copy.read(f"{plan}/{point.batch}") or b""
        if point.state_partitions not in (None, wanted):
            repartition_copy(self._spark, self._copy, point, wanted)
            entry, batch = set_partitions(entry, wanted), batch + 1
        self._copy.write(f"{plan}/{batch}", entry)
        return batch

    def _run_batches(self, compiled: CompiledSink, planned: int) -> DriverError | None:
        """Run the planned batch of a query, and a few more if there are records; return the error if it fails."""
        where = f"sink {compiled.sink.name!r}"
        try:
            query = compiled.writer.start()
        except PySparkException as error:
            return classify(read_failure(error), where)
        try:
            if _await_batch(query, planned, _BATCH_SECONDS):
                _await_batch(query, planned + _BATCHES, _RECORDS_SECONDS)
            elif query.isActive:
                message = (
                    f"{where}: a batch without records took longer than {_BATCH_SECONDS} s in the dry run"
                )
                return UnavailableError(Reason.QUERY_FAILED, message)
            failure = read_query_failure(query)
            return None if failure is None else check_with_kafka(classify(failure, where), self._revision)
        finally:
            query.stop()


def _read_in_parts(source: Source) -> Source:
    """Return a source without the wait for whole transactions, whose batches have no limit."""
    if source.envelope is None:
        return source
    debezium = source.envelope.debezium.model_copy(update={"transactions": None})
    return source.model_copy(update={"envelope": source.envelope.model_copy(update={"debezium": debezium})})


def remove_copies(files: Folder, generation: int) -> None:
    """Remove the copies that killed dry runs left in a checkpoint, up to a generation. A newer dry run may be in progress.

    The links of a copy keep deleted files of the checkpoint on the volume.
    """
    for name in files.names(INTERNAL_FOLDER):
        found = re.fullmatch(rf"{_COPY}(\d+)", name)
        if found and int(found[1]) <= generation:
            log.info("removing the copy of a killed dry run", generation=int(found[1]))
            files.remove(f"{INTERNAL_FOLDER}/{name}")


def _await_batch(query: StreamingQuery, batch: int, seconds: float) -> bool:
    """Wait until a query has committed a batch; False if it ended first, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while query.isActive and time.monotonic() < deadline:
        done = query.lastProgress
        if done is not None and done["batchId"] >= batch:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _compare_offsets(
    sink: str, source: str, offsets: dict[str, dict[int, int]], first: Offsets
) -> Iterator[Finding]:
    for (topic, part), there in sorted(first.items()):
        wanted = offsets.get(topic, {}).get(part, there)
        if wanted < there:
            message = (
                f"sink {sink!r}: source {source!r} needs offset {wanted} of partition {part} of {topic}, but the first available"
                f" offset is {there}: {there - wanted} records are lost"
            )
            yield Finding(VerdictKind.REPROCESS, message)
