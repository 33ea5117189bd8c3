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
        self._beyond: dict[tuple[Group, int], dict[Key, Excess]] = {}
        """What is beyond a weight's limit, by group and number of the weight, until something in the group changes."""

    def add(self, key: Key, body: Body) -> Key | None:
        """Give a resource its place; return the resource that lost its own by that."""
        weights = tuple(_measure(weight, body) for weight in self._kinds[key.kind].weights)
        if weights != self._weights.get(key):
            self._weights[key] = weights
            self._forget_beyond(key)
        age = Age(str(body["metadata"].get("creationTimestamp", "")), key.name)
        if self._known.get(key) == age:
            return None
        self._forget_age(key)
        self._known[key] = age
        self._forget_beyond(key)
        ages, most = self._ages[key.kind, key.namespace], self._get_most(key.kind)
        insort(ages, age)
        return key._replace(name=ages[most].name) if len(ages) > most else None

    def remove(self, key: Key) -> None:
        """Forget a resource that is gone."""
        self._weights.pop(key, None)
        self._forget_age(key)
        self._forget_beyond(key)

    def _forget_beyond(self, key: Key) -> None:
        for number, _ in enumerate(self._kinds[key.kind].weights):
            self._beyond.pop(((key.kind, key.namespace), number), None)

    def _forget_age(self, key: Key) -> None:
        age = self._known.pop(key, None)
        if age is None:
            return
        ages = self._ages[key.kind, key.namespace]
        del ages[bisect_left(ages, age)]
        if not ages:
            del self._ages[key.kind, key.namespace]

    def get_created(self, key: Key) -> str:
        """Return when the resource was created; what is unknown comes after all others."""
        age = self._known.get(key)
        return "~" if age is None else age.created

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
        own = self._weights.get(key, ())
        wanted = own[number] if own else 0
        if weight.each or wanted == 0:
            most = self._get_limit(weight.limit)
            return Excess(weight.limit, most, wanted, weight.each) if wanted > most else None
        place = (key.kind, key.namespace), number
        if place not in self._beyond:
            self._beyond[place] = dict(self._add_up(key, weight, number))
        return self._beyond[place].get(key)

    def _add_up(self, key: Key, weight: Weight, number: int) -> Iterator[tuple[Key, Excess]]:
        """Yield what does not fit beside the older resources of the same kind and namespace that do."""
        used, most = 0, self._get_limit(weight.limit)
        for each in self.list_placed(key):
            wanted = self._weights[each][number]
            if used + wanted <= most:
                used += wanted
            elif wanted:
                yield each, Excess(weight.limit, most, used + wanted)

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
