"""The progress of a driver in the status of its pipeline, with the duration of its start."""

from datetime import datetime, timedelta
from typing import Any

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import PipelineStatus, RecoveryStatus, SourceStatus
from kappa_crds.progress import Progress, QueryProgress, Recovery
from kappa_crds.quantities import format_count, format_duration, parse_duration
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.tuning import count_cores

_BATCH = "triggerExecution"
_PATIENCE = timedelta(seconds=20)
_LATE = 2
"""A batch counts as late after so many times the duration of the last batch, and the patience."""


def build_progress_fields(
    status: PipelineStatus, progress: Progress, spec: PipelineSpec, now: datetime
) -> dict[str, Any]:
    """Return the status fields that come from the driver's report."""
    queries = progress.queries
    watermarks = [query.watermark for query in queries if query.watermark is not None]
    return {
        "runs": status.update_active(running_since=progress.running_since),
        "measured_at": now.replace(microsecond=0),
        "batch": find_last_batch(progress),
        "records": sum(query.total_input_rows for query in queries),
        "late": sum(query.total_late_rows for query in queries),
        "late_records": progress.late_records,
        "dead_lettered": progress.dead_lettered,
        "lag_records": progress.lag,
        "lag": f"{format_count(progress.lag)} records",
        "rate": f"{format_count(measure_current_rate(progress, spec, now))}/s",
        "watermark": min(watermarks, default=None),
        "sources": build_source_status(progress),
    }


def find_last_batch(progress: Progress) -> int | None:
    """Return the number of the last committed batch over all queries, or None before the first."""
    return max((query.batch_id for query in progress.queries if query.batch_id >= 0), default=None)


def measure_rate(progress: Progress) -> float:
    """Return records per second over all queries, as of their last batches."""
    return sum(query.processed_rows_per_second for query in progress.queries)


def measure_current_rate(progress: Progress, spec: PipelineSpec, now: datetime) -> float:
    """Return records per second over all queries; that of a query whose next batch is late falls with the time since its last one."""
    at = progress.reported_at or now
    return sum(_measure_aged(query, spec, at) for query in progress.queries)


def find_pause(progress: Progress, spec: PipelineSpec, now: datetime) -> datetime | None:
    """Return since when a query with lag has committed no batch although one is due, None where there is no such query.

    The driver's clock is compared with itself: that of the operator may differ.
    """
    at = progress.reported_at or now
    ends = [_find_end(each) for each in progress.queries if _has_records(each) and _is_late(each, spec, at)]
    return min(ends, default=None)


def measure_interval(spec: PipelineSpec) -> float:
    """Return the seconds from the start of a batch to that of the next one, 0 where it starts at once."""
    trigger = spec.trigger
    every = trigger.real_time.checkpoint_interval if trigger.real_time is not None else trigger.interval
    return parse_duration(every or "0s")


def _measure_aged(query: QueryProgress, spec: PipelineSpec, now: datetime) -> float:
    if not _is_late(query, spec, now):
        return query.processed_rows_per_second
    aged = query.input_rows / (now - query.timestamp).total_seconds()
    return min(query.processed_rows_per_second, aged) if _has_records(query) else 0.0


def _is_late(query: QueryProgress, spec: PipelineSpec, now: datetime) -> bool:
    took = _find_end(query) - query.timestamp
    due = max(took, timedelta(seconds=measure_interval(spec))) + _LATE * took + _PATIENCE
    return query.batch_id >= 0 and now - query.timestamp > due


def _find_end(query: QueryProgress) -> datetime:
    return query.timestamp + timedelta(milliseconds=query.duration_ms.get(_BATCH, 0))


def _has_records(query: QueryProgress) -> bool:
    return any(source.lag > 0 for source in query.sources)


def build_source_status(progress: Progress) -> tuple[SourceStatus, ...]:
    """Return for each source the position of the query that is furthest behind."""
    worst: dict[str, SourceStatus] = {}
    for query in progress.queries:
        for source in query.sources:
            known = worst.get(source.name)
            if known is None or source.lag > (known.lag or 0):
                worst[source.name] = SourceStatus(name=source.name, topic=source.topic, lag=source.lag)
    return tuple(worst[name] for name in sorted(worst))


def describe_progress(progress: Progress, spec: PipelineSpec, now: datetime) -> str:
    """Return the progress of the driver in one line."""
    batch = find_last_batch(progress)
    if batch is None:
        return "running; no batch yet"
    malformed = sum(query.total_malformed_rows for query in progress.queries)
    unreadable = f" · {format_count(malformed)} unreadable records" if malformed else ""
    rate = format_count(measure_current_rate(progress, spec, now))
    replays = " · added sinks read the log from its start" if progress.replaying else ""
    return f"batch {batch} · {rate} records/s · lag {format_count(progress.lag)} records{unreadable}{replays}"


def build_recovery(
    observed: PipelineObserved, current: DriverPod, progress: Progress
) -> RecoveryStatus | None:
    """Return the durations of the active driver's start; those of the previous one until it is complete."""
    before, found = observed.status.recovery, progress.recovery
    if found is None:
        return before
    early = 0.0 if found.warm else _measure_pod(current, found)
    last = before.prepare_seconds if before is not None else None
    known = last if found.warm else round(early + found.prepare_seconds, 1)
    return RecoveryStatus(
        generation=current.generation,
        warm=found.warm,
        took=format_duration(early + found.seconds),
        seconds=round(early + found.seconds, 1),
        state_seconds=round(found.state_seconds, 1),
        state_rows=found.state_rows,
        records=found.records,
        prepare_seconds=known,
        expected_seconds=None if known is None else round(known + _expect(observed, progress, found)),
    )


def _measure_pod(current: DriverPod, found: Recovery) -> float:
    """Return the seconds from the creation of the pod to the start of its process; 0 where that is not known, or clocks differ."""
    if current.created is None:
        return 0.0
    return max(0.0, (found.since - current.created).total_seconds())


def _expect(observed: PipelineObserved, progress: Progress, found: Recovery) -> float:
    """Return the seconds that loading the state and catching up would take now."""
    rows = sum(query.state_rows for query in progress.queries)
    growth = rows / found.state_rows if found.state_rows else 1.0
    at_once = min(count_cores(observed.resource.spec), observed.status.shuffle_partitions or 1)
    rate = measure_rate(progress)
    catch_up = progress.lag / rate if rate > 0 else 0.0
    return found.state_seconds / at_once * growth + catch_up
