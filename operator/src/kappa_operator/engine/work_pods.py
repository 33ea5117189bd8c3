"""A pod that does one piece of work for a resource, and leaves the result as its termination message. Pure: callers read the pod."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from pydantic import ValidationError

from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.ownership import find_controller

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)  # with slots, a generic class cannot be called by its alias
class WorkPod(Generic[ResultT]):
    """The pod of a piece of work. `result` is there when it has ended, `waits` is what keeps it from starting."""

    ref: ObjectRef
    uid: str
    created: datetime
    deleting: bool = False
    result: ResultT | None = None
    waits: str | None = None


def read_work_pod(
    pod: Manifest | None, owner_uid: str, ref: ObjectRef, parse: Callable[[Manifest], ResultT | None]
) -> WorkPod[ResultT] | None:
    """Return the pod of a piece of work, if it is there. A pod of that name with another owner is not."""
    if pod is None or find_controller(pod).get("uid") != owner_uid:
        return None
    metadata = pod["metadata"]
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return WorkPod(
        ref, metadata["uid"], created, "deletionTimestamp" in metadata, parse(pod), explain_waiting(pod)
    )


def parse_result(
    pod: Manifest, read: Callable[[str], ResultT], fail: Callable[[str, str], ResultT]
) -> ResultT | None:
    """Return how the work of a pod ended, None while it has not.

    `read` raises ValidationError for a message that is no result. Then `fail` makes one of how the pod ended, and of that message.
    """
    status = pod.get("status", {})
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    container: Manifest = next(iter(status.get("containerStatuses", [])), {})
    ended = container.get("state", {}).get("terminated", {})
    text = ended.get("message", "")
    try:
        return read(text)
    except ValidationError:
        why = status.get("message") or status.get("reason") or ended.get("reason") or "no reason given"
        return fail(f"the pod ended with exit code {ended.get('exitCode', 'unknown')} ({why})", text)


def explain_waiting(pod: Manifest) -> str | None:
    """Return what the scheduler or the kubelet reports of a pod that does not run, if they report anything."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("message"):
            return f"{waiting.get('reason')}: {waiting['message']}"
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return None


def is_namespace_deleted(problem: str) -> bool:
    """Return whether an object could not be created because its namespace is being deleted: no pod can run there any more."""
    return "because it is being terminated" in problem
