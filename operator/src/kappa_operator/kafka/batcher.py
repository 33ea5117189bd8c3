"""Many small requests become few large ones.

Each reconcile needs one topic; `Batcher` makes one call of concurrent requests. There
is no queue to overflow: what waits is bounded by the reconciles under way, and further work waits in the work queue,
which holds each resource once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Coalesces `submit` calls into calls of `run`.

    `run` gets up to `size` items and returns one result for each, an exception among them failing just its item.
    `linger` is the seconds to wait for company; at most `parallel` calls are under way.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        size: int = 500,
        linger: float = 0.02,
        parallel: int = 2,
    ) -> None:
        self._run = run
        self._size = size
        self._linger = linger
        self._free = parallel
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def submit(self, item: Item) -> Result:
        """Return the result for the item; raise what its call raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if len(self._waiting) >= self._size:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(self._linger, self._flush)
        return await future

    def _flush(self) -> None:
        """Start calls for what waits; what comes while all calls are under way goes into the next one together."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._free:
            batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._call(batch))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._run([item for item, _ in batch])
        except Exception as error:
            results = [error] * len(batch)
        finally:
            self._free += 1
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        self._flush()
