"""When the WAL that a replication slot retains reaches its limit. Pure.

Retained WAL falls when the connector confirms changes and rises in between, so a rise means something only if it lasts. The rate is that from
the last time that it fell, over three checks or more.
"""

from collections.abc import Sequence
from datetime import datetime

from kappa_crds.cdcsource_status import LogForecast, LogSample, SlotStatus
from kappa_crds.quantities import format_duration, format_size

SERVER_LIMIT = "max_slot_wal_keep_size"
OWN_LIMIT = "spec.postgresql.slotGuard.limit"
MOST_SAMPLES, FEWEST = 12, 3
_NEARLY = 0.1
"""The part of a limit that is nearly nothing."""


def forecast(before: Sequence[LogSample], slot: SlotStatus, limit: int | None, now: datetime) -> LogForecast:
    """Return the forecast after a check. `limit` is in bytes, besides that of the server."""
    samples = add_sample(before, slot.retained_bytes, now)
    bounds = {}
    if slot.safe_bytes is not None:
        bounds[SERVER_LIMIT] = slot.safe_bytes
    if limit is not None and slot.retained_bytes is not None:
        bounds[OWN_LIMIT] = limit - slot.retained_bytes
    name = min(bounds, key=lambda each: bounds[each], default=None)
    remaining = None if name is None else bounds[name]
    rate = measure_rate(samples)
    is_moving = remaining is not None and rate is not None and rate > 0
    return LogForecast(
        samples=samples,
        bytes_per_second=rate,
        limit=name,
        remaining_bytes=remaining,
        seconds_left=max(0.0, remaining / rate) if is_moving and remaining is not None and rate else None,
    )


def add_sample(before: Sequence[LogSample], retained: int | None, now: datetime) -> tuple[LogSample, ...]:
    """Return the samples with one more. What was before a fall, or before a clock that was set back, does not count any more."""
    if retained is None:
        return ()
    new = LogSample(at=now, retained_bytes=retained)
    last = before[-1] if before else None
    if last is None or last.retained_bytes > retained or last.at >= now:
        return (new,)
    return (*before, new)[-MOST_SAMPLES:]


def measure_rate(samples: Sequence[LogSample]) -> float | None:
    """Return the bytes a second by which retained WAL grows; None from too few samples."""
    if len(samples) < FEWEST:
        return None
    first, last = samples[0], samples[-1]
    return (last.retained_bytes - first.retained_bytes) / (last.at - first.at).total_seconds()


def is_full(found: LogForecast, retained: int | None) -> bool:
    """Return whether a limit was reached, or nearly."""
    if found.remaining_bytes is None or retained is None:
        return False
    return found.remaining_bytes <= _NEARLY * (found.remaining_bytes + retained)


def describe(slot: SlotStatus, found: LogForecast) -> str:
    """Return the forecast for people."""
    parts = [f"slot {slot.name} retains {slot.retained or 'an unknown amount'} of WAL"]
    if found.bytes_per_second:
        parts.append(f"which grows by {format_size(found.bytes_per_second)} per second")
    if found.seconds_left is not None:
        parts.append(f"{found.limit} is reached in {format_duration(found.seconds_left)}")
    elif found.remaining_bytes is not None:
        size = format_size(abs(found.remaining_bytes))
        parts.append(f"{size} {'below' if found.remaining_bytes >= 0 else 'above'} {found.limit}")
    return ", ".join(parts)
