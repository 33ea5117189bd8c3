"""The metrics of a driver, declared in one list and computed from its record for each scrape.

Labels are namespace and name of the pipeline, and the name of a sink or source, so their number is bounded by the spec. Values of a
pipeline come from one driver at a time, so counters start at 0 with each generation, as Prometheus expects. A driver beside the active
one has the same metrics under another prefix, with its role as a label: no query for a pipeline may mix both.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kappa_crds.progress import DriverRole, DriverState, Progress, QueryProgress

PREFIX = "kappa_pipeline_"
SIDE_PREFIX = "kappa_side_run_"
BASE_LABELS = ("namespace", "pipeline")
SIDE_LABELS = (*BASE_LABELS, "role")


@dataclass(frozen=True)
class Declared:
    """A metric: its name without the prefix, kind, meaning with unit, and labels besides namespace and pipeline."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ()

    def family(self, role: DriverRole) -> Metric:
        """Return an empty family for a driver in this role."""
        make = GaugeMetricFamily if self.kind == "gauge" else CounterMetricFamily
        prefix, base = (PREFIX, BASE_LABELS) if role is DriverRole.ACTIVE else (SIDE_PREFIX, SIDE_LABELS)
        return make(prefix + self.name, self.help, labels=(*base, *self.labels))


METRICS: tuple[Declared, ...] = (
    Declared("up_since_seconds", "gauge", "When the driver began to process, Unix time; 0 before."),
    Declared(
        "recovery_seconds",
        "gauge",
        "From the start of the driver process, or from its activation, to the first batch of each query; 0 before.",
    ),
    Declared(
        "recovery_prepare_seconds",
        "gauge",
        "Of the recovery, until the first batch began; 0 before it is over.",
    ),
    Declared(
        "recovery_state_load_seconds",
        "gauge",
        "Of the recovery, loading state, summed over its partitions; 0 before it is over.",
    ),
    Declared("recovery_records", "gauge", "Lag in records when the first batches started."),
    Declared("generation", "gauge", "Fencing token of the driver."),
    Declared("state", "gauge", "1 for the state the driver is in.", ("state",)),
    Declared("executors", "gauge", "Executors registered."),
    Declared("batch_id", "gauge", "Last committed batch.", ("sink",)),
    Declared("batch_input_rows", "gauge", "Records read by the last batch.", ("sink",)),
    Declared("batch_phase_seconds", "gauge", "Duration of the last batch by phase.", ("sink", "phase")),
    Declared("batch_timestamp_seconds", "gauge", "When the last batch started, Unix time.", ("sink",)),
    Declared("input_rows_per_second", "gauge", "Records arriving per second.", ("sink",)),
    Declared(
        "processed_rows_per_second", "gauge", "Records processed per second in the last batch.", ("sink",)
    ),
    Declared("input_rows", "counter", "Records read since the driver started.", ("sink",)),
    Declared("late_rows", "counter", "Rows dropped as late since the driver started.", ("sink",)),
    Declared("malformed_rows", "counter", "Malformed records since the driver started.", ("sink",)),
    Declared(
        "refused_rows",
        "counter",
        "Records that the sink's topic would reject, since the driver started.",
        ("sink",),
    ),
    Declared(
        "written_rows",
        "counter",
        "Records that the sink's query wrote to Kafka since the driver started, including dead letters of rejected records.",
        ("sink",),
    ),
    Declared(
        "source_rows", "counter", "Records read of a source since the driver started.", ("sink", "source")
    ),
    Declared(
        "source_malformed_rows",
        "counter",
        "Malformed records of a source since the driver started; they become dead letters.",
        ("sink", "source"),
    ),
    Declared("state_rows", "gauge", "Rows of state over all operators.", ("sink",)),
    Declared("state_bytes", "gauge", "Memory used by state over all operators.", ("sink",)),
    Declared("watermark_delay_seconds", "gauge", "Age of the event-time watermark.", ("sink",)),
    Declared("lag_records", "gauge", "Records not processed yet.", ("sink", "source")),
    Declared(
        "dead_lettered_rows", "counter", "Records written to the dead-letter topic since the driver started."
    ),
    Declared(
        "dead_letter_errors", "counter", "Failed attempts to write dead letters since the driver started."
    ),
    Declared("dead_letter_lost", "counter", "Offsets that retention deleted before they were scanned."),
    Declared("late_record_rows", "counter", "Late records written to topics since the driver started."),
    Declared(
        "late_record_errors", "counter", "Failed attempts to write late records since the driver started."
    ),
    Declared(
        "late_record_lost",
        "counter",
        "Offsets and batches deleted before their late records were read.",
    ),
    Declared("savepoint_timestamp_seconds", "gauge", "When this driver took its last savepoint, Unix time."),
    Declared("savepoint_bytes", "gauge", "Bytes of all files of that savepoint."),
    Declared("group_commit_errors", "counter", "Commits to the consumer group that failed."),
    Declared(
        "divided_transactions",
        "counter",
        "Transactions of a database whose rows appeared apart, since the driver started: their end did not come in time.",
    ),
)

Sample = tuple[str, tuple[str, ...], float]


@dataclass(frozen=True)
class Counts:
    """What the driver counts outside its queries, by the names of the metrics."""

    dead_letter_errors: int = 0
    dead_letter_lost: int = 0
    late_record_errors: int = 0
    late_record_lost: int = 0
    group_commit_errors: int = 0
    divided_transactions: int = 0


class DriverCollector(Collector):
    """Computes all metrics from a snapshot."""

    def __init__(
        self, snapshot: Callable[[], Progress], counts: Callable[[], Counts], clock: Callable[[], float]
    ) -> None:
        self._snapshot = snapshot
        self._counts = counts
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Return every declared metric with its samples."""
        progress = self._snapshot()
        families = {declared.name: declared.family(progress.role) for declared in METRICS}
        side = () if progress.role is DriverRole.ACTIVE else (progress.role.value,)
        base = (progress.namespace, progress.pipeline, *side)
        for name, labels, value in samples(progress, self._counts(), self._clock()):
            families[name].add_metric((*base, *labels), value)  # type: ignore[attr-defined]
        return families.values()


def build_registry(collector: Collector) -> CollectorRegistry:
    """Return a registry with the driver's metrics only."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry


def samples(progress: Progress, counts: Counts, now: float) -> Iterator[Sample]:
    """Return the samples of a snapshot; `now` is Unix time in seconds."""
    since = progress.running_since
    yield "up_since_seconds", (), since.timestamp() if since else 0.0
    recovery = progress.recovery
    yield "recovery_seconds", (), recovery.seconds if recovery else 0.0
    yield "recovery_prepare_seconds", (), recovery.prepare_seconds if recovery else 0.0
    yield "recovery_state_load_seconds", (), recovery.state_seconds if recovery else 0.0
    yield "recovery_records", (), recovery.records if recovery else 0
    yield "generation", (), progress.generation
    for state in DriverState:
        yield "state", (state.value,), float(state is progress.state)
    yield "executors", (), progress.executors
    yield "dead_lettered_rows", (), progress.dead_lettered
    yield "late_record_rows", (), progress.late_records
    yield from ((name, (), value) for name, value in asdict(counts).items())
    yield from _savepoint_samples(progress)
    for query in progress.queries:
        yield from _query_samples(query, now)


def _savepoint_samples(progress: Progress) -> Iterator[Sample]:
    taken = [(each.taken.timestamp(), each.size_bytes) for each in progress.savepoints if each.taken]
    if taken:
        at, size = max(taken)
        yield "savepoint_timestamp_seconds", (), at
        yield "savepoint_bytes", (), size


def _query_samples(query: QueryProgress, now: float) -> Iterator[Sample]:
    sink = (query.sink,)
    yield "batch_id", sink, query.batch_id
    yield "batch_input_rows", sink, query.input_rows
    yield "batch_timestamp_seconds", sink, query.timestamp.timestamp()
    yield "input_rows_per_second", sink, query.input_rows_per_second
    yield "processed_rows_per_second", sink, query.processed_rows_per_second
    yield "input_rows", sink, query.total_input_rows
    yield "late_rows", sink, query.total_late_rows
    yield "malformed_rows", sink, query.total_malformed_rows
    yield "refused_rows", sink, query.total_refused_rows
    if query.total_written_rows is not None:
        yield "written_rows", sink, query.total_written_rows
    yield "state_rows", sink, query.state_rows
    yield "state_bytes", sink, query.state_bytes
    for phase, milliseconds in query.duration_ms.items():
        yield "batch_phase_seconds", (query.sink, phase), milliseconds / 1000
    if query.watermark is not None:
        yield "watermark_delay_seconds", sink, now - query.watermark.timestamp()
    for source in query.sources:
        place = query.sink, source.name
        yield "lag_records", place, source.lag
        yield "source_rows", place, source.total_input_rows
        yield "source_malformed_rows", place, source.total_malformed_rows
