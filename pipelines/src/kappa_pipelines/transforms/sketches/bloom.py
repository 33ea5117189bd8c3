"""Bloom filters: sets of values in little space, with a known share of false positives and no false negatives.

After B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", Communications of the ACM 13 (1970). Here each
hash has a slice of bits of its own, as in P. S. Almeida and others, "Scalable Bloom filters" (2007), for a slice is then one of
Spark's bitmaps, which has functions to build and to merge it. A filter is its slices one after the other, 4 KiB each. With n
different values a bit of a slice is set with the probability 1 - (1 - 1/m)^n, so k slices contain a value that was not added
with the k-th power of that.

Values are equal if their texts are equal: 5 is found whether it was added as INT or as BIGINT.
"""

import math

BITS = 32_768
"""Bits of a slice: what Spark's bitmaps have."""
_BYTES = BITS // 8
_MOST_SLICES = 32


def count_slices(items: int, share: float) -> int:
    """Return the number of slices for at most this share of false positives among `items` values.

    ValueError if the numbers are out of range or the filter would be too large.
    """
    if items < 1 or not 0 < share < 1:
        raise ValueError(
            "the expected number of values must be at least 1, and the share of false positives between 0 and 1"
        )
    slices = math.ceil(math.log(share) / math.log(_fill(items)))
    if slices > _MOST_SLICES:
        raise ValueError(
            f"{items} values with a share of {share:g} false positives need {slices} slices of 4 KiB, and {_MOST_SLICES} is"
            " the most; accept more false positives, or build a filter for each of several groups of values"
        )
    return max(1, slices)


def _fill(items: int) -> float:
    """Return the share of bits of a slice that are set after so many different values."""
    return -math.expm1(items * math.log1p(-1 / BITS))


def write_build(value: str, slices: int) -> str:
    """Return the aggregate that builds a filter, in SQL."""
    text = f"CAST(({value}) AS STRING)"
    bits = (f"IF({text} IS NULL, NULL, pmod(xxhash64({text}, {number}), {BITS}))" for number in range(slices))
    return f"concat({', '.join(f'bitmap_construct_agg({bit})' for bit in bits)})"


def write_merge(kept: str, slices: int) -> str:
    """Return the aggregate that merges filters, in SQL; filters of another size fail the query."""
    wrong = f"raise_error('bloom_filter_merge: not a filter of {slices * _BYTES} bytes; give the numbers that it was built with')"
    checked = f"IF(length({kept}) <> {slices * _BYTES}, {wrong}, {kept})"
    parts = (f"substring({checked}, {number * _BYTES + 1}, {_BYTES})" for number in range(slices))
    return f"concat({', '.join(f'bitmap_or_agg({part})' for part in parts)})"


def write_query(kept: str, value: str) -> str:
    """Return whether a filter may contain a value, in SQL; NULL if either is NULL."""
    wrong = "raise_error('bloom_might_contain: the argument is not a Bloom filter')"
    digest = "xxhash64(__kappa_q.text, __kappa_i)"
    place = f"{_BYTES} * __kappa_i + CAST(pmod({digest}, {BITS}) DIV 8 AS INT) + 1"
    byte = f"CAST(conv(hex(substring(__kappa_q.kept, {place}, 1)), 16, 10) AS INT)"
    bit = f"bit_get({byte}, CAST(pmod({digest}, 8) AS INT)) = 1"
    slices = f"CAST(length(__kappa_q.kept) DIV {_BYTES} AS INT)"
    is_filter = f"{slices} > 0 AND length(__kappa_q.kept) % {_BYTES} = 0"
    return (
        f"transform(array(named_struct('kept', {kept}, 'text', CAST(({value}) AS STRING))), __kappa_q ->"
        " CASE WHEN __kappa_q.kept IS NULL OR __kappa_q.text IS NULL THEN NULL"
        f" WHEN {is_filter} THEN forall(sequence(0, {slices} - 1), __kappa_i -> {bit}) ELSE {wrong} END)[0]"
    )


def describe(slices: int) -> str:
    """Return a description of a filter's state."""
    return f"a Bloom filter of {slices * 4} KiB for each group"
