"""What tests read again and again while they wait. By one connection a read takes a fiftieth of what a kubectl process takes."""

import functools
import json
from collections.abc import Callable
from typing import Any

import kubernetes
import urllib3

from kappa_crds import GROUP, VERSION
from lab.errors import LabError
from lab.paths import KUBECONFIG

_CORE = {
    "pods": "pod", "events": "event", "configmaps": "config_map", "persistentvolumeclaims": "persistent_volume_claim",
}  # fmt: skip
_VERSIONS = {"events.k8s.io": ("events.k8s.io", "v1")}


@functools.cache
def _client() -> Any:
    return kubernetes.config.new_client_from_config(str(KUBECONFIG))  # type: ignore[no-untyped-call]


def read_resource(namespace: str, plural: str, name: str) -> dict[str, Any]:
    """Return one of the platform's resources as JSON; raise LabError where the API server has or gives none."""
    api: Any = kubernetes.client.CustomObjectsApi(_client())
    found: dict[str, Any] = _try(
        f"{plural} {name} of {namespace}",
        lambda: api.get_namespaced_custom_object(GROUP, VERSION, namespace, plural, name),
    )
    return found


def list_pods(namespace: str, labels: str = "") -> list[dict[str, Any]]:
    """Return the pods with the labels, or all, as JSON; raise LabError where the API server gives none."""
    return list_objects(namespace, "pods", labels)


def list_objects(namespace: str, kind: str, labels: str = "", fields: str = "") -> list[dict[str, Any]]:
    """Return objects by the plural of their kind, with its group where it is not the core's or the platform's; LabError where there is no answer."""
    plural, _, group = kind.partition(".")
    chosen = {"label_selector": labels, "field_selector": fields, "_preload_content": False}
    if plural in _CORE and not group:
        read = getattr(kubernetes.client.CoreV1Api(_client()), f"list_namespaced_{_CORE[plural]}")
        answer = _try(f"{kind} of {namespace}", lambda: read(namespace, **chosen))
    else:
        api: Any = kubernetes.client.CustomObjectsApi(_client())
        version = _VERSIONS.get(group, (GROUP, VERSION))
        answer = _try(
            f"{kind} of {namespace}",
            lambda: api.list_namespaced_custom_object(*version, namespace, plural, **chosen),
        )
    items: list[dict[str, Any]] = json.loads(answer.data)["items"]
    return items


def _try(what: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except kubernetes.client.ApiException as error:
        raise LabError(f"{what}: {error.status} {error.reason}") from error
    except urllib3.exceptions.HTTPError as error:
        raise LabError(f"{what}: {error}") from error
