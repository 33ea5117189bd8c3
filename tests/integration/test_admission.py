"""What a change means is said by kubectl when it is applied: a real API server asks a replica that does not lead."""

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fakes.context import build_resource
from integration.apiserver import ApiServer
from integration.bench import PATIENCE, Bench
from kappa_crds import API_VERSION
from kappa_crds.revision import REVISION_KEY
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Verdict
from kappa_operator.pipeline.revision import build_revision
from kappa_operator.tls import serve_tls
from kappa_operator.verdict.admission import build_admission_app
from kappa_operator.verdict.observe import observe_applied
from lab.broker import free_ports
from lab.paths import BIN, KUBECONFIG
from lab.pki import make_authority, make_certificate
from monitored.chart import find, render

COUNT = "SELECT k, count(*) AS n FROM events GROUP BY k"
SPEC: dict[str, Any] = {
    "sources": [{"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}],
    "views": [{"name": "counted", "sql": COUNT, "allowUnboundedState": True}],
    "sinks": [{"name": "log", "from": "counted", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}],
}
MORE = {**SPEC, "views": [{**SPEC["views"][0], "sql": COUNT.replace("AS n", "AS n, max(k) AS most")}]}
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "-",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
SECRET = "only-the-two-know"


def render_webhook(*values: str) -> dict[str, Any]:
    """Return the webhook's configuration as the chart makes it."""
    found = find(render(*values, namespace="default"), "ValidatingWebhookConfiguration")
    return next(iter(found.values()))


class Installed:
    """An operator that answers, and the API server that asks it about the Pipelines of one namespace."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._folder = folder
        self._port, self._health = free_ports(2)
        self._server = ApiServer(KUBECONFIG, bench.namespace)
        self._log = folder / "log"

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a replica while another one leads for ever."""
        await self._bench.cluster.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "kappa-operator", "namespace": self._bench.namespace},
                "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600},
            }
        )
        make_authority(self._folder, "test")
        make_certificate(self._folder, "tls", "/CN=operator", "IP:127.0.0.1")
        (self._folder / "path").write_text(f"{SECRET}\n")
        environment = {
            **os.environ,
            "KAPPA_NAMESPACE": self._bench.namespace,
            "KAPPA_WATCH_NAMESPACES": self._bench.namespace,
            "KAPPA_IDENTITY": "one",
            "KAPPA_HEALTH_PORT": str(self._health),
            "KAPPA_ADMISSION_PORT": str(self._port),
            "KAPPA_ADMISSION_DIR": str(self._folder),
        }
        with self._log.open("wb") as out:
            operator = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kappa_operator"), env=environment, stderr=out
            )
        try:
            yield operator
        finally:
            if operator.returncode is None:
                operator.terminate()
                await operator.wait()
        said = self._log.read_text()
        assert "Traceback" not in said
        assert SECRET not in said
        assert '"acting"' not in said

    @asynccontextmanager
    async def register(self) -> AsyncIterator[None]:
        """Have the API server ask, by the chart's own configuration but for where the operator is."""
        name = f"{self._bench.namespace}.pipelines.kappa-platform.io"
        wanted = render_webhook(f"watchNamespaces={{{self._bench.namespace}}}")
        wanted["metadata"] = {"name": name}
        authority = base64.b64encode((self._folder / "ca.crt").read_bytes()).decode()
        url = f"https://127.0.0.1:{self._port}/pipelines/{SECRET}"
        wanted["webhooks"][0]["clientConfig"] = {"url": url, "caBundle": authority}
        self._server.kubectl("apply", "--filename=-", stdin=json.dumps(wanted))
        try:
            yield
        finally:
            self._server.kubectl("delete", "validatingwebhookconfigurations", name)

    def apply(self, spec: dict[str, Any], *flags: str) -> list[str]:
        """Apply the Pipeline with kubectl and return the warnings that it prints."""
        body = build_resource("Pipeline", "counts", self._bench.namespace, **spec)
        command = [str(BIN / "kubectl"), f"--kubeconfig={KUBECONFIG}", "apply", "--filename=-", *flags]
        done = subprocess.run(
            command, input=json.dumps(body), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        lines = done.stderr.splitlines()
        return [line.removeprefix("Warning: ") for line in lines if line.startswith("Warning: counts: ")]

    async def await_warning(self, spec: dict[str, Any], wanted: str) -> list[str]:
        """Dry-run until something is said; a new configuration and a new replica take a moment to be there."""
        deadline = time.monotonic() + PATIENCE
        while True:
            said = self.apply(spec, "--dry-run=server")
            if any(wanted in line for line in said):
                return said
            assert time.monotonic() < deadline, f"{said}; {self._log.read_text()}"
            await asyncio.sleep(1.0)  # each attempt is a process of kubectl


async def make_running(bench: Bench) -> None:
    """Have a pipeline that says that it runs, with the revision of what is stored, and all that it refers to."""
    for kind, name, spec in (
        ("KafkaCluster", "kafka", {"bootstrapServers": ["kafka:9092"]}),
        ("StateStore", "state", {"pvc": {"claimName": "state"}}),
    ):
        key = await bench.put(kind, name, **spec)
        await set_status(bench, key, {"conditions": [READY]})
        bench.context.cache.put(await bench.read(key) or {})
    key = await bench.put("Pipeline", "counts", **SPEC)
    observed, _ = await observe_applied(bench.context, await bench.read(key) or {})
    assert not isinstance(observed.dependencies, Verdict)
    revision = build_revision(observed.resource, observed.dependencies, observed.images)
    config = {
        "metadata": {"name": revision.name, "namespace": bench.namespace},
        "data": {REVISION_KEY: revision.to_json()},
    }
    await bench.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", **config})
    partitions = revision.tuning.shuffle_partitions
    run = {"role": "active", "generation": 1, "revision": revision.name, "content": revision.content}
    runs = [{**run, "driver": "counts-driver-1"}]
    await set_status(bench, key, {"runs": runs, "shufflePartitions": partitions, "state": "Running"})


async def set_status(bench: Bench, key: Key, status: dict[str, Any]) -> None:
    metadata = {"name": key.name, "namespace": key.namespace}
    await bench.cluster.apply_status(
        {"apiVersion": API_VERSION, "kind": key.kind, "metadata": metadata, "status": status}
    )


async def test_a_server_dry_run_reports_the_effects_of_a_change_and_stores_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    installed = Installed(bench, tmp_path)
    await make_running(bench)
    key = Key("Pipeline", bench.namespace, "counts")
    async with installed.follow() as operator, installed.register():
        before = await bench.read(key)
        said = await installed.await_warning(MORE, "new aggregates, for which there is no state: max(k)")
        assert "counts: changed: view 'counted' is changed (sql)" in said
        assert any("spec.upgrade.mode is LastState: the change would be refused" in line for line in said)
        assert any("the change is warm" in line for line in said)
        said = installed.apply({**SPEC, "restore": {"savepoint": "lost"}}, "--dry-run=server")
        assert ['Savepoint "lost" not found' in line for line in said] == [True]
        assert await bench.read(key) == before

        assert installed.apply(SPEC) == []
        assert any("max(k)" in line for line in installed.apply(MORE))
        assert ((await bench.read(key)) or {})["spec"]["views"] == MORE["views"]

        operator.terminate()
        assert await operator.wait() == 0
        assert installed.apply(SPEC) == []
    assert ((await bench.read(key)) or {})["spec"]["views"] == SPEC["views"]


async def test_a_certificate_that_was_renewed_is_taken_up(bench: Bench, tmp_path: Path) -> None:
    make_authority(tmp_path, "test")
    port = free_ports(1)[0]

    def renew() -> None:
        make_certificate(tmp_path, "tls", "/CN=operator", "IP:127.0.0.1")

    async def see() -> str:
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))

    renew()
    app = build_admission_app(bench.context, SECRET)
    runner = await serve_tls(app, tmp_path, port, renewal=0.05)
    try:
        before = await see()
        assert before == (tmp_path / "tls.crt").read_text()
        renew()
        async with asyncio.timeout(PATIENCE):
            found = before
            while found == before:
                found = await see()
        assert found == (tmp_path / "tls.crt").read_text()
    finally:
        await runner.cleanup()


async def test_the_api_server_takes_the_configuration_as_the_chart_makes_it(bench: Bench) -> None:
    wanted = json.dumps(render_webhook())
    server = ApiServer(KUBECONFIG, bench.namespace)
    assert "created" in server.kubectl("create", "--dry-run=server", "--filename=-", stdin=wanted)


def test_the_webhook_covers_pipelines_of_the_watched_namespaces_only() -> None:
    webhook = render_webhook("watchNamespaces={one,two}")["webhooks"][0]
    assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["one", "two"]
    assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["timeoutSeconds"]) == (
        "Ignore",
        "None",
        3,
    )
    assert [(rule["resources"], rule["operations"]) for rule in webhook["rules"]] == [
        (["pipelines"], ["CREATE", "UPDATE"])
    ]
    assert "namespaceSelector" not in render_webhook()["webhooks"][0]


def test_cert_manager_provides_the_certificate_if_enabled() -> None:
    found = render_webhook("admission.certManager.enabled=true")
    assert "caBundle" not in found["webhooks"][0]["clientConfig"]
    annotations = found["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "default/kappa-operator"}
