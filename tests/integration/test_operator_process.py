"""The operator as a process of its own, as a pod runs it."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from fakes.cluster import Body
from fakes.permissions import read_lease_rules
from integration.accounts import build_kubeconfig
from integration.bench import PATIENCE, Bench
from kappa_operator.engine.keys import Key, ObjectRef
from lab.broker import free_ports


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
