"""The thread of the watches: what it hands over arrives in order, it ends with the operator, and its error ends the operator."""

import asyncio
import threading

import pytest

from kappa_operator.engine.watch_thread import WatchThread


async def test_what_is_handed_over_runs_in_the_event_loop_of_the_operator_in_order() -> None:
    thread, found, done = WatchThread(), list[tuple[int, bool]](), asyncio.Event()
    owner = threading.get_ident()

    def note(number: int) -> None:
        found.append((number, threading.get_ident() == owner))

    async def watch() -> None:
        assert threading.get_ident() != owner
        for number in range(1000):
            thread.hand_over(note, number)
        thread.hand_over(done.set)
        await asyncio.Event().wait()

    running = asyncio.create_task(thread.run(watch))
    async with asyncio.timeout(20):
        await done.wait()
    assert found == [(number, True) for number in range(1000)]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_call_waits_for_the_start_and_runs_in_the_thread() -> None:
    thread, where = WatchThread(), list[int]()

    async def step() -> None:
        where.append(threading.get_ident())

    async def watch() -> None:
        where.append(threading.get_ident())
        await asyncio.Event().wait()

    called = asyncio.create_task(thread.call(step))
    await asyncio.sleep(0)
    assert not where
    running = asyncio.create_task(thread.run(watch))
    async with asyncio.timeout(20):
        await called
    assert len(where) == 2 and len(set(where)) == 1 and where[0] != threading.get_ident()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_error_of_the_watches_is_raised() -> None:
    async def watch() -> None:
        raise RuntimeError("kopf ended")

    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="kopf ended"):
            await WatchThread().run(watch)


async def test_the_thread_has_ended_its_watches_when_a_cancellation_returns() -> None:
    ended, thread, started = threading.Event(), WatchThread(), asyncio.Event()

    async def watch() -> None:
        thread.hand_over(started.set)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)  # kopf ends its own tasks
            ended.set()

    running = asyncio.create_task(thread.run(watch))
    async with asyncio.timeout(20):
        await started.wait()
        running.cancel()
        await asyncio.wait([running])
    assert ended.is_set()
