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
from kappa_pipelines.side_outputs.background import Totals
from kappa_pipelines.side_outputs.dead_letters.scan import DeadLetterScan
from kappa_pipelines.side_outputs.dead_letters.worker import DeadLetters, Owned, disable_dead_letters
from kappa_pipelines.side_outputs.late_records.scan import LateRecordScan
from kappa_pipelines.side_outputs.late_records.worker import LateRecordOutput, delete_late_records

Committed = Mapping[str, Mapping[str, Offsets]]
"""The committed offsets of each sink's query, by source."""


class SideOutputs:
    """Both side outputs of one driver; one that the pipeline does not define does nothing."""

    def __init__(
        self,
        files: Folder,
        compiled: Compiled,
        dead_letters: DeadLetters | None,
        late_records: LateRecordOutput | None,
    ) -> None:
        self._files = files
        self._compiled = compiled
        self._dead_letters = dead_letters
        self._late_records = late_records

    def start(self, committed: Committed) -> None:
        """Load the stored positions. Call this before the queries start."""
        if self._dead_letters is not None:
            self._dead_letters.start(self._find_owned(committed))
        if self._late_records is not None:
            self._late_records.start(self._read_batches())

    def note(self, progress: QueryProgress, malformed: Mapping[str, int | None]) -> None:
        """Add a committed batch, with the malformed records of each source; None if they are not counted."""
        if self._dead_letters is not None:
            for source in progress.sources:
                start, end = (parse_kafka_offsets(at) for at in (source.start_offsets, source.end_offsets))
                self._dead_letters.note(progress.sink, source.name, start, end, malformed.get(source.name))
        if self._late_records is not None:
            self._late_records.note(progress.sink, progress.batch_id, progress.late_rows)

    def finish(self, committed: Committed, timeout: float) -> bool:
        """Write everything up to the committed batches; False after the timeout."""
        done = True
        if self._dead_letters is not None:
            done = self._dead_letters.finish(self._find_owned(committed), timeout)
        if self._late_records is not None:
            done = self._late_records.finish(self._read_batches(), timeout) and done
        return done

    def abandon(self) -> None:
        """End both threads; the next start resumes at the stored positions."""
        for each in (self._dead_letters, self._late_records):
            if each is not None:
                each.abandon()

    @property
    def dead_lettered(self) -> int:
        """Return the number of dead letters written since the driver started."""
        return self._dead_letters.totals.written if self._dead_letters is not None else 0

    @property
    def late_records(self) -> int:
        """Return the number of late records written since the driver started."""
        return self._late_records.totals.written if self._late_records is not None else 0

    def count(self, group_commit_errors: int) -> Counts:
        """Return the counters of the side outputs."""
        dead = self._dead_letters.totals if self._dead_letters is not None else Totals()
        late = self._late_records.totals if self._late_records is not None else Totals()
        return Counts(
            dead_letter_errors=dead.errors,
            dead_letter_lost=dead.lost,
            straggler_errors=late.errors,
            straggler_lost=late.lost,
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

    def first_offsets(self, source: str) -> Offsets:
        """Return the first available offset of each partition of a source."""
        return self.kafka.first_offsets(self.compiled.sources[source].subscription)


def build_side_outputs(context: SideOutputContext) -> SideOutputs:
    """Return the side outputs that the pipeline defines, and reset the others."""
    return SideOutputs(
        context.files, context.compiled, _build_dead_letters(context), _build_late_records(context)
    )


def _build_dead_letters(context: SideOutputContext) -> DeadLetters | None:
    compiled, targets = context.compiled, context.endpoints.targets
    if targets.dead is None:
        disable_dead_letters(context.files, tuple(compiled.owners))
        return None
    owned = tuple(
        Owned(name, compiled.sources[name].subscription, sink) for name, sink in compiled.owners.items()
    )
    scan = DeadLetterScan(context.spark, targets.revision, compiled.sources, targets.dead)
    return DeadLetters(context.files, owned, scan, context.fence.check, context.first_offsets)


def _build_late_records(context: SideOutputContext) -> LateRecordOutput | None:
    compiled = context.compiled
    owners = {view.owner for view in compiled.late_records}
    delete_late_records(context.files, [sink for sink in compiled.reads if sink not in owners])
    if not owners:
        return None
    scans = {
        view.name: LateRecordScan(context.spark, context.endpoints, compiled.sources, view)
        for view in compiled.late_records
    }
    return LateRecordOutput(
        context.files, compiled.late_records, scans, context.fence.check, context.first_offsets
    )
