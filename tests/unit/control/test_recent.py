"""What the API server answered before confirms that nothing is to be done; whatever changes something is decided on new answers."""

import asyncio
from typing import Any

import pytest

from fakes.cluster import Body
from fakes.context import build_secret
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.recent import LONGEST, MINUTE, RecentReads, View
from kappa_operator.errors import ApiUnavailable
from unit.control.lives import PIPELINE, SPEC, Life, write


class Source:
    """Answers with its value, and counts the requests."""

    def __init__(self, value: Any = "first") -> None:
        self.value, self.requests, self.now = value, 0, 1000.0
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads = RecentReads(lambda: self.now)

    async def load(self) -> Any:
        self.requests += 1
        value = self.value
        await self.gate.wait()
        if isinstance(value, Exception):
            raise value
        return value

    async def read(self, age: float = MINUTE, view: View | None = None) -> Any:
        return await (view or View(self.reads)).read("it", age, self.load)


async def test_an_answer_serves_until_it_is_too_old_for_the_reader() -> None:
    source = Source()
    await source.read()
    source.now, source.value = source.now + 59.0, "second"
    assert (await source.read(), source.requests) == ("first", 1)
    assert (await source.read(age=5.0), source.requests) == ("second", 2)
    assert (await source.read(age=0.0), source.requests) == ("second", 3)


async def test_what_is_absent_or_failed_is_not_remembered() -> None:
    source = Source(None)
    assert await source.read() is None
    source.value = ApiUnavailable("busy")
    with pytest.raises(ApiUnavailable):
        await source.read()
    source.value = "there"
    assert (await source.read(), source.requests) == ("there", 3)


async def test_a_thousand_readers_at_once_send_one_request() -> None:
    source = Source()
    assert set(await asyncio.gather(*(source.read() for _ in range(1000)))) == {"first"}
    assert source.requests == 1


async def test_an_answer_under_way_is_not_remembered_after_an_event() -> None:
    source = Source()
    source.gate.clear()
    reading = asyncio.ensure_future(source.read())
    await asyncio.sleep(0.01)
    source.now += 1.0
    source.reads.drop("it")
    source.now += 1.0
    source.value = "second"
    source.gate.set()
    assert await source.read() == "second"
    assert await reading == "first"
    assert await source.read() == "second"


async def test_a_renewed_view_takes_neither_an_answer_nor_a_request_from_before() -> None:
    source = Source()
    await source.read()
    source.now += 1.0
    source.gate.clear()
    reading = asyncio.ensure_future(source.read(age=0.0))
    await asyncio.sleep(0.01)
    source.value = "second"
    source.gate.set()
    assert await source.read(view=View(source.reads).renew()) == "second"
    await reading


async def test_a_reader_that_is_cancelled_leaves_the_request_to_others() -> None:
    source = Source()
    source.gate.clear()
    first, second = (asyncio.ensure_future(source.read()) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    source.gate.set()
    assert (await second, source.requests) == ("first", 1)


async def test_unused_entries_are_dropped() -> None:
    source = Source()
    for number in range(1000):
        await View(source.reads).read(number, MINUTE, source.load)
        source.reads.drop(-number)
    source.now += LONGEST + 1.0
    await source.read()
    assert len(source.reads) == 1


class Counting:
    """Counts the requests that read something, by kind."""

    def __init__(self, life: Life) -> None:
        self.requests: list[str] = []
        cluster = life.operator.cluster
        get, list_objects = cluster.get, cluster.list_objects

        async def count_get(ref: ObjectRef) -> Body | None:
            self.requests.append(f"get {ref.kind}")
            return await get(ref)

        async def count_list(api_version: str, kind: str, *rest: Any, **more: Any) -> list[Body]:
            self.requests.append(f"list {kind}")
            return await list_objects(api_version, kind, *rest, **more)

        cluster.get, cluster.list_objects = count_get, count_list  # type: ignore[method-assign]


async def run() -> tuple[Life, Counting]:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    await life.operator.reconcile(PIPELINE)
    return life, Counting(life)


async def test_a_pipeline_that_runs_costs_no_request() -> None:
    life, counting = await run()
    for _ in range(10):
        life.operator.clock.advance(3.0)
        await life.operator.reconcile(PIPELINE)
    assert counting.requests == []


async def test_a_silent_driver_is_listed_within_seconds_without_an_event() -> None:
    life, counting = await run()
    life.operator.misses_pods = True
    (pod,) = life.operator.cluster.find("v1", "Pod", "shop")
    life.operator.drivers.progress.clear()
    life.operator.cluster.remove(ObjectRef.of(pod))
    life.operator.clock.advance(6.0)
    await life.operator.reconcile(PIPELINE)
    assert "list Pod" in counting.requests
    await life.settle()
    (again,) = life.operator.cluster.find("v1", "Pod", "shop")
    assert again["metadata"]["name"] != pod["metadata"]["name"]


async def test_before_a_driver_is_made_the_pods_are_listed() -> None:
    life, counting = await run()
    life.operator.misses_pods = True
    write({**SPEC, "suspend": True})(life)
    await life.settle()
    counting.requests.clear()
    write(SPEC)(life)
    await life.settle()
    assert "list Pod" in counting.requests
    assert life.node.most_alive <= 1


async def test_a_new_token_is_read_after_the_driver_refused_the_old_one() -> None:
    life, counting = await run()
    ref = next(
        ObjectRef.of(body)
        for body in life.operator.cluster.find("v1", "Secret", "shop")
        if "token" in body.get("data", {})
    )
    life.operator.cluster.put(build_secret(ref.name, token="another"))
    life.operator.drivers.progress.clear()
    await life.operator.reconcile(PIPELINE)
    await life.operator.reconcile(PIPELINE)
    assert counting.requests.count("get Secret") >= 1
