"""What the operator's pods have in common: the restricted Pod Security Standard and their owner; short-lived ones also their node."""

from typing import Any

from kappa_crds import API_VERSION
from kappa_crds.resource import Resource
from kappa_operator.engine.actions import Manifest

POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "fsGroup": 1000,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def build_restricted_spec(deadline: int, node: str | None) -> Manifest:
    """Return what a pod needs that runs once, for `deadline` seconds at most, and never sees the API server.

    `node` is where the claim is mounted already: a ReadWriteOnce volume can only be mounted there.
    """
    return {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": deadline,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": POD_SECURITY,
        **({"affinity": _build_affinity(node)} if node else {}),
    }


def build_owner(resource: Resource[Any, Any]) -> Manifest:
    """Return the reference by which an object goes with a resource."""
    return {
        "apiVersion": API_VERSION,
        "kind": resource.kind,
        "name": resource.metadata.name,
        "uid": resource.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _build_affinity(node: str) -> Manifest:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
