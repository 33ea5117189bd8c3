"""What a driver's progress becomes in a pipeline's status."""

from typing import Any

from kappa_crds.pipeline import SourceStatus
from kappa_crds.progress import Progress
from kappa_crds.quantities import format_count


def build_progress_fields(progress: Progress) -> dict[str, Any]:
    """Return the status fields that the driver's progress decides."""
    queries = progress.queries
    watermarks = [query.watermark for query in queries if query.watermark is not None]
    return {
        "running_since": progress.running_since,
        "batch": find_last_batch(progress),
        "records": sum(query.total_input_rows for query in queries),
        "late": sum(query.total_late_rows for query in queries),
        "stragglers": progress.stragglers,
        "dead_lettered": progress.dead_lettered,
        "lag_records": progress.lag,
        "lag": f"{format_count(progress.lag)} records",
        "rate": f"{format_count(measure_rate(progress))}/s",
        "watermark": min(watermarks, default=None),
        "sources": build_source_status(progress),
    }


def find_last_batch(progress: Progress) -> int | None:
    """Return the number of the last committed batch over all queries, or None before the first."""
    return max((query.batch_id for query in progress.queries if query.batch_id >= 0), default=None)


def measure_rate(progress: Progress) -> float:
    """Return records a second over all queries, as of their last batches."""
    return sum(query.processed_rows_per_second for query in progress.queries)


def build_source_status(progress: Progress) -> tuple[SourceStatus, ...]:
    """Return for each source the position of the query that is furthest behind."""
    worst: dict[str, SourceStatus] = {}
    for query in progress.queries:
        for source in query.sources:
            known = worst.get(source.name)
            if known is None or source.lag > (known.lag or 0):
                worst[source.name] = SourceStatus(name=source.name, topic=source.topic, lag=source.lag)
    return tuple(worst[name] for name in sorted(worst))


def say_progress(progress: Progress) -> str:
    """Say how the driver gets on, in one line."""
    batch = find_last_batch(progress)
    if batch is None:
        return "running; no batch yet"
    malformed = sum(query.total_malformed_rows for query in progress.queries)
    unreadable = f" · {format_count(malformed)} unreadable records" if malformed else ""
    return f"batch {batch} · {format_count(measure_rate(progress))} records/s · lag {format_count(progress.lag)} records{unreadable}"
