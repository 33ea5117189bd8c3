"""Slots that namespaces share, and steps of the event loop: a busy namespace leaves room for the others."""

import asyncio
import time

from fakes.context import Operator, build_resource
from kappa_operator.engine.controller import Controller
from kappa_operator.engine.keys import Key
from kappa_operator.engine.queue import WorkQueue
from kappa_operator.fair import FairSlots, Turns
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings


async def hold(slots: FairSlots, group: str, end: asyncio.Event, held: list[str]) -> None:
    async with slots.hold(group):
        held.append(group)
        await end.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_busy_namespace_leaves_half_of_the_slots_free() -> None:
    slots, end, held = FairSlots(8), asyncio.Event(), list[str]()
    tasks = [asyncio.create_task(hold(slots, "busy", end, held)) for _ in range(100)]
    await settle()
    assert held == ["busy"] * 4
    tasks.append(asyncio.create_task(hold(slots, "other", end, held)))
    await settle()
    assert held[-1] == "other", "another namespace finds a slot at once"
    end.set()
    await asyncio.gather(*tasks)
    assert slots.free == 8 and len(held) == 101


async def test_namespaces_that_wait_take_turns() -> None:
    slots, end, held = FairSlots(1), asyncio.Event(), list[str]()
    first = asyncio.create_task(hold(slots, "a", end, held))
    await settle()
    rest = [asyncio.create_task(hold(slots, group, end, held)) for group in ("a", "a", "a", "b", "c")]
    await settle()
    end.set()
    await asyncio.gather(first, *rest)
    assert held == ["a", "a", "b", "c", "a", "a"]


async def test_who_stops_waiting_takes_no_slot_with_it() -> None:
    slots, end, held = FairSlots(1), asyncio.Event(), list[str]()
    first = asyncio.create_task(hold(slots, "a", end, held))
    await settle()
    given_up = asyncio.create_task(hold(slots, "b", end, held))
    await settle()
    end.set()
    await settle()
    given_up.cancel()
    await asyncio.gather(first, given_up, return_exceptions=True)
    assert slots.free == 1
    async with slots.hold("b"):
        assert slots.free == 0


async def test_a_slot_that_is_granted_to_a_cancelled_task_comes_back() -> None:
    slots, end, held = FairSlots(1), asyncio.Event(), list[str]()
    first = asyncio.create_task(hold(slots, "a", end, held))
    await settle()
    waiting = asyncio.create_task(hold(slots, "b", end, held))
    await settle()
    end.set()
    first.add_done_callback(lambda _: waiting.cancel())
    await asyncio.gather(first, waiting, return_exceptions=True)
    assert slots.free == 1


async def test_a_round_of_the_event_loop_has_one_step_of_each_group() -> None:
    turns, rounds, steps = Turns(), 0, list[tuple[str, int]]()

    async def step(group: str) -> None:
        async with turns.take(group):
            steps.append((group, rounds))

    tasks = [asyncio.create_task(step(group)) for group in ["large"] * 5 + ["other"]]
    while not all(task.done() for task in tasks):
        rounds += 1
        await asyncio.sleep(0)
    large = [at for group, at in steps if group == "large"]
    assert len(set(large)) == 5, "no two in the same round"
    assert steps.index(next(each for each in steps if each[0] == "other")) == 1, "the other one does not wait"


async def test_a_topic_is_ready_before_the_hundredth_of_two_thousand_objects_of_another_namespace() -> None:
    operator = Operator(KIND_TABLE, settings=Settings(limit_topics=50))
    for namespace in ("attacker", "team"):
        operator.cluster.put(
            build_resource("KafkaCluster", "main", namespace, bootstrapServers=["kafka:9092"])
        )
        await operator.reconcile(Key("KafkaCluster", namespace, "main"))
    queue, last = WorkQueue(time.monotonic), Key("Topic", "team", "last")
    for number in range(2000):
        operator.cluster.put(build_resource("Topic", f"t{number}", "attacker", topicName=f"x{number % 50}"))
        queue.add(Key("Topic", "attacker", f"t{number}"))
    operator.cluster.put(build_resource("Topic", "last", "team"))
    queue.add(last)
    task = asyncio.create_task(Controller(operator.context, queue).run())
    while operator.cache.is_waiting(last):
        assert not task.done()
        await asyncio.sleep(0)
    decided = sum(
        count for (kind, state), count in operator.cache.count_states().items() if kind == "Topic" and state
    )
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert decided < 100
