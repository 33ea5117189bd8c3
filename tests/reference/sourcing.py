"""What event sourcing and projections mean, over lists."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from kappa_pipelines.decider import Evolve, Kind, Rejected


def source_events(
    commands: Iterable[Any],
    *,
    key: Callable[[Any], Hashable],
    decide: Callable[[Any, Any], Any],
    evolve: Callable[[Any, Any], Any],
    id: Callable[[Any], Hashable] = lambda command: None,
) -> list[tuple[Hashable, int, Kind, Any]]:
    """Return what the step computes of commands in their order: aggregate, sequence, kind, and event or command."""
    aggregates: dict[Hashable, tuple[Any, int]] = {}
    decided_before: set[tuple[Hashable, Hashable]] = set()
    found: list[tuple[Hashable, int, Kind, Any]] = []
    for command in commands:
        name, known = key(command), (key(command), id(command))
        state, sequence = aggregates.get(name, (None, 0))
        if id(command) is not None and known in decided_before:
            found.append((name, sequence, Kind.DUPLICATE, command))
            continue
        decided_before.add(known)
        decided = decide(state, command)
        if isinstance(decided, Rejected):
            found.append((name, sequence, Kind.REJECTION, command))
            continue
        for event in decided:
            state, sequence = evolve(state, event), sequence + 1
            found.append((name, sequence, Kind.EVENT, event))
        aggregates[name] = (state, sequence)
    return found


def project(events: Iterable[tuple[Hashable, Any]], evolve: Evolve) -> dict[Hashable, tuple[int, Any]]:
    """Return what the step computes of all events of aggregates in their order: sequence and state of each."""
    found: dict[Hashable, tuple[int, Any]] = {}
    for key, event in events:
        sequence, state = found.get(key, (0, None))
        found[key] = (sequence + 1, evolve(state, event))
    return found
