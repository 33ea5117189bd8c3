"""Slots that namespaces share: what is slow or large in one of them never takes all of them.

A group, mostly a namespace, may hold no more slots than are free, as in the work queue: the first busy group gets half of them, the
next one a third. So another group finds one at once, or as soon as any call ends. Groups that wait take turns.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Waiting = deque["asyncio.Future[None]"]


class FairSlots:
    """So many slots; `hold` waits for one."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, Waiting] = {}

    @property
    def free(self) -> int:
        """Return how many slots are free."""
        return self._free

    @asynccontextmanager
    async def hold(self, group: str) -> AsyncIterator[None]:
        """Hold a slot in the block."""
        await self._acquire(group)
        try:
            yield
        finally:
            self._release(group)

    async def _acquire(self, group: str) -> None:
        if group not in self._waiting and self._may_start(group):
            self._take(group)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(group)
            raise

    def _may_start(self, group: str) -> bool:
        return self._held[group] < self._free

    def _take(self, group: str) -> None:
        self._free -= 1
        self._held[group] += 1

    def _release(self, group: str) -> None:
        self._free += 1
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]
        self._grant()

    def _grant(self) -> None:
        """Start what waits and may start, one of each group in turn."""
        while (group := next(filter(self._may_start, self._waiting), None)) is not None:
            turns = self._waiting.pop(group)
            turn = turns.popleft()
            if turns:
                self._waiting[group] = turns  # last now, as it had its turn
            if not turn.done():
                self._take(group)
                turn.set_result(None)


class Turns:
    """Steps that hold up the event loop: in each of its rounds one step of a group."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def take(self, group: str) -> AsyncIterator[None]:
        """Wait until the group may do its next step; the block is that step."""
        self._users[group] += 1
        try:
            async with self._locks.setdefault(group, asyncio.Lock()):
                yield
                await asyncio.sleep(0)
        finally:
            self._users[group] -= 1
            if not self._users[group]:
                del self._users[group], self._locks[group]
