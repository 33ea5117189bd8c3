"""`kappa lag`, `kappa top` and `kappa status` against a real API server, a real broker and an operator in a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from integration.accounts import build_kubeconfig
from integration.bench import PATIENCE, Bench
from integration.exposed import expose
from integration.lag_scenes import Scene, every
from kappa_operator.cli.app import app
from kappa_operator.lag.model import Partition
from lab.broker import Broker, free_ports
from lab.paths import BIN, KUBECONFIG

ORDERS = Partition("orders", 0)
OVER, UNKNOWN = 3, 4
"""How commands end for scripts."""


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


async def kappa(*arguments: str, kubeconfig: Path = KUBECONFIG) -> Said:
    """Run a command in this process, which saves the time to start one."""
    environment = {"KUBECONFIG": str(kubeconfig)}
    done = await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=environment)
    return Said(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with Broker() as broker:
        scene = Scene(broker.bootstrap)
        scene.make("orders", 1)
        scene.write(ORDERS, every(1, 10, last=100))
        scene.commit("billing", {ORDERS: 4})
        yield scene


@asynccontextmanager
async def operator(bench: Bench, port: int, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = {
        **os.environ, "KAPPA_NAMESPACE": bench.namespace, "KAPPA_WATCH_NAMESPACES": bench.namespace,
        "KAPPA_IDENTITY": "one", "KAPPA_HEALTH_PORT": str(free_ports(1)[0]), "KAPPA_METRICS_PORT": str(port),
        "KAPPA_SECURE_METRICS": "true", "KAPPA_TLS_SECRET": "kappa-operator-tls",
    }  # fmt: skip
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kappa_operator"), env=environment, stderr=out
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), PATIENCE)


async def until(ask: Callable[[], Awaitable[Said]], holds: Callable[[Said], bool]) -> Said:
    deadline = time.monotonic() + PATIENCE
    while True:
        said = await ask()
        if holds(said):
            return said
        assert time.monotonic() < deadline, said
        await asyncio.sleep(0.2)


async def test_lag_top_and_status_work_with_least_permissions(
    bench: Bench, scene: Scene, tmp_path: Path
) -> None:
    place = ("-n", bench.namespace, "--operator-namespace", bench.namespace)
    await bench.put("KafkaCluster", "main", bootstrapServers=[scene.bootstrap], lag={"interval": "1s"})
    never = await kappa("status", *place)
    assert (never.code, "NotSeen" in never.out) == (3, True)
    assert "no lease of an operator" in never.out
    none = await kappa("lag", *place)
    assert "no operator with reports found" in none.err

    port = free_ports(1)[0]
    expose(bench, port)
    async with operator(bench, port, tmp_path / "log") as process:

        async def ask() -> Said:
            return await kappa("lag", *place, "-o", "json")

        said = await until(ask, lambda said: said.code == 0 and '"billing"' in said.out)
        (cluster,) = said.data["clusters"]
        (lag,) = cluster["lags"]
        assert (lag["group"], lag["topic"], lag["lag"], lag["unknown"], lag["undated"]) == (
            "billing",
            "orders",
            6,
            0,
            0,
        )
        assert lag["behind"] > 100
        assert [each["topic"] for each in cluster["topics"]] == ["orders"]
        assert (await kappa("lag", *place, "--fail-over", "1h")).code == 0
        assert (await kappa("lag", *place, "--fail-over", "60s")).code == OVER
        assert (await kappa("lag", *place, "--fail-over", "1h", "--group", "gone")).code == UNKNOWN

        table = await kappa("lag", *place, "--partitions", "--group", "bill*")
        assert table.out.splitlines()[1].split()[:6] == ["billing", "orders", "0", "4", "10", "6"]
        top = await kappa("top", *place, "--once")
        assert (
            next(line.split()[-1] for line in top.out.splitlines() if line.startswith("orders ")) == "billing"
        )
        status = await kappa("status", *place)
        assert (status.code, "operator: one is the leader" in status.out) == (0, True), status.out

        await check_rights(bench, place, tmp_path)
        await check_log(bench, scene, place)

        scene.make("later", 1)
        await bench.put("Topic", "wrong", partitions=3, clusterRef="nowhere")
        ill = await until(lambda: kappa("status", *place), lambda said: "ClusterNotFound" in said.out)
        assert (ill.code, "create it or correct `spec.clusterRef`" in ill.out) == (3, True)
        assert (await kappa("status", *place, "-o", "json")).data["healthy"] is False
        process.terminate()
        await asyncio.wait_for(process.wait(), PATIENCE)

    gone = await kappa("lag", *place, "--fail-over", "1h")
    assert (gone.code, "the operator does not respond" in gone.err) == (UNKNOWN, True), gone
    assert "source: the status of Pipelines and LagPolicies" in gone.out
    away = await kappa("status", *place)
    assert (away.code, "operator: no active leader" in away.out) == (3, True)


async def check_log(bench: Bench, scene: Scene, place: tuple[str, ...]) -> None:
    """The log of a pipeline is whole until its head is deleted."""
    scene.make("copies", 1)
    sources = [{"name": "orders", "topic": "orders", "format": {"json": {"schema": "id INT"}}}]
    sinks = [{"name": "copies", "from": "orders", "kafka": {"topic": "copies"}}]
    await bench.put("Pipeline", "copy", sources=sources, sinks=sinks, suspend=True)

    async def check() -> Said:
        return await kappa("reprocess", "check", "copy", *place, "-o", "json")

    whole = await until(check, lambda said: said.code != UNKNOWN)
    assert (whole.code, whole.data["verdict"], whole.data["sources"][0]["records"]) == (0, "Whole", 10), whole
    scene.truncate(ORDERS, 5)
    cut = await check()
    assert (cut.code, cut.data["verdict"]) == (OVER, "Missing")
    (gap,) = cut.data["sources"][0]["gaps"]
    assert (gap["topic"], gap["partition"], gap["first"], gap["last"]) == ("orders", 0, 0, 4)
    missing = await kappa("reprocess", "check", "nowhere", *place)
    assert (missing.code, "nowhere" in missing.err) == (UNKNOWN, True)


async def check_rights(bench: Bench, place: tuple[str, ...], folder: Path) -> None:
    """With the chart's Role alone the report can be read and nothing else; without it, what is missing is named."""
    reader = build_kubeconfig(bench, folder, "reader", "kappa-operator-reader")
    allowed = await kappa("lag", *place, kubeconfig=reader)
    assert (allowed.code, allowed.err, "billing" in allowed.out) == (0, "", True)
    status = await kappa("status", *place, kubeconfig=reader)
    assert (status.code, "operator: one is the leader" in status.out) == (4, True)
    assert 'cannot list resource "topics"' in status.out
    assert "services/proxy" in try_raw(
        reader, f"/api/v1/namespaces/{bench.namespace}/services/https:kappa-operator:other/proxy/"
    )
    assert "secrets" in try_raw(reader, f"/api/v1/namespaces/{bench.namespace}/secrets")

    nobody = build_kubeconfig(bench, folder, "nobody")
    refused = await kappa("lag", *place, kubeconfig=nobody)
    assert refused.code == 1
    assert 'cannot create resource "serviceaccounts/token"' in refused.err
    assert "the chart's value `readers` grants both" in refused.err
    assert 'cannot list resource "pipelines"' in refused.err


def try_raw(kubeconfig: Path, path: str) -> str:
    """Return what the API server says against a request that it refuses."""
    command = [str(BIN / "kubectl"), f"--kubeconfig={kubeconfig}", "get", "--raw", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "forbidden" in done.stderr) == (1, True), done
    return done.stderr
