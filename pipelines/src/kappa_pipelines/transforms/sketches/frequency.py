"""Frequency sketches: estimates of how often each value occurs, in little space, never too low and seldom too high.

The count-min sketch of G. Cormode and S. Muthukrishnan, "An improved data stream summary: the count-min sketch and its
applications", Journal of Algorithms 55 (2005): `depth` rows of `width` counters; a value adds to one counter of each row, and
the smallest of these is its estimate. It is never below the truth; with width = e/error and depth = ln(1/(1 - confidence)) it is,
with that confidence, at most error × N above it, where N is how many values there were in all.

Here a row of counters is a sketch of Spark's `approx_top_k` functions over the numbers of counters. It has room for all of them, so it
counts exactly, and Spark's functions build and merge it. Counters that are zero take no space. Values are equal if their texts are
equal.
"""

import math
from collections.abc import Iterable

_COUNTERS = 100_000
"""The capacity of Spark's sketch, which allocates it on demand. It is the same for all, as queries of a sketch need it."""
_LEAST_ERROR = 0.0001
_MOST_CONFIDENCE = 0.9999


def find_size(error: float, confidence: float) -> tuple[int, int]:
    """Return width and depth; ValueError if the numbers are out of range or the sketch would be too large."""
    if not _LEAST_ERROR <= error < 1:
        raise ValueError(
            f"the error must be at least {_LEAST_ERROR} and less than 1, as a share of all values"
        )
    if not 0 < confidence <= _MOST_CONFIDENCE:
        raise ValueError(f"the confidence must be more than 0 and at most {_MOST_CONFIDENCE}")
    return math.ceil(math.e / error), max(1, math.ceil(-math.log(1 - confidence)))


def write_build(value: str, width: int, depth: int) -> str:
    """Return the aggregate that builds a sketch, in SQL."""
    text = f"CAST(({value}) AS STRING)"
    counters = (f"IF({text} IS NULL, NULL, pmod(xxhash64({text}, {row}), {width}))" for row in range(depth))
    return _write_sketch(width, (f"approx_top_k_accumulate({counter}, {_COUNTERS})" for counter in counters))


def write_merge(kept: str, width: int, depth: int) -> str:
    """Return the aggregate that merges sketches, in SQL; sketches of another size fail the query."""
    wrong = (
        f"raise_error('frequency_sketch_merge: not a sketch of {depth} rows of {width} counters; give the numbers that it was"
        " built with')"
    )
    is_other = f"({kept}).width <> {width} OR size(({kept}).rows) <> {depth}"
    rows = (f"IF({is_other}, {wrong}, ({kept}).rows[{row}])" for row in range(depth))
    return _write_sketch(width, (f"approx_top_k_combine({row}, {_COUNTERS})" for row in rows))


def _write_sketch(width: int, rows: Iterable[str]) -> str:
    return f"named_struct('width', {width}, 'rows', array({', '.join(rows)}))"


def write_query(kept: str, value: str) -> str:
    """Return the estimated frequency of a value, in SQL; NULL if the sketch or the value is NULL."""
    counter = "pmod(xxhash64(__kappa_q.text, __kappa_i), __kappa_q.kept.width)"
    counts = f"approx_top_k_estimate(__kappa_r, {_COUNTERS})"
    count = f"aggregate({counts}, 0L, (__kappa_n, __kappa_e) -> IF(__kappa_e.item = {counter}, __kappa_e.count, __kappa_n))"
    return (
        f"transform(array(named_struct('kept', {kept}, 'text', CAST(({value}) AS STRING))), __kappa_q ->"
        " IF(__kappa_q.kept IS NULL OR __kappa_q.text IS NULL, NULL,"
        f" array_min(transform(__kappa_q.kept.rows, (__kappa_r, __kappa_i) -> {count}))))[0]"
    )


def describe(width: int, depth: int) -> str:
    """Return a description of a sketch's state."""
    return f"a frequency sketch of {depth} × {width} counters for each group, up to {depth * width * 16 // 1024 + 1} KiB"
