"""Requests to the API server by one connection: a kubectl process takes fifty times as long."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import urllib3
import yaml

from lab.errors import LabError
from lab.paths import KUBECONFIG

Body = dict[str, Any]
_APPLY = [("fieldManager", "kappa-tests"), ("fieldValidation", "Strict"), ("force", "true")]


def request(
    method: str,
    path: str,
    body: Body | None = None,
    *,
    query: list[tuple[str, str]] | None = None,
    content_type: str = "application/json",
    kubeconfig: Path = KUBECONFIG,
) -> Body:
    """Return the answer as JSON; LabError with the message of the API server, or the cause if there is no answer."""
    client = _connect(kubeconfig)
    headers = {"Accept": "application/json", "Content-Type": content_type}
    parts = {"query_params": query or [], "header_params": headers, "auth_settings": ["BearerToken"]}
    _, url, headers, *_ = client.param_serialize(method, path, **parts)
    text = None if body is None else json.dumps(body)
    try:
        answer = client.rest_client.pool_manager.request(method, url, body=text, headers=headers)
    except urllib3.exceptions.HTTPError as error:
        raise LabError(f"{method} {path}: {error}") from error
    found: Body = answer.json()
    if answer.status >= 300:
        raise LabError(f"{method} {path}: {answer.status} {found.get('message')}")
    return found


@functools.cache
def _connect(kubeconfig: Path) -> Any:
    return kubernetes.config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]


def apply(namespace: str, text: str) -> None:
    """Apply manifests on the server, YAML or JSON; LabError with the message of the API server where it refuses one."""
    for body in _read_objects(text):
        version, kind, name = body["apiVersion"], body["kind"], body["metadata"]["name"]
        path = f"{_find_path(version, kind, namespace)}/{name}"
        request("PATCH", path, body, query=_APPLY, content_type="application/apply-patch+yaml")


def list_objects(namespace: str, version: str, kind: str) -> list[Body]:
    """Return the objects of a kind in a namespace."""
    found: list[Body] = request("GET", _find_path(version, kind, namespace))["items"]
    return found


def _read_objects(text: str) -> Iterator[Body]:
    for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
        yield from (document or {"items": []}).get("items", [document])


@functools.cache
def _list_resources(version: str) -> dict[str, Body]:
    """Return what the API server serves for each kind of a version of a group."""
    found = request("GET", _find_root(version))["resources"]
    return {each["kind"]: each for each in found if "/" not in each["name"]}


def _find_root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _find_path(version: str, kind: str, namespace: str) -> str:
    resource = _list_resources(version)[kind]
    place = f"/namespaces/{namespace}" if resource["namespaced"] else ""
    return f"{_find_root(version)}{place}/{resource['name']}"
