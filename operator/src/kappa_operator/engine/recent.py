"""What the API server answered a short time ago, so that a reconcile in which nothing happened sends it no request.

Each read states how old its answer may be. A watch event drops the answers that it concerns, also those under way. An
absent object is never remembered: it may be created at any moment. Requests for the same thing at the same time are one.

A `View` belongs to one reconcile and counts its hits. Remembered answers may only confirm that nothing is to be done: a
plan with actions that used one is decided again in a view with a `floor`, which accepts only answers to later requests.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

Answer = TypeVar("Answer")

SHORT, MINUTE, LONGEST = 5.0, 60.0, 600.0
"""Ages in seconds. What is older than the longest is forgotten."""


class _Known(NamedTuple):
    at: float
    answer: Any


class _Pending(NamedTuple):
    at: float
    task: "asyncio.Task[Any]"


@dataclass(slots=True)
class RecentReads:
    """Answers by what was asked. `limit` bounds every age: with 0 nothing is remembered."""

    clock: Callable[[], float] = time.monotonic
    limit: float = LONGEST
    _known: dict[Hashable, _Known] = field(default_factory=dict)
    _pending: dict[Hashable, _Pending] = field(default_factory=dict)
    _dropped: dict[Hashable, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._known)

    def drop(self, name: Hashable) -> None:
        """Forget an answer, and do not use one that is under way: something changed."""
        for answers in (self._known, self._pending, self._dropped):
            answers.pop(name, None)
        self._dropped[name] = self.clock()

    def find(self, name: Hashable, age: float, floor: float) -> _Known | None:
        """Return the answer that is no older than `age` seconds, and younger than the floor."""
        known = self._known.get(name)
        if known is None or known.at <= floor or self.clock() - known.at >= min(age, self.limit):
            return None
        return known

    async def load(self, name: Hashable, floor: float, load: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a new request, or to one that is under way and began above the floor."""
        pending = self._pending.get(name)
        if pending is None or pending.at <= floor:
            now = self.clock()
            pending = _Pending(now, asyncio.ensure_future(self._load(name, now, load)))
            self._pending[name] = pending
            pending.task.add_done_callback(lambda task: self._forget_task(name, task))
        answer: Answer = await asyncio.shield(pending.task)
        return answer

    async def _load(self, name: Hashable, begun: float, load: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await load()
        self._known.pop(name, None)
        if answer is not None and self._dropped.get(name, -1.0) < begun:
            self._dropped.pop(name, None)
            self._known[name] = _Known(begun, answer)
        self._evict()
        return answer

    def _forget_task(self, name: Hashable, task: "asyncio.Task[Any]") -> None:
        if name in self._pending and self._pending[name].task is task:
            del self._pending[name]

    def _evict(self) -> None:
        """Forget what is too old for all; the oldest come first."""
        limit = self.clock() - LONGEST
        while self._known and (name := next(iter(self._known))) and self._known[name].at < limit:
            del self._known[name]
        while self._dropped and (name := next(iter(self._dropped))) and self._dropped[name] < limit:
            del self._dropped[name]


@dataclass(slots=True)
class View:
    """The reads of one reconcile."""

    reads: RecentReads
    floor: float = float("-inf")
    hits: int = 0

    async def read(self, name: Hashable, age: float, load: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return an answer that is no older than `age` seconds; errors of a request are raised, and not remembered."""
        known = self.reads.find(name, age, self.floor)
        if known is None:
            return await self.reads.load(name, self.floor, load)
        self.hits += 1
        answer: Answer = known.answer
        return answer

    def drop(self, name: Hashable) -> None:
        """Forget an answer that proved wrong."""
        self.reads.drop(name)

    def renew(self) -> "View":
        """Return a view that accepts only answers to requests from now on."""
        return View(self.reads, self.reads.clock())
