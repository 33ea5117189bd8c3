"""Bounds the queries of a driver between transactions: each reads up to a cut, and then up to the next one.

A query has a bound before its first batch is planned. Spark calls `onQueryStarted` in the thread of the query, before it creates the
sources; the gate has it create them there, and sets their bounds. See ADR 0073.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.format.offsets import Offsets, parse_kafka_offsets
from kappa_pipelines.driver.bound import QueryBusyError, Vector
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.kafka.group import lowest_offsets


class Cuts(Protocol):
    """Where the queries may read up to."""

    @property
    def divided(self) -> int:
        """Return the number of transactions that were not read as a whole."""

    def find_cut(self) -> Offsets | None:
        """Return the next cut; None if there is none after the last one yet."""

    def release(self, cut: Offsets) -> None:
        """Forget what is before a cut."""

    def close(self) -> None:
        """End."""


class Bounded(Protocol):
    """A query with a bound. `move` and `read_committed` raise QueryBusyError at a moment when Spark has the query's lock."""

    def begin(self, ends: Mapping[str, Offsets]) -> None:
        """Bound a query that Spark starts, in its own thread."""

    def move(self, ends: Mapping[str, Offsets]) -> None:
        """Have the query read up to these ends of its sources. It must have read up to its present bound."""

    def read_committed(self) -> Vector:
        """Return the end of the last committed batch."""


@dataclass
class TransactionGate:
    """The gate of a driver. `reads` are the topics of each source that a query reads by transactions, for the sinks that have such ones.

    `open` starts to look for cuts from given offsets on. `bounds` are the present ones.
    """

    reads: Mapping[str, Mapping[str, tuple[str, ...]]]
    open: Callable[[Offsets], Cuts]
    bounds: dict[str, dict[str, Offsets]] = field(default_factory=dict)
    _begun: dict[str, dict[str, Offsets]] = field(default_factory=dict)
    _cuts: Cuts | None = None
    _moves: dict[str, dict[str, Offsets]] = field(default_factory=dict)
    _is_interrupted: bool = False
    _divided: int = 0

    def __bool__(self) -> bool:
        """Return whether any source is read by transactions."""
        return bool(self.reads)

    @property
    def divided(self) -> int:
        """Return the number of transactions whose changes were not read in one batch."""
        return self._divided + (self._cuts.divided if self._cuts else 0)

    def expect(self, sink: str, offsets: Mapping[str, Offsets]) -> None:
        """Have a query begin at these offsets of its sources: the end of its planned batch, or its first offsets."""
        self._begun[sink] = dict(offsets)

    def begin(self, sink: str, query: Bounded) -> None:
        """Bound a query that starts."""
        query.begin(self._begun[sink])
        self.bounds[sink] = dict(self._begun[sink])

    def check(self, sink: str) -> None:
        """Raise UnavailableError if a query started without a bound; the log has the cause."""
        if sink in self.reads and sink not in self.bounds:
            message = f"sink {sink!r}: the query started before it could be bounded between transactions"
            raise UnavailableError(Reason.QUERY_FAILED, message)

    def interrupt(self) -> None:
        """Note that something else moves the bounds, as a hold does."""
        self._is_interrupted = True

    def step(self, queries: Mapping[str, Bounded]) -> None:
        """Move the queries to the next cut if all have read up to the last one."""
        try:
            if self._is_interrupted:
                self._resume(queries)
            self._proceed(queries)
        except QueryBusyError:
            return  # the next step finds it less busy

    def close(self) -> None:
        """End the reader."""
        if self._cuts is not None:
            self._divided += self._cuts.divided
            self._cuts.close()
            self._cuts = None

    def _resume(self, queries: Mapping[str, Bounded]) -> None:
        """Continue from where the queries are."""
        for sink, reads in self.reads.items():
            found = queries[sink].read_committed()
            self.bounds[sink] |= {name: parse_kafka_offsets(found[name]) for name in reads if name in found}
        self.close()
        self._moves.clear()
        self._is_interrupted = False

    def _proceed(self, queries: Mapping[str, Bounded]) -> None:
        if self._cuts is None:
            begin = lowest_offsets(ends for bounds in self.bounds.values() for ends in bounds.values())
            self._cuts = self.open(begin)
        if not self._moves and all(self._has_read(sink, queries[sink]) for sink in self.reads):
            cut = self._cuts.find_cut()
            if cut is None:
                return
            self._moves = self._find_moves(cut)
            self._cuts.release(cut)
        for sink in tuple(self._moves):
            queries[sink].move(self._moves[sink])
            self.bounds[sink] = self._moves.pop(sink)

    def _has_read(self, sink: str, query: Bounded) -> bool:
        """Return whether a query has committed up to its bound. One without a batch is where it began."""
        committed, begun = query.read_committed(), self._begun[sink]
        read = {name: parse_kafka_offsets(committed.get(name)) or begun[name] for name in self.reads[sink]}
        return read == self.bounds[sink]

    def _find_moves(self, cut: Offsets) -> dict[str, dict[str, Offsets]]:
        """Return the bounds of the queries at a cut. A query that is further in any partition, since a crash, waits for a later cut."""
        moves = {}
        for sink, reads in self.reads.items():
            ends = {
                name: {at: offset for at, offset in cut.items() if at[0] in topics}
                for name, topics in reads.items()
            }
            bounds = self.bounds[sink]
            is_behind = any(
                ends[name].get(at, 0) < offset for name in reads for at, offset in bounds[name].items()
            )
            if not is_behind and ends != bounds:
                moves[sink] = ends
        return moves
