"""The bare-Linux cluster as a whole: what `up`, `down` and `status` do, in order.

`up` is a list of steps, each of which first looks whether it is done. So it can be run again after anything:
a second time, after a crash of a server, or after it was itself killed half-way.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from lab import (
    broker,
    buildah,
    cgroups,
    containerd,
    controlplane,
    debian,
    dns,
    host,
    images,
    kafka,
    kafka_jars,
    kube,
    network,
    node,
    pki,
    processes,
    storage,
    toolchain,
)
from lab.errors import LabError
from lab.paths import CACHE, KUBECONFIG, LAB
from lab.progress import report, step
from lab.shell import succeeds

# Stopped in this order: what starts pods first, what holds data last.
_STOP_ORDER = (
    "kubelet",
    "kappa-network-policies",
    "kube-proxy",
    "kappa-storage",
    "coredns",
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
)


@contextmanager
def lock() -> Iterator[None]:
    """One change of the cluster at a time; the lock goes with the process that holds it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another command of the lab to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def prepare() -> None:
    """Get every program, from whichever registry it comes."""
    if os.geteuid() != 0:
        raise LabError("without a Docker engine the lab makes network interfaces and mounts: run it as root")
    installed = debian.install_missing()
    if installed:
        report(f"packages: installed {', '.join(installed)}")
    toolchain.build()
    kafka_jars.fetch()
    broker.record_classes()


def up(brokers: int) -> None:
    """Make the cluster run, with Kafka and the project's images."""
    prepare()
    host.raise_file_limit()
    host.prepare()
    cgroups.make_groups()
    network.start_bridge()
    network.write_cni_config()
    pki.ensure()
    _start(containerd.server())
    images.ensure_pause()
    _start(controlplane.etcd())
    _start(controlplane.api_server())
    for server in (controlplane.controller_manager(), controlplane.scheduler(), node.kubelet()):
        _start(server)
    for server in (node.kube_proxy(), dns.server(), storage.server()):
        _start(server)
    dns.publish()
    storage.publish()
    with step("node"):
        node.wait_ready()
    _start(node.network_policies())
    images.ensure(["kafka"])
    with step("kafka"):
        kafka.ensure(brokers)
    images.ensure([image.name for image in images.IMAGES if image.name != "kafka"])
    report(
        f"export KUBECONFIG={KUBECONFIG}   # kafka: {kafka.BOOTSTRAP}, host {kafka.host_bootstrap(brokers)}"
    )


def _start(server: processes.Server) -> None:
    with step(server.name):
        processes.start(server)


def down(*, with_images: bool = False) -> None:
    """Take the cluster away with all its data; images stay imported unless requested."""
    if not LAB.exists():
        report("nothing to take down")
        return
    for name in _STOP_ORDER:
        processes.stop(name)
    report("servers: stopped")
    with step("containers", done="removed"):
        _remove_containers()
    for name in processes.recorded_names():
        processes.stop(name)
    cgroups.end_all()
    with step("host", done="restored"):
        host.unmount_under(buildah.STORE)  # buildah leaves its store mounted after each command
        host.restore()
    _remove_state(with_images=with_images)
    report("down")


def _remove_containers() -> None:
    if not containerd.ROOT.exists():
        return
    cgroups.make_groups()
    processes.start(containerd.server())
    containerd.remove_containers()


def _remove_state(*, with_images: bool) -> None:
    """Delete the state folder; the record of the machine before goes last, it is needed to try again."""
    kept = set() if with_images else {containerd.ROOT.parent.name}
    for path in sorted(LAB.iterdir(), key=lambda path: path.name == "before.json"):
        if path.name in kept:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not any(LAB.iterdir()):
        LAB.rmdir()


def status() -> bool:
    """Print what runs; true if all of it does."""
    servers = ["containerd", *reversed(_STOP_ORDER)]
    pids = {name: processes.running_pid(name) for name in servers}
    for name, pid in pids.items():
        print(f"{name:<24} {f'running, pid {pid}' if pid else 'not running'}")
    if not all(pids.values()):
        return False
    print(kube.kubectl("get", "nodes,pods", "--all-namespaces", "-o", "wide"), end="")
    return True


def is_docker_there() -> bool:
    """Whether to use kind: a Docker engine answers, and KAPPA_LAB=bare is not set."""
    return os.environ.get("KAPPA_LAB") != "bare" and succeeds(["docker", "info"], timeout=10)


def require_up() -> None:
    """Raise a clear error where a command needs the runtime."""
    if not containerd.is_ready():
        raise LabError("the cluster is not up: run `python -m lab up`")
