"""The conditions of a query, which test a document and have anchors for the index.

`anchors` are features of which every matching document has at least one. A query without anchors cannot be indexed and is
tested against every document. A condition on a NULL column is false, so its negation is true.
"""
# ruff: noqa: D102 - see Condition

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from kappa_pipelines.transforms.search.document import Document, Feature, Number

Weigh = Callable[[Feature], float]
Anchors = frozenset[Feature]


class Condition(Protocol):
    """A query or a part of it."""

    def matches(self, document: Document) -> bool:
        """Return whether a document satisfies it."""

    def find_anchors(self, weigh: Weigh) -> Anchors | None:
        """Return the lightest anchors, None if there are none; `weigh` returns the number of look-ups for a feature."""

    def list_features(self) -> Iterator[Feature]:
        """Yield the candidates for anchors."""


class _Plain:
    """A condition with at most one feature."""

    __slots__ = ()

    def list_features(self) -> Iterator[Feature]:
        yield from ()

    def find_anchors(self, weigh: Weigh) -> Anchors | None:
        return frozenset(self.list_features()) or None


@dataclass(frozen=True, slots=True)
class Word(_Plain):
    """A word somewhere in a field."""

    field: str
    word: str

    def matches(self, document: Document) -> bool:
        return self.word in document.words[self.field]

    def list_features(self) -> Iterator[Feature]:
        yield ("word", self.field, self.word)


@dataclass(frozen=True, slots=True)
class Prefix(_Plain):
    """A word with a prefix."""

    field: str
    begin: str

    def matches(self, document: Document) -> bool:
        return f" {self.begin}" in document.texts[self.field]

    def list_features(self) -> Iterator[Feature]:
        yield ("prefix", self.field, self.begin)


@dataclass(frozen=True, slots=True)
class Phrase(_Plain):
    """Words in sequence, in one column."""

    field: str
    words: tuple[str, ...]

    def matches(self, document: Document) -> bool:
        return f" {' '.join(self.words)} " in document.texts[self.field]

    def list_features(self) -> Iterator[Feature]:
        return (("word", self.field, word) for word in self.words)

    def find_anchors(self, weigh: Weigh) -> Anchors | None:
        return frozenset({min(self.list_features(), key=weigh)})


@dataclass(frozen=True, slots=True)
class Present(_Plain):
    """A field that is not NULL."""

    field: str

    def matches(self, document: Document) -> bool:
        return self.field in document.numbers or bool(document.texts.get(self.field))


@dataclass(frozen=True, slots=True)
class Equals(_Plain):
    """A number."""

    field: str
    number: Number

    def matches(self, document: Document) -> bool:
        return document.numbers.get(self.field) == self.number

    def list_features(self) -> Iterator[Feature]:
        yield ("number", self.field, self.number)


@dataclass(frozen=True, slots=True)
class Between(_Plain):
    """A number in a range, each limit included or not; None is no limit."""

    field: str
    low: Number | None
    high: Number | None
    with_low: bool
    with_high: bool

    def matches(self, document: Document) -> bool:
        found = document.numbers.get(self.field)
        if found is None:
            return False
        above = self.low is None or found > self.low or (self.with_low and found == self.low)
        return above and (self.high is None or found < self.high or (self.with_high and found == self.high))


@dataclass(frozen=True, slots=True)
class Not(_Plain):
    """A negation."""

    part: Condition

    def matches(self, document: Document) -> bool:
        return not self.part.matches(document)


@dataclass(frozen=True, slots=True)
class _Several:
    """A condition of several parts."""

    parts: tuple[Condition, ...]

    def list_features(self) -> Iterator[Feature]:
        return (feature for part in self.parts for feature in part.list_features())


@dataclass(frozen=True, slots=True)
class All(_Several):
    """A conjunction."""

    def matches(self, document: Document) -> bool:
        for part in self.parts:  # noqa: SIM110 - a loop takes half the time of a generator
            if not part.matches(document):
                return False
        return True

    def find_anchors(self, weigh: Weigh) -> Anchors | None:
        found = [anchors for part in self.parts if (anchors := part.find_anchors(weigh)) is not None]
        return min(found, key=lambda anchors: sum(map(weigh, anchors)), default=None)


@dataclass(frozen=True, slots=True)
class Either(_Several):
    """A disjunction."""

    def matches(self, document: Document) -> bool:
        for part in self.parts:  # noqa: SIM110 - as above
            if part.matches(document):
                return True
        return False

    def find_anchors(self, weigh: Weigh) -> Anchors | None:
        found = [part.find_anchors(weigh) for part in self.parts]
        if any(anchors is None for anchors in found):
            return None
        return frozenset(feature for anchors in found for feature in anchors or ())
