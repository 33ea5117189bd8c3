"""Metrics of Reprocessings, read from their status: the phase, how far the new version is, what differs, and what waits for a person."""

from collections.abc import Callable, Iterator

from kappa_crds.comparison import ComparisonSummary
from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import ENDS, WANTS_SOAKING, CatchUp, PartitionCatchUp
from kappa_operator.reprocessing.objects import ReprocessingResource
from kappa_operator.telemetry.declare import Declared, Sample

_REPROCESSING = ("namespace", "reprocessing")
_FOR_PERSONS = (Reason.WAITING_FOR_PERSON, Reason.OUTPUTS_DIFFER, Reason.LOG_INCOMPLETE)


def _find_reason(resource: ReprocessingResource) -> str:
    ready = find_condition(resource.status.conditions, ConditionType.READY)
    return "" if ready is None else ready.reason


def _read_info(resource: ReprocessingResource) -> Iterator[Sample]:
    yield (resource.spec.pipeline_ref, resource.status.phase.value, _find_reason(resource)), 1.0


def _read_since(resource: ReprocessingResource) -> float | None:
    since = resource.status.since
    return None if since is None else since.timestamp()


def _read_waiting(resource: ReprocessingResource) -> float:
    return float(resource.status.phase not in ENDS and _find_reason(resource) in _FOR_PERSONS)


def _read_deadline(resource: ReprocessingResource) -> float | None:
    """Return when it fails; there is none after the cutover."""
    status = resource.status
    if status.started is None or status.phase in (*ENDS, *WANTS_SOAKING):
        return None
    return status.started.timestamp() + parse_duration(resource.spec.deadline)


def _of_replay(read: Callable[[CatchUp], float | None]) -> Callable[[ReprocessingResource], float | None]:
    """Return a reader of the last measurement; there is none after an end."""

    def find(resource: ReprocessingResource) -> float | None:
        measured = resource.status.catch_up
        return None if measured is None or resource.status.phase in ENDS else read(measured)

    return find


def _of_partitions(
    read: Callable[[PartitionCatchUp], float | None],
) -> Callable[[ReprocessingResource], Iterator[Sample]]:
    def find(resource: ReprocessingResource) -> Iterator[Sample]:
        measured = resource.status.catch_up
        if measured is None or resource.status.phase in ENDS:
            return
        for each in measured.partitions:
            value = read(each)
            if value is not None:
                yield (each.topic, str(each.partition)), value

    return find


def _read_unexpected(resource: ReprocessingResource) -> float | None:
    compared = resource.status.comparison
    return None if compared is None else compared.unexpected


def _list_rows(resource: ReprocessingResource) -> Iterator[Sample]:
    compared = resource.status.comparison
    for sink in () if compared is None else compared.sinks:
        if sink.summary is not None:
            for result, count in _count_rows(sink.summary).items():
                yield (sink.sink, result), count


def _count_rows(found: ComparisonSummary) -> dict[str, int]:
    return {
        "Equal": found.equal, "Changed": found.changed, "OnlyOld": found.only_old, "OnlyNew": found.only_new,
        "Expected": found.expected, "Undecided": found.undecided,
    }  # fmt: skip


REPROCESSING_METRICS: tuple[Declared[ReprocessingResource], ...] = (
    Declared("kappa_reprocessing_info", "Always 1; the Pipeline, the phase, and the reason of Ready are its labels.", (*_REPROCESSING, "pipeline", "phase", "reason"), _read_info),
    Declared("kappa_reprocessing_phase_timestamp_seconds", "When the phase began, Unix time.", _REPROCESSING, _read_since),
    Declared("kappa_reprocessing_waiting", "1 while it waits for a person, 0 else.", _REPROCESSING, _read_waiting),
    Declared("kappa_reprocessing_deadline_timestamp_seconds", "When it fails unless it has cut over, Unix time; none after the cutover.", _REPROCESSING, _read_deadline),
    Declared("kappa_reprocessing_lag_records", "Records of the log that the new version has not read; none after an end.", _REPROCESSING, _of_replay(lambda each: each.lag)),
    Declared("kappa_reprocessing_active_lag_records", "Records of the log that the active version has not read; none after an end.", _REPROCESSING, _of_replay(lambda each: each.active_lag)),
    Declared("kappa_reprocessing_records_per_second", "Records that the new version reads per second; none after an end.", _REPROCESSING, _of_replay(lambda each: each.records_per_second)),
    Declared("kappa_reprocessing_partition_lag_records", "The lag of the new version in a partition; of the 50 that are furthest behind.", (*_REPROCESSING, "topic", "partition"), _of_partitions(lambda each: max(0, each.end - each.offset))),
    Declared("kappa_reprocessing_partition_eta_seconds", "Seconds until the new version has caught up in a partition; none where it falls behind, or that is not known.", (*_REPROCESSING, "topic", "partition"), _of_partitions(lambda each: each.eta_seconds)),
    Declared("kappa_reprocessing_unexpected_rows", "Rows that differ beyond the tolerance, by the last comparison; none where that is not known.", _REPROCESSING, _read_unexpected),
    Declared("kappa_reprocessing_rows", "Rows of the last comparison, by sink and result: Equal, Changed, OnlyOld, OnlyNew, Expected, Undecided.", (*_REPROCESSING, "sink", "result"), _list_rows),
    Declared("kappa_reprocessing_missing_records", "Offsets that are missing at the start of the log.", _REPROCESSING, lambda resource: sum(gap.end - gap.first for gap in resource.status.gaps)),
    Declared("kappa_reprocessing_unheld_topics", "Topics whose retention is not held until the cutover.", _REPROCESSING, lambda resource: len(resource.status.unheld)),
)  # fmt: skip
