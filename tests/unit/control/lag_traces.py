"""Traces of consumers: what was produced and committed when, for our rules and for others beside them.

A trace is played by a small model of one partition: records come at a rate and have the times at which they came, a consumer takes them
at a rate and commits now and then. LogHistory are taken every ten seconds, as a sampler takes them.
"""

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from fakes.context import START
from kappa_operator.lag.model import PartitionLog, Sample

STEP = 10.0
"""Seconds from look to look."""
COMMIT = 30.0
"""Seconds from commit to commit."""


class Commit(NamedTuple):
    """A commit: when (seconds), at which offset, and the end of the log then."""

    at: float
    offset: int
    end: int


@dataclass
class Partition:
    """A log whose records have times, and how far it was consumed. `markers` are ends of transactions after the last record."""

    times: list[float] = field(default_factory=list)
    start: int = 0
    position: float = 0.0
    committed: int = 0
    markers: int = 0

    @property
    def end(self) -> int:
        return len(self.times) + self.markers

    def produce(self, now: float, count: int) -> None:
        self.times += [now] * count

    def consume(self, count: float) -> None:
        self.position = min(len(self.times), max(self.position, self.start) + count)

    def look(self, now: float, at: datetime, loss: float | None = None) -> Sample:
        first = max(self.committed, self.start)
        behind = now - self.times[first] if first < len(self.times) else 0.0
        return Sample(
            at, PartitionLog(self.start, self.end, self.end), self.committed, max(0.0, behind), loss
        )


@dataclass
class Trace:
    """The looks and the commits; a restart of what watches comes before the look of that number."""

    looks: list[Sample] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    restart: int | None = None
    alive: bool | None = False
    """Whether the group moves in other partitions."""
    jumps: dict[int, float] = field(default_factory=dict)
    """By how many seconds the clock jumps before the look of that number."""


class Flow(NamedTuple):
    """What happens from a moment on: records a second that come and that are taken, and whether there are commits."""

    until: float
    comes: float = 100.0
    taken: float = 200.0
    commits: bool = True
    every: float = COMMIT


def play(*flows: Flow, keeps: float | None = None, markers: int = 0) -> Trace:
    """Play flows one after another. `keeps` is the retention in seconds; what comes in is read as ends of transactions, too."""
    trace, partition, now = Trace(), Partition(), 0.0
    for flow in flows:
        while now < flow.until:
            now += STEP
            partition.produce(now, round(flow.comes * STEP))
            partition.markers = markers
            partition.consume(flow.taken * STEP)
            if flow.commits and now % flow.every == 0:
                partition.committed = int(partition.position)
                trace.commits.append(Commit(now, partition.committed, partition.end))
            loss = _retain(partition, now, keeps)
            trace.looks.append(partition.look(now, START + timedelta(seconds=now), loss))
    return trace


def _retain(partition: Partition, now: float, keeps: float | None) -> float | None:
    if keeps is None:
        return None
    partition.start = bisect.bisect_left(partition.times, now - keeps)
    first = max(partition.committed, partition.start)
    if partition.committed < partition.start:
        return 0.0
    return None if first >= len(partition.times) else partition.times[first] + keeps - now


def idle() -> Trace:
    """Records until 600 s, all taken; then nothing comes, and nobody commits."""
    return play(Flow(600), Flow(3600, comes=0, commits=False))


def transactional() -> Trace:
    """The same, but the last offset is the end of a transaction, which nobody takes."""
    return play(Flow(600), Flow(3600, comes=0, commits=False), markers=1)


def slow() -> Trace:
    """It takes eight of ten records."""
    return play(Flow(600), Flow(3600, taken=80))


def stopped() -> Trace:
    """After 600 s nobody is there."""
    return play(Flow(600), Flow(3600, taken=0, commits=False))


def stuck() -> Trace:
    """One record cannot be processed: the offset before it is committed again and again, other partitions go on."""
    trace = play(Flow(600), Flow(3600, taken=0))
    trace.alive = True
    return trace


def bursty() -> Trace:
    """Every ten minutes ten thousand records come in ten seconds, and are taken within a minute."""
    return play(
        *(
            flow
            for number in range(6)
            for flow in (Flow(number * 600 + 10, comes=1000), Flow(number * 600 + 600, comes=0))
        )
    )


def rewound() -> Trace:
    """At 1800 s it is set back by 100,000 records, and takes them again within the quarter of an hour."""
    trace, partition, now = Trace(), Partition(), 0.0
    while now < 3600:
        now += STEP
        partition.produce(now, 1000)
        partition.consume(2000)
        if now == 1800:
            partition.position -= 100_000
        if now % COMMIT == 0:
            partition.committed = int(partition.position)
            trace.commits.append(Commit(now, partition.committed, partition.end))
        trace.looks.append(partition.look(now, START + timedelta(seconds=now)))
    return trace


def eaten() -> Trace:
    """It takes one of ten records, and the log keeps them for a quarter of an hour."""
    return play(Flow(600), Flow(3600, taken=10), keeps=900)


def restarted() -> Trace:
    """Nobody is there after 600 s, and at 2400 s what watches starts anew."""
    trace = stopped()
    trace.restart = 240
    return trace


def jumping() -> Trace:
    """All is well, but the clock goes on by ten hours at 1200 s and comes back at 2400 s."""
    trace = play(Flow(3600, taken=120))
    trace.jumps = {120: 36_000.0, 240: -36_000.0}
    return trace


def batches() -> Trace:
    """A job that takes all that there is every ten minutes, and commits once."""
    return play(Flow(7200, taken=1_000_000, every=600))


TRACES: dict[str, Callable[[], Trace]] = {
    "slow consumer": slow,
    "stopped consumer": stopped,
    "stuck partition": stuck,
    "rewind": rewound,
    "idle topic": idle,
    "transaction markers": transactional,
    "bursty but healthy": bursty,
    "retention eats the lag": eaten,
    "restart in the middle": restarted,
    "clock jumps": jumping,
    "a job every ten minutes": batches,
}


def list_looks(trace: Trace) -> Iterator[tuple[int, float, Sample]]:
    """Yield number, true time and look, with the times that a jumping clock shows."""
    off = 0.0
    for number, sample in enumerate(trace.looks):
        off += trace.jumps.get(number, 0.0)
        shown = Sample(
            sample.at + timedelta(seconds=off), sample.log, sample.committed, sample.behind, sample.loss
        )
        yield number, (number + 1) * STEP, shown
