"""Limits of what a namespace may have: so many resources of a kind, and so much of what their specs request.

The oldest resources keep their place: by creation time, then by name, so that another process finds the same ones. What is beyond a
limit is neither changed nor deleted, and costs no call outside of the API server, until there is room again or the limit is raised.
"""

import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kappa_operator.engine.keys import Key

if TYPE_CHECKING:
    from kappa_operator.engine.kinds import KindTable

Body = dict[str, Any]
GetLimit = Callable[[str], int]
"""Returns a limit by its name in the values of the chart (`limits.perNamespace`)."""
Group = tuple[str, str]
OBJECT_BYTES = "objectBytes"
LIMITED = "Limited"
"""The state of a resource that is beyond a limit."""


@dataclass(frozen=True, slots=True)
class Weight:
    """What a spec requests of something that is limited: by all resources of a namespace together, or by `each` one."""

    limit: str
    measure: Callable[[Body], int]
    each: bool = False


class Excess(NamedTuple):
    """What is beyond which limit."""

    limit: str
    most: int
    found: int
    each: bool = False


class Age(NamedTuple):
    """The place of a resource among those of its kind and namespace."""

    created: str
    name: str


def no_limit(_name: str) -> int:
    """Return that there is no limit."""
    return sys.maxsize


class Places:
    """The resources of each kind and namespace by age, and what their specs request. The kinds define their limits."""

    def __init__(self, kinds: "KindTable", get_limit: GetLimit = no_limit) -> None:
        self._kinds = kinds
        self._get_limit = get_limit
        self._ages: defaultdict[Group, list[Age]] = defaultdict(list)
        self._known: dict[Key, Age] = {}
        self._weights: dict[Key, tuple[int, ...]] = {}

    def add(self, key: Key, body: Body) -> Key | None:
        """Give a resource its place; return the resource that lost its own by that."""
        self._weights[key] = tuple(_measure(weight, body) for weight in self._kinds[key.kind].weights)
        age = Age(str(body["metadata"].get("creationTimestamp", "")), key.name)
        if self._known.get(key) == age:
            return None
        self._forget_age(key)
        self._known[key] = age
        ages, most = self._ages[key.kind, key.namespace], self._get_most(key.kind)
        insort(ages, age)
        return key._replace(name=ages[most].name) if len(ages) > most else None

    def remove(self, key: Key) -> None:
        """Forget a resource that is gone."""
        self._weights.pop(key, None)
        self._forget_age(key)

    def _forget_age(self, key: Key) -> None:
        age = self._known.pop(key, None)
        if age is None:
            return
        ages = self._ages[key.kind, key.namespace]
        del ages[bisect_left(ages, age)]
        if not ages:
            del self._ages[key.kind, key.namespace]

    def has_place(self, key: Key) -> bool:
        """Return whether the resource is among the oldest, as many as the limit of its kind allows."""
        return self._get_rank(key) < self._get_most(key.kind)

    def find_excess(self, key: Key) -> Excess | None:
        """Return the limit that the resource is beyond, None where it has its place."""
        if not self.has_place(key):
            limit = self._kinds[key.kind].limit or ""
            return Excess(limit, self._get_most(key.kind), len(self._ages[key.kind, key.namespace]))
        found = (
            self._check(key, weight, number) for number, weight in enumerate(self._kinds[key.kind].weights)
        )
        return next(filter(None, found), None)

    def _check(self, key: Key, weight: Weight, number: int) -> Excess | None:
        most, own = self._get_limit(weight.limit), self._weights.get(key, ())
        wanted = own[number] if own else 0
        if weight.each or wanted == 0:
            return Excess(weight.limit, most, wanted, weight.each) if wanted > most else None
        used = 0
        for each in self.list_placed(key):
            wanted = self._weights[each][number]
            fits = used + wanted <= most
            if each == key:
                return None if fits else Excess(weight.limit, most, used + wanted)
            used += wanted if fits else 0
        return None

    def list_placed(self, key: Key) -> Iterator[Key]:
        """Yield the resources of the same kind and namespace that have a place, oldest first."""
        ages = self._ages.get((key.kind, key.namespace), [])
        yield from (key._replace(name=age.name) for age in ages[: self._get_most(key.kind)])

    def _get_rank(self, key: Key) -> int:
        age = self._known.get(key)
        return 0 if age is None else bisect_left(self._ages[key.kind, key.namespace], age)

    def _get_most(self, kind: str) -> int:
        limit = self._kinds[kind].limit
        return sys.maxsize if limit is None else self._get_limit(limit)


def _measure(weight: Weight, body: Body) -> int:
    """Return what a spec requests; a spec that is invalid requests nothing, and is refused for that."""
    try:
        return max(0, int(weight.measure(body.get("spec") or {})))
    except (AttributeError, TypeError, ValueError):
        return 0
