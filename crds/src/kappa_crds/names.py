"""Suggestions for an unknown name, and cycles of views. Pure."""

import difflib
import itertools
from collections.abc import Mapping, Sequence


def suggest(unknown: str, known: Sequence[str]) -> str:
    """Return what to do about an unknown name."""
    matches = (difflib.get_close_matches(unknown, known, n=2, cutoff=least) for least in (0.8, 0.65))
    close = next(filter(None, matches), None)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"known are {', '.join(known)}"


def describe_unknown_name(view: str, unknown: str, known: Sequence[str]) -> str:
    """Return what is wrong with a view that reads something that is not there."""
    return f"view {view!r}: there is no source or view {unknown!r}; {suggest(unknown, known)}"


def describe_circle(waits: Mapping[str, str]) -> str:
    """Return what is wrong with views that can never be defined: `waits` names, for each, one that it waits for."""
    path = [next(iter(waits))]
    while path[-1] not in path[:-1]:
        path.append(waits[path[-1]])
    circle = path[path.index(path[-1]) :]
    if len(circle) == 2:
        return f"view {circle[0]!r} reads itself; a view cannot read what it makes"
    chain = ", ".join(f"{one!r} reads {other!r}" for one, other in itertools.pairwise(circle))
    return f"views read each other in a circle: {chain}; take one of these references out"
