"""The operator's process: `python -m kappa_operator`.

Start-up order matters: the mirror is filled from complete lists before anything is decided, so that no decision is
made on half a picture; then the watches start, the election runs, and only the elected replica works the queue.
"""

import asyncio
import contextlib
import os
import signal
import time
from typing import Any

import aiohttp
import kopf
import structlog
from aiohttp import web

from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_operator import metrics
from kappa_operator.buckets import S3Buckets
from kappa_operator.cluster import ApiCluster
from kappa_operator.controller import Controller
from kappa_operator.drivers import HttpDrivers
from kappa_operator.errors import NotFound
from kappa_operator.handlers import build_kopf_settings, build_registry
from kappa_operator.health import Echoes, build_health_app
from kappa_operator.kafka import AdminClients
from kappa_operator.keys import Key, ObjectRef
from kappa_operator.leadership import Elector
from kappa_operator.logic import LOGICS
from kappa_operator.logs import configure_logs
from kappa_operator.mirror import Mirror
from kappa_operator.observe.references import find_dependents
from kappa_operator.queue import WorkQueue
from kappa_operator.settings import Settings
from kappa_operator.world import World

log = structlog.get_logger(__name__)


async def fill_mirror(cluster: ApiCluster, mirror: Mirror, namespaces: tuple[str, ...]) -> None:
    """Read all custom resources; raise NotFound with the remedy where the CRDs are missing."""
    for kind in KINDS:
        for namespace in namespaces or (None,):
            try:
                async for page in cluster.list_pages(API_VERSION, kind.name, namespace):
                    for body in page:
                        mirror.put(body)
            except NotFound as error:
                raise NotFound(
                    f"the CRD of {kind.name} is not installed; install the chart first ({error.message})"
                ) from error


async def serve_health(app: web.Application, port: int) -> web.AppRunner:
    """Start the server of /healthz, /readyz and /metrics."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner


async def act_while_leading(elector: Elector, controller: Controller) -> None:
    """Work the queue once elected."""
    await elector.acquired.wait()
    metrics.LEADING.set(1)
    controller.enqueue_all()
    await asyncio.gather(controller.run(), controller.resync())


async def watch(registry: kopf.OperatorRegistry, settings: Settings, synced: asyncio.Event) -> None:
    """Run kopf's watches until cancelled."""
    scope: dict[str, Any] = (
        {"namespaces": settings.watch_namespaces} if settings.watch_namespaces else {"clusterwide": True}
    )
    await kopf.operator(
        registry=registry, settings=build_kopf_settings(), standalone=True, ready_flag=synced, **scope
    )


async def run(settings: Settings) -> None:
    """Run the operator until it is told to stop, or loses the lease."""
    synced = asyncio.Event()
    echoes = Echoes(time.monotonic)
    async with await ApiCluster.connect() as cluster, aiohttp.ClientSession() as session:
        lease = ObjectRef("coordination.k8s.io/v1", "Lease", settings.namespace, settings.lease_name)
        elector = Elector(
            cluster, lease, settings.identity, time.monotonic, duration=settings.lease_duration,
            on_write=lambda version: echoes.expect(Key(lease.kind, lease.namespace, lease.name), version),
        )  # fmt: skip
        kafka = AdminClients()
        world = World(
            cluster=cluster, mirror=Mirror(), kafka=kafka, drivers=HttpDrivers(session), buckets=S3Buckets(),
            settings=settings, is_leading=lambda: elector.leading, expect_echo=echoes.expect,
        )  # fmt: skip
        queue = WorkQueue(time.monotonic)
        controller = Controller(world, queue, LOGICS, find_dependents)
        runner = await serve_health(build_health_app(echoes, synced.is_set), settings.health_port)
        try:
            await fill_mirror(cluster, world.mirror, settings.watch_namespaces)
            log.info("synced", resources=len(world.mirror))
            registry = build_registry(world.mirror, queue, controller, echoes, settings)
            await run_until_first_ends(
                watch(registry, settings, synced),
                elector.run(),
                act_while_leading(elector, controller),
                wait_for_signal(),
            )
        finally:
            await controller.drain()
            await elector.release()
            await kafka.close()
            await runner.cleanup()


async def wait_for_signal() -> None:
    """Return when the process is asked to end."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()
    log.info("stopping")


async def run_until_first_ends(*coroutines: Any) -> None:
    """Run all; when one ends or fails, cancel the others and raise its error."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()


def main() -> None:
    """Run the operator with the settings from the environment."""
    settings = Settings.from_environment(os.environ)
    configure_logs(settings.log_level)
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
