"""The work queue holds each key once, works each alone, and slows down what fails."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kappa_operator.engine.keys import Key
from kappa_operator.engine.queue import WorkQueue

A, B = Key("Topic", "n", "a"), Key("Topic", "n", "b")


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def is_idle(queue: WorkQueue) -> bool:
    try:
        await asyncio.wait_for(queue.take(), 0.02)
    except TimeoutError:
        return True
    return False


async def test_a_key_added_twice_comes_once() -> None:
    queue = WorkQueue(Time())
    queue.add(A)
    queue.add(A)
    assert await queue.take() == A
    queue.done(A)
    assert await is_idle(queue)


async def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue = WorkQueue(Time())
    queue.add(A)
    assert await queue.take() == A
    queue.add(A)
    assert await is_idle(queue)
    queue.done(A)
    assert await queue.take() == A


async def test_a_key_that_is_due_later_waits_and_an_earlier_wish_wins() -> None:
    time = Time()
    queue = WorkQueue(time)
    queue.add(A, 50)
    queue.add(B, 10)
    queue.add(A, 5)
    queue.add(A, 70)
    time.now = 6
    assert await queue.take() == A
    time.now = 11
    assert await queue.take() == B


async def test_failures_double_the_delay_until_success_forgets_them() -> None:
    time = Time()
    queue = WorkQueue(time, first_delay=1, last_delay=5)
    delays = []
    for _ in range(5):
        delays.append(queue.failed(A))
        time.now += delays[-1]
        assert await queue.take() == A
    assert delays == [1, 2, 4, 5, 5]
    queue.done(A)
    assert queue.failed(A) == 1


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 20)), max_size=60))
async def test_every_key_comes_exactly_once_for_its_soonest_wish(wishes: list[tuple[str, int]]) -> None:
    time = Time()
    queue = WorkQueue(time)
    soonest: dict[Key, int] = {}
    for name, delay in wishes:
        key = Key("Topic", "n", name)
        queue.add(key, delay)
        soonest[key] = min(delay, soonest.get(key, delay))
    seen = []
    for now in range(21):
        time.now = float(now)
        for _ in [key for key, due in soonest.items() if due == now]:
            key = await asyncio.wait_for(queue.take(), 1)
            assert soonest[key] == now
            seen.append(key)
            queue.done(key)
    assert sorted(seen) == sorted(soonest)
