"""The work queue: level-triggered, each key once, due now or later.

A key that is added while it is being worked on is worked on again afterwards; the same key is never worked on twice
at once. Failures delay a key, doubling from `first_delay` to `last_delay` seconds.
"""

import asyncio
import heapq
from collections.abc import Callable

from kappa_operator.engine.keys import Key


class WorkQueue:
    """Keys that want a look, soonest first."""

    def __init__(
        self, clock: Callable[[], float], *, first_delay: float = 1.0, last_delay: float = 300.0
    ) -> None:
        self._clock = clock
        self._first_delay = first_delay
        self._last_delay = last_delay
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._working: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    @property
    def working(self) -> int:
        """Return how many keys are being worked on."""
        return len(self._working)

    def due_within(self, seconds: float) -> int:
        """Return how many keys want a look within so many seconds; 0 gives the backlog."""
        limit = self._clock() + seconds
        return sum(1 for due in self._due.values() if due <= limit)

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Have the key looked at after `delay` seconds, or sooner if it was asked for sooner."""
        due = self._clock() + delay
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            self._changed.set()

    async def take(self) -> Key:
        """Wait for a key that is due and that nobody works on; the caller must call `done` or `failed` for it."""
        while True:
            wait = self._pop_or_wait()
            if isinstance(wait, Key):
                return wait
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), wait)
            except TimeoutError:
                continue

    def _pop_or_wait(self) -> Key | float | None:
        held: list[tuple[float, Key]] = []
        try:
            while self._heap:
                due, key = self._heap[0]
                if self._due.get(key) != due:
                    heapq.heappop(self._heap)
                elif due > self._clock():
                    return due - self._clock()
                elif key in self._working:
                    held.append(heapq.heappop(self._heap))
                else:
                    heapq.heappop(self._heap)
                    del self._due[key]
                    self._working.add(key)
                    return key
            return None
        finally:
            for entry in held:
                heapq.heappush(self._heap, entry)

    def done(self, key: Key) -> None:
        """Say that the key was worked on, and forget its failures."""
        self._working.discard(key)
        self._failures.pop(key, None)
        self._changed.set()

    def failed(self, key: Key) -> float:
        """Say that work on the key failed; it comes again after the delay that is returned."""
        self._working.discard(key)
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay: float = min(self._last_delay, self._first_delay * 2**failures)
        self.add(key, delay)
        self._changed.set()
        return delay

    def forget(self, key: Key) -> None:
        """Drop a key whose resource is gone."""
        self._due.pop(key, None)
        self._failures.pop(key, None)
