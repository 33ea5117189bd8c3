"""How much is tried: in `make test` a fifth of a property's examples and of a scene's deaths, other ones each time, in `make chaos` all."""

import os
import random
from collections.abc import Callable
from typing import Generic, TypeVar

ALL = bool(os.environ.get("KAPPA_ALL_EXAMPLES"))
_ONE_OF = 5

T = TypeVar("T")


def examples(count: int) -> int:
    """Return how many of a property's examples this run tries."""
    return count if ALL else count // _ONE_OF


def deaths(writes: int) -> range:
    """Return the writes, counted from one, after each of which this run lets the operator die: at least one, where there is one."""
    first = 1 if ALL else random.randint(1, max(1, min(_ONE_OF, writes)))
    return range(first, writes + 1, 1 if ALL else _ONE_OF)


class Deaths(Generic[T]):
    """Copies of a scene after some of its writes, `most` of them at most: those after which this run lets the operator die.

    A copy takes time, so which ones are kept is drawn while they are made: each write is as likely as another.
    """

    def __init__(self, make: Callable[[], T], most: int | None = None) -> None:
        self.writes = 0
        self._make, self._most = make, most
        self._kept: list[tuple[int, T]] = []
        self._next, self._drawn = 1 if ALL else random.randint(1, _ONE_OF), 0

    def __deepcopy__(self, _: object) -> "Deaths[T]":
        """Return this one: a copied scene refers to it, and is part of it."""
        return self

    def wrote(self) -> None:
        """Copy the scene, where this write is one of those."""
        self.writes += 1
        if self.writes == self._next:
            self._next += 1 if ALL else _ONE_OF
            self._draw()
        elif self.writes == 1:  # kept only if there are too few writes
            self._kept = [(1, self._make())]

    def find(self) -> list[tuple[int, T]]:
        """Return the copies, each with the number of its write, counted from one."""
        assert self._kept, "nothing was written"
        return sorted(self._kept, key=lambda kept: kept[0])

    def _draw(self) -> None:
        if self._drawn == 0:
            self._kept.clear()
        self._drawn += 1
        if self._most is None or ALL or self._drawn <= self._most:
            self._kept.append((self.writes, self._make()))
        elif (place := random.randrange(self._drawn)) < self._most:
            self._kept[place] = (self.writes, self._make())
