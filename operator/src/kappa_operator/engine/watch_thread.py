"""The thread of the watches, with an event loop of its own.

kopf takes one event of a watch in each round of its event loop. In the operator's event loop a round lasts as long as all that is ready
in it, 30 ms where one namespace causes much work, and the events of the others would wait behind that namespace's (ADR 56).
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

Step = Callable[[], Coroutine[Any, Any, None]]
SWITCH_SECONDS = 0.0005
"""The longest wait of one thread for another one that computes. With Python's default of 5 ms, each round of the watches would wait so long."""


class WatchThread:
    """Created in the operator's event loop, which runs what is handed over."""

    def __init__(self) -> None:
        self._owner = asyncio.get_running_loop()
        self._inside: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = (
            self._owner.create_future()
        )

    def hand_over(self, function: Callable[..., object], *arguments: object) -> None:
        """Have the operator's event loop call a function, in the order of these calls. The thread calls this."""
        with suppress(RuntimeError):  # it is closed: the operator ends
            self._owner.call_soon_threadsafe(function, *arguments)

    async def call(self, step: Step) -> None:
        """Run a coroutine in the thread, as soon as that runs, and wait for it."""
        loop, _ = await asyncio.shield(self._inside)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step(), loop))

    async def run(self, watch: Step) -> None:
        """Run a coroutine in the thread until it ends or this is cancelled; raise its error."""

        async def run_inside() -> None:
            inside = asyncio.get_running_loop(), asyncio.current_task()
            self.hand_over(self._inside.set_result, inside)
            await watch()

        ended = asyncio.ensure_future(asyncio.to_thread(asyncio.run, run_inside()))
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            await self._end(ended)
            raise

    async def _end(self, ended: "asyncio.Future[None]") -> None:
        loop, task = await self._inside
        if task is not None and not ended.done():
            with suppress(RuntimeError):  # the thread's loop was closed meanwhile
                loop.call_soon_threadsafe(task.cancel)
        with suppress(asyncio.CancelledError):
            await ended
