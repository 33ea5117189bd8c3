"""The flights as a log of JSON records: in order of scheduled departure, some late, some malformed, always the same.

**Late.** A seeded share of the flights arrives between half an hour and six hours of event time after its place.

**Malformed.** Between the flights stand records that cannot be read, in six kinds. They are additional: every flight
is there once, in a good record. So what the pipeline must compute is known from the flights alone.

**Why no record can be dropped as late**, whatever the batches are. Spark drops a record of a window that ended before
the watermark: the largest event time of *earlier batches*, over all partitions, minus the delay that the manifest
declares. So a record is safe if everything that may be processed before it is less than that delay ahead of it:

1. Record number i goes to partition i mod 4. Where all partitions have been read up to about the same offset, what was
   read is about a prefix of the log.
2. A batch takes from each partition the same share of what is there (Spark: limit × size / total, rounded). So if the
   begins are within s offsets of each other and the ends are too, then so is every cut between them, but for rounding:
   at most one offset a batch.
3. At the begin all offsets are 0. The ends are equal within one when loading is over, which is why the demo starts the
   pipeline after loading. During loading, the loader waits for every acknowledgement after each `BARRIER`
   records, so that partitions are never further apart than that many records.
4. Hence, when a record is processed, everything that was processed in earlier batches is in the log less than
   `LOOKAHEAD` places after it. `measure_displacement` finds the largest distance in event time that this allows, on
   the very records to be loaded, and `check_order` refuses to load where it is not below the watermark's delay.

LOOKAHEAD is twice the BARRIER, which leaves room for five hundred batches' rounding, or for the time Spark takes to ask
for the ends of four partitions while the loader continues.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from demo.errors import DemoError
from demo.flights import Frame

SEED = 2013
LATE_SHARE = 0.02
LATE_SECONDS = (30 * 60, 6 * 3600)
MALFORMED_SHARE = 0.001
LEAST_MALFORMED = 24
BARRIER = 2000
LOOKAHEAD = 2 * BARRIER

_TEXTS = ("carrier", "tailnum", "origin", "dest")
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_NUMBERS = ("flight", "dep_delay", "arr_delay", "air_time", "distance")


class Fault(StrEnum):
    """The ways in which a record is malformed."""

    TRUNCATED = "truncated JSON"
    WRONG_NUMBER = "text in a number column"
    WRONG_TIME = "no time in the time column"
    NOT_JSON = "not JSON"
    EMPTY = "empty value"
    NULL = "null value"

    @property
    def mention(self) -> str:
        """Return what the error of the dead letter must mention, as far as a reader needs it to find the fault."""
        words = {
            Fault.WRONG_NUMBER: "dep_delay",
            Fault.WRONG_TIME: "scheduled",
            Fault.EMPTY: "empty",
            Fault.NULL: "null",
        }
        return words.get(self, "")


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its value, the event time in seconds since 1970 where it is good, the fault where it is not."""

    value: bytes | None
    scheduled: int | None = None
    fault: Fault | None = None


@dataclass(frozen=True)
class Log:
    """All records in the order in which they are produced. Record i goes to partition i mod `partitions`."""

    records: tuple[Record, ...]
    partitions: int
    late: int

    def __len__(self) -> int:
        return len(self.records)

    @property
    def malformed(self) -> int:
        """Return how many records cannot be read."""
        return sum(record.fault is not None for record in self.records)

    @property
    def faults(self) -> Counter[Fault]:
        """Return how many records there are of each fault."""
        return Counter(record.fault for record in self.records if record.fault is not None)

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        """Yield partition and record, in order."""
        return ((i % self.partitions, record) for i, record in enumerate(self.records))


def build_log(frame: Frame, partitions: int = 4) -> Log:
    """Return the log of some flights. The same flights give the same bytes in the same order."""
    rng = random.Random(SEED)
    good = build_good(frame)
    arrivals, late = delay_some(good, rng)
    return Log(tuple(mix_in_malformed(arrivals, rng)), partitions, late)


def build_good(frame: Frame) -> list[Record]:
    """Return one record a flight, by scheduled departure."""
    hours = pd.to_datetime(frame["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", utc=True)
    seconds = (hours.astype("int64") // 10**9 + frame["minute"] * 60).tolist()
    columns = [_plain(frame[name]) for name in (*_TEXTS, *_NUMBERS)]
    names = (*_TEXTS, *_NUMBERS)
    order = sorted(range(len(seconds)), key=seconds.__getitem__)
    rows = list(zip(*columns, strict=True))
    return [
        Record(
            encode({"scheduled": format_time(seconds[i]), **dict(zip(names, rows[i], strict=True))}),
            seconds[i],
        )
        for i in order
    ]


def _plain(series: Any) -> list[Any]:
    """Return a column's values as Python has them, None where there is none."""
    missing = series.isna().tolist()
    return [None if gone else value for gone, value in zip(missing, series.tolist(), strict=True)]


def encode(fields: dict[str, Any]) -> bytes:
    """Return a JSON object as compact bytes."""
    return _ENCODER.encode(fields).encode()


@lru_cache(maxsize=1 << 17)
def format_time(seconds: int) -> str:
    """Return a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def delay_some(good: Sequence[Record], rng: random.Random) -> tuple[list[Record], int]:
    """Return the records in order of arrival, a share of them late, and how many are late."""
    chosen = rng.sample(range(len(good)), round(len(good) * LATE_SHARE))
    delays = {i: rng.randint(*LATE_SECONDS) for i in sorted(chosen)}
    arrival = [(record.scheduled or 0) + delays.get(i, 0) for i, record in enumerate(good)]
    order = sorted(range(len(good)), key=arrival.__getitem__)
    return [good[i] for i in order], len(delays)


def mix_in_malformed(good: Sequence[Record], rng: random.Random) -> Iterator[Record]:
    """Yield the records with malformed ones between them, of each fault in turn."""
    count = min(len(good), max(LEAST_MALFORMED, round(len(good) * MALFORMED_SHARE)))
    places = set(rng.sample(range(len(good)), count))
    faults = list(Fault)
    made = 0
    for i, record in enumerate(good):
        if i in places:
            yield spoil(record, faults[made % len(faults)])
            made += 1
        yield record


def spoil(record: Record, fault: Fault) -> Record:
    """Return a malformed copy of a good record."""
    text = record.value or b""
    match fault:
        case Fault.TRUNCATED:
            value: bytes | None = text[: len(text) // 2]
        case Fault.WRONG_NUMBER:
            value = encode({**json.loads(text), "dep_delay": "twelve minutes"})
        case Fault.WRONG_TIME:
            value = encode({**json.loads(text), "scheduled": "in the morning"})
        case Fault.NOT_JSON:
            value = b"<flight>" + text[:40] + b"</flight>"
        case Fault.EMPTY:
            value = b""
        case Fault.NULL:
            value = None
    return Record(value, fault=fault)


def measure_displacement(log: Log, lookahead: int) -> int:
    """Return by how many seconds, at most, records may be ahead of one that is processed after them.

    Whatever stands up to `lookahead` places behind a record in the log may be processed before it.
    """
    none = np.iinfo(np.int64).min // 2
    times = np.array([none if r.scheduled is None else r.scheduled for r in log.records], dtype=np.int64)
    if not len(times):
        return 0
    newest = np.maximum.accumulate(times)
    reach = np.minimum(np.arange(len(times)) + lookahead, len(times) - 1)
    good = times != none
    return int(max(0, (newest[reach] - times)[good].max(initial=0)))


def check_order(log: Log, watermark_seconds: float) -> int:
    """Return the displacement in seconds; raise DemoError where a record might be dropped as late."""
    displacement = measure_displacement(log, LOOKAHEAD)
    if displacement >= watermark_seconds:
        raise DemoError(
            f"records may arrive {displacement / 3600:.1f} h late, the pipeline's watermark allows"
            f" {watermark_seconds / 3600:.1f} h: raise eventTime.watermark or lower BARRIER"
        )
    return displacement
