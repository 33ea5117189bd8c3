"""Rules, dashboards and the reference of metrics, from their sources.

python -m kappa_monitoring write    writes them, and the copies that the chart ships
python -m kappa_monitoring check    exits 1 and names each file that differs
"""

import argparse
import sys
from pathlib import Path

from kappa_monitoring import MONITORING, REPOSITORY
from kappa_monitoring.config import load_config
from kappa_monitoring.connect import build_exporter_rules
from kappa_monitoring.contract import check_alert, find_all_series
from kappa_monitoring.dashboards import BOARDS, check_board, render_board
from kappa_monitoring.errors import MonitoringError
from kappa_monitoring.reference import build_metrics
from kappa_monitoring.rules import load_groups, render_group

CHART = REPOSITORY / "charts" / "kappa" / "files" / "monitoring"
EXPORTER = MONITORING / "connect-jmx.yaml"
REFERENCE = REPOSITORY / "docs" / "reference" / "metrics.md"
_RULES = (MONITORING / "generated", CHART / "rules")
_BOARDS = (MONITORING / "dashboards", CHART / "dashboards")
_FOLDERS = (*_RULES, *_BOARDS)


def render_files() -> dict[Path, str]:
    """Return path → text of all that is generated; raise MonitoringError."""
    config = load_config()
    groups = load_groups(config)
    series = find_all_series(groups)
    for alert in (alert for group in groups for alert in group.alerts):
        check_alert(alert, series)
    rules = {f"{group.topic}.yaml": render_group(group) for group in groups}
    for board in BOARDS:
        check_board(board, config, series)
    boards = {f"{board.uid}.json": render_board(board, config) for board in BOARDS}
    config.check_used()
    files = {folder / name: text for folder in _RULES for name, text in rules.items()}
    files |= {folder / name: text for folder in _BOARDS for name, text in boards.items()}
    return {**files, EXPORTER: build_exporter_rules(), REFERENCE: build_metrics()}


def find_drift(files: dict[Path, str]) -> list[str]:
    """Return what differs between the files and their sources, one line per file."""
    differing = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    extra = {path for folder in _FOLDERS for path in folder.glob("*")} - files.keys()
    lines = [
        f"{path.relative_to(REPOSITORY)}: differs from its source; run make generate" for path in differing
    ]
    return [
        *lines,
        *(f"{path.relative_to(REPOSITORY)}: nothing makes it any more; delete it" for path in sorted(extra)),
    ]


def write_files(files: dict[Path, str]) -> None:
    """Write all files, and delete generated files that have no source."""
    for folder in _FOLDERS:
        folder.mkdir(parents=True, exist_ok=True)
        for path in set(folder.glob("*")) - files.keys():
            path.unlink()
    for path, text in files.items():
        path.write_text(text)


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or check them against their sources."""
    parser = argparse.ArgumentParser(prog="python -m kappa_monitoring", description=__doc__)
    parser.add_argument("command", choices=("write", "check"))
    options = parser.parse_args(arguments)
    try:
        files = render_files()
    except (MonitoringError, ValueError) as error:
        print(f"monitoring: {error}", file=sys.stderr)
        return 1
    if options.command == "write":
        write_files(files)
        return 0
    drift = find_drift(files)
    print("\n".join(drift) or "rules, dashboards and the reference of metrics match their sources")
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
