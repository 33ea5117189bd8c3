"""All generated files with their content, and what differs from it in a checkout."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from generate.cases import build_page as build_cases
from generate.cli import build_page as build_commands
from generate.metrics import build_metrics
from generate.reference import build_crds, build_reasons
from kappa_crds.kinds import KINDS
from kappa_crds.schema import render_crd
from kappa_monitoring import REPOSITORY
from kappa_monitoring import files as monitoring

CRD_FOLDERS = (REPOSITORY / "crds" / "generated", REPOSITORY / "charts" / "kappa" / "files" / "crds")
FOLDERS = (*CRD_FOLDERS, *monitoring.FOLDERS)
"""Folders in which every file is generated."""
REFERENCE = REPOSITORY / "docs" / "reference"


def render_files() -> dict[Path, str]:
    """Return path → text of everything that is generated; raise MonitoringError for a bad rule or dashboard."""
    crds = {f"{kind.plural}.yaml": render_crd(kind) for kind in KINDS}
    pages = {
        "crds.md": build_crds(),
        "reasons.md": build_reasons(),
        "cli.md": build_commands(),
        "tests.md": build_cases(),
        "metrics.md": build_metrics(),
    }
    return {
        **{folder / name: text for folder in CRD_FOLDERS for name, text in crds.items()},
        **{REFERENCE / name: text for name, text in pages.items()},
        **monitoring.render_files(),
    }


def find_drift(files: Mapping[Path, str], folders: Iterable[Path]) -> list[str]:
    """Return what differs between the files and their sources, one line for each file."""
    differing = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    extra = {path for folder in folders for path in folder.glob("*")} - files.keys()
    return [
        *(f"{path}: differs from its source; run make generate" for path in differing),
        *(f"{path}: not generated from any source; delete it" for path in sorted(extra)),
    ]


def write_files(files: Mapping[Path, str], folders: Iterable[Path]) -> None:
    """Write all files and delete those that are no longer generated."""
    for path in {path for folder in folders for path in folder.glob("*")} - files.keys():
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
