"""Deciders: what event sourcing asks of a user's module, and what becomes of a command. Pure.

A decider is two functions. `decide(state, command)` returns the events that a command causes, or why it is refused;
`evolve(state, event)` returns the state after an event. The state of an aggregate starts at None. All of them are plain values of
JSON, an event an object with its name as `type`. The pattern and its words are those of Chassaing, "Functional Event
Sourcing Decider" (2021).

    from kappa_pipelines.decider import Rejected

    def decide(state, command):
        if state is None:
            return [{"type": "opened", "owner": command["owner"]}]
        return Rejected("the account is open already")

    def evolve(state, event):
        return {"owner": event["owner"], "balance": 0}

Both have to be pure: the same arguments give the same result, whatever the time, the machine, or the calls before. No call sees
an object of another: between calls everything is text, so a function that changes what it was given changes nothing.
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
    """What `decide` returns where a command is refused, and why."""

    reason: str


class Kind(StrEnum):
    """What came of a command."""

    EVENT = "event"
    REJECTION = "rejection"
    DUPLICATE = "duplicate"
    ERROR = "error"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that came of a command.

    `sequence` counts the events of the aggregate from 1; what is no event has that of the event before it. `data` is
    JSON: the event, the state of a snapshot, else the command. `type` is the event's name or the error's class.
    """

    sequence: int
    kind: Kind
    type: str | None
    data: str
    reason: str | None = None


@dataclass(frozen=True)
class Decider:
    """The two functions, and after how many events of an aggregate its state comes out; None for never."""

    decide: Callable[[Any, Any], Any]
    evolve: Evolve
    snapshot_every: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The state of an aggregate, as JSON, and how many events it has had."""

    state: str = NOTHING
    sequence: int = 0


def write(value: Any) -> str:
    """Return a value as JSON, always the same text for the same value; TypeError or ValueError if it is none."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def fold(evolve: Evolve, state: str, event: str) -> str:
    """Return the state after an event; raises what `evolve` raises."""
    return write(evolve(json.loads(state), json.loads(event)))


def handle(decider: Decider, aggregate: Aggregate, command: str) -> tuple[Aggregate, list[Outcome]]:
    """Return the aggregate after a command, and what came of it: all of its events or none.

    Where the functions fail, the aggregate stays as it is, and the outcome says where they did.
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
            raise TypeError("decide returned an event that is no dict with its name as `type`")
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
