"""A database in a pod of the cluster, with TLS and a volume: what the demo and tests read changes from.

A pod whose processes are killed comes back with its volume, and the server recovers from its log as after any crash. Programs of
this machine connect to a port of the loopback. The namespace is the database's own; its image must be in the cluster.
"""

import json
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import kube, pki

HOST = "127.0.0.1"
_READY_SECONDS = 120
_GREETING = "import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect('/tmp/mariadb.sock'); s.recv(1)"
"""Succeeds once MariaDB greets clients. Its packages of the server have no program for this."""


@dataclass(frozen=True)
class Engine:
    """A kind of server. `probe` succeeds in its pod once it answers."""

    name: str
    image: str
    port: int
    settings: Sequence[str]
    probe: Sequence[str]


POSTGRES = Engine(
    "postgres",
    "kappa/postgres:15",
    5432,
    ("wal_level=logical", "shared_buffers=64MB", "wal_sender_timeout=10s"),
    ("pg_isready", "-q", "-h", "/tmp"),
)
MARIADB = Engine(
    "mariadb",
    "kappa/mariadb:10.11",
    3306,
    ("--binlog-row-image=FULL", "--default-time-zone=+00:00", "--innodb-buffer-pool-size=64M"),
    ("python3", "-I", "-c", _GREETING),
)


@dataclass(frozen=True)
class DatabasePod:
    """A server in a namespace; `node_port` is its port on the loopback, any free one by default."""

    engine: Engine
    namespace: str
    node_port: int | None = None
    password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    """The password of the administrator."""

    @property
    def host(self) -> str:
        """Return its name in the cluster."""
        return f"{self.engine.name}.{self.namespace}.svc"

    @property
    def address(self) -> str:
        """Return host and port in the cluster."""
        return f"{self.host}:{self.engine.port}"

    @property
    def pod(self) -> str:
        """Return the name of the pod."""
        return f"{self.engine.name}-0"

    def start(self) -> "RunningDatabase":
        """Create the namespace and the server in it, and wait until it answers."""
        name = self.engine.name
        with tempfile.TemporaryDirectory(prefix="kappa-database-") as folder:
            files = _make_certificates(Path(folder), self.host)
        kube.apply([kube.namespace(self.namespace), *self._build({**files, "password": self.password})])
        self.await_ready()
        service = json.loads(kube.kubectl("get", "service", name, "-n", self.namespace, "-o", "json"))
        return RunningDatabase(self, files["ca.crt"], service["spec"]["ports"][0]["nodePort"])

    def await_ready(self) -> None:
        """Wait until the pod is ready."""
        wait = ("rollout", "status", f"statefulset/{self.engine.name}", "-n", self.namespace)
        kube.kubectl(*wait, f"--timeout={_READY_SECONDS}s", timeout=_READY_SECONDS + 10)

    def remove(self) -> None:
        """Delete the namespace with all data."""
        kube.kubectl(
            "delete", "namespace", self.namespace, "--ignore-not-found", "--timeout=120s", timeout=130
        )

    def _build(self, files: Mapping[str, str]) -> list[dict[str, Any]]:
        name, number = self.engine.name, self.engine.port
        labels = {"app.kubernetes.io/name": name}
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        port = {"name": "database", "port": number} | ({"nodePort": self.node_port} if self.node_port else {})
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
        }
        spec = {
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _build_pod(self.engine)},
            "volumeClaimTemplates": [claim],
        }
        service = {"type": "NodePort", "selector": labels, "ports": [port]}
        return [
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(files)},
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec},
        ]


@dataclass(frozen=True)
class RunningDatabase:
    """A server, and how programs of this machine connect to it."""

    server: DatabasePod
    authority: str
    """The certificate of the authority, as PEM."""
    port: int
    """Its port on the loopback."""


def _make_certificates(folder: Path, host: str) -> dict[str, str]:
    pki.make_authority(folder, "databases")
    names = f"DNS:{host},DNS:{host}.cluster.local,DNS:localhost,IP:{HOST}"
    pki.make_certificate(folder, "server", "/CN=database", names)
    return {name: (folder / name).read_text() for name in ("ca.crt", "server.crt", "server.key")}


def _build_pod(engine: Engine) -> dict[str, Any]:
    container = {
        "name": engine.name,
        "image": engine.image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(engine.settings),
        "ports": [{"name": "database", "containerPort": engine.port}],
        "readinessProbe": {"exec": {"command": list(engine.probe)}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "768Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/database"},
            {"name": "files", "mountPath": "/etc/database", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 20,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            # PostgreSQL refuses a key that others can read.
            {"name": "files", "secret": {"secretName": engine.name, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}},
        ],
    }
