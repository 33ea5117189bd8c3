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


def enable(namespace: str, role: str = "kappa-namespace") -> dict[str, Any]:
    """The RoleBinding by which the operator acts in a namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "kappa-enabled", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "kappa-operator", "namespace": "kappa-system"}],
    }


def deny_all(namespace: str) -> dict[str, Any]:
    """The NetworkPolicy of a namespace whose pods have no connection but those that other policies admit."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return network_policy(namespace, "default-deny", spec)


def network_policy(namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A NetworkPolicy."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def namespace(name: str, pod_security: str = "restricted") -> dict[str, Any]:
    """A namespace in which pods must meet a Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": pod_security}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
