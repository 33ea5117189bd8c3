"""Measures the input rate of a group, its consumption rate, and the capacity of one executor, from sample to sample.

All rates are records per second. Offsets count as records, transaction markers included.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import NamedTuple

from pydantic import TypeAdapter

from kappa_operator.lag.history import LagHistory, write_json
from kappa_operator.lag.model import Sample

SMOOTHING = 60.0
"""Seconds over which rates are smoothed; a sample older by this weighs 1/e."""
SETTLED = 90.0
"""Seconds without a change of executors and batches before the consumption rate counts as theirs."""

BUSY = 20.0
"""Seconds of work in the backlog of a busy group."""


class Flow(NamedTuple):
    """A group between two samples: seconds, records written and consumed, and unread records."""

    seconds: float
    came: int
    taken: int
    waits: int


@dataclass(frozen=True, slots=True)
class Load:
    """The measured load of a pipeline up to `at`, with the same `executors` and no other change since `since`.

    `each` is the rate of one busy executor, None where it was never busy. `peak` is the largest input rate since `peak_since`,
    `peak_before` that of the same time before. `well_since` is since when the group is healthy. `idle` are the seconds since records were
    last consumed: a group commits at the end of a batch, so its consumption counts over all of that time.
    """

    at: datetime
    executors: int
    since: datetime
    came: float
    taken: float
    peak_since: datetime
    peak: float = 0.0
    peak_before: float = 0.0
    each: float | None = None
    well_since: datetime | None = None
    idle: float = 0.0

    @property
    def highest(self) -> float:
        """Return the largest input rate of the last one to two spans."""
        return max(self.peak, self.peak_before)

    def to_json(self) -> str:
        """Return the load as JSON text."""
        return write_json(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Load":
        """Return the load of a text; raise ValueError where it is none."""
        return _LOAD.validate_json(text)


_LOAD = TypeAdapter(Load)


def measure_flow(samples: Iterable[tuple[LagHistory | None, Sample]]) -> Flow:
    """Return the changes from the previous samples, which lag histories hold, to these, without new or recreated partitions."""
    seconds, came, taken, waits = 0.0, 0, 0, 0
    for history, sample in samples:
        waits += sample.lag
        if history is None or history.committed is None or sample.committed is None:
            continue
        seconds = max(seconds, (sample.at - history.at).total_seconds())
        if sample.log.end >= history.end:
            came += sample.log.end - history.end
            taken += max(0, sample.committed - history.committed)
    return Flow(seconds, came, taken, waits)


def advance_load(
    load: Load | None,
    flow: Flow,
    executors: int,
    at: datetime,
    *,
    well: bool,
    span: float,
    steady: bool = True,
) -> Load:
    """Return the load after the next sample. `well` is whether the group is OK; the peak is that of `span` seconds.

    `steady` is whether so many executors run and no change is in progress: until then no rate counts as theirs.
    """
    if load is None or flow.seconds <= 0:
        return load or Load(at, executors, at, 0.0, 0.0, at, well_since=at if well else None)
    is_new, is_same = load.came == 0.0 == load.taken, steady and load.executors == executors
    came = load.came + (1.0 if is_new else _weigh(flow.seconds)) * (flow.came / flow.seconds - load.came)
    period = flow.seconds + (load.idle if is_same else 0.0)
    taken = load.taken
    if flow.taken:
        taken += (1.0 if is_new else _weigh(period)) * (flow.taken / period - taken)
    moved = replace(
        load, at=at, executors=executors, since=load.since if is_same else at, came=came, taken=taken,
        well_since=(load.well_since or at) if well else None, idle=0.0 if flow.taken else period,
    )  # fmt: skip
    return _note_peak(replace(moved, each=_find_each(moved, flow, period)), span)


def _find_each(load: Load, flow: Flow, period: float) -> float | None:
    """Return the rate of one executor: as measured while it is busy, and at least its rate while it is not.

    It is busy while the backlog is larger than what was consumed since the last sample, and than it can consume in `BUSY` seconds. In a time
    without consumption a batch runs, executors start, or the group is stopped; so what is consumed at its end counts over all of it, but
    has no more weight for that.
    """
    if load.executors < 1 or (load.at - load.since).total_seconds() < SETTLED or flow.taken == 0:
        return load.each
    if flow.waits > max(flow.taken, BUSY * load.taken):
        now = flow.taken / period / load.executors
        return now if load.each is None else load.each + _weigh(flow.seconds) * (now - load.each)
    now = load.taken / load.executors
    return load.each if load.each is None else max(load.each, now)


def _weigh(seconds: float) -> float:
    return 1 - math.exp(-seconds / SMOOTHING)


def _note_peak(load: Load, span: float) -> Load:
    if (load.at - load.peak_since).total_seconds() >= span:
        return replace(load, peak_since=load.at, peak=load.came, peak_before=load.peak)
    return replace(load, peak=max(load.peak, load.came))
