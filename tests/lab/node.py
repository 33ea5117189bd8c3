"""The one node: the kubelet, which runs pods, kube-proxy, which makes Services reachable, and what enforces NetworkPolicies."""

import json

from lab import containerd
from lab.cgroups import NAME as CGROUP
from lab.controlplane import answers
from lab.kube import kubectl
from lab.network import DNS_IP, NODE, NODE_IP, POD_CIDR, SERVICE_CIDR
from lab.paths import LAB, PKI, write_file
from lab.pki import kubeconfig
from lab.processes import Server
from lab.shell import succeeds, wait_until
from lab.toolchain import program

MAX_PODS = 110


def _kubelet_configuration() -> str:
    """Thresholds leave a nearly full developer disk alone; version 1 of control groups still works."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(PKI / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(PKI / "kubelet.crt"),
        "tlsPrivateKeyFile": str(PKI / "kubelet.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": str(write_resolver()),
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 99,
        "imageGCLowThresholdPercent": 98,
        "imageMinimumGCAge": "1000h",
        "maxPods": MAX_PODS,
        "podLogsDir": str(LAB / "pod-logs"),
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "4s",
        # A Secret that changes reaches running pods after this time; the default is a minute.
        "syncFrequency": "10s",
        "shutdownGracePeriod": "0s",
        "volumePluginDir": str(LAB / "volume-plugins"),
    }
    return json.dumps(config, indent=1)


def kubelet() -> Server:
    """The kubelet."""
    text = _kubelet_configuration()
    write_file(LAB / "kubelet.json", text)
    return Server(
        "kubelet",
        [
            program("kubelet"),
            f"--config={LAB / 'kubelet.json'}",
            f"--kubeconfig={kubeconfig('kubelet')}",
            f"--root-dir={LAB / 'kubelet'}",
            f"--cert-dir={LAB / 'kubelet' / 'certificates'}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_IP}",
        ],
        lambda: answers("http://127.0.0.1:10248/healthz"),
        configuration=text,
    )


def write_resolver() -> str:
    """The resolver file of pods that ask for the node's; the host's may point to its own loopback."""
    path = LAB / "resolv.conf"
    write_file(path, f"nameserver {NODE_IP}\n")
    return str(path)


def kube_proxy() -> Server:
    """kube-proxy with iptables; it leaves the host's connection-tracking limits as they are."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": str(kubeconfig("kube-proxy"))},
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"localhostNodePorts": True, "minSyncPeriod": "100ms"},
    }
    text = json.dumps(config, indent=1)
    write_file(LAB / "kube-proxy.json", text)
    return Server(
        "kube-proxy",
        [program("kube-proxy"), f"--config={LAB / 'kube-proxy.json'}"],
        lambda: answers("http://127.0.0.1:10256/healthz"),
        configuration=text,
    )


def network_policies() -> Server:
    """What enforces NetworkPolicies; it has no health endpoint, and needs the node to be registered."""
    return Server(
        "kappa-network-policies",
        [
            program("kappa-network-policies"),
            f"-kubeconfig={kubeconfig('admin')}",
            f"-node={NODE}",
            f"-services={SERVICE_CIDR}",
        ],
        lambda: succeeds(["iptables", "-w", "-n", "-L", "KUBE-NWPLCY-DEFAULT"]),
    )


def wait_ready() -> None:
    """Wait until pods can be scheduled."""
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"

    def is_ready() -> bool:
        return kubectl("get", "node", NODE, "--ignore-not-found", "-o", path).strip() == "True"

    wait_until(is_ready, f"node {NODE} Ready", seconds=90, every=0.3)
