"""Where claims are mounted, and what keeps a pod that mounts one from running."""

from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext


async def find_claim_node(context: OperatorContext, namespace: str, claim: str) -> str | None:
    """Return the node where a claim is mounted: a ReadWriteOnce volume cannot be mounted on another one."""
    pods = await context.cluster.list_objects("v1", "Pod", namespace)
    nodes = (pod["spec"].get("nodeName") for pod in pods if _mounts(pod, claim) and _is_alive(pod))
    return next((node for node in nodes if node), None)


def explain_waiting(pod: Body) -> str | None:
    """Return the words of the scheduler or the kubelet on a pod that does not run, if they said any."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("message"):
            return f"{waiting.get('reason')}: {waiting['message']}"
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return None


def _mounts(pod: Body, claim: str) -> bool:
    volumes = pod["spec"].get("volumes", [])
    return any(volume.get("persistentVolumeClaim", {}).get("claimName") == claim for volume in volumes)


def _is_alive(pod: Body) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
