"""Projections: the state of each aggregate, folded from its events, from the first one or from a snapshot on.

Events have a sequence number, so rows may arrive in any order and more than once: an event waits for its predecessors, and one
that the state already includes changes nothing.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegralType, StringType

from kappa_crds.sourcing import Projection
from kappa_pipelines.decider import NOTHING, Evolve, fold
from kappa_pipelines.failures.python import describe, locate
from kappa_pipelines.transforms.functions import UserFunction, find_function
from kappa_pipelines.transforms.inputs import ColumnKind, check_new_columns, quote, read_input
from kappa_pipelines.transforms.key_groups import Output, Row, Step, open_packed, pack, run_step
from kappa_pipelines.transforms.stored import Kept

_KEY = "__kappa_key"
_STATE = {"sequence": "BIGINT", "state": "STRING", "error": "STRING"}
_NUMBER = ColumnKind("a whole number", (IntegralType,))
_JSON = ColumnKind("JSON as STRING", (StringType,))


class _Held(NamedTuple):
    """The stored form of an aggregate: its state, and the events that wait for an earlier one, by sequence."""

    state: str
    sequence: int
    waiting: dict[int, str]
    is_new: bool = False
    """Whether the state is from a snapshot and was not emitted yet."""


@dataclass(frozen=True)
class Projecting(Step):
    """The step of a projection: rows are the key as JSON, the sequence, and an event or a state as JSON."""

    evolve: UserFunction
    every: int

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterator[Row]:
        """Fold the events of each aggregate up to the first missing one."""
        evolve = self.evolve.load()
        for key, group in groupby(sorted(rows, key=repr), key=lambda row: row[0]):
            held = _read(kept.get(key))
            for _, sequence, event, state in group:
                if sequence is None or (event is None) == (state is None):
                    yield key, None, None, "NoEvent: a row needs a sequence and either an event or a state"
                else:
                    held = self._take(held, int(sequence), event, state)
            held = yield from self._fold(evolve, key, held)
            kept[key] = (held.state, held.sequence, list(held.waiting.items()))

    def _take(self, held: _Held, sequence: int, event: str | None, state: str | None) -> _Held:
        """Return the stored form after an event or a state; one that it already includes changes nothing."""
        if sequence <= held.sequence:
            return held
        if state is not None:
            return _Held(
                state, sequence, {at: text for at, text in held.waiting.items() if at > sequence}, True
            )
        held.waiting.setdefault(sequence, str(event))
        return held

    def _fold(self, evolve: Evolve, key: str, held: _Held) -> Generator[Row, None, _Held]:
        """Yield the states after the waiting events; an event that fails stays and is retried."""
        if held.is_new:
            yield from self._emit(key, held)
        while held.sequence + 1 in held.waiting:
            following = held.sequence + 1
            try:
                state = fold(evolve, held.state, held.waiting[following])
            except Exception as error:
                yield key, following, None, f"{describe(error)}{locate(error)}"
                break
            del held.waiting[following]
            held = _Held(state, following, held.waiting)
            yield from self._emit(key, held)
        return held

    def _emit(self, key: str, held: _Held) -> Iterator[Row]:
        if held.sequence % self.every == 0:
            yield key, held.sequence, held.state, None


def _read(stored: Any) -> _Held:
    held = _Held(*stored or (NOTHING, 0, ()))
    return held._replace(waiting=dict(held.waiting))


def build_projection(spark: SparkSession, view: str, projection: Projection) -> DataFrame:
    """Return the states; SpecError for unknown columns."""
    events = read_input(spark, projection.from_)
    key = events.find_columns(view, "projection.key", projection.key)
    check_new_columns(view, "projection.key", key, _STATE)
    sequence = events.find_columns(view, "projection.sequence", [projection.sequence], _NUMBER)
    event = events.find_columns(view, "projection.event", [projection.event], _JSON)
    snapshots = [projection.state] if projection.state else []
    state = events.find_columns(view, "projection.state", snapshots, _JSON)
    given = {
        "key": pack(key),
        "sequence": f.col(quote(sequence[0])).cast("string"),
        "event": f.col(quote(event[0])),
        "state": f.col(quote(state[0])) if state else f.lit(None).cast("string"),
    }
    step = Projecting(find_function(view, projection.evolve, ("state", "event")), projection.every)
    made = run_step(spark.table(events.name), "key", given, step, Output({_KEY: "STRING", **_STATE}))
    return open_packed(made, _KEY, events, key, _STATE)
