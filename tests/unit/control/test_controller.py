"""The controller works every key, wakes those that wait, and outlives failures and bugs."""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Sized
from dataclasses import replace
from datetime import datetime

from prometheus_client import REGISTRY

from fakes.context import Operator, build_resource
from fakes.queue import count_due
from kappa_operator.backoff import Backoff
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.controller import Controller
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.engine.queue import WorkQueue
from kappa_operator.engine.reconcile import reconcile
from kappa_operator.engine.references import find_dependents
from kappa_operator.engine.watches import build_kopf_settings
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.topic.checks import TopicObserved

CLUSTER = Key("KafkaCluster", "shop", "main")
ORDERS = Key("Topic", "shop", "orders")


async def run_until_idle(controller: Controller, queue: WorkQueue) -> None:
    """Run the controller until nothing is under way and nothing is due within a second."""
    task = asyncio.create_task(controller.run())
    for _ in range(500):
        await asyncio.sleep(0.01)
        if queue.working == 0 and count_due(queue, 0.5) == 0:
            break
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_topic_that_waits_for_its_cluster_is_woken_when_the_cluster_is_there() -> None:
    operator = Operator(KIND_TABLE)
    queue = WorkQueue(time.monotonic)
    controller = Controller(operator.context, queue)
    operator.cluster.put(build_resource("Topic", "orders"))
    queue.add(ORDERS)
    await run_until_idle(controller, queue)
    assert operator.get_condition(ORDERS)[1] == "ClusterNotFound"
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    queue.add(CLUSTER)
    await run_until_idle(controller, queue)
    assert operator.get_condition(ORDERS)[0] == "True"


async def test_a_bug_delays_only_the_resource_that_shows_it() -> None:
    async def observe(
        context: OperatorContext, key: Key, failures: tuple[Failure, ...]
    ) -> TopicObserved | None:
        if key.name == "bad":
            raise RuntimeError("a bug")
        return await KIND_TABLE["Topic"].observe(context, key, failures)

    kinds = {**KIND_TABLE, "Topic": replace(KIND_TABLE["Topic"], observe=observe)}
    operator = Operator(kinds)
    queue = WorkQueue(time.monotonic, delays=Backoff(60.0, 60.0))
    controller = Controller(operator.context, queue)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    for name in ("bad", "orders"):
        operator.cluster.put(build_resource("Topic", name))
    await operator.settle(CLUSTER)
    queue.add(Key("Topic", "shop", "bad"))
    queue.add(ORDERS)
    await run_until_idle(controller, queue)
    assert operator.get_condition(ORDERS)[0] == "True"
    assert count_due(queue, 30.0) == 0
    assert count_due(queue, 70.0) == 1


async def test_a_resource_that_changed_during_a_dead_watch_is_read_again() -> None:
    operator = Operator(KIND_TABLE)
    queue = WorkQueue(time.monotonic)
    controller = Controller(operator.context, queue)
    store = Key("StateStore", "shop", "main")
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "1Gi"}))
    operator.cluster.unsubscribe_all()
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "2Gi"}))
    queue.add(store)
    await run_until_idle(controller, queue)
    assert operator.get_condition(store)[1] == "StoreProvisioning"
    (claim,) = operator.cluster.find("v1", "PersistentVolumeClaim", "shop")
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"


def test_a_namespace_that_is_gone_does_not_end_the_watches_of_the_others() -> None:
    backoffs = build_kopf_settings().networking.error_backoffs
    assert not isinstance(backoffs, Sized | float)
    assert 27.0 <= list(itertools.islice(backoffs, 1000))[-1] <= 30.0


async def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    await operator.settle(CLUSTER)
    operator.cluster.put(build_resource("Topic", "orders"))
    context = OperatorContext(
        cluster=operator.cluster, cache=operator.cache, kafka=operator.kafka, drivers=operator.drivers,
        settings=operator.context.settings, now=operator.clock, is_leading=lambda: False,
    )  # fmt: skip
    before = operator.cluster.fuse.writes
    queue = WorkQueue(time.monotonic)
    queue.add(ORDERS)
    task = asyncio.create_task(Controller(context, queue).run())
    await asyncio.sleep(0.3)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert operator.cluster.fuse.writes == before
    assert "orders" not in operator.brokers["kafka:9092"].topics


async def test_a_resync_reconciles_everything() -> None:
    operator = Operator(KIND_TABLE)
    for name in ("a", "b", "c"):
        operator.cluster.put(build_resource("Topic", name))
    queue = WorkQueue(time.monotonic)
    began = time.time()
    Controller(operator.context, queue).enqueue_all()
    assert len(queue) == 3
    assert (REGISTRY.get_sample_value("kappa_operator_last_resync_timestamp_seconds") or 0) >= began


def test_an_unknown_resource_wakes_no_dependent() -> None:
    assert find_dependents(ResourceCache(KIND_TABLE), ORDERS) == []


async def test_a_long_decision_leaves_the_event_loop_to_others() -> None:
    others = threading.Event()
    had_their_turn = []

    def decide(observed: TopicObserved, now: datetime) -> Plan:
        had_their_turn.append(others.wait(30))
        return Plan()

    asyncio.get_running_loop().call_soon(others.set)
    entry = replace(KIND_TABLE["Topic"], steps=(decide,), is_long=lambda _: True)
    operator = Operator({**KIND_TABLE, "Topic": entry})
    operator.cluster.put(build_resource("Topic", "orders"))
    await reconcile(operator.context, ORDERS)
    assert had_their_turn == [True]
