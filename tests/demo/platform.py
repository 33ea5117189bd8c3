"""The cluster of the demo: the lab, the chart, the resources of the example, and their status."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

from demo.errors import DemoError
from demo.manifests import PIPELINE, SURROUNDINGS, Document, Example
from kappa_crds.conditions import ConditionType
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline import PIPELINE as PIPELINE_KIND
from kappa_crds.pipeline_status import PipelineStatus
from lab import cluster, containerd, images, kind
from lab.errors import LabError
from lab.kube import deny_all, enable, kubectl, namespace
from lab.paths import BIN, KUBECONFIG, REPOSITORY
from lab.shell import run

CHART = REPOSITORY / "charts" / "kappa"
RELEASE = "kappa"
OPERATOR_NAMESPACE = "kappa-system"
_OPERATOR_IMAGE = "docker.io/kappa/operator:dev"
_INSTALL_SECONDS = 180
_READY_SECONDS = 90
_GONE_SECONDS = 120


def start_lab() -> None:
    """Make cluster, Kafka and images as they should be."""
    if cluster.is_docker_there():
        kind.up(brokers=1)
        return
    with cluster.lock():
        cluster.up(brokers=1)


def ensure_images(*names: str) -> None:
    """Build and import some images if they changed, also those that are built on demand."""
    if cluster.is_docker_there():
        kind.ensure_images(names)
        return
    with cluster.lock():
        images.ensure(names)


def install_chart(values: Mapping[str, object] = MappingProxyType({})) -> None:
    """Install or upgrade the chart, and make the operator run the image that is there now.

    `values` are those that are not the chart's own, each by its path in `values.yaml`.
    """
    create_namespace(OPERATOR_NAMESPACE)
    run(
        [
            *(BIN / "helm", f"--kubeconfig={KUBECONFIG}", "upgrade", "--install", RELEASE, CHART),
            *("--namespace", OPERATOR_NAMESPACE, "--reset-values", "--take-ownership"),
            *chain.from_iterable(
                ("--set-json", f"{path}={json.dumps(value)}") for path, value in values.items()
            ),
            *("--wait", f"--timeout={_INSTALL_SECONDS}s"),
        ],
        timeout=_INSTALL_SECONDS + 30,
    )
    _run_current_image()


def _run_current_image() -> None:
    """The tag of a rebuilt image stays the same, so the pods must be restarted."""
    deployment = ("deployment/kappa-operator", "-n", OPERATOR_NAMESPACE)
    if cluster.is_docker_there():
        kubectl("rollout", "restart", *deployment)
    else:
        digest = containerd.image_digests().get(_OPERATOR_IMAGE, "")
        note = {"metadata": {"annotations": {"kappa-demo/image": digest}}}
        kubectl("patch", *deployment, "--patch", json.dumps({"spec": {"template": note}}))
    kubectl("rollout", "status", *deployment, f"--timeout={_INSTALL_SECONDS}s", timeout=_INSTALL_SECONDS + 10)


def apply(example: Example, names: tuple[str, ...]) -> None:
    """Apply some of the example's files to its namespace."""
    apply_documents(example.namespace, example.documents(names))


def apply_documents(namespace: str, documents: Sequence[Document]) -> None:
    """Apply documents to a namespace, as a user does."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(items))


def create_namespace(name: str) -> None:
    """Make the namespace if it isn't there; its pods must meet the restricted Pod Security Standard, and have no connection by default."""
    items = {"apiVersion": "v1", "kind": "List", "items": [namespace(name), deny_all(name)]}
    kubectl("apply", "-f", "-", stdin=json.dumps(items))


def enable_namespace(name: str) -> None:
    """Let the operator act in the namespace, as an administrator of it does."""
    kubectl("apply", "-f", "-", stdin=json.dumps(enable(name)))


def wait_ready(example: Example, names: tuple[str, ...] = SURROUNDINGS) -> None:
    """Wait until every resource of some files is Ready; LabError with kubectl's words if it takes too long."""
    wait_documents(example.namespace, example.documents(names), _READY_SECONDS)


def wait_documents(namespace: str, documents: Sequence[Document], seconds: int) -> None:
    """Wait until every resource is Ready; LabError with kubectl's words if it takes too long."""
    resources = [name_resource(document) for document in documents]
    kubectl(
        *("wait", "--for=condition=Ready", "-n", namespace, f"--timeout={seconds}s", *resources),
        timeout=seconds + 10,
    )


def name_resource(document: Document) -> str:
    """Return a resource as kubectl names it, unmistakable by its group."""
    found = find_kind(document["kind"])
    return f"{found.plural}.{document['apiVersion'].split('/')[0]}/{document['metadata']['name']}"


def remove_example(example: Example) -> None:
    """Delete the example's resources, in the order in which they need each other, and then its namespace."""
    if not kubectl("get", "namespace", example.namespace, "--ignore-not-found", "-o", "name").strip():
        return
    for names in (PIPELINE, ("topics.yaml", "statestore.yaml"), ("kafka.yaml",)):
        resources = [name_resource(document) for document in example.documents(names)]
        delete("-n", example.namespace, *resources)
    delete("namespace", example.namespace)


def delete(*what: str) -> None:
    """Delete objects that are there, and wait until they are gone."""
    kubectl(
        *("delete", "--ignore-not-found", "--wait", f"--timeout={_GONE_SECONDS}s", *what),
        timeout=_GONE_SECONDS + 10,
    )


def read_status(example: Example) -> PipelineStatus:
    """Return the pipeline's status."""
    body: dict[str, Any] = json.loads(
        kubectl("get", "pipelines.kappa-platform.io", example.pipeline, "-n", example.namespace, "-o", "json")
    )
    status = PIPELINE_KIND.parse(body).status
    if not isinstance(status, PipelineStatus):
        raise DemoError(f"the status of pipeline {example.pipeline} has an unknown form")
    return status


def get_kappa(namespace: str) -> str:
    """Return what a user sees with `kubectl get kappa`."""
    return kubectl("get", "kappa", "-n", namespace)


def describe_failure(name: str, main: str) -> dict[str, str]:
    """Return conditions, Events and the last log lines of the driver in a namespace; an unavailable part has its reason.

    `main` is the pipeline of which everything is shown.
    """
    namespace = ("-n", name)
    pipeline = f"Pipeline/{main}"
    return {
        "pods": _try("get", "pods", *namespace, "--no-headers"),
        "conditions": _read(lambda items: list_conditions(items, pipeline), "get", "kappa", *namespace),
        "Events": _read(lambda items: list_events(items, pipeline), "get", "events", *namespace),
        "driver": _try("logs", *namespace, "--selector=kappa-platform.io/role=driver", "--tail=14"),
    }


def list_conditions(items: Sequence[Document], always: str) -> list[str]:
    """Return the conditions of the resources that are not Ready, and those of one resource in any case, as lines."""
    lines = []
    for item in items:
        name = f"{item['kind']}/{item['metadata']['name']}"
        conditions = item.get("status", {}).get("conditions", [])
        ready = any(c["type"] == ConditionType.READY and c["status"] == "True" for c in conditions)
        if not conditions:
            lines.append(f"{name} has none: the operator has not seen it")
        elif name == always or not ready:
            lines += [f"{name} {c['type']}={c['status']} {c['reason']}: {c['message']}" for c in conditions]
    return lines


def list_events(items: Sequence[Document], always: str) -> list[str]:
    """Return the warnings, and all Events about one resource, oldest first, as lines."""
    lines = []
    for item in items:
        about = f"{item['involvedObject'].get('kind')}/{item['involvedObject'].get('name')}"
        # Kubernetes' own schedulers write events in the newer form, which has no lastTimestamp.
        at = item.get("lastTimestamp") or item.get("eventTime") or item["metadata"]["creationTimestamp"]
        if item.get("type") == "Warning" or about == always:
            lines.append(f"{at[:19]}Z {about} {item.get('reason')}: {item.get('message', '').strip()}")
    return sorted(lines)


def _read(say: Callable[[Sequence[Document]], list[str]], *arguments: str) -> str:
    text = _try(*arguments, "-o", "json")
    try:
        return "\n".join(say(json.loads(text)["items"]))
    except (ValueError, KeyError):
        return text


def _try(*arguments: str) -> str:
    try:
        return kubectl(*arguments, timeout=20)
    except LabError as error:
        return str(error)
