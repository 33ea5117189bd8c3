"""The requests that a Topic costs, made without the operator: how much of a delay is that of the API server and of Kafka."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from kappa_operator.engine.cluster import ApiCluster
from lab.paths import REPOSITORY
from lab.shell import run

_GROUP, _KIND = "twins.example", "Topic"


def install_twin(kubectl: list[str | Path]) -> None:
    """Install a CRD with the schema of Topics that no operator watches."""
    body = yaml.load((REPOSITORY / "crds" / "generated" / "topics.yaml").read_text(), yaml.CSafeLoader)
    body["metadata"] = {"name": f"topics.{_GROUP}"}
    body["spec"]["group"] = _GROUP
    body["spec"]["names"].pop("categories", None)
    run([*kubectl, "apply", "--server-side", "--filename=-"], stdin=json.dumps(body))


async def time_requests(cluster: ApiCluster, version: str, space: str, name: str) -> float:
    """Return the seconds of what the API server does for a Topic: create it, show it, write its status, show that."""
    path, started = f"/apis/{_GROUP}/{version}/namespaces/{space}/topics", time.monotonic()
    manifest: dict[str, Any] = {
        "apiVersion": f"{_GROUP}/{version}", "kind": _KIND, "metadata": {"name": name, "namespace": space},
    }  # fmt: skip
    await cluster._request("POST", path, None, {**manifest, "spec": {}})
    await cluster._request("GET", f"{path}/{name}")
    status = {**manifest, "status": {"state": "Ready"}}
    query = {"fieldManager": "twin", "force": "true"}
    await cluster._request("PATCH", f"{path}/{name}/status", query, status, "application/apply-patch+yaml")
    await cluster._request("GET", f"{path}/{name}")
    return time.monotonic() - started


async def time_kafka(admin: AdminClient, name: str) -> float:
    """Return the seconds in which Kafka creates a topic."""
    started = time.monotonic()
    (future,) = admin.create_topics([NewTopic(name, 1)]).values()
    await asyncio.to_thread(future.result)
    return time.monotonic() - started
