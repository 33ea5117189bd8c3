"""Rates of something that grows, from samples with noise.

The median of the slopes of all pairs of samples (Theil 1950, Sen 1968) is right while fewer than 29% of the samples are wrong.
"""

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

_MOST = 64
"""Samples that count, the newest: the pairs of more would cost too much."""


class Point(NamedTuple):
    """A value at a time in seconds."""

    at: float
    value: float


def measure_rate(points: Sequence[Point]) -> float | None:
    """Return the growth per second, None for fewer than two times."""
    some = points[-_MOST:]
    slopes = [(b.value - a.value) / (b.at - a.at) for a, b in combinations(some, 2) if b.at > a.at]
    return median(slopes) if slopes else None


def keep_moves(points: Sequence[Point]) -> list[Point]:
    """Return the first point and those where the value changed: a batch moves all at once, at its end."""
    return [point for at, point in enumerate(points) if at == 0 or point.value != points[at - 1].value]
