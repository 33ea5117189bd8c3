"""Volumes on demand: a directory a claim, writable by any user, removed with the claim.

The provisioner is a component of our Go program. (The one inside kube-controller-manager makes directories
that only root can write, so pods with a restricted security context can't use them.)
"""

from lab import kube
from lab.paths import VOLUMES
from lab.pki import kubeconfig
from lab.processes import Server
from lab.toolchain import program

CLASS = "standard"
PROVISIONER = "kappa-platform.io/directory"


def server() -> Server:
    """The provisioner; it has no health endpoint, and a claim made too early just waits."""
    VOLUMES.mkdir(parents=True, exist_ok=True)
    return Server(
        "kappa-storage",
        [
            program("kappa-storage"),
            f"-kubeconfig={kubeconfig('admin')}",
            f"-root={VOLUMES}",
            f"-name={PROVISIONER}",
        ],
        lambda: True,
    )


def publish() -> None:
    """Make the class that claims get when they name none."""
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    kube.apply(
        [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": CLASS, "annotations": annotations},
                "provisioner": PROVISIONER,
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        ]
    )
