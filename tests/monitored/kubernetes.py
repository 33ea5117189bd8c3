"""What a Prometheus in Kubernetes scrapes: pods that it finds through the API server, by the chart's monitors or by annotations.

Debian's Prometheus is built without its discovery of Kubernetes. So it asks `Discovery` over HTTP for the same targets with the same labels;
what is kept of them, and under what names, Prometheus decides as anywhere.
"""

import base64
import contextlib
import json
import re
import ssl
import threading
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from lab import kube
from lab.paths import BIN, KUBECONFIG
from lab.shell import run
from monitored.chart import Body, find, render
from monitored.loopback import LoopbackServer, QuietHandler
from platform_switch import NAMESPACE

_FRESH_SECONDS = 3.0
_POD = "__meta_kubernetes_pod_"
_NAMESPACE = {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"}
_NAME = {"source_labels": [f"{_POD}name"], "target_label": "pod"}
_OPERATOR = "app.kubernetes.io/name=kappa-operator"
_ENDED = {"source_labels": [f"{_POD}phase"], "regex": "Failed|Succeeded", "action": "drop"}
_READS = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
]
TOKEN_FILE, AUTHORITY_FILE = "prometheus.token", "operator-ca.crt"
"""What Prometheus has in its folder: its token, and the authority that the operator's certificate is from."""


@contextlib.contextmanager
def as_prometheus(namespace: str, folder: Path) -> Iterator[Path]:
    """Yield the kubeconfig of an account that may read pods and metrics, as Prometheus is given one; its token is beside it."""
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
        body = yaml.load(KUBECONFIG.read_text(), yaml.CSafeLoader)
        for user in body["users"]:
            user["user"] = {"token": token}
        path = folder / "prometheus.kubeconfig"
        path.write_text(yaml.safe_dump(body))
        (folder / TOKEN_FILE).write_text(token)
        (folder / AUTHORITY_FILE).write_text(read_authority())
        yield path
    finally:
        kube.kubectl("delete", "--ignore-not-found", f"clusterrolebinding/{name}", f"clusterrole/{name}")
        kube.kubectl("delete", "--ignore-not-found", "serviceaccount", name, "-n", namespace)


def read_authority(namespace: str = NAMESPACE) -> str:
    """Return the authority that clients of the operator trust."""
    found = kube.kubectl(
        "get", "secret", "kappa-operator-tls", "-n", namespace, "-o", "jsonpath={.data.ca\\.crt}"
    )
    return base64.b64decode(found).decode()


def read_metrics(namespace: str, folder: Path) -> list[str]:
    """Return what each replica of the operator shows to Prometheus, whose account is for this time in a namespace."""
    found = json.loads(kube.kubectl("get", "pods", "-n", NAMESPACE, "-l", _OPERATOR, "-o", "json"))["items"]
    with as_prometheus(namespace, folder):
        trusted = ssl.create_default_context(cafile=str(folder / AUTHORITY_FILE))
        trusted.check_hostname = False  # by address
        headers = {"Authorization": f"Bearer {(folder / TOKEN_FILE).read_text()}"}
        urls = [f"https://{pod['status']['podIP']}:8444/metrics" for pod in found]
        requests = [urllib.request.Request(url, headers=headers) for url in urls]  # noqa: S310 - https
        return [_read(request, trusted) for request in requests]


def _read(request: urllib.request.Request, trusted: ssl.SSLContext) -> str:
    with urllib.request.urlopen(request, timeout=30, context=trusted) as response:  # noqa: S310 - https
        text: str = response.read().decode()
        return text


class Discovery(LoopbackServer):
    """A context that tells over HTTP which pods there are: a target for each port, labelled as Prometheus' own discovery does."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig, self._known, self._pods = kubeconfig, 0.0, list[Body]()
        self.folder = kubeconfig.parent
        self._lock = threading.Lock()
        discovery = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query))
                body = json.dumps(discovery.find(query)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)

    def configure(self, namespace: str = "", labels: Mapping[str, str] | None = None) -> list[Body]:
        """Return the part of a job that finds pods: those of a namespace, or of all; with all of these labels."""
        query = urllib.parse.urlencode({"namespace": namespace, "labels": json.dumps(labels or {})})
        url = f"http://127.0.0.1:{self._server.server_address[1]}/?{query}"
        return [{"url": url, "refresh_interval": "5s"}]

    def find(self, query: Mapping[str, str]) -> list[Body]:
        """Return the targets that a query is about."""
        wanted, namespace = json.loads(query["labels"]).items(), query.get("namespace", "")
        return [
            target
            for pod in self._list()
            if namespace in ("", pod["metadata"]["namespace"])
            and wanted <= pod["metadata"].get("labels", {}).items()
            for target in _build_targets(pod)
        ]

    def _list(self) -> list[Body]:
        with self._lock:
            if time.monotonic() - self._known > _FRESH_SECONDS:
                command: list[str | Path] = [
                    BIN / "kubectl",
                    f"--kubeconfig={self._kubeconfig}",
                    "get",
                    "pods",
                    "-A",
                    "-o",
                    "json",
                ]
                self._pods, self._known = json.loads(run(command))["items"], time.monotonic()
            return self._pods


def build_scrapes(discovery: Discovery) -> list[Body]:
    """Return what the Prometheus operator makes of the chart's monitors."""
    chart = render("monitoring.podMonitor.enabled=true")
    services = list(find(chart, "Service").values())
    pods = [
        _build_scrape(monitor, endpoint, monitor["spec"]["selector"]["matchLabels"], discovery)
        for monitor in find(chart, "PodMonitor").values()
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
    ]
    return pods + [
        _build_scrape(monitor, endpoint, _find_selector(monitor, services), discovery)
        for monitor in find(chart, "ServiceMonitor").values()
        for endpoint in monitor["spec"]["endpoints"]
    ]


def _find_selector(monitor: Body, services: list[Body]) -> Body:
    """Return by which labels the Service of a ServiceMonitor selects pods."""
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = (each for each in services if wanted <= each["metadata"]["labels"].items())
    selector: Body = service["spec"]["selector"]
    return selector


def build_annotated(discovery: Discovery) -> Body:
    """Return a job that finds pods by their annotations, as those do who have no Prometheus operator. It keeps no samples but `up`."""
    annotation = f"{_POD}annotation_prometheus_io_"
    address = {
        "source_labels": [f"{_POD}ip", f"{annotation}port"],
        "separator": ":",
        "regex": "([0-9.]+:[0-9]+)",
        "target_label": "__address__",
    }
    scheme = {"source_labels": [f"{annotation}scheme"], "regex": "(https?)", "target_label": "__scheme__"}
    wanted = {"source_labels": [f"{annotation}scrape"], "regex": "true", "action": "keep"}
    return {
        "job_name": "annotated",
        "honor_labels": True,
        "authorization": {"credentials_file": str(discovery.folder / TOKEN_FILE)},
        "tls_config": {"insecure_skip_verify": True},
        "http_sd_configs": discovery.configure(),
        "relabel_configs": [wanted, address, scheme, _ENDED, _NAMESPACE, _NAME],
        "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": ".*", "action": "drop"}],
    }


def _build(version: str, kind: str, name: str, namespace: str | None = None) -> Body:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _build_scrape(monitor: Body, endpoint: Body, labels: Body, discovery: Discovery) -> Body:
    metadata, spec = monitor["metadata"], monitor["spec"]
    chosen: Body = spec.get("namespaceSelector", {})
    namespace = "" if chosen.get("any") else metadata["namespace"]
    port = {
        "source_labels": [f"{_POD}container_port_name"],
        "regex": endpoint["port"],
        "action": "keep",
    }
    job = f"{metadata['namespace']}/{metadata['name']}"
    return {
        "job_name": f"{job}/{endpoint['port']}",
        "honor_labels": endpoint["honorLabels"],
        "metrics_path": endpoint["path"],
        "http_sd_configs": discovery.configure(namespace, labels),
        "relabel_configs": [
            *(_ENDED, port, *map(_rename, endpoint.get("relabelings", ())), _NAMESPACE, _NAME),
            {"target_label": "job", "replacement": job},
        ],
        **_build_access(endpoint, discovery.folder),
    }


def _rename(rule: Body) -> Body:
    """Return a relabeling rule as Prometheus' own file has it."""
    return {{"sourceLabels": "source_labels"}.get(name, name): value for name, value in rule.items()}


def _build_access(endpoint: Body, folder: Path) -> Body:
    """Return scheme, token and TLS settings of a scrape, with the files of the folder."""
    access: Body = {"scheme": endpoint.get("scheme", "http")}
    if "bearerTokenFile" in endpoint:
        access["authorization"] = {"credentials_file": str(folder / TOKEN_FILE)}
    if "tlsConfig" in endpoint:
        tls = endpoint["tlsConfig"]
        skips = tls.get("insecureSkipVerify", False)
        trust = (
            {"ca_file": str(folder / AUTHORITY_FILE), "server_name": tls["serverName"]} if "ca" in tls else {}
        )
        access["tls_config"] = {**trust, "insecure_skip_verify": skips}
    return access


def _build_targets(pod: Body) -> Iterator[Body]:
    metadata, status = pod["metadata"], pod.get("status", {})
    if "podIP" not in status:
        return
    annotations = {
        f"{_POD}annotation_{re.sub('[^a-zA-Z0-9_]', '_', name)}": value
        for name, value in metadata.get("annotations", {}).items()
    }
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", []):
            yield {
                "targets": [f"{status['podIP']}:{port['containerPort']}"],
                "labels": {
                    "__meta_kubernetes_namespace": metadata["namespace"],
                    f"{_POD}name": metadata["name"],
                    f"{_POD}ip": status["podIP"],
                    f"{_POD}phase": status.get("phase", ""),
                    f"{_POD}container_port_name": port.get("name", ""),
                    **annotations,
                },
            }
