"""Every process of the lab lives in one control group, so stopping the cluster can't miss one or hit another.

Servers are put into `kappa-lab/host` before they run a line of their own code, and a process inherits its
group; the kubelet puts pods under `kappa-lab/kubepods`. Whatever is in the tree was started by the lab.
"""

import os
import signal
import time
from pathlib import Path

NAME = "kappa-lab"
_ROOT = Path("/sys/fs/cgroup")


def is_unified() -> bool:
    """Whether the machine has version 2 only (one hierarchy at the root)."""
    return (_ROOT / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    if is_unified():
        return [_ROOT]
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] in {"cgroup", "cgroup2"}]


def host_group() -> Path:
    """Where the servers go: in version 1 the `pids` hierarchy, which every container runtime uses."""
    return (_ROOT if is_unified() else _ROOT / "pids") / NAME / "host"


def make_groups() -> None:
    """Make our root in each hierarchy (the kubelet demands it) and the servers' group."""
    for hierarchy in _hierarchies():
        if (hierarchy / "cgroup.procs").exists():
            (hierarchy / NAME).mkdir(exist_ok=True)
    host_group().mkdir(exist_ok=True)


def _own_processes() -> set[int]:
    found: set[int] = set()
    for hierarchy in _hierarchies():
        for procs in (hierarchy / NAME).glob("**/cgroup.procs"):
            try:
                found |= {int(pid) for pid in procs.read_text().split()}
            except OSError:
                continue  # the group went while we looked
    return found - {os.getpid()}


def end_all() -> None:
    """Kill what is left in our groups, then remove the groups."""
    for _ in range(100):
        left = _own_processes()
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    for hierarchy in _hierarchies():
        groups = [path for path in (hierarchy / NAME).glob("**/") if path.is_dir()]
        for group in sorted(groups, key=lambda path: len(path.parts), reverse=True):
            _remove(group)


def _remove(group: Path) -> None:
    for _ in range(40):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)  # a zombie still counts until its parent has read it
        else:
            return
