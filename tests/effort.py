"""How much a property is tried: with a third of its examples in `make test`, other ones each time, with all in `make chaos`."""

import os

_ALL = bool(os.environ.get("KAPPA_ALL_EXAMPLES"))


def examples(count: int) -> int:
    """Return how many of a property's examples this run tries."""
    return count if _ALL else count // 3
