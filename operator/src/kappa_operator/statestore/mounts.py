"""Where PVCs are mounted, and what keeps a pod that mounts one from running."""

from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext

_ON_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


async def find_claim_node(context: OperatorContext, namespace: str, claim: str) -> str | None:
    """Return the node where a PVC is mounted: a ReadWriteOnce volume cannot be mounted on another one.

    Any pod of the namespace may mount it, and no selector finds pods by PVC: so pages of running pods are read until one mounts it.
    """
    async for page in context.cluster.list_pages("v1", "Pod", namespace, fields=_ON_NODE):
        for pod in page:
            if _mounts(pod, claim):
                return str(pod["spec"]["nodeName"])
    return None


def _mounts(pod: Body, claim: str) -> bool:
    volumes = pod["spec"].get("volumes", [])
    return any(volume.get("persistentVolumeClaim", {}).get("claimName") == claim for volume in volumes)
