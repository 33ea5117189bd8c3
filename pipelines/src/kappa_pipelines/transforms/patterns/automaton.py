"""A pattern as positions with their successors, in the order of preference. Pure.

After V. Glushkov's construction (1961), with the alternatives of each position ordered, as in R. Cox's "Regular Expression
Matching: the Virtual Machine Approach" (2009). A repetition with counts becomes as many positions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kappa_pipelines.transforms.patterns.syntax import (
    Absent,
    Choice,
    Node,
    PatternError,
    Repeat,
    Sequence,
    Step,
)

DONE = -1
"""The successor of the last event of a match."""
AT_END = -2
"""The successor where the match is complete if no other event comes within its time."""
START = 0
PASSED = 0
"""Number of the step of an event that a negation skips."""
_MOST_POSITIONS = 400


@dataclass(frozen=True, slots=True)
class Position:
    """One position in the pattern: the number of its step, and its successors, the preferred first.

    With `absent`, an event that does not satisfy the step is skipped.
    """

    step: int
    absent: bool
    follow: tuple[int, ...]


Automaton = tuple[Position, ...]
"""Positions by number. `START` is before the first event."""

_Enter = Callable[[], tuple[int, ...]]


@dataclass
class _Builder:
    numbers: Mapping[str, int]
    kinds: list[tuple[int, bool]] = field(default_factory=lambda: [(PASSED, False)])
    follows: list[_Enter] = field(default_factory=lambda: [tuple])

    def add(self, step: str, *, absent: bool, then: _Enter) -> int:
        """Add a position and return its number."""
        self.kinds.append((self.numbers[step], absent))
        self.follows.append(then)
        if len(self.kinds) > _MOST_POSITIONS:
            raise PatternError(f"the pattern is longer than {_MOST_POSITIONS} steps; lower the counts in it")
        return len(self.kinds) - 1

    def build(self, node: Node, then: _Enter) -> _Enter:
        """Add the positions of a part; return its entry, given the entry of the next part."""
        match node:
            case Step(name):
                number = self.add(name, absent=False, then=then)
                return lambda: (number,)
            case Absent(name):
                return self._build_absent(name, then)
            case Sequence(parts):
                for part in reversed(parts):
                    then = self.build(part, then)
                return then
            case Choice(parts):
                ways = [self.build(part, then) for part in parts]
                return lambda: _join(*(way() for way in ways))
            case Repeat():
                return self._build_repeat(node, then)

    def _build_absent(self, name: str, then: _Enter) -> _Enter:
        """Events are skipped until the next part or, if there is none, to the end of the time."""

        def enter() -> tuple[int, ...]:
            after = then()
            return (number, AT_END) if after == (DONE,) else (*after, number)

        number = self.add(name, absent=True, then=enter)
        return enter

    def _build_repeat(self, node: Repeat, then: _Enter) -> _Enter:
        if node.most is None:
            then = self._build_loop(node, then)
        for _ in range((node.most or node.least) - node.least):
            then = self._build_option(node, self.build(node.part, then), then)
        for _ in range(node.least):
            then = self.build(node.part, then)
        return then

    def _build_loop(self, node: Repeat, then: _Enter) -> _Enter:
        def enter() -> tuple[int, ...]:
            return _order(node, body(), then())

        body = self.build(node.part, enter)
        return enter

    @staticmethod
    def _build_option(node: Repeat, body: _Enter, then: _Enter) -> _Enter:
        return lambda: _order(node, body(), then())


def build_automaton(tree: Node, numbers: Mapping[str, int]) -> Automaton:
    """Return the automaton of a pattern; `numbers` are those of its steps, from 1 on."""
    builder = _Builder(numbers)
    builder.follows[START] = builder.build(tree, lambda: (DONE,))
    return tuple(
        Position(step, absent, _cut(follow()))
        for (step, absent), follow in zip(builder.kinds, builder.follows, strict=True)
    )


def _order(node: Repeat, again: tuple[int, ...], on: tuple[int, ...]) -> tuple[int, ...]:
    return _join(again, on) if node.greedy else _join(on, again)


def _join(*ways: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for way in ways for number in way))


def _cut(follow: tuple[int, ...]) -> tuple[int, ...]:
    """Drop successors after the end of the pattern, which are never preferred."""
    return follow[: follow.index(DONE) + 1] if DONE in follow else follow
