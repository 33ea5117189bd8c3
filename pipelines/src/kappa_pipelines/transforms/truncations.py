"""Truncations of a table: each deletes the rows from before it, in whatever order they are read.

A truncation has no key and is in one partition, so changes from before and after it may be read earlier or later. Each key group gets it,
and keeps its place: server, position in its log, and time in milliseconds. A change is from before it if its position is lower and its time
not later. The time shows a database that was restored: its positions are low again. Where the server differs, the time alone decides.
"""

from collections.abc import Collection, Iterable
from typing import Any

from kappa_pipelines.transforms.stored import Kept

TRUNCATED = "truncated"
"""The key of truncations in state; keys of rows are JSON, or empty."""

_PARTS = 3
Place = list[int]
"""Server, position, and time; the time is missing where state is from before the table declared truncations."""


def keep_truncations(kept: Kept, new: Iterable[Place]) -> Collection[Place]:
    """Add truncations to those that are kept, without the ones that another one covers; return all."""
    places: list[Place] = kept.get(TRUNCATED, [])
    for place in new:
        if len(place) < _PARTS:
            raise TypeError("a truncation lacks its position or its time; give it as change events have it")
        if not any(_covers(other, place) for other in places):
            places = [*(other for other in places if not _covers(place, other)), place]
    if places:
        kept[TRUNCATED] = places
    return places


def _covers(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] >= other[1] and one[2] >= other[2]


def is_truncated(place: Any, truncations: Iterable[Place]) -> bool:
    """Return whether a row or a change from `place` is from before a truncation. One without a position is not."""
    return isinstance(place, list) and len(place) > 1 and any(_precedes(place, each) for each in truncations)


def _precedes(place: Place, truncation: Place) -> bool:
    is_earlier = len(place) < len(truncation) or place[2] <= truncation[2]
    return is_earlier and (place[0] != truncation[0] or place[1] < truncation[1])
