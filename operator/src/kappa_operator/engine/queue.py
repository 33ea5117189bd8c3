"""The work queue: level-triggered, each key once, due now or later, fair between kinds and namespaces.

A key that is added while it is worked on is worked on again afterwards; the same key is never worked on twice at once.
Failures delay a key by growing pauses.

Keys of one kind and namespace are a group. Groups take turns, and none may hold more slots than are free: the first
group that is blocked gets half of them, the next one a third of them, so that another group always finds one.

Within a group, events come before timers: a busy operator polls less often before it decides later. A timer that is
late by more than the head start of an event comes first, so events cannot starve it.
"""

import asyncio
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable

from kappa_operator import backoff
from kappa_operator.backoff import Backoff
from kappa_operator.engine.keys import Key

Entry = tuple[float, Key]
Group = tuple[str, str]
HEAD_START = 30.0
"""Seconds. An event counts as due so long ago."""


class WorkQueue:
    """Keys to reconcile: within a group the one that is due first, between groups in turn; at most `slots` at once."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        slots: int = 1000,
        delays: Backoff = backoff.QUEUE,
    ) -> None:
        self._clock = clock
        self._slots = slots
        self._delays = delays
        self._due: dict[Key, float] = {}
        self._later: list[Entry] = []
        self._ready: defaultdict[Group, list[Entry]] = defaultdict(list)
        self._working: set[Key] = set()
        self._held: Counter[Group] = Counter()
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    @property
    def working(self) -> int:
        """Return how many keys are being worked on."""
        return len(self._working)

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Reconcile the key after `delay` seconds, or sooner if an earlier call requires it. No delay is an event."""
        due = self._clock() + (delay or -HEAD_START)
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._later, (due, key))
            self._changed.set()

    async def take(self) -> Key:
        """Wait for a key that is due and has a slot; the caller must call `done` or `failed` for it."""
        while True:
            key = self.try_take()
            if key is not None:
                return key
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), self._get_wait())
            except TimeoutError:
                continue

    def try_take(self) -> Key | None:
        """Return a key that is due and has a slot, as `take` does; None where there is none now."""
        while self._later and self._later[0][0] <= self._clock():
            due, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                heapq.heappush(self._ready[_get_group(key)], (due, key))
        return self._pick()

    def _pick(self) -> Key | None:
        """Start the next key. One that is worked on loses its place here: it gets another one when that ends."""
        while (group := self._find_group()) is not None:
            entries = self._ready.pop(group)
            while entries:
                due, key = heapq.heappop(entries)
                if self._due.get(key) == due and key not in self._working:
                    if entries:
                        self._ready[group] = entries  # last now, as it had its turn
                    return self._start(group, key)
        return None

    def _find_group(self) -> Group | None:
        free = self._slots - len(self._working)
        return next((group for group in self._ready if self._held[group] < free), None)

    def _start(self, group: Group, key: Key) -> Key:
        del self._due[key]
        self._working.add(key)
        self._held[group] += 1
        return key

    def _get_wait(self) -> float | None:
        """Return the seconds until another key is due, None where there is none."""
        return max(0.0, self._later[0][0] - self._clock()) if self._later else None

    def done(self, key: Key) -> None:
        """End the work on the key, and forget its failures."""
        self._failures.pop(key, None)
        self._release(key)

    def failed(self, key: Key) -> float:
        """End the work on the key, which failed; it comes again after the delay that is returned."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = self._delays.pause(failures + 1, key)
        self.add(key, delay)
        self._release(key)
        return delay

    def _release(self, key: Key) -> None:
        if key in self._working:
            self._working.discard(key)
            self._held[_get_group(key)] -= 1
        if self._due.get(key, float("inf")) <= self._clock():
            heapq.heappush(self._later, (self._due[key], key))
        self._changed.set()


def _get_group(key: Key) -> Group:
    return key.kind, key.namespace
