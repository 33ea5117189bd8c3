"""What a Prometheus in Kubernetes scrapes: pods that it finds through the API server, by the chart's PodMonitors or by annotations."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lab import kube
from lab.paths import KUBECONFIG
from monitored.chart import Body, find, render

_POD = "__meta_kubernetes_pod_"
_NAMESPACE = {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"}
_NAME = {"source_labels": [f"{_POD}name"], "target_label": "pod"}
_ENDED = {"source_labels": [f"{_POD}phase"], "regex": "Failed|Succeeded", "action": "drop"}
_READS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]


@contextlib.contextmanager
def as_prometheus(namespace: str, folder: Path) -> Iterator[Path]:
    """Yield the kubeconfig of an account that may read pods and nothing else, as Prometheus is given one."""
    name = f"prometheus-{uuid.uuid4().hex[:6]}"
    group = "rbac.authorization.k8s.io"
    kube.apply(
        [
            _build("v1", "ServiceAccount", name, namespace),
            {**_build(f"{group}/v1", "ClusterRole", name), "rules": _READS},
            {
                **_build(f"{group}/v1", "ClusterRoleBinding", name),
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
        ]
    )
    try:
        token = kube.kubectl("create", "token", name, "-n", namespace, "--duration=4h").strip()
        body = yaml.safe_load(KUBECONFIG.read_text())
        for user in body["users"]:
            user["user"] = {"token": token}
        path = folder / "prometheus.kubeconfig"
        path.write_text(yaml.safe_dump(body))
        yield path
    finally:
        kube.kubectl("delete", "--ignore-not-found", f"clusterrolebinding/{name}", f"clusterrole/{name}")
        kube.kubectl("delete", "--ignore-not-found", "serviceaccount", name, "-n", namespace)


def build_scrapes(kubeconfig: Path) -> list[Body]:
    """Return what the Prometheus operator makes of the chart's PodMonitors."""
    monitors = find(render("monitoring.podMonitor.enabled=true"), "PodMonitor")
    return [_build_scrape(monitor, endpoint, kubeconfig) for monitor in monitors.values()
            for endpoint in monitor["spec"]["podMetricsEndpoints"]]  # fmt: skip


def build_annotated(kubeconfig: Path) -> Body:
    """Return a job that finds pods by their annotations, as those do who have no Prometheus operator. It keeps no samples but `up`."""
    annotation = f"{_POD}annotation_prometheus_io_"
    return {
        "job_name": "annotated",
        "honor_labels": True,
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(kubeconfig)}],
        "relabel_configs": [
            {"source_labels": [f"{annotation}scrape"], "regex": "true", "action": "keep"},
            {
                "source_labels": [f"{_POD}ip", f"{annotation}port"], "separator": ":", "regex": "([0-9.]+:[0-9]+)",
                "target_label": "__address__",
            },
            _ENDED, _NAMESPACE, _NAME,
        ],
        "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": ".*", "action": "drop"}],
    }  # fmt: skip


def _build(version: str, kind: str, name: str, namespace: str | None = None) -> Body:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _build_scrape(monitor: Body, endpoint: Body, kubeconfig: Path) -> Body:
    metadata, spec = monitor["metadata"], monitor["spec"]
    labels = ",".join(f"{name}={value}" for name, value in spec["selector"]["matchLabels"].items())
    chosen: Body = spec.get("namespaceSelector", {})
    discovery: dict[str, Any] = {
        "role": "pod",
        "kubeconfig_file": str(kubeconfig),
        "selectors": [{"role": "pod", "label": labels}],
    }
    if not chosen.get("any"):
        discovery["namespaces"] = {"names": chosen.get("matchNames", [metadata["namespace"]])}
    port = {
        "source_labels": [f"{_POD}container_port_name"],
        "regex": endpoint["port"],
        "action": "keep",
    }
    return {
        "job_name": f"{metadata['namespace']}/{metadata['name']}",
        "honor_labels": endpoint["honorLabels"],
        "metrics_path": endpoint["path"],
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": [_ENDED, port, _NAMESPACE, _NAME],
    }
