"""Metrics and report of the operator against a real API server: TLS by its own authority, TokenReview, SubjectAccessReview, and the proxy."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from integration.accounts import build_kubeconfig
from integration.bench import PATIENCE, Bench
from integration.exposed import apply, expose
from kappa_operator.certificates.upkeep import CertificateUpkeep
from kappa_operator.cli.report_read import Scope, read_report, request_report
from kappa_operator.endpoints import Endpoints
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import KubernetesError
from kappa_operator.report.serve import add_report
from lab.broker import free_ports
from lab.kube import kubectl
from monitored.chart import find, render


@asynccontextmanager
async def serve(bench: Bench, port: int) -> AsyncIterator[None]:
    """Serve the endpoints as the operator does, metrics and report at the port; the chart's Secret exists."""
    (health,) = free_ports(1)
    settings = replace(
        bench.context.settings, namespace=bench.namespace, health_port=health, metrics_port=port,
        secure_metrics=True, tls_secret="kappa-operator-tls",
    )  # fmt: skip
    context = replace(bench.context, cluster=bench.cluster, settings=settings)
    endpoints = Endpoints(context, web.Application(), serving := asyncio.Event())
    add_report(endpoints.metrics, context, lambda: True)
    endpoints.metrics.add_routes([web.get("/metrics", respond)])
    await endpoints.start()
    running = asyncio.create_task(endpoints.run())
    waiting = asyncio.create_task(serving.wait())
    try:
        await asyncio.wait([running, waiting], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert serving.is_set(), f"the endpoints are not served: {running}"
        yield
    finally:
        waiting.cancel()
        running.cancel()
        await asyncio.wait([running])
        await endpoints.close()


async def respond(_: web.Request) -> web.Response:
    return web.Response(text="figures")


async def read_trust(bench: Bench) -> ssl.SSLContext:
    """Return a context that trusts the authority of the operator."""
    secret = await bench.cluster.get(ObjectRef("v1", "Secret", bench.namespace, "kappa-operator-tls"))
    assert secret is not None
    return ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())


async def test_metrics_are_for_the_account_with_the_role_of_the_chart(bench: Bench) -> None:
    role = find(render(), "ClusterRole")["kappa-metrics-reader"]
    name = role["metadata"]["name"] = f"{bench.namespace}-metrics-reader"
    tokens = {}
    for account in ("prometheus", "stranger"):
        kubectl("create", "serviceaccount", account, "-n", bench.namespace)
        tokens[account] = kubectl("create", "token", account, "-n", bench.namespace).strip()
    apply(bench, role)
    subject = f"--serviceaccount={bench.namespace}:prometheus"
    kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", subject)
    apply(bench, find(render(namespace=bench.namespace), "Secret")["kappa-operator-tls"])
    host, (port,) = f"kappa-operator.{bench.namespace}.svc", free_ports(1)
    try:
        async with serve(bench, port), aiohttp.ClientSession() as session:
            trusted = await read_trust(bench)

            async def get(path: str, token: str | None) -> tuple[int, str]:
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                url = f"https://127.0.0.1:{port}{path}"
                async with session.get(url, ssl=trusted, server_hostname=host, headers=headers) as response:
                    return response.status, await response.text()

            assert await get("/metrics", tokens["prometheus"]) == (200, "figures")
            for path, token, status in (
                ("/metrics", tokens["stranger"], 403),
                ("/metrics", None, 401),
                ("/metrics", "forged", 401),
                ("/report", tokens["prometheus"], 403),
            ):
                found, text = await get(path, token)
                assert (found, "figures" in text) == (status, False)
    finally:
        kubectl("delete", f"clusterrolebinding/{name}", f"clusterrole/{name}")


async def test_readers_with_a_token_or_a_certificate_get_the_report_and_others_do_not(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = Scope(None, bench.namespace)
    (port,) = free_ports(1)
    expose(bench, port)
    async with serve(bench, port):
        by_certificate = await request_report(bench.cluster, scope)
        assert by_certificate.clusters == ()

        path = await asyncio.to_thread(build_kubeconfig, bench, tmp_path, "reader", "kappa-operator-reader")
        monkeypatch.setenv("KUBECONFIG", str(path))
        async with await ApiCluster.connect() as reader:
            _, warning = await read_report(reader, scope)
            assert warning is None

        path = await asyncio.to_thread(build_kubeconfig, bench, tmp_path, "nobody")
        monkeypatch.setenv("KUBECONFIG", str(path))
        async with await ApiCluster.connect() as nobody:
            with pytest.raises(KubernetesError, match=r"serviceaccounts/token.*the chart's value `readers`"):
                await read_report(nobody, scope)


async def test_the_api_server_trusts_the_authority_of_the_operator_and_an_upgrade_keeps_that(
    bench: Bench,
) -> None:
    chart = render("watchNamespaces={nowhere}", namespace=bench.namespace)
    apply(bench, find(chart, "Secret")["kappa-operator-tls"])
    ((name, webhook),) = find(chart, "ValidatingWebhookConfiguration").items()
    apply(bench, webhook)
    secret = ObjectRef("v1", "Secret", bench.namespace, "kappa-operator-tls")
    registration = ObjectRef(webhook["apiVersion"], webhook["kind"], "", name)
    try:
        upkeep = CertificateUpkeep(
            bench.cluster, secret, [f"kappa-operator-admission.{bench.namespace}.svc"], webhook=name
        )
        await upkeep.sync()
        apply(bench, webhook)
        kept, found = await bench.cluster.get(secret), await bench.cluster.get(registration)
        assert kept is not None
        assert found is not None
        client = found["webhooks"][0]["clientConfig"]
        assert client["caBundle"] == kept["data"]["ca.crt"]
        assert client["service"]["name"] == "kappa-operator-admission"
    finally:
        kubectl("delete", "validatingwebhookconfiguration", name)
