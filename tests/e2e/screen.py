"""What a person would look at first when a test on the cluster fails, on one screen."""

import json
from typing import Any

from lab.errors import LabError
from lab.kube import kubectl

_EVENTS = 12
_LOG_LINES = 14
_WIDTH = 220


def build_screen(namespace: str) -> str:
    """Return resources, conditions, the last Events and the end of the drivers' logs of a namespace."""
    parts = {
        "resources": _try("get", "kappa,pods", "-n", namespace),
        "conditions": _list_conditions(namespace),
        "Events": _list_events(namespace),
        "drivers": _list_log(namespace),
    }
    return "\n".join(f"── {title}\n{_cut(text)}" for title, text in parts.items())


def _list_conditions(namespace: str) -> str:
    try:
        found: dict[str, Any] = json.loads(kubectl("get", "kappa", "-n", namespace, "-o", "json"))
    except LabError as error:
        return str(error)
    return "\n".join(
        f"{item['kind']}/{item['metadata']['name']} {condition['type']}={condition['status']}"
        f" {condition['reason']}: {condition['message']}"
        for item in found["items"]
        for condition in item.get("status", {}).get("conditions", [])
        if condition["type"] == "Ready"
    )


def _list_events(namespace: str) -> str:
    columns = "custom-columns=:.lastTimestamp,:.eventTime,:.involvedObject.name,:.reason,:.message"
    listed = _try(
        "get",
        "events",
        "-n",
        namespace,
        "--sort-by=.metadata.creationTimestamp",
        "--no-headers",
        "-o",
        columns,
    )
    return "\n".join(" ".join(line.split()) for line in listed.splitlines()[-_EVENTS:])


def _list_log(namespace: str) -> str:
    """Return the end of the drivers' logs without the lines of stack traces."""
    text = _try("logs", "-n", namespace, "--selector=kappa-platform.io/role=driver", "--tail=100")
    return "\n".join([line for line in text.splitlines() if not line.startswith("\tat ")][-_LOG_LINES:])


def _try(*arguments: str) -> str:
    try:
        return kubectl(*arguments, timeout=20)
    except LabError as error:
        return str(error)


def _cut(text: str) -> str:
    lines = text.strip().splitlines()
    return "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …" for line in lines)
