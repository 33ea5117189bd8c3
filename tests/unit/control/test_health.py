"""Liveness goes by what the watches show."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fakes.context import Operator, build_resource
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.telemetry.health import PendingWatchEvents, add_metrics, build_health_app

KEY = Key("Topic", "flights", "flights")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def yes() -> bool:
    return True


def no() -> bool:
    return False


async def fetch(app: web.Application, path: str) -> tuple[int, str]:
    async with TestClient(TestServer(app)) as client:
        response = await client.get(path)
        return response.status, await response.text()


def build_metrics_app(
    pending_events: PendingWatchEvents, registry: CollectorRegistry = REGISTRY
) -> web.Application:
    app = web.Application()
    add_metrics(app, pending_events, registry)
    return app


async def test_an_own_write_that_no_watch_shows_ends_the_operators_life() -> None:
    clock = Clock()
    pending_events = PendingWatchEvents(clock)
    pending_events.expect(KEY, 7)
    clock.now = 61.0
    status, text = await fetch(build_health_app(pending_events, yes, yes), "/healthz")
    assert (status, "a write made 61 s ago" in text) == (503, True)


async def test_a_write_that_came_back_is_healthy() -> None:
    clock = Clock()
    pending_events = PendingWatchEvents(clock)
    pending_events.expect(KEY, 7)
    pending_events.seen(KEY, 7)
    clock.now = 3600.0
    assert (await fetch(build_health_app(pending_events, yes, yes), "/healthz"))[0] == 200


def test_an_older_event_is_no_proof_for_a_newer_write() -> None:
    clock = Clock()
    pending_events = PendingWatchEvents(clock)
    pending_events.expect(KEY, 7)
    pending_events.seen(KEY, 6)
    clock.now = 5.0
    assert pending_events.age == 5.0


def test_writing_again_and_again_does_not_hide_that_nothing_comes_back() -> None:
    clock = Clock()
    pending_events = PendingWatchEvents(clock)
    for second in range(100):
        clock.now = float(second)
        pending_events.expect(KEY, second)
    assert pending_events.age == 99.0


def test_a_resource_that_is_gone_is_not_waited_for() -> None:
    clock = Clock()
    pending_events = PendingWatchEvents(clock)
    pending_events.expect(KEY, 7)
    pending_events.forget(KEY)
    clock.now = 100.0
    assert pending_events.age == 0.0


async def test_before_the_cluster_was_read_the_operator_is_neither_started_nor_ready() -> None:
    for path in ("/startupz", "/readyz"):
        assert (await fetch(build_health_app(PendingWatchEvents(Clock()), no, yes), path))[0] == 503


async def test_without_a_certificate_the_operator_is_started_and_not_ready() -> None:
    app = [build_health_app(PendingWatchEvents(Clock()), yes, no) for _ in range(2)]
    assert (await fetch(app[0], "/startupz"))[0] == 200
    assert await fetch(app[1], "/readyz") == (503, "no certificate to serve yet")


async def test_an_operator_that_has_read_the_cluster_and_serves_is_ready() -> None:
    assert (await fetch(build_health_app(PendingWatchEvents(Clock()), yes, yes), "/readyz"))[0] == 200


async def test_metrics_show_the_age_of_the_oldest_awaited_write() -> None:
    clock = Clock()
    pending_events = PendingWatchEvents(clock)
    pending_events.expect(KEY, 1)
    clock.now = 12.0
    _, text = await fetch(build_metrics_app(pending_events), "/metrics")
    assert "kappa_operator_watch_echo_age_seconds 12.0" in text


def test_a_write_that_changed_nothing_or_was_shown_already_is_not_waited_for() -> None:
    operator, awaited = Operator(KIND_TABLE), []
    context = replace(operator.context, expect_event=lambda key, version: awaited.append((key.name, version)))
    written = operator.cluster.put(build_resource("Topic", "orders"))
    context.note(written)
    assert awaited == []
    later = {**written, "metadata": {**written["metadata"], "resourceVersion": "99"}}
    context.note(later)
    assert awaited == [("orders", 99)]


async def test_a_scrape_does_not_block_the_event_loop() -> None:
    class Many(Collector):
        """Waits for the event loop, which would wait for it if it ran there."""

        def collect(self) -> Iterator[Metric]:
            family = GaugeMetricFamily("many", "How many there are.")
            family.add_metric((), float(others.wait(30)))
            yield family

    others, registry = threading.Event(), CollectorRegistry(auto_describe=False)
    registry.register(Many())
    asyncio.get_running_loop().call_later(0.1, others.set)
    status, text = await fetch(build_metrics_app(PendingWatchEvents(Clock()), registry), "/metrics")
    assert (status, "many 1.0" in text) == (200, True)


def test_resources_may_change_while_a_thread_reads_them() -> None:
    operator = Operator(KIND_TABLE)
    for name in ("orders", "returns"):
        operator.cluster.put(build_resource("Topic", name))
    read = operator.cache.list_raw("Topic")
    operator.cluster.put(build_resource("Topic", "carts"))
    operator.cluster.remove(ObjectRef("kappa-platform.io/v1alpha1", "Topic", "shop", "returns"))
    assert {key.name for key, _ in read} == {"orders", "returns"}
    assert {key.name for key, _ in operator.cache.list_raw("Topic")} == {"orders", "carts"}
