"""What runs beside the queries and writes what their plans leave out: dead letters and stragglers."""

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
from kappa_pipelines.side_outputs.dead_letters.worker import DeadLetters, Owned, forget_dead_letters
from kappa_pipelines.side_outputs.late_records.scan import LateRecordScan
from kappa_pipelines.side_outputs.late_records.worker import LateRecordOutput, forget_late_records

Committed = Mapping[str, Mapping[str, Offsets]]
"""The committed offsets of each sink's query, by source."""


class SideOutputs:
    """Both works of one driver; one that its pipeline does not want does nothing."""

    def __init__(
        self,
        files: Folder,
        compiled: Compiled,
        letters: DeadLetters | None,
        stragglers: LateRecordOutput | None,
    ) -> None:
        self._files = files
        self._compiled = compiled
        self._letters = letters
        self._stragglers = stragglers

    def start(self, committed: Committed) -> None:
        """Take up what is stored. Call before the queries start."""
        if self._letters is not None:
            self._letters.start(self._find_owned(committed))
        if self._stragglers is not None:
            self._stragglers.start(self._read_batches())

    def note(self, folded: QueryProgress, malformed: Mapping[str, int | None]) -> None:
        """Take note of a committed batch, with the malformed records of each source; None where nobody has counted."""
        if self._letters is not None:
            for source in folded.sources:
                start, end = (parse_kafka_offsets(at) for at in (source.start_offsets, source.end_offsets))
                self._letters.note(folded.sink, source.name, start, end, malformed.get(source.name))
        if self._stragglers is not None:
            self._stragglers.note(folded.sink, folded.batch_id, folded.late_rows)

    def finish(self, committed: Committed, timeout: float) -> bool:
        """Write all that is left up to the committed batches; False if that took too long."""
        done = True
        if self._letters is not None:
            done = self._letters.finish(self._find_owned(committed), timeout)
        if self._stragglers is not None:
            done = self._stragglers.finish(self._read_batches(), timeout) and done
        return done

    def abandon(self) -> None:
        """End both threads; what is left is found at the next start."""
        for work in (self._letters, self._stragglers):
            if work is not None:
                work.abandon()

    @property
    def dead_lettered(self) -> int:
        """Return the dead letters written since the driver started."""
        return self._letters.totals.written if self._letters is not None else 0

    @property
    def straggling(self) -> int:
        """Return the stragglers written since the driver started."""
        return self._stragglers.totals.written if self._stragglers is not None else 0

    def count(self, group_commit_errors: int) -> Counts:
        """Return what the works count besides."""
        letters = self._letters.totals if self._letters is not None else Totals()
        stragglers = self._stragglers.totals if self._stragglers is not None else Totals()
        return Counts(
            dead_letter_errors=letters.errors,
            dead_letter_lost=letters.lost,
            straggler_errors=stragglers.errors,
            straggler_lost=stragglers.lost,
            group_commit_errors=group_commit_errors,
        )

    def _find_owned(self, committed: Committed) -> dict[str, Offsets]:
        return {source: committed[sink].get(source, {}) for source, sink in self._compiled.owners.items()}

    def _read_batches(self) -> dict[str, int]:
        return {sink: read_committed_batch(self._files, sink) for sink in self._compiled.reads}


@dataclass(frozen=True)
class SideOutputContext:
    """What the works need of the driver."""

    spark: SparkSession
    files: Folder
    fence: Fence
    ends: KafkaEndpoints
    compiled: Compiled
    kafka: KafkaProgress

    def first_offsets(self, source: str) -> Offsets:
        """Return the first offset that each partition of a source still has."""
        return self.kafka.first_offsets(self.compiled.sources[source].subscription)


def build_side_outputs(around: SideOutputContext) -> SideOutputs:
    """Return the works that the pipeline wants; what is stored of others is forgotten."""
    return SideOutputs(around.files, around.compiled, _build_letters(around), _build_stragglers(around))


def _build_letters(around: SideOutputContext) -> DeadLetters | None:
    compiled, targets = around.compiled, around.ends.targets
    if targets.dead is None:
        forget_dead_letters(around.files, tuple(compiled.owners))
        return None
    owned = tuple(
        Owned(name, compiled.sources[name].subscription, sink) for name, sink in compiled.owners.items()
    )
    scan = DeadLetterScan(around.spark, targets.revision, compiled.sources, targets.dead)
    return DeadLetters(around.files, owned, scan, around.fence.check, around.first_offsets)


def _build_stragglers(around: SideOutputContext) -> LateRecordOutput | None:
    compiled = around.compiled
    owners = {view.owner for view in compiled.stragglers}
    forget_late_records(around.files, [sink for sink in compiled.reads if sink not in owners])
    if not owners:
        return None
    scans = {
        view.name: LateRecordScan(around.spark, around.ends, compiled.sources, view)
        for view in compiled.stragglers
    }
    return LateRecordOutput(
        around.files, compiled.stragglers, scans, around.fence.check, around.first_offsets
    )
