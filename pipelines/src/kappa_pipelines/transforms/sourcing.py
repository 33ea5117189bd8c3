"""Event sourcing: commands in; events, rejections and snapshots out, in the order of each aggregate's commands.

The state of an aggregate is folded from its own events and stored in the checkpoint. Commands of a batch arrive in any order and are
sorted by their declared order; a command that arrives after a later one of its aggregate is an error, as the events of the later one
are already written.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DateType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from kappa_crds.reasons import Reason
from kappa_crds.sourcing import EventSourcing, Projection
from kappa_pipelines.analysis.state import State
from kappa_pipelines.decider import NOTHING, Aggregate, Decider, Kind, Outcome, handle
from kappa_pipelines.errors import SpecError
from kappa_pipelines.transforms.functions import UserFunction, find_function
from kappa_pipelines.transforms.inputs import ColumnKind, read_input
from kappa_pipelines.transforms.key_groups import Output, Row, Step, open_packed, pack, run_step
from kappa_pipelines.transforms.stored import Kept

_CARRIED = "__kappa_carried"
_OUTCOME = {"sequence": "BIGINT", "kind": "STRING", "type": "STRING", "data": "STRING", "reason": "STRING"}
_PLACE = ColumnKind(
    "a number, text or time", (IntegralType, StringType, TimestampType, TimestampNTZType, DateType)
)


class _Held(NamedTuple):
    """The stored form of an aggregate, with the order of its last command and the identifiers of recent ones."""

    state: str = NOTHING
    sequence: int = 0
    place: tuple[Any, ...] = ()
    ids: tuple[Any, ...] = ()


class _Command(NamedTuple):
    place: tuple[Any, ...]
    text: str
    carried: str
    id: Any


@dataclass(frozen=True)
class Sourcing(Step):
    """The step of a decider: rows are the key, the command and the carried columns, each as JSON."""

    decide: UserFunction
    evolve: UserFunction
    order: tuple[str, ...]
    id: str | None
    remember: int
    snapshot_every: int | None

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterator[Row]:
        """Handle the commands of each aggregate in their order."""
        decider = Decider(self.decide.load(), self.evolve.load(), self.snapshot_every)
        for key, group in groupby(sorted(rows), key=lambda row: row[0]):
            held = _Held(*kept.get(key, ()))
            held = held._replace(place=tuple(held.place), ids=tuple(held.ids))
            refusal = _check_key(key)
            for command in sorted(self._read(text, carried) for _, text, carried in group):
                held, outcomes = self._handle(decider, held, command, refusal)
                for outcome in outcomes:
                    yield command.carried, *_list(outcome)
            if refusal is None:
                kept[key] = tuple(held)

    def _read(self, text: str, carried: str) -> _Command:
        command = json.loads(text)
        place = tuple(command[name] for name in self.order)
        # Commands without an order come first, so that the others can be sorted.
        return _Command(
            () if None in place else place, text, carried, command[self.id] if self.id is not None else None
        )

    def _handle(
        self, decider: Decider, held: _Held, command: _Command, refusal: Outcome | None
    ) -> tuple[_Held, list[Outcome]]:
        refusal = refusal or self._check_place(held, command)
        if refusal is not None:
            refused = Outcome(held.sequence, refusal.kind, refusal.type, command.text, refusal.reason)
            return held._replace(place=max(held.place, command.place)), [refused]
        aggregate, outcomes = handle(decider, Aggregate(held.state, held.sequence), command.text)
        failed = any(outcome.kind is Kind.ERROR for outcome in outcomes)
        # A command that failed may be sent again.
        ids = held.ids if failed or command.id is None else (*held.ids, command.id)[-self.remember :]
        return _Held(aggregate.state, aggregate.sequence, command.place, ids), outcomes

    def _check_place(self, held: _Held, command: _Command) -> Outcome | None:
        """Return the outcome of a command that is not handled, else None."""
        if command.id is not None and command.id in held.ids:
            return _refuse(Kind.DUPLICATE, None, f"a command with {self.id} {command.id} was decided before")
        if not command.place:
            return _refuse(Kind.ERROR, "NoPlace", f"one of {', '.join(self.order)} is NULL")
        if command.place <= held.place:
            order = ", ".join(self.order)
            return _refuse(
                Kind.ERROR,
                "OutOfOrder",
                f"by {order}, it does not follow the last command of its aggregate; all commands of an"
                " aggregate must be in one partition, each with a different order",
            )
        return None


def _check_key(key: str) -> Outcome | None:
    missing = [name for name, value in json.loads(key).items() if value is None]
    return _refuse(Kind.ERROR, "NoAggregate", f"{', '.join(missing)} is NULL") if missing else None


def _refuse(kind: Kind, name: str | None, reason: str) -> Outcome:
    return Outcome(0, kind, name, "", reason)


def _list(outcome: Outcome) -> Row:
    return outcome.sequence, outcome.kind.value, outcome.type, outcome.data, outcome.reason


def describe_aggregates(view: str, keyed: EventSourcing | Projection) -> State:
    """Return the state of an event-sourced view or a projection."""
    return State(view, "state of each aggregate", keyed.key, None)


def build_sourcing(spark: SparkSession, view: str, sourcing: EventSourcing) -> DataFrame:
    """Return the outcomes; SpecError for unknown columns."""
    commands = read_input(spark, sourcing.from_)
    key = commands.find_columns(view, "eventSourced.key", sourcing.key)
    order = commands.find_columns(view, "eventSourced.order", sourcing.order, _PLACE)
    ids = commands.find_columns(view, "eventSourced.id", [sourcing.id] if sourcing.id else [], _PLACE)
    more = commands.find_columns(view, "eventSourced.carry", sourcing.carry)
    carried = list(dict.fromkeys([*key, *order, *ids, *more]))
    _check_names(view, carried)
    given = {"key": pack(key), "command": pack(commands.columns), "carried": pack(carried)}
    step = Sourcing(
        find_function(view, sourcing.decide, ("state", "command")),
        find_function(view, sourcing.evolve, ("state", "event")),
        tuple(order),
        next(iter(ids), None),
        sourcing.remember,
        sourcing.snapshot_every,
    )
    output = Output({_CARRIED: "STRING", **_OUTCOME})
    made = run_step(spark.table(commands.name), "key", given, step, output)
    return open_packed(made, _CARRIED, commands, carried, _OUTCOME)


def _check_names(view: str, carried: Iterable[str]) -> None:
    for name in carried:
        if name.lower() in _OUTCOME:
            raise SpecError(
                Reason.INVALID_SPEC,
                f"view {view!r}: eventSourced carries column {name!r}, which its own rows have;"
                " rename it in a preceding view",
            )
