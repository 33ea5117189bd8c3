"""Cluster DNS: CoreDNS on the host behind the usual Service, so that it needs no image.

The Service has no selector; its endpoints are written by hand and point at the node.
"""

from lab import kube
from lab.controlplane import answers
from lab.network import DNS_IP, NODE_IP
from lab.paths import LAB, write_file
from lab.pki import kubeconfig
from lab.processes import Server
from lab.toolchain import program

_CONFIG = """.:53 {{
    bind {node_ip}
    errors
    health 127.0.0.1:8053
    ready 127.0.0.1:8054
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig} kappa-lab
        ttl 5
    }}
    cache 5
}}
"""


def server() -> Server:
    """CoreDNS; short times to live, because tests replace pods quickly."""
    text = _CONFIG.format(node_ip=NODE_IP, kubeconfig=kubeconfig("admin"))
    write_file(LAB / "Corefile", text)
    return Server(
        "coredns",
        [program("coredns"), "-conf", LAB / "Corefile"],
        lambda: answers("http://127.0.0.1:8054/ready"),
        configuration=text,
    )


def publish() -> None:
    """Make DNS reachable under the address that pods are given."""
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    metadata = {"name": "kube-dns", "namespace": "kube-system"}
    kube.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {**metadata, "labels": {"k8s-app": "kube-dns"}},
                "spec": {"clusterIP": DNS_IP, "ports": ports},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kube-dns"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [NODE_IP], "conditions": {"ready": True}}],
                "ports": ports,
            },
        ]
    )
