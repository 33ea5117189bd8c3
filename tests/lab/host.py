"""What the cluster changes on the machine outside its own folders, and how that is undone.

Recorded before the first change: kernel settings and packet-filter rules. Taken away at the end: rules and
chains of kube-proxy, the kubelet, NetworkPolicies and CNI, their sets of addresses, tables that did not exist
before, the bridge with its interfaces, network namespaces, mounts under the state folder. Other programs' rules stay.
"""

import json
import os
import re
from functools import partial
from pathlib import Path

from lab.network import BRIDGE
from lab.paths import LAB, write_file
from lab.shell import run, succeeds, wait_until

_RECORD = LAB / "before.json"
_SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "net/ipv4/vs/conntrack",
    "net/ipv6/conf/all/forwarding",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_OURS = re.compile(r"\b(KUBE|CNI)-")


def _read_settings() -> dict[str, str]:
    paths = {name: Path("/proc/sys") / name for name in _SETTINGS}
    return {name: path.read_text().strip() for name, path in paths.items() if path.exists()}


def _tables() -> list[str]:
    return sorted(line.removeprefix("table ") for line in run(["nft", "list", "tables"]).splitlines())


def prepare() -> None:
    """Record the state of the machine once, then let it route between pods."""
    if not _RECORD.exists():
        LAB.mkdir(parents=True, exist_ok=True)
        before = {"settings": _read_settings(), "tables": _tables()}
        write_file(_RECORD, json.dumps(before, indent=1))
    for name in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
        path = Path("/proc/sys") / name
        if path.exists() and path.read_text().strip() != "1":
            path.write_text("1")


def restore() -> None:
    """Undo everything that this module knows; may be called again after a failure."""
    _remove_interfaces()
    unmount_under(LAB)
    _remove_rules()
    _remove_sets()
    if not _RECORD.exists():
        return
    before = json.loads(_RECORD.read_text())
    for table in set(_tables()) - set(before["tables"]):
        if _is_empty(table):
            run(["nft", "delete", "table", *table.split()])
    for name, value in before["settings"].items():
        path = Path("/proc/sys") / name
        if path.exists() and path.read_text().strip() != value:
            path.write_text(value)


def _remove_interfaces() -> None:
    for line in run(["ip", "-o", "link", "show", "type", "veth"]).splitlines():
        if f"master {BRIDGE} " in line:
            succeeds(["ip", "link", "delete", line.split(": ")[1].partition("@")[0]])
    if succeeds(["ip", "link", "show", BRIDGE]):
        run(["ip", "link", "delete", BRIDGE])


def _mounted_under(folder: Path) -> list[str]:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    inside = [mount for mount in mounts if mount.startswith(f"{folder}/")]
    return sorted(inside, key=len, reverse=True)


def unmount_under(folder: Path) -> None:
    """Unmount all that is mounted inside a folder, the innermost first."""

    def is_clear() -> bool:
        for mount in _mounted_under(folder):
            # A name is quoted in octal in the list of mounts.
            path = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), mount)
            if not succeeds(["umount", path]):
                succeeds(["umount", "--lazy", path])
        return not _mounted_under(folder)

    wait_until(is_clear, f"nothing mounted under {folder}", seconds=20)


def _remove_rules() -> None:
    for command in ("iptables", "ip6tables"):
        if not succeeds([f"{command}-save"]):
            continue
        rules = run([f"{command}-save"]).splitlines()
        kept = [line for line in rules if not _OURS.search(line)]
        if kept != rules:
            run([f"{command}-restore"], stdin="\n".join(kept) + "\n")


def _remove_sets() -> None:
    """Destroy the sets of addresses that the rules of NetworkPolicies used."""
    if not succeeds(["ipset", "list", "-name"]):
        return
    for name in run(["ipset", "list", "-name"]).split():
        if name.removeprefix("inet6:").startswith(("KUBE-SRC-", "KUBE-DST-")):
            # The kernel lets go of a set a moment after the last rule that names it.
            destroy = partial(succeeds, ["ipset", "destroy", name])
            wait_until(destroy, f"set {name} destroyed", seconds=10)


def _is_empty(table: str) -> bool:
    return not re.search(
        r"^\t\t(?!type |comment )\S", run(["nft", "list", "table", *table.split()]), re.MULTILINE
    )


def raise_file_limit() -> None:
    """Let every server started from here open many files."""
    import resource  # noqa: PLC0415  (not on every system that kind runs on)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1048576
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))


def is_root() -> bool:
    """Whether we may change the machine."""
    return os.geteuid() == 0
