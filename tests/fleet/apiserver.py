"""An API server alone: etcd and kube-apiserver for a bench, where pods are made and nobody runs them."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml
from aiohttp import ClientSession, TCPConnector

from lab.broker import free_ports
from lab.paths import REPOSITORY
from lab.shell import run
from lab.toolchain import program
from monitored.chart import render

USERS = {"admin": "system:masters", "kappa-operator": "system:serviceaccounts"}
"""Users and their groups; the name is the token. The group of the operator decides its share of the API server, as on a cluster."""


@contextmanager
def serve_api(folder: Path, *flags: str, users: Mapping[str, str] = USERS) -> Iterator[str]:
    """Run etcd and an API server with RBAC; yield its URL. Users have tokens of their own names, and their kubeconfigs are in the folder."""
    etcd, peer, port = free_ports(3)
    url = f"http://127.0.0.1:{etcd}"
    run(["openssl", "genrsa", "-out", folder / "accounts.key", "2048"])
    (folder / "tokens.csv").write_text(
        "".join(f'{name},{name},{name},"{group}"\n' for name, group in users.items())
    )
    store: list[str | Path] = [
        program("etcd"), f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}", f"--listen-peer-urls=http://127.0.0.1:{peer}", "--log-level=error",
    ]  # fmt: skip
    api: list[str | Path] = [
        program("kube-apiserver"), f"--etcd-servers={url}", f"--secure-port={port}", "--bind-address=127.0.0.1",
        "--advertise-address=10.0.0.1", f"--cert-dir={folder}", f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://bench",
        f"--service-account-key-file={folder / 'accounts.key'}", f"--service-account-signing-key-file={folder / 'accounts.key'}",
        *flags,
    ]  # fmt: skip
    more = {**os.environ, "GOGC": "200"}
    with (
        (folder / "api.log").open("wb") as log,
        ended(subprocess.Popen(store, stdout=log, stderr=log)),
        ended(subprocess.Popen(api, stdout=log, stderr=log, env=more)),
    ):
        url = f"https://127.0.0.1:{port}"
        for name in users:
            write_kubeconfig(folder, url, name)
        yield url


@contextmanager
def serve_bench(
    keep: Path | None, *flags: str, users: Mapping[str, str] = USERS
) -> Iterator[tuple[Path, str]]:
    """Run an API server for a bench with thousands of connections; yield the folder of its logs, which stays if one is named, and the URL."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as name:
        folder = keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        with serve_api(folder, *flags, users=users) as url:
            yield folder, url


@contextmanager
def ended(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """End the process at the end of the block."""
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def write_kubeconfig(folder: Path, url: str, user: str) -> Path:
    """Return a kubeconfig of a user."""
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": user,
        "clusters": [{"name": "bench", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": user, "user": {"token": user}}],
        "contexts": [{"name": user, "context": {"cluster": "bench", "user": user}}],
    }  # fmt: skip
    path = folder / f"{user}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def install_crds(folder: Path, url: str) -> list[str | Path]:
    """Wait for the API server, install the CRDs, and return the command of an administrator's kubectl."""
    kubeconfig = write_kubeconfig(folder, url, "admin")
    kubectl: list[str | Path] = [program("kubectl"), f"--kubeconfig={kubeconfig}"]
    await wait_for_api(url)
    run([*kubectl, "apply", "--server-side", f"--filename={REPOSITORY / 'crds' / 'generated'}"])
    run([*kubectl, "wait", "--for=condition=Established", "crd", "--all"])
    return kubectl


def grant(kubectl: list[str | Path]) -> None:
    """Make the chart's roles, and bind them to the operator's user."""
    for body in render("clusterWide=true"):
        if body["kind"] in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
            for subject in body.get("subjects", []):
                subject.clear()
                subject |= {"kind": "User", "name": "kappa-operator", "apiGroup": "rbac.authorization.k8s.io"}
            run([*kubectl, "apply", "--filename=-"], stdin=json.dumps(body))


async def wait_for_api(url: str) -> None:
    """Wait until the API server is ready."""
    async with ClientSession(
        connector=TCPConnector(ssl=False), headers={"Authorization": "Bearer admin"}
    ) as session:
        for _ in range(240):
            with suppress(OSError):
                async with session.get(f"{url}/readyz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.5)
    raise SystemExit("the API server does not get ready")
