"""The text of a pattern as a tree. Pure.

    choice   := sequence { "|" sequence }
    sequence := repeat { repeat }
    repeat   := item [ ( "?" | "*" | "+" | "{n}" | "{n,}" | "{,m}" | "{n,m}" ) [ "?" ] ]
    item     := step | "!" step | "(" choice ")"

As in `MATCH_RECOGNIZE` (ISO/IEC 19075-5), and `!X` beside it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

MOST_REPEATS = 200
"""Highest count in a pattern: each repetition becomes a position of its own."""

_TOKEN = re.compile(r"\s*(?:([A-Za-z_]\w*)|(\{\s*(\d*)\s*(,?)\s*(\d*)\s*\})|([|()!?*+]))")
_COUNTS = {"?": (0, 1), "*": (0, None), "+": (1, None)}


class PatternError(ValueError):
    """An invalid pattern; the text has the column, counted from 1."""


@dataclass(frozen=True, slots=True)
class Step:
    """One event that satisfies the step's condition."""

    name: str


@dataclass(frozen=True, slots=True)
class Absent:
    """Any events, as few as possible, none of which satisfies the step's condition."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts in sequence."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives; the first that leads to a match is taken."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part several times: as often as possible, or as seldom if not greedy."""

    part: "Node"
    least: int
    most: int | None
    greedy: bool


Node = Step | Absent | Sequence | Choice | Repeat


def parse_steps(text: str) -> Node:
    """Return the tree of a pattern; PatternError if it is invalid."""
    tree = _Parser(text).parse()
    _check_absent(tree, is_end=True)
    if can_be_empty(tree):
        raise PatternError("the pattern can match without any event; require at least one step")
    return tree


def find_steps(node: Node) -> Iterator[str]:
    """Yield the names of steps in their order, with repetitions."""
    match node:
        case Step(name) | Absent(name):
            yield name
        case Repeat(part):
            yield from find_steps(part)
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from find_steps(part)


def can_be_empty(node: Node) -> bool:
    """Return whether it matches without any event."""
    match node:
        case Step():
            return False
        case Absent():
            return True
        case Repeat(part, least):
            return least == 0 or can_be_empty(part)
        case Sequence(parts):
            return all(map(can_be_empty, parts))
        case Choice(parts):
            return any(map(can_be_empty, parts))


def _check_absent(node: Node, *, is_end: bool) -> None:
    """Raise PatternError unless each negation is between two steps, or after a step at the end of the pattern."""
    match node:
        case Absent(name):
            raise PatternError(
                f"!{name} must be between two steps, or after a step at the end of the whole pattern; it cannot be in a"
                " group of its own or repeated"
            )
        case Repeat(part):
            _check_absent(part, is_end=False)
        case Choice(parts):
            for part in parts:
                _check_absent(part, is_end=False)
        case Sequence(parts):
            for at, part in enumerate(parts):
                if not isinstance(part, Absent):
                    _check_absent(part, is_end=False)
                elif not _is_enclosed(parts, at, is_end=is_end):
                    _check_absent(part, is_end=is_end)


def _is_enclosed(parts: tuple[Node, ...], at: int, *, is_end: bool) -> bool:
    after_step = at > 0 and not can_be_empty(parts[at - 1])
    before_step = is_end if at + 1 == len(parts) else not can_be_empty(parts[at + 1])
    return after_step and before_step


class _Parser:
    """Parses a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._match = _TOKEN.match(text)

    def parse(self) -> Node:
        tree = self._choice()
        if self._match is not None or self._text[self._at :].strip():
            self._fail(f"cannot read {self._rest()}")
        return tree

    def _rest(self) -> str:
        return repr(self._text[self._at :].strip()[:20])

    def _fail(self, why: str) -> NoReturn:
        skipped = len(self._text[self._at :]) - len(self._text[self._at :].lstrip())
        raise PatternError(f"column {self._at + skipped + 1}: {why}")

    def _sign(self) -> str | None:
        return self._match[6] if self._match else None

    def _next(self) -> None:
        assert self._match is not None  # noqa: S101 - only what was seen is taken
        self._at = self._match.end()
        self._match = _TOKEN.match(self._text, self._at)

    def _take(self, sign: str) -> bool:
        if self._sign() != sign:
            return False
        self._next()
        return True

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts = [self._repeat()]
        while self._match is not None and (self._match[1] or self._sign() in ("(", "!")):
            parts.append(self._repeat())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeat(self) -> Node:
        begin = self._at
        item = self._item()
        counts = self._counts()
        if counts is None:
            return item
        greedy = not self._take("?")
        if can_be_empty(item):
            self._at = begin
            self._fail("the repeated part can match without any event; require at least one")
        return Repeat(item, *counts, greedy)

    def _counts(self) -> tuple[int, int | None] | None:
        if self._match is not None and self._match[2]:
            low, comma, high = self._match.group(3, 4, 5)
            least = int(low or 0)
            most = (int(high) if high else None) if comma else least
            if not low and not high:
                self._fail("write a count such as {2}, {2,}, {,3} or {2,3}")
            if max(least, most or 0) > MOST_REPEATS or most == 0 or (most is not None and most < least):
                self._fail(f"a count must be from 1 to {MOST_REPEATS}, the higher one second")
            self._next()
            return least, most
        counts = _COUNTS.get(self._sign() or "")
        if counts is not None:
            self._next()
        return counts

    def _item(self) -> Node:
        if self._take("("):
            inner = self._choice()
            if not self._take(")"):
                self._fail("a ) is missing")
            return inner
        absent = self._take("!")
        if self._match is None or not self._match[1]:
            rest = self._text[self._at :].strip()
            self._fail(f"a step is missing before {self._rest()}" if rest else "a step is missing at the end")
        name = self._match[1]
        self._next()
        return Absent(name) if absent else Step(name)
