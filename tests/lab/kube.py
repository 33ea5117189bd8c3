"""Talking to the cluster as its administrator."""

import json
from collections.abc import Sequence
from typing import Any

from lab.paths import BIN, KUBECONFIG
from lab.shell import run


def kubectl(*arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
    """Run kubectl against the lab's cluster and return what it printed."""
    return run([BIN / "kubectl", f"--kubeconfig={KUBECONFIG}", *arguments], stdin=stdin, timeout=timeout)


def apply(objects: Sequence[dict[str, Any]]) -> str:
    """Server-side apply of objects, as the lab."""
    document = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    flags = ["--server-side", "--field-manager=kappa-lab", "--force-conflicts"]
    return kubectl("apply", *flags, "-f", "-", stdin=json.dumps(document))


def namespace(name: str, pod_security: str = "restricted") -> dict[str, Any]:
    """A namespace in which pods must meet a Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": pod_security}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
