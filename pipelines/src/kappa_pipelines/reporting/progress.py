"""Computes the driver's progress from Spark's progress events. Pure.

Spark's event names a source only by its subscription; the order of the plan distinguishes two sources with the same one.
"""

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from kappa_crds.progress import QueryProgress, Recovery, SourceProgress, TopicOffsets
from kappa_pipelines.checkpoint.format.offsets import Malformed, Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.sinks.rejected_records import REJECTED, name_rejections
from kappa_pipelines.sources.kafka import FIRST, LAST, LATEST, MALFORMED, ROWS

_LOAD = "rocksdbLoadLatencyMs"
"""A RocksDB metric of each operator: milliseconds, summed over its partitions."""
Reads = tuple[tuple[str, Subscription], ...]
"""Names and subscriptions of sources, once per scan of a query."""


def fold_event(before: QueryProgress | None, event: dict[str, Any], sources: Reads) -> QueryProgress:
    """Return a query's progress after an event.

    `event` is the JSON of Spark's event, `sources` are those of the query in the order of its plan.
    """
    late = sum(int(op.get("numRowsDroppedByWatermark", 0)) for op in event.get("stateOperators", []))
    rows, bad = int(event.get("numInputRows", 0)), sum(bad.count for _, bad in _observed(event).values())
    rejected, written = _count_rejected(event), _count_written(event)
    operators = event.get("stateOperators", [])
    return QueryProgress(
        sink=event["name"],
        query_id=event["id"],
        run_id=event["runId"],
        batch_id=event["batchId"],
        timestamp=datetime.fromisoformat(event["timestamp"]),
        input_rows=rows,
        input_rows_per_second=_rate(event.get("inputRowsPerSecond")),
        processed_rows_per_second=_rate(event.get("processedRowsPerSecond")),
        duration_ms={key: int(value) for key, value in event.get("durationMs", {}).items()},
        watermark=_watermark(event),
        state_rows=sum(int(op.get("numRowsTotal", 0)) for op in operators),
        state_bytes=sum(int(op.get("memoryUsedBytes", 0)) for op in operators),
        late_rows=late,
        malformed_rows=bad,
        refused_rows=rejected,
        written_rows=written,
        max_records=_find_bound(event),
        total_input_rows=(before.total_input_rows if before else 0) + rows,
        total_late_rows=(before.total_late_rows if before else 0) + late,
        total_malformed_rows=(before.total_malformed_rows if before else 0) + bad,
        total_refused_rows=(before.total_refused_rows if before else 0) + rejected,
        total_written_rows=_add(before.total_written_rows if before else None, written),
        sources=_fold_sources(event, sources, before.sources if before else ()),
    )


def measure_load(event: dict[str, Any]) -> float:
    """Return the seconds for loading state in a batch, summed over all partitions of all operators."""
    operators = event.get("stateOperators", [])
    return sum(int(op.get("customMetrics", {}).get(_LOAD, 0)) for op in operators) / 1000


def build_recovery(
    since: datetime, now: datetime, firsts: Iterable[tuple[QueryProgress, float]], *, warm: bool
) -> Recovery:
    """Return the recovery of a finished start, from the first batch of each query and its seconds for loading state."""
    batches = list(firsts)
    begun = min((batch.timestamp for batch, _ in batches), default=now)
    ahead: dict[str, int] = {}
    for batch, _ in batches:
        for source in batch.sources:
            ahead[source.name] = max(ahead.get(source.name, 0), source.ahead)
    return Recovery(
        since=since,
        warm=warm,
        seconds=max(0.0, (now - since).total_seconds()),
        prepare_seconds=max(0.0, (begun - since).total_seconds()),
        state_seconds=sum(seconds for _, seconds in batches),
        state_rows=sum(batch.state_rows for batch, _ in batches),
        records=sum(ahead.values()),
    )


def count_malformed(
    event: dict[str, Any], sources: tuple[SourceProgress, ...]
) -> dict[str, Malformed | None]:
    """Return the malformed records of a batch by source; None if the count is unreliable.

    A count is reliable if it covers at least as many rows as the source has read. After None, the batch must be scanned.
    """
    observed = _observed(event)
    counts: dict[str, Malformed | None] = {}
    for source in sources:
        rows, malformed = observed.get(source.name, (0, Malformed(0)))
        counts[source.name] = malformed if rows >= max(1, source.input_rows) else None
    return counts


def _observed(event: dict[str, Any]) -> dict[str, tuple[int, Malformed]]:
    """Return the number of rows, and the malformed records among them, that the plan observed by source."""
    return {
        name: (
            int(row.get(ROWS) or 0),
            Malformed(int(row.get(MALFORMED) or 0), row.get(FIRST), row.get(LAST)),
        )
        for name, row in event.get("observedMetrics", {}).items()
    }


def _count_rejected(event: dict[str, Any]) -> int:
    """Return the number of records that the sink's topic would reject."""
    return int(event.get("observedMetrics", {}).get(name_rejections(event["name"]), {}).get(REJECTED) or 0)


def _count_written(event: dict[str, Any]) -> int | None:
    """Return the records that the sink has written in a batch; None if Spark does not count them (-1)."""
    written = int(event.get("sink", {}).get("numOutputRows", -1))
    return None if written < 0 else written


def _find_bound(event: dict[str, Any]) -> int | None:
    """Return the bound of the next batch, the same for all sources; None where the time of a batch does not bound it."""
    metrics = (source.get("metrics") or {} for source in event.get("sources", []))
    return next((int(each["maxRecords"]) for each in metrics if "maxRecords" in each), None)


def _add(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more


def _fold_sources(
    event: dict[str, Any], sources: Reads, before: tuple[SourceProgress, ...]
) -> tuple[SourceProgress, ...]:
    left, known = list(dict.fromkeys(sources)), {source.name: source for source in before}
    malformed = {name: bad.count for name, (_, bad) in _observed(event).items()}
    folded = []
    for source in event.get("sources", []):
        match = next((pair for pair in left if _is_of(source, pair[1])), None)
        if match is None:
            continue
        left.remove(match)
        # Spark sums the rows over all scans of a source.
        last, rows = known.get(match[0]), math.ceil(int(source.get("numInputRows", 0)) / sources.count(match))
        folded.append(
            SourceProgress(
                name=match[0],
                topic=str(match[1]),
                start_offsets=_read_offsets(source, "startOffset"),
                end_offsets=_read_offsets(source, "endOffset"),
                latest_offsets=_read_offsets(source, "latestOffset"),
                input_rows=rows,
                total_input_rows=(last.total_input_rows if last else 0) + rows,
                total_malformed_rows=(last.total_malformed_rows if last else 0) + malformed.get(match[0], 0),
                latest=_find_latest(event, match[0]),
            )
        )
    return tuple(folded)


def _is_of(source: dict[str, Any], subscription: Subscription) -> bool:
    """Return whether the part of an event is of that source. An archive has another description and offsets of the same form."""
    if subscription.description == source.get("description"):
        return True
    topics = _read_offsets(source, "endOffset")
    is_archive = not str(source.get("description", "")).startswith("KafkaV2")
    return is_archive and bool(topics) and all(map(subscription.covers, topics))


def _find_latest(event: dict[str, Any], source: str) -> datetime | None:
    """Return the latest event time of a source in a batch, if the plan computes it and there are records."""
    found = event.get("observedMetrics", {}).get(source, {}).get(LATEST)
    return None if found is None else datetime.fromtimestamp(found / 1000, UTC)


def with_latest(progress: QueryProgress, ends: Offsets, sources: Reads) -> QueryProgress:
    """Return the progress with newer log ends, so that the lag is right between batches and without them."""
    reads = dict(sources)
    updated = []
    for source in progress.sources:
        sampled = {at: end for at, end in ends.items() if reads[source.name].covers(at[0])}
        known = parse_kafka_offsets(source.latest_offsets)
        reached = parse_kafka_offsets(source.end_offsets)
        latest = {
            at: max(each.get(at, 0) for each in (sampled, known, reached))
            for at in sampled.keys() | known.keys()
        }
        updated.append(source.model_copy(update={"latest_offsets": nest_offsets(latest)}))
    return progress.model_copy(update={"sources": tuple(updated)})


def _read_offsets(source: dict[str, Any], field: str) -> TopicOffsets:
    value = source.get(field)
    return nest_offsets(parse_kafka_offsets(json.loads(value) if isinstance(value, str) else value))


def _rate(value: Any) -> float:
    return round(float(value), 3) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _watermark(event: dict[str, Any]) -> datetime | None:
    text = event.get("eventTime", {}).get("watermark")
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment > datetime.fromtimestamp(0, UTC) else None
