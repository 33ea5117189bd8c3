"""How much is tried: in `make test` a third of a property's examples and of a scene's deaths, other ones each time, in `make chaos` all."""

import os
import random

_ALL = bool(os.environ.get("KAPPA_ALL_EXAMPLES"))


def examples(count: int) -> int:
    """Return how many of a property's examples this run tries."""
    return count if _ALL else count // 3


def deaths(writes: int) -> range:
    """Return the writes, counted from one, after each of which this run lets the operator die: at least one, where there is one."""
    first = 1 if _ALL else random.randint(1, max(1, min(3, writes)))
    return range(first, writes + 1, 1 if _ALL else 3)
