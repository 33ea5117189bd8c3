"""An operator on this machine, to which a Service in the cluster leads."""

import json
import socket
from typing import Any

import yaml

from integration.accounts import Place
from lab.kube import kubectl
from monitored.chart import find, render

PERMITTING = (
    ("Role", "kappa-operator-reader"), ("ServiceAccount", "kappa-operator-reader"), ("Secret", "kappa-operator-tls"),
    ("Role", "kappa-operator-report"), ("RoleBinding", "kappa-operator-report"),
)  # fmt: skip
"""What the chart has for the report, without the operator's own permissions."""


def expose(bench: Place, port: int) -> None:
    """Have the chart's Service lead to the operator on this machine, and its Role in the namespace.

    The API server passes on to pods only, so there is one that never runs and has the address of this machine.
    """
    chart = render(namespace=bench.namespace)
    for kind, name in PERMITTING:
        apply(bench, find(chart, kind)[name])
    service = find(chart, "Service")["kappa-operator"]
    del service["spec"]["selector"]
    apply(bench, service)
    address, pod = find_address(), {"kind": "Pod", "name": "stand-in", "namespace": bench.namespace}
    spec = {
        "schedulingGates": [{"name": "kappa-platform.io/never"}],
        "containers": [{"name": "none", "image": "none"}],
    }
    apply(bench, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stand-in"}, "spec": spec})
    status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    kubectl(
        "patch",
        "pod",
        "stand-in",
        "-n",
        bench.namespace,
        "--subresource=status",
        "--type=merge",
        f"--patch={status}",
    )
    subset = {"addresses": [{"ip": address, "targetRef": pod}], "ports": [{"name": "https", "port": port}]}
    metadata = {"name": "kappa-operator"}
    apply(bench, {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]})


def find_address() -> str:
    """Return an address of this machine by which others reach it; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.255.255.255", 1))
        return str(probe.getsockname()[0])


def apply(bench: Place, body: dict[str, Any]) -> None:
    kubectl("apply", "-n", bench.namespace, "-f", "-", stdin=yaml.safe_dump(body))
