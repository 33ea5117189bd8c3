"""What the operator's pods have in common: the restricted Pod Security Standard and their owner; short-lived ones also their node."""

from dataclasses import dataclass
from typing import Any

from kappa_crds import API_VERSION
from kappa_crds.pod_template import NO_TEMPLATE, PodTemplate
from kappa_crds.resource import Resource
from kappa_operator.engine.actions import Manifest

CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True)
class PodOptions:
    """What the installation decides about all pods that the operator creates.

    `user` has the ids of the user, of its group and of the group of volumes; None where the platform assigns them, as OpenShift does.
    `template` is added to every pod.
    """

    user: tuple[int, int, int] | None = (1000, 1000, 1000)
    template: PodTemplate = NO_TEMPLATE

    @property
    def security(self) -> Manifest:
        """Return the security context of a pod."""
        security: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        if self.user is None:
            return security
        user, group, volumes = self.user
        ids = {"runAsUser": user, "runAsGroup": group, "fsGroup": volumes}
        return security | ids | {"fsGroupChangePolicy": "OnRootMismatch"}


DEFAULT_PODS = PodOptions()
"""What pods are without a choice of the installation."""


def build_restricted_spec(deadline: int, node: str | None, options: PodOptions) -> Manifest:
    """Return what a pod needs that runs once, for `deadline` seconds at most, and never sees the API server.

    `node` is where the claim is mounted already: a ReadWriteOnce volume can only be mounted there.
    """
    return {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": deadline,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": options.security,
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
