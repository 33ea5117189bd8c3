"""The operator's process: `python -m kappa_operator`.

Watches and the election run from the start. The elected replica first fills the cache from complete lists, so that no
decision is made on half a picture, and only then works the queue.
"""

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import kopf
import structlog
from aiohttp import web
from prometheus_client import REGISTRY

from kappa_operator.endpoints import Endpoints
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.controller import Controller
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.leadership import Elector
from kappa_operator.engine.queue import WorkQueue
from kappa_operator.engine.references import find_users
from kappa_operator.engine.sync import CacheSync
from kappa_operator.engine.watch_thread import SWITCH_SECONDS, WatchThread
from kappa_operator.engine.watches import (
    HandOver,
    Notes,
    PodWatches,
    build_kopf_settings,
    build_registry,
    register_pods,
    register_resources,
)
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kafkacluster.connection import read_sampling_access
from kappa_operator.kafkacluster.observe import list_clusters
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.exposition import LagCollector
from kappa_operator.lag.sampling import Sampling
from kappa_operator.lagpolicy.webhooks import HttpWebhooks
from kappa_operator.pipeline.drivers import HttpDrivers, open_session
from kappa_operator.report.proof import add_proof
from kappa_operator.report.serve import add_report
from kappa_operator.settings import Settings
from kappa_operator.telemetry import metrics
from kappa_operator.telemetry.health import PendingWatchEvents, add_metrics, build_health_app
from kappa_operator.telemetry.logs import configure_logs
from kappa_operator.telemetry.resource_metrics import ResourceCollector

log = structlog.get_logger(__name__)

THREADS = 32
"""Threads of the event loop: look-ups of names, of which a slow one takes its thread for seconds, scrapes and reports."""

NONE_BY_NAME = (re.compile("^$"),)
"""A pattern of namespaces that has no match: kopf requires one, and the namespaces are added one by one."""


async def act_while_leading(
    elector: Elector,
    sync: CacheSync,
    controller: Controller,
    acting: asyncio.Event,
    *others: Callable[[], Awaitable[None]],
) -> None:
    """Once elected read everything again, whatever the watches showed so far, work the queue, and run what belongs to that."""
    await elector.acquired.wait()
    await sync.sync()
    metrics.LEADING.set(1)
    acting.set()
    log.info("acting")
    controller.enqueue_all()
    await asyncio.gather(controller.run(), sync.resync(), *(other() for other in others))


async def watch(
    hand_over: HandOver, settings: Settings, notes: Notes, pods: PodWatches, synced: threading.Event
) -> None:
    """Run kopf's watches until cancelled: one operator of kopf for all, or one more for the pods where each namespace permits it."""
    scope: dict[str, Any] = (
        {"namespaces": settings.watch_namespaces} if settings.watch_namespaces else {"clusterwide": True}
    )
    registry = build_registry()
    register_resources(registry, notes.resource, KIND_TABLE, hand_over)
    if not settings.namespace_role:
        register_pods(registry, notes.owner, KIND_TABLE, hand_over)
        await run_kopf(registry, settings, synced, **scope)
        return
    of_pods, pods_synced = build_registry(), asyncio.Event()
    register_pods(of_pods, notes.owner, KIND_TABLE, hand_over)
    async with asyncio.TaskGroup() as group:
        group.create_task(
            run_kopf(of_pods, settings, pods_synced, insights=pods.insights, namespaces=NONE_BY_NAME)
        )
        await pods_synced.wait()
        group.create_task(run_kopf(registry, settings, synced, **scope))


async def run_kopf(
    registry: kopf.OperatorRegistry,
    settings: Settings,
    synced: asyncio.Event | threading.Event,
    **scope: Any,
) -> None:
    """Run kopf with a registry until cancelled."""
    # Without an identity, kopf would look up the user's name, which a container need not have.
    scope["identity"] = settings.identity
    await kopf.operator(
        registry=registry, settings=build_kopf_settings(), standalone=True, ready_flag=synced, **scope
    )


async def run(settings: Settings) -> None:
    """Run the operator until a stop is requested, or the lease is lost."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    synced, thread, acting, serving = threading.Event(), WatchThread(), asyncio.Event(), asyncio.Event()
    pending_events = PendingWatchEvents(time.monotonic)
    # The lease has connections of its own: behind hundreds of other requests its renewal would come too late.
    async with (
        await ApiCluster.connect() as cluster,
        await ApiCluster.connect() as lease_cluster,
        open_session() as session,
    ):
        lease = ObjectRef("coordination.k8s.io/v1", "Lease", settings.namespace, settings.lease_name)
        elector = Elector(
            lease_cluster, lease, settings.identity, time.monotonic, duration=settings.lease_seconds
        )
        kafka, cache = AdminClients(), ResourceCache(KIND_TABLE, settings.get_limit)
        pods = PodWatches(thread.call)
        webhooks = HttpWebhooks(settings.webhook_hosts)

        def wake_policies(cluster: Key) -> None:
            for policy in find_users(cache, cluster, "LagPolicy"):
                queue.add(policy)

        def note_owner(key: Key) -> None:
            context.reads.reads.drop(key)
            queue.add(key)

        sampling = Sampling(
            partial(list_clusters, cache),
            lambda each: read_sampling_access(context, each),
            on_new_groups=wake_policies,
        )
        context = OperatorContext(
            cluster=cluster, cache=cache, kafka=kafka, drivers=HttpDrivers(session),
            settings=settings, get_lag=sampling.get, webhooks=webhooks, watch_pods=pods.set, is_leading=lambda: elector.leading, expect_event=pending_events.expect,
        )  # fmt: skip
        REGISTRY.register(ResourceCollector(context.cache, context.is_leading))
        REGISTRY.register(LagCollector(sampling.list_found, settings.lag_series))
        queue = WorkQueue(time.monotonic, slots=settings.concurrency)
        controller = Controller(context, queue)
        sync = CacheSync(context, queue, controller, pending_events)
        health = build_health_app(pending_events, synced.is_set, serving.is_set)
        endpoints = Endpoints(context, health, serving)
        add_answers(endpoints.metrics, context, pending_events, lambda: elector.leading and acting.is_set())
        await endpoints.start()
        try:
            await run_until_first_ends(
                thread.run(
                    partial(watch, thread.hand_over, settings, Notes(sync.note, note_owner), pods, synced)
                ),
                elector.run(),
                endpoints.run(),
                act_while_leading(elector, sync, controller, acting, sampling.run),
                wait_for_signal(),
            )
        finally:
            await controller.drain()
            await elector.release()
            for each in (kafka, webhooks, context.connect, endpoints):
                await each.close()


def add_answers(
    app: web.Application,
    context: OperatorContext,
    pending_events: PendingWatchEvents,
    is_acting: Callable[[], bool],
) -> None:
    """Serve metrics, the report, and proofs that logs are whole."""
    add_metrics(app, pending_events)
    add_report(app, context, is_acting)
    add_proof(app, context, is_acting)


async def wait_for_signal() -> None:
    """Return when the process receives a signal to end."""
    requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, requested.set)
    await requested.wait()
    log.info("stopping")


async def run_until_first_ends(*coroutines: Any) -> None:
    """Run all; when one ends or fails, end the others, the last one first, and raise its error."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in reversed(tasks):
        task.cancel()
        await asyncio.wait([task])
    for task in done:
        task.result()


def main() -> None:
    """Run the operator with the settings from the environment."""
    settings = Settings.from_environment(os.environ)
    configure_logs(settings.log_level)
    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
