"""The cache follows the API server: by watch events, and by complete lists where a watch has missed some."""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from fakes.context import Operator, build_resource
from fakes.queue import count_due
from kappa_operator.engine.controller import Controller
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.queue import WorkQueue
from kappa_operator.engine.sync import CacheSync
from kappa_operator.errors import ApiUnavailable, NotFound, Refused
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings
from kappa_operator.telemetry.health import PendingWatchEvents

CLUSTER = Key("KafkaCluster", "shop", "main")
ORDERS = Key("Topic", "shop", "orders")


class Shop:
    """An operator with a Kafka cluster and topics, whose watch can be cut off."""

    def __init__(self, *topics: str, settings: Settings | None = None) -> None:
        self.operator = Operator(KIND_TABLE, settings=settings)
        self.cluster, self.cache = self.operator.cluster, self.operator.cache
        self.queue = WorkQueue(time.monotonic)
        self.pending_events = PendingWatchEvents(time.monotonic)
        self.controller = Controller(self.operator.context, self.queue)
        self.sync = CacheSync(self.operator.context, self.queue, self.controller, self.pending_events)
        self.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
        for name in topics:
            self.cluster.put(build_resource("Topic", name))

    async def settle(self) -> None:
        """Have everything reconciled."""
        await self.operator.settle(CLUSTER)
        for key in self.cache.find("Topic", "shop"):
            await self.operator.settle(key)

    def cut_watch(self) -> None:
        """No event arrives any more."""
        self.cluster.unsubscribe_all()

    def read(self, key: Key) -> dict[str, Any]:
        """Return a resource as the API server has it."""
        body = self.operator.get(key)
        assert body is not None
        return body

    def note(self, key: Key, event: str | None) -> None:
        """Have the watch show a resource."""
        self.sync.note({"type": event, "object": self.read(key)})

    def take_due(self) -> set[Key]:
        """Return what is due now, and take it off the queue."""
        found = set()
        while (key := self.queue.try_take()) is not None:
            self.queue.done(key)
            found.add(key)
        return found


def name(kind: str, key: str) -> ObjectRef:
    return ObjectRef("kappa-platform.io/v1alpha1", kind, "shop", key)


def has_first(page: list[dict[str, Any]]) -> bool:
    return any(body["metadata"]["name"] == "a" for body in page)


async def test_a_topic_whose_deletion_no_watch_showed_is_not_made_again_in_kafka() -> None:
    shop = Shop("orders", "payments")
    await shop.settle()
    shop.cut_watch()
    shop.cluster.patch(name("Topic", "orders"), metadata={"finalizers": []})
    shop.cluster.remove(name("Topic", "orders"))
    del shop.operator.brokers["kafka:9092"].topics["orders"]
    await shop.sync.sync()
    assert shop.cache.find("Topic", "shop") == [Key("Topic", "shop", "payments")]
    assert ORDERS in shop.take_due(), "what is remembered of it is dropped"
    await shop.operator.reconcile(ORDERS)
    assert set(shop.operator.brokers["kafka:9092"].topics) == {"payments"}


async def test_a_change_that_no_watch_showed_is_read_with_the_next_sync() -> None:
    shop = Shop("orders")
    shop.cut_watch()
    shop.cluster.put(build_resource("Topic", "orders", partitions=7))
    shop.cluster.put(build_resource("Topic", "payments"))
    await shop.sync.sync()
    changed = shop.cache.get(ORDERS)
    assert changed is not None
    assert changed.spec.partitions == 7
    assert shop.cache.find("Topic", "shop")[1] == Key("Topic", "shop", "payments")


async def test_a_topic_that_is_made_again_after_its_list_began_stays_though_it_is_not_in_it() -> None:
    shop = Shop("a", "b", "orders")
    shop.cut_watch()
    shop.cluster.remove(name("Topic", "orders"))

    def make_again(page: list[dict[str, Any]]) -> None:
        if has_first(page):
            shop.cache.put(shop.cluster.put(build_resource("Topic", "orders", partitions=7)))

    shop.cluster.between_pages = make_again
    await shop.sync.sync()
    kept = shop.cache.get(ORDERS)
    assert kept is not None
    assert kept.spec.partitions == 7


async def test_a_new_topic_that_is_made_after_its_list_began_stays() -> None:
    shop = Shop("a", "b")

    def make(page: list[dict[str, Any]]) -> None:
        if has_first(page):
            shop.cluster.put(build_resource("Topic", "orders"))

    shop.cluster.between_pages = make
    await shop.sync.sync()
    assert shop.cache.get(ORDERS) is not None


async def test_nothing_is_dropped_where_the_list_fails() -> None:
    shop = Shop("orders")
    shop.cut_watch()
    shop.cluster.remove(name("Topic", "orders"))
    shop.cluster.unlistable = Refused("GET /topics: forbidden")
    with pytest.raises(Refused):
        await shop.sync.sync()
    assert shop.cache.get(ORDERS) is not None


async def test_a_list_that_expired_half_way_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kappa_operator.engine.sync._PAUSE", 0.0)
    shop = Shop("a", "b", "orders")
    shop.cut_watch()
    failures = iter([ApiUnavailable("410: the continue token has expired")])

    def expire(page: list[dict[str, Any]]) -> None:
        if has_first(page):
            shop.cluster.remove(name("Topic", "a"))
            for failure in failures:
                raise failure

    shop.cluster.between_pages = expire
    await shop.sync.sync()
    assert [key.name for key in shop.cache.find("Topic", "shop")] == ["b", "orders"]


async def test_a_namespace_that_may_not_be_read_is_left_out_and_keeps_what_is_known_of_it() -> None:
    shop = Shop("orders", settings=Settings(watch_namespaces=("shop",)))
    shop.cluster.unlistable = Refused("GET /topics: forbidden")
    await shop.sync.sync()
    assert shop.cache.get(ORDERS) is not None


async def test_a_missing_crd_is_reported_with_what_to_do() -> None:
    shop = Shop()
    shop.cluster.unlistable = NotFound("GET /topics: 404")
    with pytest.raises(NotFound, match="install the chart first"):
        await shop.sync.sync()


async def test_no_watch_event_is_awaited_of_a_resource_that_is_gone() -> None:
    now = [0.0]
    shop = Shop("orders")
    shop.sync._pending_events = PendingWatchEvents(lambda: now[0])
    shop.sync._pending_events.expect(ORDERS, 10_000)
    shop.cut_watch()
    shop.cluster.remove(name("Topic", "orders"))
    now[0] = 100.0
    assert shop.sync._pending_events.age == 100.0
    await shop.sync.sync()
    assert shop.sync._pending_events.age == 0.0, "the kubelet would restart the operator for it"


async def test_resources_that_depend_on_a_deleted_one_are_reconciled() -> None:
    shop = Shop()
    shop.cluster.put(build_resource("Topic", "orders", topicName="one"))
    shop.cluster.put(build_resource("Topic", "rival", topicName="one"))
    await shop.settle()
    assert shop.operator.get_condition(Key("Topic", "shop", "rival"))[1] == "TopicConflict"
    shop.cut_watch()
    shop.cluster.patch(name("Topic", "orders"), metadata={"finalizers": []})
    shop.cluster.remove(name("Topic", "orders"))
    await shop.sync.sync()
    assert shop.take_due() == {ORDERS, Key("Topic", "shop", "rival")}


async def test_a_deletion_that_a_watch_shows_wakes_the_rivals_for_a_topic_of_another_name() -> None:
    shop = Shop()
    shop.cluster.put(build_resource("Topic", "orders", topicName="one"))
    shop.cluster.put(build_resource("Topic", "rival", topicName="one"))
    await shop.settle()
    shop.note(ORDERS, "DELETED")
    assert shop.take_due() == {ORDERS, Key("Topic", "shop", "rival")}
    assert shop.cache.get(ORDERS) is None


async def test_the_watch_event_of_an_own_write_triggers_no_reconcile() -> None:
    shop = Shop("orders")
    await shop.settle()
    shop.note(ORDERS, "MODIFIED")
    assert shop.take_due() == set()


async def run_resync(shop: Shop, until: Any) -> None:
    task = asyncio.create_task(shop.sync.resync())
    async with asyncio.timeout(10):
        while not until():
            assert not task.done()
            await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_watch_that_begins_again_with_a_list_has_everything_read_at_once() -> None:
    shop = Shop("orders", "payments", settings=Settings(resync_seconds=3600.0))
    for key in (ORDERS, Key("Topic", "shop", "payments"), CLUSTER):
        shop.note(key, None)
    assert not shop.sync._relisted.is_set(), "the first list is no news"
    shop.cut_watch()
    shop.cluster.remove(name("Topic", "payments"))
    shop.note(ORDERS, None)
    await run_resync(shop, lambda: shop.cache.find("Topic", "shop") == [ORDERS])


async def test_a_resync_continues_after_the_api_server_was_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kappa_operator.engine.sync._PAUSE", 0.0)
    monkeypatch.setattr("kappa_operator.engine.sync._RETRY", 0.01)
    shop = Shop("orders", settings=Settings(resync_seconds=0.01))
    shop.cut_watch()
    shop.cluster.remove(name("Topic", "orders"))
    shop.cluster.unlistable = ApiUnavailable("503")
    failing = asyncio.create_task(run_resync(shop, lambda: shop.cache.get(ORDERS) is None))
    await asyncio.sleep(0.1)
    assert shop.cache.get(ORDERS) is not None
    shop.cluster.unlistable = None
    await failing


async def test_the_reconciles_of_a_resync_are_spread_over_time() -> None:
    shop = Shop(*(f"t{number}" for number in range(9)))
    shop.controller.enqueue_all(3600.0)
    assert len(shop.queue) == 10
    assert (count_due(shop.queue, 10.0), count_due(shop.queue, 1000.0)) == (1, 3)
