"""Addresses of the bare-Linux cluster and the host side of its network.

There is one node, and the node's address is that of the bridge its pods hang on: it exists whether or not
the machine has another interface, and pods reach servers of the host (DNS, the API server, the S3 server of
a test) on it.
"""

import json

from lab.paths import LAB, write_file
from lab.shell import run, succeeds

NODE = "kappa-lab"
BRIDGE = "kappa0"
NODE_IP = "10.244.0.1"
POD_CIDR = "10.244.0.0/24"
SERVICE_CIDR = "10.96.0.0/16"
KUBERNETES_IP = "10.96.0.1"
DNS_IP = "10.96.0.10"
API_PORT = 6443
DATABASE_PORT = 30432
"""Where the database of the demo is on the loopback."""
CNI_CONFIG = LAB / "cni" / "net.d"
CNI_STATE = LAB / "cni" / "leases"


def start_bridge() -> None:
    """Make the pod network's bridge before anything binds to its address."""
    if not succeeds(["ip", "link", "show", BRIDGE]):
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
    if NODE_IP not in run(["ip", "-4", "addr", "show", BRIDGE]):
        run(["ip", "addr", "add", f"{NODE_IP}/24", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])


def write_cni_config() -> None:
    """Configure the interface of a pod: bridge, an address from the node's range, host ports."""
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(CNI_STATE),
            "ranges": [[{"subnet": POD_CIDR}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    config = {"cniVersion": "0.4.0", "name": "kappa-lab", "plugins": [bridge, portmap]}
    write_file(CNI_CONFIG / "10-kappa-lab.conflist", json.dumps(config, indent=1))
