"""Prometheus, its Alertmanager and their tools, unpacked from Debian's packages into the cache: nothing is installed, no service starts."""

import shutil
import tempfile
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE
from lab.progress import step
from lab.shell import run

PACKAGES = ("prometheus", "prometheus-alertmanager")
PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")
FOLDER = CACHE / "prometheus"
_TEMPLATES = Path("/usr/share/prometheus/alertmanager/default.tmpl")
_MOUNT = 'mount -t overlay overlay -o "lowerdir=$0/usr/share:/usr/share" /usr/share && exec "$@"'


def find_program(name: str) -> Path:
    """Return where a program is: the machine's own, or the cache's, which is filled the first time; raise LabError."""
    if name not in PROGRAMS:
        raise LabError(f"{name} is not one of {', '.join(PROGRAMS)}")
    own = shutil.which(name)
    if own is not None:
        return Path(own)
    if not FOLDER.exists():
        _unpack()
    return FOLDER / "usr" / "bin" / name


def build_alertmanager(*arguments: str) -> list[str | Path]:
    """Return the command of an Alertmanager.

    Debian's reads templates below /usr/share, where none are unless it is installed. Then it sees those of the cache there, by a mount
    that only this process has; that takes root.
    """
    command: list[str | Path] = [find_program("prometheus-alertmanager"), *arguments]
    return command if _TEMPLATES.exists() else ["unshare", "--mount", "sh", "-c", _MOUNT, FOLDER, *command]


def _unpack() -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise LabError(
            f"install Prometheus and its Alertmanager first, so that {', '.join(PROGRAMS)} are found"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    with step("prometheus", done="unpacked"), tempfile.TemporaryDirectory(dir=CACHE) as folder:
        part = Path(folder)
        _download(part)
        for package in part.glob("*.deb"):
            run(["dpkg", "-x", package, part / "root"])
        _keep(part / "root")


def _download(folder: Path) -> None:
    try:
        run(["apt-get", "download", "-qq", *PACKAGES], cwd=folder)
    except LabError:  # the package lists are missing or stale
        run(["apt-get", "update", "-qq"])
        run(["apt-get", "download", "-qq", *PACKAGES], cwd=folder)


def _keep(root: Path) -> None:
    """Give the folder its name at the end, so that it is there whole or not at all; another process may have been quicker."""
    try:
        root.rename(FOLDER)
    except OSError:
        if not FOLDER.exists():
            raise
