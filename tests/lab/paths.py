"""Where the lab keeps things: a cache that outlives clusters, and the state of the one cluster.

Both are outside the checkout. The cache may be deleted at any time (the next `up` rebuilds it); the state
belongs to the running cluster and goes with `down`.
"""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent

CACHE = Path(os.environ.get("KAPPA_CACHE") or Path.home() / ".cache" / "kappa").absolute()
LAB = Path(os.environ.get("KAPPA_LAB_DIR") or "/var/lib/kappa-lab").absolute()

BIN = CACHE / "bin"
KUBECONFIG = LAB / "admin.kubeconfig"
PKI = LAB / "pki"
LOGS = LAB / "logs"
RECORDS = LAB / "run"
VOLUMES = LAB / "volumes"
CONTEXT = "kappa-lab"


def write_file(path: Path, text: str, mode: int = 0o644) -> bool:
    """Write `text` by rename, so that a reader sees the old or the new file; true if it changed."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.chmod(mode)
    part.replace(path)
    return True
