"""Deciders: the functions of a user's module for event sourcing, and the outcome of a command. Pure.

A decider is two functions. `decide(state, command)` returns the events of a command, or a rejection; `evolve(state, event)` returns the
state after an event. The state of an aggregate starts at None. States, commands and events are JSON values, an event is an object
with its name as `type`. The pattern is described in Chassaing, "Functional Event Sourcing Decider" (2021).

    from kappa_pipelines.decider import Rejected

    def decide(state, command):
        if state is None:
            return [{"type": "opened", "owner": command["owner"]}]
        return Rejected("the account is open already")

    def evolve(state, event):
        return {"owner": event["owner"], "balance": 0}

Both must be pure: the same arguments give the same result, at any time, on any machine, after any other calls. Calls do not share
objects: between calls all values are text, so a function that changes its arguments has no effect.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kappa_pipelines.failures.python import describe, locate

Evolve = Callable[[Any, Any], Any]
NOTHING = "null"
"""The state of an aggregate before its first event."""


@dataclass(frozen=True)
class Rejected:
    """The result of `decide` for a refused command, with the reason."""

    reason: str


class Kind(StrEnum):
    """The kind of an outcome."""

    EVENT = "event"
    REJECTION = "rejection"
    DUPLICATE = "duplicate"
    ERROR = "error"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One outcome of a command.

    `sequence` counts the events of the aggregate from 1; other outcomes have that of the preceding event. `data` is JSON: the event,
    the state of a snapshot, else the command. `type` is the event's name or the error's class.
    """

    sequence: int
    kind: Kind
    type: str | None
    data: str
    reason: str | None = None


@dataclass(frozen=True)
class Decider:
    """The two functions, and the number of events between snapshots of an aggregate; None for no snapshots."""

    decide: Callable[[Any, Any], Any]
    evolve: Evolve
    snapshot_every: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The state of an aggregate, as JSON, and the number of its events."""

    state: str = NOTHING
    sequence: int = 0


def write(value: Any) -> str:
    """Return a value as canonical JSON; TypeError or ValueError if it is not JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def fold(evolve: Evolve, state: str, event: str) -> str:
    """Return the state after an event; passes on exceptions of `evolve`."""
    return write(evolve(json.loads(state), json.loads(event)))


def handle(decider: Decider, aggregate: Aggregate, command: str) -> tuple[Aggregate, list[Outcome]]:
    """Return the aggregate after a command, and the outcomes: all of its events or none.

    If a function fails, the aggregate does not change, and the outcome has the position of the error.
    """
    try:
        decided = decider.decide(json.loads(aggregate.state), json.loads(command))
        if isinstance(decided, Rejected):
            rejection = Outcome(aggregate.sequence, Kind.REJECTION, None, command, str(decided.reason))
            return aggregate, [rejection]
        return _apply(decider, aggregate, _check_events(decided))
    except Exception as error:
        reason = f"{describe(error)}{locate(error)}"
        return aggregate, [Outcome(aggregate.sequence, Kind.ERROR, type(error).__name__, command, reason)]


def _check_events(decided: Any) -> list[Any]:
    if not isinstance(decided, list):
        raise TypeError(f"decide returned {type(decided).__name__}, not a list of events or Rejected")
    for event in decided:
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise TypeError("decide returned an event that is not a dict with its name as `type`")
    return decided


def _apply(decider: Decider, aggregate: Aggregate, events: list[Any]) -> tuple[Aggregate, list[Outcome]]:
    outcomes = []
    for event in events:
        text = write(event)
        aggregate = Aggregate(fold(decider.evolve, aggregate.state, text), aggregate.sequence + 1)
        outcomes.append(Outcome(aggregate.sequence, Kind.EVENT, event["type"], text))
        if decider.snapshot_every and aggregate.sequence % decider.snapshot_every == 0:
            outcomes.append(Outcome(aggregate.sequence, Kind.SNAPSHOT, None, aggregate.state))
    return aggregate, outcomes
