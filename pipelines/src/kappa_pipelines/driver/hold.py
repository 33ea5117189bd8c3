"""Holds the queries of a driver at a point of their input, and advances them to exactly another one.

Requests are recorded at once. `Holding.step`, which the supervision calls a few times per second, brings the queries there:

    Ending      the queries have a bound and read up to it: the end of the batch that was planned when the hold began
    Holding     all queries have committed up to their bound and read no further
    Advancing   the bound has moved to the target; then the ends of the output topics are read

A hold ends on request, or when its time is over. The queries run all the time: a stop or a savepoint works as usual, and a crash leaves
a checkpoint like any other.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import structlog
from confluent_kafka import KafkaException

from kappa_crds.progress import Hold, HoldPhase, InputVector, TopicOffsets, find_common_cut
from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.driver.bound import QueryBusyError, Vector
from kappa_pipelines.driver.cut import CutRefusedError, find_ends, find_position
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.sources.idle import IDLE_SUFFIX, find_watermark_file, read_watermark, write_watermark

log = structlog.get_logger()


class LogEnds(Protocol):
    """Ends of topics, read from Kafka at the moment of the call. Each method raises KafkaException."""

    def current_ends(self) -> Offsets:
        """Return the ends of the source topics."""

    def settled_ends(self, topics: Iterable[str]) -> Offsets | None:
        """Return the ends of topics; None while a transaction is open."""


class Bound(Protocol):
    """The bound of one query. Each method raises QueryBusyError at a moment when Spark has the query's lock."""

    def bind(self) -> Vector:
        """Have the query read no further than its planned batch; return where that ends."""

    def move(self, ends: Mapping[str, Offsets]) -> None:
        """Have the query read up to these ends of its sources. It must have read up to its present bound."""

    def release(self) -> None:
        """Have the query read whatever comes. It must have read up to its bound."""

    def read_committed(self) -> Vector:
        """Return the end of the last committed batch."""

    def has_finished(self) -> bool:
        """Return whether, since the bound moved, Spark has found no reason for another batch."""


@dataclass(frozen=True)
class HoldContext:
    """What a hold needs of its driver.

    `reads` has the subscription of each source that a sink's query reads, `outputs` are the topics of the sinks. `idle_folder` has the
    idle watermarks of `idle_sources`; nothing else writes them during a hold.
    """

    reads: Mapping[str, Mapping[str, Subscription]]
    outputs: tuple[str, ...]
    idle_folder: Path
    idle_sources: tuple[str, ...]
    kafka: LogEnds
    report: Callable[[Hold | None], None]
    clock: Callable[[], float] = time.monotonic


@dataclass
class _Held:
    """A hold in progress: the bound of each query, and the target that they were given last.

    `request` is the request with that target. `moves` are the ends of queries whose bound has not moved there yet.
    """

    queries: dict[str, Bound]
    bounds: dict[str, Vector] = field(default_factory=dict)
    request: InputVector | None = None
    target: InputVector | None = None
    refusal: str = ""
    moves: dict[str, dict[str, Offsets]] = field(default_factory=dict)
    outputs: TopicOffsets | None = None
    is_ending: bool = False

    @property
    def is_advancing(self) -> bool:
        """Return whether a target is not reached yet, as far as is known."""
        return self.target is not None and not self.refusal and self.outputs is None

    def has_read_all(self) -> bool:
        """Return whether each query has committed up to its bound."""
        return all(
            _has_kafka(query.read_committed(), self.bounds[sink]) for sink, query in self.queries.items()
        )


class Holding:
    """The hold of a driver, if there is one. Requests are thread-safe; `step` is called by one thread."""

    def __init__(self, context: HoldContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._until: tuple[float, datetime] | None = None
        self._request: InputVector | None = None
        self._held: _Held | None = None
        self._reported: Hold | None = None

    @property
    def is_wanted(self) -> bool:
        """Return whether queries have a bound or get one."""
        return self._until is not None or self._held is not None

    def hold(self, seconds: float) -> None:
        """Hold for so many seconds from now on."""
        with self._lock:
            self._until = self._context.clock() + seconds, datetime.now(UTC) + timedelta(seconds=seconds)

    def advance(self, target: InputVector) -> bool:
        """Advance to this point. Return False without a hold."""
        with self._lock:
            if self._until is not None:
                self._request = target
            return self._until is not None

    def resume(self) -> None:
        """End the hold."""
        with self._lock:
            self._until = self._request = None

    def step(self, find_queries: Callable[[], Mapping[str, Bound]]) -> None:
        """Do what is possible now, and report it. `find_queries` returns the queries by their sinks."""
        with self._lock:
            if self._until is not None and self._context.clock() >= self._until[0]:
                log.warning("the hold has expired")
                self._until = self._request = None
            until, request = self._until, self._request
        if self._held is None:
            if until is None:
                return
            self._held = _Held(dict(find_queries()))
            log.info("holding after the planned batch")
        try:
            self._proceed(self._held, until, request)
        except QueryBusyError:
            return  # the next step finds it less busy
        except KafkaException as error:
            log.warning("Kafka does not answer a driver that holds", error=str(error)[:300])

    def _proceed(
        self, held: _Held, until: tuple[float, datetime] | None, request: InputVector | None
    ) -> None:
        for sink, query in held.queries.items():
            if sink not in held.bounds:
                held.bounds[sink] = query.bind()
        held.is_ending |= until is None
        has_read_all = held.has_read_all()
        if held.is_ending or until is None:
            if has_read_all:
                self._release(held)
            return
        if has_read_all and not held.is_advancing and request is not None:
            self._accept(held, request)
        if has_read_all and held.is_advancing:
            self._advance(held)
        phase = HoldPhase.HOLDING if has_read_all else HoldPhase.ENDING
        self._report(held, HoldPhase.ADVANCING if held.is_advancing else phase, until[1])

    def _accept(self, held: _Held, target: InputVector) -> None:
        """Take a new target, or a refused one again. A refusal is not an error of the driver."""
        if target is held.request or (target == held.target and not held.refusal):
            return
        log_ends = self._context.kafka.current_ends()
        held.request, held.target, held.refusal, held.outputs = target, target, "", None
        try:
            held.moves = {
                sink: find_ends(sink, held.bounds[sink], target, self._context.reads[sink], log_ends)
                for sink in held.queries
            }
        except CutRefusedError as error:
            held.refusal = error.message
            log.warning("the driver cannot advance", error=error.message)
            return
        for source in self._context.idle_sources:
            file = find_watermark_file(self._context.idle_folder, source)
            if target.idle.get(source, 0) > read_watermark(file):
                write_watermark(file, target.idle[source])

    def _advance(self, held: _Held) -> None:
        """Move the bounds to the target, or, when the queries are there, read the ends of the output topics."""
        for sink in tuple(held.moves):
            held.queries[sink].move(held.moves[sink])
            ends = held.moves.pop(sink)
            held.bounds[sink] |= {name: nest_offsets(at) for name, at in ends.items()}
        if not held.has_read_all() or not all(query.has_finished() for query in held.queries.values()):
            return
        ends_of_outputs = self._context.kafka.settled_ends(self._context.outputs)
        if ends_of_outputs is not None:
            held.outputs = nest_offsets(ends_of_outputs)
            log.info("advanced", outputs=held.outputs)

    def _release(self, held: _Held) -> None:
        for sink in tuple(held.queries):
            held.queries.pop(sink).release()
        self._held = self._reported = None
        self._context.report(None)
        log.info("the hold has ended")

    def _report(self, held: _Held, phase: HoldPhase, until: datetime) -> None:
        files = {
            name: find_watermark_file(self._context.idle_folder, name) for name in self._context.idle_sources
        }
        marks = {name: read_watermark(file) for name, file in files.items()}
        idle = InputVector(idle={name: mark for name, mark in marks.items() if mark > 0})
        report = Hold(
            phase=phase,
            until=until,
            position=find_common_cut((find_position(held.bounds), idle)),
            target=held.target,
            outputs=held.outputs or {},
            refusal=held.refusal,
        )
        if report != self._reported:
            self._reported = report
            self._context.report(report)


def _has_kafka(committed: Vector, bound: Vector) -> bool:
    """Return whether a query has committed up to its bound, whatever its idle watermarks are."""
    return all(
        parse_kafka_offsets(committed.get(name)) == parse_kafka_offsets(at)
        for name, at in bound.items()
        if not name.endswith(IDLE_SUFFIX)
    )
