"""The container runtime: Debian's containerd with its own root, state and socket, beside any other one."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.network import CNI_CONFIG
from lab.paths import LAB, write_file
from lab.processes import Server
from lab.shell import run, succeeds

ROOT = LAB / "containerd" / "root"
STATE = LAB / "containerd" / "state"
SOCKET = LAB / "containerd" / "containerd.sock"
CONFIG = LAB / "containerd" / "config.toml"
SANDBOX_IMAGE = "docker.io/kappa/pause:1"

# restrict_oom_score_adj: an unprivileged parent may not lower the score, and every sandbox asks for that.
# netns_mounts_under_state_dir: the network namespaces are found, and undone, with the rest of our mounts.
# max_container_log_line_size: a long stack trace stays one line.
_CONFIG = """version = 2
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox_image}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  max_container_log_line_size = 262144
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
"""


def _ctr(*arguments: str | Path) -> list[str | Path]:
    return ["ctr", "--address", SOCKET, "--namespace", "k8s.io", *arguments]


def is_ready() -> bool:
    """Whether the runtime answers."""
    return SOCKET.exists() and succeeds(_ctr("version"))


def server() -> Server:
    """How the runtime is started."""
    text = _CONFIG.format(root=ROOT, state=STATE, socket=SOCKET, sandbox_image=SANDBOX_IMAGE, cni=CNI_CONFIG)
    write_file(CONFIG, text)
    STATE.mkdir(parents=True, exist_ok=True)
    return Server("containerd", ["containerd", "--config", CONFIG], is_ready, configuration=text)


def image_digests() -> dict[str, str]:
    """Image reference → digest of its manifest, for all that the runtime has."""
    rows = [line.split() for line in run(_ctr("images", "list")).splitlines()[1:]]
    return {row[0]: row[2] for row in rows}


def content_digests() -> set[str]:
    """The blobs (layers, configurations, manifests) that the runtime has."""
    return set(run(_ctr("content", "list", "--quiet")).split())


def import_stream() -> subprocess.Popen[bytes]:
    """An import that reads an archive from its stdin."""
    return subprocess.Popen(
        [str(part) for part in _ctr("images", "import", "-")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def import_archive(archive: Path) -> str:
    """Import an image archive from a file and return the output of the runtime."""
    return run(_ctr("images", "import", archive))


def name_image(reference: str, other: str) -> None:
    """Give an image that is there a further name."""
    run(_ctr("images", "tag", "--force", reference, other))


def remove_images(references: Sequence[str]) -> None:
    """Remove names of images, and every image that has no name then.

    CRI gives each image its id as a further name, which keeps the layers until it is removed as well.
    """
    if references:
        run(_ctr("images", "remove", *references))
    digests = image_digests()
    named = {digest for name, digest in digests.items() if not name.startswith("sha256:")}
    unnamed = [name for name, digest in digests.items() if digest not in named]
    if unnamed:
        run(_ctr("images", "remove", *unnamed))


def remove_containers() -> None:
    """Kill and forget every container of ours; the runtime must answer."""
    for name in run(_ctr("tasks", "list", "--quiet")).split():
        succeeds(_ctr("tasks", "delete", "--force", name))
    containers = run(_ctr("containers", "list", "--quiet")).split()
    if containers:
        succeeds(_ctr("containers", "delete", *containers))
    # Records of CRI are kept apart from containers; without them the next start finds nothing to restore.
    shutil.rmtree(ROOT / "io.containerd.grpc.v1.cri", ignore_errors=True)
