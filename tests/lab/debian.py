"""Programs that come from the distribution: the container runtime, the packet filter, the image builder."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError
from lab.progress import step
from lab.shell import run, succeeds

# Package → a program of it, so that a machine which has the program otherwise is left alone.
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iptables": "iptables",
    "ipset": "ipset",
    "nftables": "nft",
    "iproute2": "ip",
    "conntrack": "conntrack",
    "socat": "socat",
    "ethtool": "ethtool",
    "openssl": "openssl",
    "mmdebstrap": "mmdebstrap",
    "buildah": "buildah",
    "skopeo": "skopeo",
    "maven": "mvn",
    "openjdk-17-jre-headless": "java",
}


def _is_present(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None


def install_missing(packages: Sequence[str] = tuple(PACKAGES)) -> list[str]:
    """Install what is missing and return the names; needs root and Debian's package tool."""
    missing = [package for package in packages if not _is_present(PACKAGES[package])]
    if not missing:
        return []
    if shutil.which("apt-get") is None:
        raise LabError(f"install the equivalents of these Debian packages first: {', '.join(missing)}")
    if os.geteuid() != 0:
        raise LabError(
            f"these Debian packages are missing, and only root may install them: {', '.join(missing)}"
        )
    with step("packages of the distribution", done="installed", detail=lambda: ", ".join(missing)):
        _install(missing)
    return missing


def _install(missing: Sequence[str]) -> None:
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if not succeeds(["apt-cache", "show", *missing]):
        run(["apt-get", "update", "-qq"], env=quiet)
    try:
        run(install, env=quiet)
    except LabError:  # the package lists were stale
        run(["apt-get", "update", "-qq"], env=quiet)
        run(install, env=quiet)


def package_sources() -> list[Path]:
    """The machine's own list of Debian's packages, so that images come from the same place."""
    known = [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    return [path for path in known if path.exists() and path.stat().st_size > 0][:1]
