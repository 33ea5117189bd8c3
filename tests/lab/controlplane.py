"""etcd, the API server, the controller manager and the scheduler as processes of the host."""

import ssl
import urllib.error
import urllib.request
from pathlib import Path

from lab import audit
from lab.network import API_PORT, NODE_IP, POD_CIDR, SERVICE_CIDR
from lab.paths import LAB, PKI
from lab.pki import kubeconfig
from lab.processes import Server
from lab.toolchain import program

_ETCD = "http://127.0.0.1:2379"


def answers(url: str, client: str | None = None) -> bool:
    """Whether a GET gives 200; `client` names the certificate to show."""
    context = ssl._create_unverified_context() if url.startswith("https") else None
    if context and client and (PKI / f"{client}.crt").exists():
        context.load_cert_chain(PKI / f"{client}.crt", PKI / f"{client}.key")
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def etcd() -> Server:
    """The store; without fsync, because a test cluster may be rebuilt and disks are slow."""
    return Server(
        "etcd",
        [
            program("etcd"),
            f"--data-dir={LAB / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--quota-backend-bytes=4294967296",
            "--auto-compaction-retention=10m",
            "--log-level=warn",
        ],
        lambda: answers(f"{_ETCD}/health"),
    )


def api_server() -> Server:
    """The API server with the admission plugins of a default cluster, PodSecurity among them."""
    return Server(
        "kube-apiserver",
        [
            program("kube-apiserver"),
            f"--etcd-servers={_ETCD}",
            f"--secure-port={API_PORT}",
            f"--advertise-address={NODE_IP}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--client-ca-file={PKI / 'ca.crt'}",
            f"--tls-cert-file={PKI / 'apiserver.crt'}",
            f"--tls-private-key-file={PKI / 'apiserver.key'}",
            f"--kubelet-certificate-authority={PKI / 'ca.crt'}",
            f"--kubelet-client-certificate={PKI / 'admin.crt'}",
            f"--kubelet-client-key={PKI / 'admin.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={PKI / 'service-account.pub'}",
            f"--service-account-signing-key-file={PKI / 'service-account.key'}",
            "--enable-aggregator-routing=true",
            *audit.write_policy(),
        ],
        lambda: answers(f"https://127.0.0.1:{API_PORT}/readyz", "admin"),
        ready_seconds=120,
        env={"GOGC": "400"},  # memory is there, processors are not: a quarter of the collections
    )


def _controllers(name: str, certificate: str, port: int, *extra: str | Path) -> Server:
    return Server(
        name,
        [
            program(name),
            f"--kubeconfig={kubeconfig(certificate)}",
            f"--authentication-kubeconfig={kubeconfig(certificate)}",
            f"--authorization-kubeconfig={kubeconfig(certificate)}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *extra,
        ],
        lambda: answers(f"https://127.0.0.1:{port}/healthz"),
    )


def controller_manager() -> Server:
    """All of Kubernetes' own controllers, each under a service account of its own."""
    return _controllers(
        "kube-controller-manager",
        "controller-manager",
        10257,
        f"--root-ca-file={PKI / 'ca.crt'}",
        f"--service-account-private-key-file={PKI / 'service-account.key'}",
        f"--cluster-signing-cert-file={PKI / 'ca.crt'}",
        f"--cluster-signing-key-file={PKI / 'ca.key'}",
        f"--cluster-cidr={POD_CIDR}",
        "--use-service-account-credentials=true",
        "--node-monitor-grace-period=16s",
    )


def scheduler() -> Server:
    """The scheduler."""
    return _controllers("kube-scheduler", "scheduler", 10259)
