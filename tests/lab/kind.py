"""The same cluster by kind, where a Docker engine answers.

kind brings the runtime, the network, DNS and a storage class called `standard`; the lab adds the ports that
Kafka needs on the host, the images and Kafka itself. Tried up to the pull of the node's image, for want of a container registry; what
comes after is written from kind's documentation: see docs/how-to/local-cluster.md.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab import kafka
from lab.images import build_own_jar, choose, stage
from lab.kafka import EXTERNAL_PORT
from lab.network import DATABASE_PORT
from lab.paths import BIN, CACHE, CONTEXT, KUBECONFIG, REPOSITORY
from lab.progress import report, step
from lab.shell import run, succeeds
from lab.toolchain import find_go

VERSION = "v0.30.0"
_NODE_IMAGE = "kindest/node:v1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a"
_KIND = CACHE / "kind" / VERSION / "kind"


def _install() -> None:
    if not _KIND.exists():
        with step("kind", done="compiled"):
            part = _KIND.parent.with_name(f".{VERSION}.part")
            run([find_go(), "install", f"sigs.k8s.io/kind@{VERSION}"], env={"GOBIN": str(part)})
            part.replace(_KIND.parent)


def _exists() -> bool:
    return CONTEXT in run([_KIND, "get", "clusters"]).split()


def _configuration() -> str:
    ports = [
        {
            "containerPort": port,
            "hostPort": port,
            "listenAddress": "127.0.0.1",
        }
        for port in (*range(EXTERNAL_PORT, EXTERNAL_PORT + 3), DATABASE_PORT)
    ]
    return json.dumps(
        {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "nodes": [{"role": "control-plane", "image": _NODE_IMAGE, "extraPortMappings": ports}],
        }
    )


def up(brokers: int) -> None:
    """Make the cluster run, with Kafka and the project's images."""
    _install()
    if shutil.which("kubectl") and not (BIN / "kubectl").exists():
        BIN.mkdir(parents=True, exist_ok=True)
        (BIN / "kubectl").symlink_to(str(shutil.which("kubectl")))
    if not _exists():
        with step("kind cluster"):
            create: list[str | Path] = [
                _KIND,
                "create",
                "cluster",
                "--name",
                CONTEXT,
                "--kubeconfig",
                KUBECONFIG,
            ]
            KUBECONFIG.parent.mkdir(parents=True, exist_ok=True)
            run([*create, "--config", "-", "--wait", "120s"], stdin=_configuration())
            run(
                [
                    "kubectl",
                    f"--kubeconfig={KUBECONFIG}",
                    "config",
                    "rename-context",
                    f"kind-{CONTEXT}",
                    CONTEXT,
                ]
            )
    ensure_images()
    with step("kafka"):
        kafka.ensure(brokers)


def ensure_images(names: Sequence[str] = ()) -> None:
    """Build the images with Docker and give them to the cluster; Docker's own cache skips what is unchanged."""
    build_own_jar()
    for image in choose(names):
        if not (REPOSITORY / image.dockerfile).exists():
            report(f"image {image.reference}: skipped, there is no {image.dockerfile}")
            continue
        CACHE.mkdir(parents=True, exist_ok=True)
        with step(f"image {image.reference}"), tempfile.TemporaryDirectory(dir=CACHE) as folder:
            stage(image, Path(folder))
            run(
                [
                    "docker",
                    "build",
                    "-t",
                    image.reference,
                    "-f",
                    Path(folder) / image.dockerfile,
                    folder,
                ]
            )
            run([_KIND, "load", "docker-image", image.reference, "--name", CONTEXT])


def load(archive: Path) -> None:
    """Import an image archive."""
    run([_KIND, "load", "image-archive", archive, "--name", CONTEXT])


def down() -> None:
    """Delete the cluster."""
    if _KIND.exists():
        run([_KIND, "delete", "cluster", "--name", CONTEXT, "--kubeconfig", KUBECONFIG])


def status() -> bool:
    """Print the cluster's pods; true if there is a cluster."""
    if not (_KIND.exists() and _exists()):
        print("no kind cluster")
        return False
    command = ["kubectl", f"--kubeconfig={KUBECONFIG}", "get", "pods", "--all-namespaces"]
    print(run(command), end="")
    return succeeds(command)
