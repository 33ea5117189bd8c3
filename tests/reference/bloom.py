"""A Bloom filter as `transforms.sketches.bloom` defines it."""

from collections.abc import Callable, Collection, Iterable

from kappa_pipelines.transforms.sketches.bloom import BITS

_BYTES = BITS // 8
Hash = Callable[[str, int], int]
"""Returns, for a value's text and the number of a slice or row, any whole number."""


def build(values: Iterable[str | None], slices: int, digest: Hash) -> bytes:
    """Return the filter of values: what `write_build` computes."""
    kept = bytearray(slices * _BYTES)
    for value in values:
        for number in range(slices if value is not None else 0):
            bit = digest(str(value), number) % BITS
            kept[number * _BYTES + bit // 8] |= 1 << bit % 8
    return bytes(kept)


def merge(filters: Collection[bytes]) -> bytes:
    """Return the filter of all values of some filters of one size: what `write_merge` computes."""
    merged = 0
    for each in filters:
        merged |= int.from_bytes(each)
    return merged.to_bytes(max(map(len, filters)))


def might_contain(kept: bytes, value: str, digest: Hash) -> bool:
    """Return what `write_query` computes."""
    bits = [digest(value, number) % BITS for number in range(len(kept) // _BYTES)]
    return all(kept[number * _BYTES + bit // 8] >> bit % 8 & 1 for number, bit in enumerate(bits))
