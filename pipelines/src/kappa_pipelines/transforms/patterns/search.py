"""The search for matches in a stream, key by key: a step of `key_groups`.

Events wait until the watermark has passed them, sorted by time and then by a hash of their columns, so the order of arrival does not
matter. One attempt at a time follows all paths through the automaton at once, the preferred ones first. It ends when the first
remaining path is a match, when no path remains, or when the watermark has passed `within` after its first event. The next attempt
starts after `skip`, over the known events. The matches do not depend on how events are split into batches.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

from kappa_crds.pattern import SkipTo
from kappa_pipelines.transforms.key_groups import Row
from kappa_pipelines.transforms.patterns.automaton import AT_END, DONE, PASSED, START, Automaton
from kappa_pipelines.transforms.patterns.conditions import (
    Condition,
    Event,
    Expression,
    Navigation,
    compile_condition,
    find_navigations,
)
from kappa_pipelines.transforms.stored import Kept

NEVER = 1 << 62
"""A time, in microseconds, that no watermark reaches."""

Path = tuple[int, bytes]
"""The position of the last event, or `DONE`, and the step numbers of all events. Paths are in the order of preference."""
_DIGEST = ""
"""Key of a digest of the pattern in state of earlier releases; other keys are JSON."""
_FIRST: tuple[Path, ...] = ((START, b""),)
_LABELS = tuple(bytes((step,)) for step in range(256))


@dataclass(frozen=True)
class Search:
    """A pattern for the workers. Steps are numbers from 1 on.

    `earlier` has the conditions that refer to earlier events, by step; `decoders` decode the texts of operands. Times are
    microseconds. The state of a key: when to continue, events above the watermark, events of the attempt, its paths.
    """

    automaton: Automaton
    earlier: dict[int, Expression]
    decoders: tuple[Callable[[str], Any], ...]
    within: int | None
    skip: SkipTo
    skip_step: int

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterable[Row]:
        """Add new events and process those that the watermark has passed. See `key_groups.Step`."""
        kept.pop(_DIGEST, None)
        for (key, time, number, bits, _, needed), values in zip(rows, self._decode(rows), strict=True):
            state = kept.get(key)
            if state is None:
                kept[key] = [time, [[time, number, bits, values, needed]], [], _FIRST]
            else:
                state[1].append([time, number, bits, values, needed])
                state[0] = min(state[0], time)
        found: list[Row] = []
        for key, state in [item for item in kept.items() if item[1][0] <= watermark]:
            attempt = _Attempt(self, key, state[2], state[3], found)
            waiting = attempt.advance(state[1], watermark)
            if waiting or attempt.held:
                kept[key] = [attempt.find_wake(waiting), waiting, attempt.held, attempt.paths]
            else:
                del kept[key]
        return found

    def find_wake(self, kept: Kept) -> int | None:
        """Return when the next event or the end of an attempt is due."""
        wake = min((state[0] for state in kept.values()), default=NEVER)
        return None if wake >= NEVER else wake

    @cached_property
    def conditions(self) -> dict[int, Condition]:
        """Return the conditions that refer to earlier events, as functions."""
        return {step: compile_condition(expression) for step, expression in self.earlier.items()}

    @cached_property
    def remembered(self) -> tuple[Navigation, ...]:
        """Return the navigations of all conditions."""
        found = (nav for expression in self.earlier.values() for nav in find_navigations(expression))
        return tuple(dict.fromkeys(found))

    @cached_property
    def length(self) -> int:
        """Return the longest duration of a match."""
        return NEVER if self.within is None else self.within

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without functions, which cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name in type(self).__annotations__}

    def _decode(self, rows: Sequence[Row]) -> Iterable[list[Any]]:
        """Return the operands of each row, decoded column by column."""
        if not self.decoders or not rows:
            return repeat([], len(rows))
        texts = zip(*json.loads(f"[{','.join([row[4] for row in rows])}]"), strict=True)
        columns = (
            [None if text is None else decode(text) for text in column]
            for decode, column in zip(self.decoders, texts, strict=True)
        )
        return map(list, zip(*columns, strict=True))


class _Attempt:
    """The search of one key: the events from the start of the present attempt, and its remaining paths."""

    __slots__ = ("_found", "_key", "_search", "_seen", "held", "paths")

    def __init__(
        self, search: Search, key: str, held: list[Event], paths: tuple[Path, ...], found: list[Row]
    ) -> None:
        self._search, self._key, self._found = search, key, found
        self.held, self.paths = held, paths
        self._seen = len(held)

    def advance(self, waiting: list[Event], watermark: int) -> list[Event]:
        """Process the events that are due, in order; return the others."""
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
        """Return the next time at which to continue; `waiting` is sorted."""
        end = self.held[0][0] + self._search.length if self.held else NEVER
        return min(waiting[0][0] if waiting else NEVER, end, NEVER)

    def _end_before(self, time: int) -> None:
        """End the attempts that no event from this time on can extend."""
        while self.held and (limit := min(self.held[0][0] + self._search.length, NEVER)) < time:
            self._restart(self._find_end(), limit)
            self._follow(limit)

    def _find_end(self) -> bytes | None:
        """Return the steps of the preferred path that is a match without further events."""
        for position, path in self.paths:
            follow = self._search.automaton[position].follow
            if position == DONE or DONE in follow or AT_END in follow:
                return path.rstrip(b"\0")
        return None

    def _follow(self, clock: int) -> None:
        """Process the events that the attempt has not seen; end it when no event can change its result."""
        while self._seen < len(self.held):
            paths = self._step(self._seen)
            self._seen += 1
            if paths and paths[0][0] != DONE:
                self.paths = tuple(paths) if len(paths) == 1 else self._merge(paths)
            else:
                self._restart(paths[0][1] if paths else None, clock)

    def _restart(self, path: bytes | None, clock: int) -> None:
        """Emit the match, if there is one, and start the next attempt."""
        move = 1
        if path:
            self._found.append(self._build_row(path, clock))
            move = find_next(path, self._search.skip, self._search.skip_step)
        del self.held[:move]
        self.paths, self._seen = _FIRST, 0

    def _build_row(self, path: bytes, clock: int) -> Row:
        events = zip(path, self.held, strict=False)
        rows = ",".join([f'{{"s":{step},"v":{event[4]}}}' for step, event in events if step != PASSED])
        return self._key, f"[{rows}]", self.held[0][0], self.held[len(path) - 1][0], clock

    def _step(self, index: int) -> list[Path]:
        """Return the paths that remain with the event at this index."""
        automaton, conditions = self._search.automaton, self._search.conditions
        bits, left = self.held[index][2], []
        for position, path in self.paths:
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

    def _merge(self, paths: list[Path]) -> tuple[Path, ...]:
        """Drop each path with the same future as a preferred one, and those after a match."""
        search = self._search
        seen: dict[Any, Path] = {}
        for path in paths:
            past = tuple([nav.remember(path[1], self.held) for nav in search.remembered])
            seen.setdefault((path[0], past), path)
            if path[0] == DONE or DONE in search.automaton[path[0]].follow:
                break
        return tuple(seen.values())


def find_next(steps: Sequence[object], skip: SkipTo, step: object) -> int:
    """Return where the search continues after a match, counted from its start, at least 1."""
    if skip is SkipTo.PAST_LAST_ROW:
        return len(steps)
    if skip is SkipTo.NEXT_ROW or step not in steps:
        return 1
    indexes = [at for at, each in enumerate(steps) if each == step]
    return max(1, indexes[0] if skip is SkipTo.FIRST else indexes[-1])
