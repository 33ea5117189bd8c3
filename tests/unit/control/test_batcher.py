"""Requests made at the same time share a call; each gets its own answer."""

import asyncio
from collections.abc import Sequence

import pytest

from kappa_operator.kafka.batcher import Batcher


class Calls:
    """Doubles numbers, refuses negative ones, and remembers its batches. A call ends when the `gate` is open."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.batches: list[list[int]] = []
        self.under_way = 0
        self.most_under_way = 0
        self._seconds = seconds

    async def __call__(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.begun.set()
        self.batches.append(list(items))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self._seconds)
        await self.gate.wait()
        self.under_way -= 1
        return [ValueError(f"{item} is negative") if item < 0 else item * 2 for item in items]


async def test_concurrent_requests_are_batched_into_one_call() -> None:
    calls = Calls()
    batcher: Batcher[int, int] = Batcher(calls, linger=0.01)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert calls.batches == [[0, 1, 2, 3, 4]]


async def test_a_full_batch_does_not_wait() -> None:
    calls = Calls()
    batcher: Batcher[int, int] = Batcher(calls, size=2, linger=60)
    assert await asyncio.gather(*(batcher.submit(n) for n in (1, 2))) == [2, 4]


async def test_an_error_of_one_item_fails_just_that_item() -> None:
    batcher: Batcher[int, int] = Batcher(Calls(), linger=0)
    results = await asyncio.gather(*(batcher.submit(n) for n in (1, -1, 2)), return_exceptions=True)
    assert [results[0], results[2]] == [2, 4]
    assert str(results[1]) == "-1 is negative"


async def test_an_error_of_the_call_fails_all_its_items() -> None:
    async def fail(_: Sequence[int]) -> Sequence[int]:
        raise ConnectionError("away")

    batcher: Batcher[int, int] = Batcher(fail, linger=0)
    results = await asyncio.gather(batcher.submit(1), batcher.submit(2), return_exceptions=True)
    assert [str(result) for result in results] == ["away", "away"]


async def test_no_more_calls_than_allowed_are_under_way_and_nothing_is_lost() -> None:
    calls = Calls(seconds=0.005)
    batcher: Batcher[int, int] = Batcher(calls, size=10, linger=0.001, parallel=2)
    results = await asyncio.gather(*(batcher.submit(n) for n in range(1000)))
    assert results == [n * 2 for n in range(1000)]
    assert calls.most_under_way == 2


async def test_what_comes_while_all_calls_are_under_way_shares_the_next_one() -> None:
    calls = Calls()
    calls.gate.clear()
    batcher: Batcher[int, int] = Batcher(calls, linger=0, parallel=1)
    first = asyncio.create_task(batcher.submit(0))
    await calls.begun.wait()
    rest = []
    for number in range(1, 6):
        rest.append(asyncio.create_task(batcher.submit(number)))
        await asyncio.sleep(0.001)
    calls.gate.set()
    assert await asyncio.gather(first, *rest) == [0, 2, 4, 6, 8, 10]
    assert calls.batches == [[0], [1, 2, 3, 4, 5]]


async def test_a_cancelled_caller_affects_no_other_call() -> None:
    batcher: Batcher[int, int] = Batcher(Calls(), linger=0.02)
    impatient = asyncio.create_task(batcher.submit(1))
    patient = asyncio.create_task(batcher.submit(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == 4
    with pytest.raises(asyncio.CancelledError):
        await impatient
