"""The side outputs of a driver: dead letters and late records."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from kappa_crds.progress import QueryProgress
from kappa_pipelines.checkpoint.fence.fence import Fence
from kappa_pipelines.checkpoint.format.offsets import Offsets, parse_kafka_offsets, read_committed_batch
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.kafka.group import KafkaProgress
from kappa_pipelines.plan.compile import Compiled
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.reporting.metrics import Counts
from kappa_pipelines.side_outputs.background import OutputContext
from kappa_pipelines.side_outputs.dead_letters.scan import DeadLetterScan
from kappa_pipelines.side_outputs.dead_letters.worker import DeadLetters, Owned, disable_dead_letters
from kappa_pipelines.side_outputs.late_records.scan import LateRecordScan
from kappa_pipelines.side_outputs.late_records.worker import LateRecordOutput, delete_late_records

Committed = Mapping[str, Mapping[str, Offsets]]
"""The committed offsets of each sink's query, by source."""


class SideOutputs:
    """Both side outputs of one driver. One that the pipeline does not define does nothing."""

    def __init__(
        self,
        files: Folder,
        compiled: Compiled,
        dead_letters: DeadLetters,
        late_records: LateRecordOutput,
    ) -> None:
        self._files = files
        self._compiled = compiled
        self._dead_letters = dead_letters
        self._late_records = late_records

    def start(self, committed: Committed) -> None:
        """Load the stored positions. Call this before the queries start."""
        self._dead_letters.start(self._find_owned(committed))
        self._late_records.start(self._read_batches())

    def note(self, progress: QueryProgress, malformed: Mapping[str, int | None]) -> None:
        """Add a committed batch, with the malformed records of each source; None if they are not counted."""
        for source in progress.sources:
            start, end = (parse_kafka_offsets(at) for at in (source.start_offsets, source.end_offsets))
            self._dead_letters.note(progress.sink, source.name, start, end, malformed.get(source.name))
        self._late_records.note(progress.sink, progress.batch_id, progress.late_rows)

    def finish(self, committed: Committed, timeout: float) -> bool:
        """Write everything up to the committed batches; False after the timeout."""
        has_dead_letters = self._dead_letters.finish(self._find_owned(committed), timeout)
        return self._late_records.finish(self._read_batches(), timeout) and has_dead_letters

    def abandon(self) -> None:
        """End both threads; the next start resumes at the stored positions."""
        self._dead_letters.abandon()
        self._late_records.abandon()

    @property
    def dead_lettered(self) -> int:
        """Return the number of dead letters written since the driver started."""
        return self._dead_letters.totals.written

    @property
    def late_records(self) -> int:
        """Return the number of late records written since the driver started."""
        return self._late_records.totals.written

    def count(self, group_commit_errors: int) -> Counts:
        """Return the counters of the side outputs."""
        dead, late = self._dead_letters.totals, self._late_records.totals
        return Counts(
            dead_letter_errors=dead.errors,
            dead_letter_lost=dead.lost,
            late_record_errors=late.errors,
            late_record_lost=late.lost,
            group_commit_errors=group_commit_errors,
        )

    def _find_owned(self, committed: Committed) -> dict[str, Offsets]:
        return {source: committed[sink].get(source, {}) for source, sink in self._compiled.owners.items()}

    def _read_batches(self) -> dict[str, int]:
        return {sink: read_committed_batch(self._files, sink) for sink in self._compiled.reads}


@dataclass(frozen=True)
class SideOutputContext:
    """Parts of the driver that the side outputs use."""

    spark: SparkSession
    files: Folder
    fence: Fence
    endpoints: KafkaEndpoints
    compiled: Compiled
    kafka: KafkaProgress

    def for_output(self) -> OutputContext:
        """Return the parts for one side output."""
        return OutputContext(self.files, self.fence.check, self._first_offsets)

    def _first_offsets(self, source: str) -> Offsets:
        return self.kafka.first_offsets(self.compiled.sources[source].subscription)


def build_side_outputs(context: SideOutputContext) -> SideOutputs:
    """Return the side outputs of the pipeline, and reset the ones that it does not define."""
    return SideOutputs(
        context.files, context.compiled, _build_dead_letters(context), _build_late_records(context)
    )


def _build_dead_letters(context: SideOutputContext) -> DeadLetters:
    compiled, targets = context.compiled, context.endpoints.targets
    if targets.dead is None:
        disable_dead_letters(context.files, tuple(compiled.owners))
        return DeadLetters(context.for_output(), (), lambda _source, _span: 0)
    owned = tuple(
        Owned(name, compiled.sources[name].subscription, sink) for name, sink in compiled.owners.items()
    )
    scan = DeadLetterScan(context.spark, targets.revision, compiled.sources, targets.dead)
    return DeadLetters(context.for_output(), owned, scan)


def _build_late_records(context: SideOutputContext) -> LateRecordOutput:
    compiled, views = context.compiled, context.compiled.late_records
    owners = {view.owner for view in views}
    delete_late_records(context.files, [sink for sink in compiled.reads if sink not in owners])
    scans = {
        view.name: LateRecordScan(context.spark, context.endpoints, compiled.sources, view) for view in views
    }
    return LateRecordOutput(context.for_output(), views, scans)
