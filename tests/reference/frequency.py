"""A frequency sketch as `transforms.sketches.frequency` defines it."""

from collections.abc import Iterable, Sequence

from reference.bloom import Hash

Counts = Sequence[Sequence[int]]
"""Rows of counters."""


def build(values: Iterable[str | None], width: int, depth: int, digest: Hash) -> Counts:
    """Return the sketch of values: what `write_build` computes."""
    counts = [[0] * width for _ in range(depth)]
    for value in values:
        for number, row in enumerate(counts if value is not None else ()):
            row[digest(str(value), number) % width] += 1
    return counts


def merge(sketches: Sequence[Counts]) -> Counts:
    """Return the sketch of all values of some sketches of one size: what `write_merge` computes."""
    return [[sum(counters) for counters in zip(*rows, strict=True)] for rows in zip(*sketches, strict=True)]


def estimate(counts: Counts, value: str, digest: Hash) -> int:
    """Return what `write_query` computes."""
    return min(row[digest(value, number) % len(row)] for number, row in enumerate(counts))
