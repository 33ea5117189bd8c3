"""The operator as a process of its own, as a pod runs it."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fakes.cluster import Body
from fakes.permissions import read_lease_rules, read_platform_rules
from integration.accounts import build_kubeconfig
from integration.bench import PATIENCE, Bench
from kappa_operator.engine.keys import Key, ObjectRef
from lab.broker import free_ports
from lab.kube import kubectl

_NAMESPACE = re.compile(r"in (?:the )?namespace \W*([-\w]+)")
"""What a refusal of the API server names, unless it is about all namespaces."""


async def test_the_permissions_of_the_chart_are_enough_for_an_operator_that_reconciles(
    bench: Bench, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    await bench.cluster.create(_build_role(bench, "lease", read_lease_rules()))
    kubeconfig = build_kubeconfig(bench, tmp_path, "kappa", "operator", "lease")
    store = await bench.put("StateStore", "default", pvc={"claimName": "absent"})
    await bench.put("StateStore", "pending", pvc={"size": "1Gi", "storageClassName": "absent"})
    pending = Key("StateStore", bench.namespace, "pending")
    with log.open("wb") as out:
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kappa_operator"),
            env={**_settings(bench), "KUBECONFIG": str(kubeconfig)},
            stderr=out,
        )
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _read_message(bench, store) or "PVC" not in await _read_message(bench, pending):
                assert operator.returncode is None, log.read_text()
                await asyncio.sleep(0.1)
            operator.send_signal(signal.SIGTERM)
            assert await operator.wait() == 0
    finally:
        if operator.returncode is None:
            operator.kill()
    assert "forbidden" not in log.read_text()
    assert "Traceback" not in log.read_text()


async def test_an_operator_with_permissions_per_namespace_starts_to_act_when_it_gets_them(
    bench: Bench, tmp_path: Path
) -> None:
    log, store = tmp_path / "log", await bench.put("StateStore", "default", pvc={"claimName": "absent"})
    await bench.cluster.create(_build_role(bench, "lease", read_lease_rules()))
    kubeconfig = build_kubeconfig(bench, tmp_path, "kappa", "lease")
    with _platform_rules(bench, "kappa"):
        settings = {
            **_settings(bench),
            "KAPPA_WATCH_NAMESPACES": "",
            "KAPPA_NAMESPACE_ROLE": "kappa-namespace",
        }
        with log.open("wb") as out:
            operator = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kappa_operator"),
                env={**settings, "KUBECONFIG": str(kubeconfig)},
                stderr=out,
            )
        try:
            await _await_message(
                bench, store, "kubectl create rolebinding kappa-operator --clusterrole=kappa-namespace"
            )
            assert _count_pod_watches() == 0
            subject = f"--serviceaccount={bench.namespace}:kappa"
            kubectl(
                "create", "rolebinding", "kappa-operator", "--role=operator", subject, "-n", bench.namespace
            )
            await _await_message(bench, store, "PVC")
            assert _count_pod_watches() == 1
            operator.send_signal(signal.SIGTERM)
            assert await operator.wait() == 0
        finally:
            if operator.returncode is None:
                operator.kill()
    assert not _find_refused(log.read_text(), bench)
    assert "Traceback" not in log.read_text()


def _find_refused(log: str, bench: Bench) -> list[str]:
    """Return the lines about refused requests, without those for namespaces of other tests: they are being deleted meanwhile."""
    refused = [line for line in log.splitlines() if "forbidden" in line]
    return [line for line in refused if {bench.namespace} >= set(_NAMESPACE.findall(line))]


@contextmanager
def _platform_rules(bench: Bench, account: str) -> Iterator[None]:
    """Grant the chart's rules for all namespaces to an account."""
    name = f"platform-{bench.namespace}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    kubectl("create", "-f", "-", stdin=json.dumps({**role, "rules": read_platform_rules()}))
    try:
        subject = f"--serviceaccount={bench.namespace}:{account}"
        kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", subject)
        yield
    finally:
        kubectl("delete", "clusterrolebinding,clusterrole", name, "--ignore-not-found")


async def _await_message(bench: Bench, key: Key, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in (message := await _read_message(bench, key)):
        assert time.monotonic() < deadline, message
        await asyncio.sleep(0.1)


def _count_pod_watches() -> int:
    """Return how many watches of the pods of a namespace are open at the API server."""
    wanted = ('verb="WATCH"', 'resource="pods"', 'scope="namespace"')
    lines = kubectl("get", "--raw", "/metrics").splitlines()
    return sum(
        int(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("apiserver_longrunning_requests{") and all(each in line for each in wanted)
    )


async def _read_message(bench: Bench, key: Key) -> str:
    status = (await bench.read(key) or {}).get("status", {})
    return "; ".join(each["message"] for each in status.get("conditions", []))


def _build_role(bench: Bench, name: str, rules: list[Body]) -> Body:
    metadata = {"name": name, "namespace": bench.namespace}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": rules,
    }


async def test_at_sigterm_the_operator_ends_in_order_and_gives_the_lease_back(
    bench: Bench, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as out:
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kappa_operator"), env=_settings(bench), stderr=out
        )
    try:
        async with asyncio.timeout(PATIENCE):
            while '"acting"' not in log.read_text():
                assert operator.returncode is None, log.read_text()
                await asyncio.sleep(0.1)
            assert await _read_holder(bench) == "one"
            operator.send_signal(signal.SIGTERM)
            assert await operator.wait() == 0
    finally:
        if operator.returncode is None:
            operator.kill()
    assert "Traceback" not in log.read_text()
    assert await _read_holder(bench) == ""


def _settings(bench: Bench) -> dict[str, str]:
    return {
        **os.environ,
        "KAPPA_NAMESPACE": bench.namespace,
        "KAPPA_WATCH_NAMESPACES": bench.namespace,
        "KAPPA_IDENTITY": "one",
        "KAPPA_HEALTH_PORT": str(free_ports(1)[0]),
    }


async def _read_holder(bench: Bench) -> str:
    lease = await bench.cluster.get(
        ObjectRef("coordination.k8s.io/v1", "Lease", bench.namespace, "kappa-operator")
    )
    return (lease or {}).get("spec", {}).get("holderIdentity") or ""
