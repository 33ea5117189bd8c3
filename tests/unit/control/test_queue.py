"""The work queue holds each key once, works each alone, slows down what fails, and is fair between kinds and namespaces."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kappa_operator.backoff import Backoff
from kappa_operator.engine.keys import Key
from kappa_operator.engine.queue import HEAD_START, WorkQueue

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
    queue = WorkQueue(time, delays=Backoff(1, 5))
    delays = []
    for _ in range(5):
        delays.append(queue.failed(A))
        time.now += delays[-1]
        assert await queue.take() == A
    assert delays == [Backoff(1, 5).pause(failures, A) for failures in range(1, 6)]
    queue.done(A)
    assert queue.failed(A) <= 1


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


def build_keys(kind: str, count: int, namespace: str = "n") -> list[Key]:
    return [Key(kind, namespace, f"{number:04d}") for number in range(count)]


async def test_a_thousand_blocked_topics_leave_slots_to_pipelines() -> None:
    queue = WorkQueue(Time(), slots=100)
    for key in build_keys("Topic", 1000):
        queue.add(key)
    blocked = [await queue.take() for _ in range(50)]
    assert {key.kind for key in blocked} == {"Topic"}
    assert await is_idle(queue)
    for key in build_keys("Pipeline", 3):
        queue.add(key)
        assert await queue.take() == key
        queue.done(key)


async def test_a_third_group_finds_a_slot_beside_two_that_are_blocked() -> None:
    queue = WorkQueue(Time(), slots=90)
    for namespace in ("a", "b"):
        for key in build_keys("Topic", 500, namespace):
            queue.add(key)
    while not await is_idle(queue):
        pass
    assert queue.working < 90
    queue.add(Key("Topic", "c", "orders"))
    assert await queue.take() == Key("Topic", "c", "orders")


async def test_groups_share_slots_fairly() -> None:
    queue = WorkQueue(Time())
    for key in (*build_keys("Topic", 100), *build_keys("Pipeline", 2)):
        queue.add(key)
    assert [(await queue.take()).kind for _ in range(4)] == ["Pipeline", "Topic", "Pipeline", "Topic"]


async def test_events_come_before_timers_that_are_a_little_late() -> None:
    time = Time()
    queue = WorkQueue(time)
    for key in build_keys("Topic", 3):
        queue.add(key, 1)
    time.now = HEAD_START
    assert await queue.take() == Key("Topic", "n", "0000")
    queue.add(A)
    assert await queue.take() == A


async def test_events_do_not_starve_timers() -> None:
    time = Time()
    queue = WorkQueue(time)
    queue.add(B, 1)
    time.now = HEAD_START + 2
    queue.add(A)
    assert await queue.take() == B


async def test_a_timer_that_becomes_an_event_comes_once() -> None:
    time = Time()
    queue = WorkQueue(time)
    queue.add(A, 1)
    time.now = 2
    queue.add(A)
    assert await queue.take() == A
    queue.done(A)
    assert await is_idle(queue)


async def test_a_single_slot_is_enough_for_all() -> None:
    queue = WorkQueue(Time(), slots=1)
    for key in (A, B):
        queue.add(key)
    assert await queue.take() == A
    assert await is_idle(queue)
    queue.done(A)
    assert await queue.take() == B


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abcd"), st.integers(0, 5)),
        st.tuples(st.just("take"), st.just(""), st.just(0)),
        st.tuples(st.sampled_from(["done", "failed"]), st.sampled_from("abcd"), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 6)),
    ),
    max_size=80,
)


@given(STEPS, st.integers(1, 4))
def test_a_key_comes_when_it_is_due_never_twice_at_once_and_is_never_lost(
    steps: list[tuple[str, str, int]], slots: int
) -> None:
    """The model: `due` holds the earliest time that each key was asked for since it was taken last."""
    time = Time()
    queue = WorkQueue(time, slots=slots, delays=Backoff(1, 4))
    due: dict[Key, float] = {}
    working: list[Key] = []

    def take() -> None:
        key = queue.try_take()
        is_due = any(at <= time.now for at in due.values())
        assert key is not None or working or not is_due
        if key is not None:
            assert due.pop(key) <= time.now
            assert key not in working
            working.append(key)
            assert len(working) <= slots

    for what, name, number in steps:
        key = Key("Topic" if name in "ab" else "Pipeline", "n", name)
        if what == "add":
            queue.add(key, number)
            due[key] = min(due.get(key, float("inf")), time.now + number)
        elif what == "wait":
            time.now += number
        elif what == "take":
            take()
        elif key in working:
            working.remove(key)
            if what == "done":
                queue.done(key)
            else:
                due[key] = min(due.get(key, float("inf")), time.now + queue.failed(key))
    for key in working:
        queue.done(key)
    working.clear()
    time.now += 10
    while due:
        take()
        queue.done(working.pop())
    assert len(queue) == 0
