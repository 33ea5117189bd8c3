"""The driver pod that decisions use, from its JSON."""

import re
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.revision import (
    CONTROL_PORT,
    CONTROL_TLS_PORT,
    GENERATION_ANNOTATION,
    STANDBY_ANNOTATION,
)
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import CONTROL_TLS, REVISION_LABEL, SIDE_ANNOTATION

Body = dict[str, Any]

_IMAGE_TROUBLE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_KILLED = 137
_LOG_LIMIT = 2048
"""Bytes of the log that the kubelet takes where a container left no message: it cuts the first line off."""
_STACK_LINE = re.compile(r"\s*(at \S+\(|\.\.\. \d+ more)")


def parse_driver(body: Body) -> DriverPod:
    """Return the driver pod; a pod without a generation is of generation 0, which is never current."""
    metadata, status = body["metadata"], body.get("status", {})
    container: Body = next(iter(status.get("containerStatuses", [])), {})
    state = container.get("state", {})
    return DriverPod(
        ref=ObjectRef("v1", "Pod", metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=int(metadata.get("annotations", {}).get(GENERATION_ANNOTATION, 0)),
        revision=metadata.get("labels", {}).get(REVISION_LABEL, ""),
        phase=status.get("phase", "Pending"),
        deleting="deletionTimestamp" in metadata,
        address=_find_address(body.get("spec", {}), status.get("podIP")),
        ready=container.get("ready", False),
        started="running" in state or "terminated" in state,
        waiting=_explain_waiting(status, state),
        exit=_explain_exit(status, state),
        standby=metadata.get("annotations", {}).get(STANDBY_ANNOTATION) == "true",
        side=SIDE_ANNOTATION in metadata.get("annotations", {}),
        created=_read_time(metadata.get("creationTimestamp")),
    )


def _find_address(spec: Body, address: str | None) -> str | None:
    """Return the URL of the control port, with TLS where the pod has that port: the ports of a pod never change."""
    if address is None:
        return None
    host = f"[{address}]" if ":" in address else address
    ports = (port for container in spec.get("containers", ()) for port in container.get("ports", ()))
    if any(port.get("name") == CONTROL_TLS for port in ports):
        return f"https://{host}:{CONTROL_TLS_PORT}"
    return f"http://{host}:{CONTROL_PORT}"


def _read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def explain_executor(body: Body) -> str | None:
    """Return why an executor pod does not start; None where nothing prevents it."""
    status = body.get("status", {})
    container: Body = next(iter(status.get("containerStatuses", [])), {})
    waiting = _explain_waiting(status, container.get("state", {}), "executor")
    return None if waiting is None else f"{body['metadata']['name']}: {waiting[1]}"


def _explain_waiting(status: Body, state: Body, what: str = "driver") -> tuple[Reason, str] | None:
    waiting = state.get("waiting")
    if waiting and waiting.get("reason") in _IMAGE_TROUBLE:
        return Reason.IMAGE_UNAVAILABLE, f"{waiting['reason']}: {waiting.get('message', '')}"
    if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return Reason.DRIVER_SCHEDULING, f"{waiting['reason']}: {waiting.get('message', '')}"
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return Reason.DRIVER_UNSCHEDULABLE, f"no node takes the {what}: {condition.get('message', '')}"
    return None


def _explain_exit(status: Body, state: Body) -> DriverExit | None:
    terminated = state.get("terminated")
    if terminated is None:
        if status.get("phase") != "Failed":
            return None
        message = status.get("message") or status.get("reason") or "the node gave no reason"
        return DriverExit(reason=Reason.DRIVER_LOST, message=f"the driver pod failed: {message}")
    if terminated.get("reason") == "OOMKilled":
        return DriverExit(
            reason=Reason.DRIVER_OUT_OF_MEMORY,
            message="the driver used more memory than its limit; raise spec.resources.driver.memory",
        )
    return _read_message(terminated)


def _read_message(terminated: Body) -> DriverExit:
    """Return the driver's own last word, or what can be message without it."""
    text, code = terminated.get("message", ""), terminated.get("exitCode")
    try:
        return DriverExit.model_validate_json(text)
    except ValidationError:
        pass
    if code == 0:
        return DriverExit(reason=Reason.DRIVER_STOPPED, message="the driver ended", graceful=True)
    if code == _KILLED:
        why = "its node was short of memory, or its process was ended from outside; see the Events of its pod and node"
        return DriverExit(
            reason=Reason.DRIVER_CRASHED, message=f"the driver was killed (exit code {code}): {why}"
        )
    message = _strip_log(text) or "it left no message"
    return DriverExit(
        reason=Reason.DRIVER_CRASHED, message=f"the driver ended with exit code {code}: {message}"
    )


def _strip_log(text: str) -> str:
    """Return the whole lines at the end of a log, without those of stack traces."""
    is_cut = len(text.encode()) >= _LOG_LIMIT
    lines = text.splitlines()[1 if is_cut else 0 :]
    return "\n".join(line for line in lines if not _STACK_LINE.match(line)).strip()
