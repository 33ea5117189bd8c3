"""The servers of the operator: which endpoint at which port, and with which certificate.

The kubelet's health checks are plain HTTP. All others have TLS: with a certificate in a folder of their own, or in the one of the
settings, or else with the one that the operator keeps in a Secret. Outside of a cluster, metrics and report are plain HTTP beside the
health checks.
"""

import asyncio
import ssl
from pathlib import Path

from aiohttp import web

from kappa_operator.certificates.upkeep import CertificateUpkeep
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.lagpolicy.alertmanager import build_alert_app
from kappa_operator.report.access import AccessReview
from kappa_operator.report.address import SERVICE
from kappa_operator.tls import (
    CERTIFICATE,
    RENEWAL_SECONDS,
    build_context,
    load_folder,
    renew_certificate,
    serve_app,
    serve_tls,
)
from kappa_operator.verdict.admission import PATH_FILE, build_admission_app

SERVICES = (SERVICE, f"{SERVICE}-admission", f"{SERVICE}-alerts")
"""The Services of the chart that lead to the endpoints."""


def list_hosts(namespace: str) -> tuple[str, ...]:
    """Return the names by which clients reach the endpoints."""
    return tuple(
        f"{service}.{namespace}.svc{suffix}" for suffix in ("", ".cluster.local") for service in SERVICES
    )


class Endpoints:
    """The servers. `metrics` is the application of metrics and report; `serving` is set when all servers are there."""

    def __init__(self, context: OperatorContext, health: web.Application, serving: asyncio.Event) -> None:
        self._context, self._health, self._serving = context, health, serving
        self._servers: list[web.AppRunner] = []
        access = AccessReview(context.cluster, context.settings.namespace)
        secure = context.settings.secure_metrics
        self.metrics = web.Application(middlewares=[access.middleware]) if secure else health

    async def start(self) -> None:
        """Serve the health checks; raise OSError for a port that is taken."""
        self._servers.append(await serve_app(self._health, self._context.settings.health_port))

    async def run(self) -> None:
        """Serve the others as soon as there is a certificate, and keep it; raise OSError for a port that is taken."""
        settings = self._context.settings
        if settings.tls_dir:
            folder, context = Path(settings.tls_dir), build_context()
            load_folder(context, folder)
            await self._serve(context)
            await renew_certificate(context, folder, RENEWAL_SECONDS)
        elif settings.tls_secret:
            upkeep = _build_upkeep(self._context)
            await upkeep.start()
            await self._serve(upkeep.context)
            await upkeep.run()
        else:
            await self._serve(None)
            await asyncio.Event().wait()

    async def close(self) -> None:
        """Stop serving."""
        for server in self._servers:
            await server.cleanup()

    async def _serve(self, tls: ssl.SSLContext | None) -> None:
        settings = self._context.settings
        if settings.secure_metrics:
            self._servers.append(await serve_app(self.metrics, settings.metrics_port, _require(tls)))
        if settings.admission_dir:
            folder = Path(settings.admission_dir)
            app = build_admission_app(self._context, (folder / PATH_FILE).read_text().strip())
            self._servers.append(
                await _serve_folder(app, folder, settings.admission_port, tls, required=True)
            )
        if settings.alerts_dir:
            folder = Path(settings.alerts_dir)
            app = build_alert_app(self._context, folder)
            self._servers.append(await _serve_folder(app, folder, settings.alerts_port, tls, required=False))
        self._serving.set()


async def _serve_folder(
    app: web.Application, folder: Path, port: int, tls: ssl.SSLContext | None, *, required: bool
) -> web.AppRunner:
    """Start a server with the certificate of its own folder, or else with the one of all endpoints."""
    if tls is None or (folder / CERTIFICATE).exists():
        return await serve_tls(app, folder, port, required=required)
    return await serve_app(app, port, tls)


def _require(tls: ssl.SSLContext | None) -> ssl.SSLContext:
    if tls is None:
        raise ValueError("KAPPA_SECURE_METRICS=true needs KAPPA_TLS_SECRET or KAPPA_TLS_DIR")
    return tls


def _build_upkeep(context: OperatorContext) -> CertificateUpkeep:
    settings = context.settings
    secret = ObjectRef("v1", "Secret", settings.namespace, settings.tls_secret)
    hosts, webhook = list_hosts(settings.namespace), settings.admission_webhook
    return CertificateUpkeep(context.cluster, secret, hosts, webhook=webhook, now=context.now)
