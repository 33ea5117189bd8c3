"""The side outputs of a driver: dead letters and late records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from kappa_crds.progress import QueryProgress
from kappa_pipelines.checkpoint.fence.fence import Fence
from kappa_pipelines.checkpoint.format.offsets import (
    Malformed,
    Offsets,
    parse_kafka_offsets,
    read_committed_batch,
)
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.kafka.group import KafkaProgress
from kappa_pipelines.plan.compile import Compiled
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.plan.late_rows import LateRecordRows, LateRecordView
from kappa_pipelines.reporting.metrics import Counts
from kappa_pipelines.side_outputs.background import OutputContext
from kappa_pipelines.side_outputs.dead_letters.letters import build_letters
from kappa_pipelines.side_outputs.dead_letters.position import disable_positions
from kappa_pipelines.side_outputs.dead_letters.ranges import Span
from kappa_pipelines.side_outputs.dead_letters.worker import DeadLetters, Owned
from kappa_pipelines.side_outputs.late_records.letters import build_late_records
from kappa_pipelines.side_outputs.late_records.worker import LateRecordOutput, delete_ledgers
from kappa_pipelines.sinks.kafka import write_counted
from kappa_pipelines.sinks.targets import Targets
from kappa_pipelines.sources.batches import Batch
from kappa_pipelines.sources.kafka import read_range

Committed = Mapping[str, Mapping[str, Offsets]]
"""The committed offsets of each sink's query, by source."""


@dataclass(frozen=True)
class SideOutputs:
    """Both side outputs of one driver. One that the pipeline does not define does nothing."""

    files: Folder
    compiled: Compiled
    dead_letters: DeadLetters
    late_records: LateRecordOutput

    def start(self, committed: Committed) -> None:
        """Load the stored positions. Call this before the queries start."""
        self.dead_letters.start(self._find_owned(committed))
        self.late_records.start(self._read_batches())

    def note(self, progress: QueryProgress, malformed: Mapping[str, Malformed | None]) -> None:
        """Add a committed batch, with the malformed records of each source; None if they are not counted."""
        for source in progress.sources:
            start, end = (parse_kafka_offsets(at) for at in (source.start_offsets, source.end_offsets))
            self.dead_letters.note(progress.sink, source.name, start, end, malformed.get(source.name))
        self.late_records.note(progress.sink, progress.batch_id, progress.late_rows)

    def finish(self, committed: Committed, timeout: float) -> bool:
        """Write everything up to the committed batches; False after the timeout."""
        has_dead_letters = self.dead_letters.finish(self._find_owned(committed), timeout)
        return self.late_records.finish(self._read_batches(), timeout) and has_dead_letters

    def abandon(self) -> None:
        """End both threads; the next start resumes at the stored positions."""
        self.dead_letters.abandon()
        self.late_records.abandon()

    def count(self, group_commit_errors: int) -> Counts:
        """Return the counters of the side outputs."""
        dead, late = self.dead_letters.totals, self.late_records.totals
        return Counts(
            dead_letter_errors=dead.errors,
            dead_letter_lost=dead.lost,
            late_record_errors=late.errors,
            late_record_lost=late.lost,
            group_commit_errors=group_commit_errors,
        )

    def _find_owned(self, committed: Committed) -> dict[str, Offsets]:
        return {source: committed[sink].get(source, {}) for source, sink in self.compiled.owners.items()}

    def _read_batches(self) -> dict[str, int]:
        return {sink: read_committed_batch(self.files, sink) for sink in self.compiled.reads}


def build_side_outputs(
    spark: SparkSession, fence: Fence, endpoints: KafkaEndpoints, compiled: Compiled, kafka: KafkaProgress
) -> SideOutputs:
    """Return the side outputs of the pipeline, and reset the ones that it does not define."""

    def find_first(source: str) -> Offsets:
        return kafka.first_offsets(compiled.sources[source].subscription)

    context = OutputContext(fence.files, fence.check, find_first)
    dead_letters = _build_dead_letters(spark, context, endpoints.targets, compiled)
    return SideOutputs(
        fence.files, compiled, dead_letters, _build_late_records(spark, context, endpoints, compiled)
    )


def _build_dead_letters(
    spark: SparkSession, context: OutputContext, targets: Targets, compiled: Compiled
) -> DeadLetters:
    dead, revision, sources = targets.dead, targets.revision, compiled.sources
    if dead is None:
        disable_positions(context.files, tuple(compiled.owners))
        return DeadLetters(context, (), lambda _source, _span: 0)

    def scan(source: str, span: Span) -> int:
        spark.sparkContext.setJobDescription(f"dead letters of {source}")
        records = read_range(spark, revision, sources[source].spec, span.start, span.end)
        letters = build_letters(records, sources[source], revision.full_name, dead.limits)
        return write_counted(letters, revision, dead)

    owned = (Owned(name, sources[name].subscription, sink) for name, sink in compiled.owners.items())
    return DeadLetters(context, tuple(owned), scan)


def _build_late_records(
    spark: SparkSession, context: OutputContext, endpoints: KafkaEndpoints, compiled: Compiled
) -> LateRecordOutput:
    views, targets = compiled.late_records, endpoints.targets
    owners, revision = {view.owner for view in views}, targets.revision
    delete_ledgers(context.files, [sink for sink in compiled.reads if sink not in owners])
    rows = {view.name: LateRecordRows(spark, revision.spec, compiled.sources, view) for view in views}

    def scan(view: LateRecordView, batches: Sequence[Batch]) -> int:
        spark.sparkContext.setJobDescription(f"late records of {view.name}")
        target = targets.find(view.topic)
        late = rows[view.name].build(partial(endpoints.read_batches, batches=batches))
        records = build_late_records(late, revision.full_name, view.name, target.limits)
        return write_counted(records, revision, target)

    return LateRecordOutput(context, views, scan)
