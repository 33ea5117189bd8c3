"""What a pattern means: a search with backtracking over a list of events, as plain as can be. The reference; see `search`.

From each start the first of all possible ways through the pattern is taken, in the order of preference of
`MATCH_RECOGNIZE`: of a choice the first that leads to a match, of a repetition the longest, or the shortest where it is reluctant.
Nothing stands between the events of a match but what negations pass over.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kappa_crds.pattern import SkipTo
from kappa_pipelines.transforms.patterns.search import find_next
from kappa_pipelines.transforms.patterns.syntax import Absent, Choice, Node, Repeat, Step
from kappa_pipelines.transforms.patterns.syntax import Sequence as Parts

Event = TypeVar("Event")
Steps = tuple[str | None, ...]
"""For each event of a match its step; None for one that a negation passes over."""
Holds = Callable[[str, Steps, Sequence[Any]], bool | None]
"""Whether the last of these events satisfies a step, given the steps of all, its own last; None is not true."""


@dataclass(frozen=True)
class Match:
    """The events from `start` on, with their steps. It was certain at `decided`."""

    start: int
    steps: Steps
    decided: float

    @property
    def last(self) -> int:
        """Return the position of the last event."""
        return self.start + len(self.steps) - 1


@dataclass
class _Attempt:
    """The search from one start. `hungry` says that an event which is not there yet was asked for."""

    events: Sequence[Any]
    holds: Holds
    is_whole: bool
    hungry: bool = False

    def find(self, node: Node, steps: Steps) -> Iterator[Steps]:
        """Yield the ways through a part of the pattern, the preferred one first."""
        match node:
            case Step(name):
                if self._has(name, steps):
                    yield (*steps, name)
            case Absent():
                yield from self._pass_over(node, steps)
            case Parts(parts):
                yield from self._find_all(parts, steps)
            case Choice(parts):
                for part in parts:
                    yield from self.find(part, steps)
            case Repeat():
                yield from self._repeat(node, steps, 0)

    def _has(self, name: str, steps: Steps) -> bool:
        if len(steps) == len(self.events):
            self.hungry |= not self.is_whole
            return False
        return self.holds(name, (*steps, name), self.events[: len(steps) + 1]) is True

    def _pass_over(self, absent: Absent, steps: Steps) -> Iterator[Steps]:
        yield steps
        at_end = len(steps) == len(self.events)
        if not self._has(absent.name, steps) and not at_end:
            yield from self._pass_over(absent, (*steps, None))

    def _find_all(self, parts: tuple[Node, ...], steps: Steps) -> Iterator[Steps]:
        if not parts:
            yield steps
        elif isinstance(parts[0], Absent) and len(parts) == 1:
            yield from self._reach_end(parts[0], steps)
        else:
            for taken in self.find(parts[0], steps):
                yield from self._find_all(parts[1:], taken)

    def _reach_end(self, absent: Absent, steps: Steps) -> Iterator[Steps]:
        """Yield the steps so far where no event satisfies the negated one until the time is over."""
        if any(len(passed) == len(self.events) for passed in self._pass_over(absent, steps)):
            self.hungry |= not self.is_whole
            if self.is_whole:
                yield steps

    def _repeat(self, node: Repeat, steps: Steps, count: int) -> Iterator[Steps]:
        if not node.greedy and count >= node.least:
            yield steps
        if node.most is None or count < node.most:
            for taken in self.find(node.part, steps):
                yield from self._repeat(node, taken, count + 1)
        if node.greedy and count >= node.least:
            yield steps


def find_matches(
    tree: Node,
    events: Sequence[Event],
    *,
    time: Callable[[Event], float],
    holds: Holds,
    within: float = float("inf"),
    skip: SkipTo = SkipTo.PAST_LAST_ROW,
    skip_step: str | None = None,
) -> list[Match]:
    """Return the matches among all events of one key, which are sorted; nothing comes after them."""
    found: list[Match] = []
    start, clock = 0, float("-inf")
    while start < len(events):
        limit = time(events[start]) + within
        near = [event for event in events[start:] if time(event) <= limit]
        steps, decided = _attempt(tree, near, holds, time, limit)
        clock = max(clock, decided)
        if steps is not None:
            found.append(Match(start, steps, clock))
        start += 1 if steps is None else find_next(steps, skip, skip_step)
    return found


def _attempt(
    tree: Node, near: Sequence[Event], holds: Holds, time: Callable[[Event], float], limit: float
) -> tuple[Steps | None, float]:
    """Return the preferred way, and the time of the first event with which no other can be preferred any more."""
    for known in range(1, len(near) + 1):
        attempt = _Attempt(near[:known], holds, is_whole=False)
        steps = next(attempt.find(tree, ()), None)
        if not attempt.hungry:
            return steps, time(near[known - 1])
    return next(_Attempt(near, holds, is_whole=True).find(tree, ()), None), limit
