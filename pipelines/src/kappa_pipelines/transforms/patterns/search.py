"""The search for matches as events come, key by key: a step of `buckets`.

Events wait until the watermark has passed them, sorted by time and, at one time, by a hash of all that they hold: so nothing
depends on the order in which they came. Then one attempt at a time follows all ways through the automaton at once, the
preferred ones first. It is over when the first way that is left is a match, when none is left, or when the watermark says
that nothing else can come `within` the time of its first event. The next attempt begins where `skip` says, over
the known events. The matches do not depend on how events are split into batches.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

from kappa_crds.pattern import SkipTo
from kappa_pipelines.transforms.key_groups import Kept, Row
from kappa_pipelines.transforms.patterns.automaton import AT_END, DONE, PASSED, START, Automaton
from kappa_pipelines.transforms.patterns.conditions import (
    Condition,
    Event,
    Expression,
    Navigation,
    compile_condition,
    find_navigations,
)

NEVER = 1 << 62
"""A time, in microseconds, that no watermark reaches."""

Way = tuple[int, bytes]
"""The position of the last event, or `DONE`, and the steps of all, by number. Ways are in the order of preference."""
_MEANING = ""
"""Key of the meaning among what is kept; those of events are JSON."""
OTHER_PATTERN = "the state was kept by another pattern"
_FIRST: tuple[Way, ...] = ((START, b""),)
_LABELS = tuple(bytes((step,)) for step in range(256))


@dataclass(frozen=True)
class Search:
    """All that the workers need to know of a pattern. Steps are numbers from 1 on.

    `meaning` tells patterns apart: what one has kept cannot be read by another.
    `earlier` has the conditions that look at earlier events, by step; `decoders` make values of the operands' texts. Times are
    microseconds. What is kept of a key: when to go on, events above the watermark, those of the attempt, its ways.
    """

    meaning: str
    automaton: Automaton
    earlier: dict[int, Expression]
    decoders: tuple[Callable[[str], Any], ...]
    within: int | None
    skip: SkipTo
    skip_step: int

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterable[Row]:
        """Take up new events and go on with those that the watermark has passed. See `buckets.Step`.

        ValueError where another pattern has kept it.
        """
        if kept.setdefault(_MEANING, [2 * NEVER, self.meaning])[1] != self.meaning:
            raise ValueError(OTHER_PATTERN)
        for (key, time, number, bits, _, needed), values in zip(rows, self._decode(rows), strict=True):
            state = kept.get(key)
            if state is None:
                kept[key] = [time, [(time, number, bits, values, needed)], [], _FIRST]
            else:
                state[1].append((time, number, bits, values, needed))
                state[0] = min(state[0], time)
        found: list[Row] = []
        for key, state in [item for item in kept.items() if item[1][0] <= watermark]:
            attempt = _Attempt(self, key, state[2], state[3], found)
            waiting = attempt.go_on(state[1], watermark)
            if waiting or attempt.held:
                kept[key] = [attempt.find_wake(waiting), waiting, attempt.held, attempt.ways]
            else:
                del kept[key]
        return found

    def find_wake(self, kept: Kept) -> int | None:
        """Return when the next event or the end of an attempt is due."""
        wake = min((state[0] for state in kept.values()), default=NEVER)
        return None if wake >= NEVER else wake

    @cached_property
    def conditions(self) -> dict[int, Condition]:
        """Return the conditions that look at earlier events, as functions."""
        return {step: compile_condition(expression) for step, expression in self.earlier.items()}

    @cached_property
    def remembered(self) -> tuple[Navigation, ...]:
        """Return what of the past conditions can tell apart."""
        found = (nav for expression in self.earlier.values() for nav in find_navigations(expression))
        return tuple(dict.fromkeys(found))

    @cached_property
    def length(self) -> int:
        """Return how long a match can be, in time."""
        return NEVER if self.within is None else self.within

    def __getstate__(self) -> dict[str, Any]:
        """Leave out functions, which cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name in type(self).__annotations__}

    def _decode(self, rows: Sequence[Row]) -> Iterable[tuple[Any, ...]]:
        """Return the operands of each row, read all at once."""
        if not self.decoders or not rows:
            return repeat((), len(rows))
        texts = zip(*json.loads(f"[{','.join([row[4] for row in rows])}]"), strict=True)
        columns = (
            [None if text is None else decode(text) for text in column]
            for decode, column in zip(self.decoders, texts, strict=True)
        )
        return zip(*columns, strict=True)


class _Attempt:
    """The search of one key: the events from the start of the present attempt on, and the ways that are left of it."""

    __slots__ = ("_found", "_key", "_search", "_seen", "held", "ways")

    def __init__(
        self, search: Search, key: str, held: list[Event], ways: tuple[Way, ...], found: list[Row]
    ) -> None:
        self._search, self._key, self._found = search, key, found
        self.held, self.ways = held, ways
        self._seen = len(held)

    def go_on(self, waiting: list[Event], watermark: int) -> list[Event]:
        """Take the events that are due, in order; return those that are not."""
        waiting.sort()
        taken = 0
        for event in waiting:
            if event[0] > watermark:
                break
            self._end_before(event[0])
            self.held.append(event)
            self._follow(event[0])
            taken += 1
        self._end_before(watermark + 1)
        return waiting[taken:]

    def find_wake(self, waiting: list[Event]) -> int:
        """Return when there is something to do next; `waiting` is sorted."""
        end = self.held[0][0] + self._search.length if self.held else NEVER
        return min(waiting[0][0] if waiting else NEVER, end, NEVER)

    def _end_before(self, time: int) -> None:
        """End the attempts to which nothing can be added from this time on."""
        while self.held and (limit := min(self.held[0][0] + self._search.length, NEVER)) < time:
            self._begin_again(self._find_end(), limit)
            self._follow(limit)

    def _find_end(self) -> bytes | None:
        """Return the steps of the preferred way that is a match if nothing more comes."""
        for position, path in self.ways:
            follow = self._search.automaton[position].follow
            if position == DONE or DONE in follow or AT_END in follow:
                return path.rstrip(b"\0")
        return None

    def _follow(self, clock: int) -> None:
        """Take the events that are held and not seen by the attempt; end it where nothing can change it any more."""
        while self._seen < len(self.held):
            ways = self._step(self._seen)
            self._seen += 1
            if ways and ways[0][0] != DONE:
                self.ways = tuple(ways) if len(ways) == 1 else self._merge(ways)
            else:
                self._begin_again(ways[0][1] if ways else None, clock)

    def _begin_again(self, path: bytes | None, clock: int) -> None:
        """Give out the match, if there is one, and begin the next attempt."""
        move = 1
        if path:
            self._found.append(self._build_row(path, clock))
            move = find_next(path, self._search.skip, self._search.skip_step)
        del self.held[:move]
        self.ways, self._seen = _FIRST, 0

    def _build_row(self, path: bytes, clock: int) -> Row:
        events = zip(path, self.held, strict=False)
        rows = ",".join([f'{{"s":{step},"v":{event[4]}}}' for step, event in events if step != PASSED])
        return self._key, f"[{rows}]", self.held[0][0], self.held[len(path) - 1][0], clock

    def _step(self, place: int) -> list[Way]:
        """Return the ways that are left with the event at this place."""
        automaton, conditions = self._search.automaton, self._search.conditions
        bits, left = self.held[place][2], []
        for position, path in self.ways:
            if position == DONE:
                left.append((DONE, path))
                continue
            for number in automaton[position].follow:
                if number == DONE:
                    left.append((DONE, path))
                elif number != AT_END:
                    at = automaton[number]
                    taken, holds = path + _LABELS[at.step], bits >> at.step & 1
                    if holds and at.step in conditions:
                        holds = conditions[at.step](taken, self.held) is True
                    if holds != at.absent:
                        is_done = at.follow[0] == DONE
                        left.append((DONE if is_done else number, path + b"\0" if at.absent else taken))
        return left

    def _merge(self, ways: list[Way]) -> tuple[Way, ...]:
        """Leave out each way that has the same future as one that is preferred to it, or that comes after a match."""
        search = self._search
        seen: dict[Any, Way] = {}
        for way in ways:
            past = tuple([nav.remember(way[1], self.held) for nav in search.remembered])
            seen.setdefault((way[0], past), way)
            if way[0] == DONE or DONE in search.automaton[way[0]].follow:
                break
        return tuple(seen.values())


def find_next(steps: Sequence[object], skip: SkipTo, step: object) -> int:
    """Return where the search goes on after a match, counted from its start; never at the start itself."""
    if skip is SkipTo.PAST_LAST_ROW:
        return len(steps)
    if skip is SkipTo.NEXT_ROW or step not in steps:
        return 1
    places = [at for at, each in enumerate(steps) if each == step]
    return max(1, places[0] if skip is SkipTo.FIRST else places[-1])
